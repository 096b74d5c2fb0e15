"""Back-pressure of one connection, in both roles.

As a receiver, a connection may queue output up to its limit: far enough behind, it slows down its
publishers; at the limit, or without progress for too long, it is closed as a slow consumer. As a
publisher, it is not read for a moment, so that a fast one does not fill the memory.
"""

from typing import TYPE_CHECKING, Protocol, cast

from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.gate import Gate
from midge.server.clients.host import Host
from midge.server.routing.client import Client
from midge.server.routing.outbound import Outbound

if TYPE_CHECKING:
    from midge.server.clients.reading import Reading
    from midge.server.clock import Timer

_HOLD_BACK_S = 0.01  # for so long per batch at most, unless it catches up before

_DEADLINE_SLACK_S = 1e-6
"""A deadline that is so near has been reached: a timer may fire a rounding error too early."""

_GATE_LOOK_S = 1.0  # a gate tells by itself that it opens


class Pressed(Protocol):
    """The attributes of a Channel that back-pressure uses."""

    @property
    def host(self) -> Host:
        """The limits, the clock and the counts."""

    @property
    def owner(self) -> Client:
        """The client that publishes and receives by it."""

    @property
    def outbound(self) -> Outbound:
        """The output that is to be written."""

    @property
    def reading(self) -> "Reading":
        """The control that halts and resumes reading."""

    @property
    def max_pending_bytes(self) -> int:
        """Most bytes that may wait to be written."""

    def close(self, reason: ClosedReason) -> None:
        """End."""


class BackPressure:
    """The receiver that `channel` waits for, and the publishers that wait for it.

    `held_by` is the receiver that the batch at hand has overwhelmed, `holding` are the publishers
    that are read no further until this channel has caught up.
    """

    __slots__ = (
        "_behind_since",
        "_channel",
        "_deadline_timer",
        "_hold_timer",
        "_waits_for",
        "held_by",
        "holding",
    )

    def __init__(self, channel: Pressed) -> None:
        self._channel = channel
        self._behind_since = 0.0
        self._deadline_timer: Timer | None = None
        self._hold_timer: Timer | None = None
        self._waits_for: Client | None = None
        self.held_by: Client | None = None
        self.holding: dict[Client, None] = {}

    # As a receiver.

    def has_room(self, publisher: "Client | None", pending: int) -> bool:
        """Tell whether more than the much that is `pending` may be queued, in bytes.

        If it hardly may, `publisher` is slowed down.
        """
        channel = self._channel
        limit = channel.max_pending_bytes
        if pending > limit:
            channel.close(ClosedReason.SLOW_CONSUMER_PENDING)
            return False
        if not channel.host.options.limits.stall_producers:
            return pending < limit * 3 // 4
        if publisher is not None:
            publisher.hold_for(channel.owner)
        return True

    def fell_behind(self) -> None:
        """Called when the socket did not take everything; it must make progress from now on."""
        self._behind_since = self._channel.host.clock.monotonic()
        if self._deadline_timer is None:
            self._watch_deadline(self._channel.host.options.limits.write_deadline_s)

    def progressed(self) -> None:
        """Called when the socket has taken something, though not all."""
        self._behind_since = self._channel.host.clock.monotonic()

    def caught_up(self) -> None:
        """Release the publishers that waited for this connection."""
        waiting = self.holding
        if waiting:
            self.holding = {}
            for publisher in waiting:
                publisher.release()

    def _watch_deadline(self, delay_s: float) -> None:
        clock = self._channel.host.clock
        self._deadline_timer = clock.call_later(delay_s, self._check_deadline)

    def _check_deadline(self) -> None:
        """Close a connection whose socket has taken nothing for too long."""
        self._deadline_timer = None
        channel = self._channel
        if not channel.outbound.behind:
            return
        deadline_s = channel.host.options.limits.write_deadline_s
        left_s = self._behind_since + deadline_s - channel.host.clock.monotonic()
        if left_s > _DEADLINE_SLACK_S:
            self._watch_deadline(left_s)
        else:
            channel.close(ClosedReason.SLOW_CONSUMER_DEADLINE)

    # As a publisher.

    def hold_for(self, receiver: "Client") -> None:
        """Note that `receiver` is far behind; prefer another one over this channel itself."""
        if receiver is not self._channel.owner or self.held_by is None:
            self.held_by = receiver

    def hold_back(self) -> None:
        """Stop reading until the receiver noted has caught up, or a moment has passed."""
        receiver = self.held_by
        self.held_by = None
        if receiver is None or self._hold_timer is not None or not _is_behind(receiver):
            return
        host = self._channel.host
        host.stalled_clients += 1
        self._channel.reading.hold_back()
        receiver.held(self._channel.owner)
        self._waits_for = receiver
        self._hold_timer = host.clock.call_later(_HOLD_BACK_S, self._look_again)

    def _look_again(self) -> None:
        """Read on after a moment, unless a gate is still shut."""
        receiver = self._waits_for
        if isinstance(receiver, Gate) and receiver.is_shut:
            clock = self._channel.host.clock
            self._hold_timer = clock.call_later(_GATE_LOOK_S, self._look_again)
        else:
            self.release()

    @property
    def is_held_back(self) -> bool:
        """Tell whether the connection is read no further for now."""
        return self._hold_timer is not None

    def release(self) -> None:
        """Read on."""
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
            self._wait_no_more()
            self._channel.reading.release()

    def _wait_no_more(self) -> None:
        """Remove this publisher from the receiver, which may outlive it by far."""
        receiver, self._waits_for = self._waits_for, None
        if receiver is not None:
            receiver.unheld(self._channel.owner)

    def stop(self) -> None:
        """Stop waiting, and release all publishers: the channel has ended."""
        for timer in (self._deadline_timer, self._hold_timer):
            if timer is not None:
                timer.cancel()
        self._deadline_timer = self._hold_timer = None
        self._wait_no_more()
        self.held_by = None
        self.caught_up()
        self._channel = cast("Pressed", None)  # no cycle: it goes when its transport does


def _is_behind(receiver: Client) -> bool:
    """Tell whether a receiver still has more before it than it should."""
    return receiver.is_shut if isinstance(receiver, Gate) else receiver.outbound.behind
