"""Stored changes of a consumer: written beside its stream within 100 ms, confirmed acks at once."""

from __future__ import annotations

from midge.jetstream.consumer import stored_state
from midge.jetstream.consumer.position import Position
from midge.jetstream.environment.clock import Timer
from midge.jetstream.store.interface import StoreError

WRITE_DELAY_S = 0.1
"""How much a crash may bring back: the deliveries and unconfirmed acks of so long."""

_MOST_CHANGES = 16 * 1024
"""Changes that are written before the time is up: writing these takes at most 10 ms."""

_WRITTEN_ANEW = 1 << 31  # more bytes of changes than any snapshot would be worth

_LEAST_BYTES_TO_REPLACE = 64 * 1024
_TIMES_SNAPSHOT = 4  # a snapshot replaces changes that are this many times larger


class ConsumerLog:
    """Collects the changes of one consumer and writes them.

    Acks that ask for an answer get it when they are durable. Those of one turn of the loop are
    written together.
    """

    __slots__ = (
        "_changed",
        "_had_counts",
        "_is_confirming",
        "_is_dirty",
        "_logged_bytes",
        "_position",
        "_replies",
        "_snapshot_bytes",
        "_timer",
    )

    def __init__(self, position: Position) -> None:
        self._position = position
        self._changed: list[int] | None = None
        self._had_counts = False
        self._is_dirty = False
        self._is_confirming = False
        self._replies: list[bytes] | None = None
        self._timer: Timer | None = None
        self._logged_bytes = 0
        self._snapshot_bytes = 0

    def changed(self, seq: int) -> None:
        """Record that a message was delivered, waits again, or is no longer pending."""
        if self._changed is None:
            self._changed = []
        self._changed.append(seq)
        if not self._is_dirty:
            self.moved()
        elif len(self._changed) == _MOST_CHANGES:
            self._position.host.clock.call_later(0, self._try_write)

    def changed_all(self, seq: int, others: list[int]) -> None:
        """Note the same of many messages; the whole state is shorter than very many changes."""
        if len(others) < _MOST_CHANGES:
            self.changed(seq)
            for other in others:
                self.changed(other)
        else:
            self._logged_bytes = _WRITTEN_ANEW
            self.moved()

    def moved(self) -> None:
        """Schedule a write after a position has changed."""
        if not self._is_dirty:
            self._is_dirty = True
            if self._timer is None:
                self._timer = self._position.host.clock.call_later(WRITE_DELAY_S, self._due)

    def confirm(self, reply: bytes) -> None:
        """Answer `reply` once all changes so far are durable."""
        if self._replies is None:
            self._replies = []
        self._replies.append(reply)
        if not self._is_confirming:
            self._is_confirming = True
            self._position.host.clock.call_later(0, self._confirm)

    def save(self) -> None:
        """Write the whole state, for example after a change of the configuration."""
        position = self._position
        written = stored_state.snapshot(position)
        position.host.store.save_consumer(position.name, written)
        self._snapshot_bytes = len(written)
        self._logged_bytes = 0
        self._written()

    def _written(self) -> None:
        self._had_counts = bool(self._position.redelivered)
        self._changed = None
        self._is_dirty = False

    def write(self) -> None:
        """Write the changes."""
        if not self._is_dirty:
            return
        most = max(_LEAST_BYTES_TO_REPLACE, _TIMES_SNAPSHOT * self._snapshot_bytes)
        if self._logged_bytes > most:
            self.save()
            return
        position = self._position
        changed = self._changed or ()
        operation = stored_state.change(position, changed, had_counts=self._had_counts)
        position.host.store.log_consumer(position.name, operation)
        self._logged_bytes += len(operation)
        self._written()

    def stop(self) -> None:
        """Write the pending changes, and ignore later ones."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._try_write()

    def drop(self) -> None:
        """Write nothing any more: the consumer is deleted."""
        self._is_dirty = False
        self._changed = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._try_write()
        if self._is_dirty:
            self._timer = self._position.host.clock.call_later(WRITE_DELAY_S, self._due)

    def _try_write(self) -> bool:
        """Write the changes if the store takes them; otherwise they stay to be written."""
        try:
            self.write()
        except StoreError:
            return False
        return True

    def _confirm(self) -> None:
        self._is_confirming = False
        replies, self._replies = self._replies or [], None
        if self._try_write():
            self._position.host.store.barrier(lambda: self._answer(replies))

    def _answer(self, replies: list[bytes]) -> None:
        sink = self._position.host.sink
        for reply in replies:
            sink.send(reply, b"", b"", b"")
