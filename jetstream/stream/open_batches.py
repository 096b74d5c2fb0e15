"""The open batches of a stream, by id: how many there may be, and how long they may be idle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from midge.jetstream.environment.clock import Clock, Timer
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.stream.surroundings import BatchQuota

Batch = TypeVar("Batch")
"""Type of the state that a stream keeps of one batch."""


class OpenBatches(Generic[Batch]):
    """Batches that have begun and not ended.

    `quota` counts the open batches of the whole server. `expired` is called with the id of a batch
    that was idle for `timeout_ns`, and has to close it.
    """

    def __init__(
        self,
        clock: Clock,
        quota: BatchQuota,
        timeout_ns: int,
        expired: Callable[[bytes], object],
    ) -> None:
        self._clock = clock
        self._quota = quota
        self._timeout_s = timeout_ns / SECOND_NS
        self._expired = expired
        self._batches: dict[bytes, Batch] = {}
        self._timers: dict[bytes, Timer] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def get(self, batch_id: bytes) -> Batch | None:
        """Return an open batch."""
        return self._batches.get(batch_id)

    def has_room(self) -> bool:
        """Return whether stream and server may have one more."""
        quota = self._quota
        return len(self._batches) < quota.per_stream and quota.open < quota.total

    def add(self, batch_id: bytes, batch: Batch) -> None:
        """Open a batch; `rearm` begins its time."""
        self._batches[batch_id] = batch
        self._quota.open += 1

    def rearm(self, batch_id: bytes) -> None:
        """Restart the time-out of a batch."""
        self._stop_timer(batch_id)
        self._timers[batch_id] = self._clock.call_later(self._timeout_s, self._expired, batch_id)

    def close(self, batch_id: bytes) -> None:
        """Forget a batch, if it is open."""
        if self._batches.pop(batch_id, None) is not None:
            self._quota.open -= 1
            self._stop_timer(batch_id)

    def clear(self) -> None:
        """Forget all batches."""
        for batch_id in list(self._batches):
            self.close(batch_id)

    def _stop_timer(self, batch_id: bytes) -> None:
        timer = self._timers.pop(batch_id, None)
        if timer is not None:
            timer.cancel()
