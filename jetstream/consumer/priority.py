"""The pin of a pull consumer whose messages go to one client of a group at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream.consumer import statuses
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.environment.clock import Timer
from midge.jetstream.json.times import ZERO_TIME, format_time

if TYPE_CHECKING:
    from midge.jetstream.consumer.requests import PullRequest, RequestBody

_SECOND_NS = 1_000_000_000


class Pin:
    """Which client is pinned: the one that sends `pin_id` with its requests, empty for none.

    A pin is lost when no request of its client comes for the priority timeout.
    """

    __slots__ = ("_consumer", "_timer", "pin_id", "pinned_ns")

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._timer: Timer | None = None
        self.pin_id = ""
        self.pinned_ns = 0

    def refusal(self, asked: RequestBody) -> bytes:
        """Return the status for a request of a client that lost its pin, empty for others."""
        if not self.pin_id:
            return b""
        if asked.pin_id == self.pin_id:
            self._arm(asked.group)
        elif asked.pin_id:
            return statuses.PIN_ID_MISMATCH
        return b""

    def assign(self, request: PullRequest) -> None:
        """Pin the client of a request."""
        consumer = self._consumer
        self.pin_id = consumer.host.around.new_id()
        self.pinned_ns = consumer.host.clock.wall_ns()
        request.pin_id = self.pin_id
        self._arm(request.group)
        consumer.events.pinned(request.group, self.pin_id)

    def unpin(self, group: str, reason: str) -> None:
        """Take the pin away, so that the next request gets it."""
        self.stop()
        self._consumer.events.unpinned(group, reason)
        self._consumer.signal()

    def stop(self) -> None:
        """Forget the pin."""
        self.pin_id = ""
        self.pinned_ns = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def fields(self, group: str) -> dict[str, str]:
        """Return what a report on the consumer says of its group."""
        fields = {"group": group}
        if self.pin_id:
            fields["pinned_client_id"] = self.pin_id
        fields["pinned_ts"] = format_time(self.pinned_ns) if self.pin_id else ZERO_TIME
        return fields

    def _arm(self, group: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        consumer = self._consumer
        delay_s = consumer.config.priority_timeout_ns / _SECOND_NS
        self._timer = consumer.host.clock.call_later(delay_s, self.unpin, group, "timeout")
