"""Back-pressure of one connection, in both roles.

As a receiver, a connection may queue output up to its limit. A receiver that is far behind slows
down its publishers; at the limit, or without progress for too long, it is closed as a slow
consumer. As a publisher, a connection is not read for a moment, so that a fast publisher does not
fill memory.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.gate import Gate
from midge.server.channels.host import Host
from midge.server.routing.client import Client
from midge.server.routing.outbound import Outbound

if TYPE_CHECKING:
    from midge.server.channels.reading import Reading
    from midge.server.clock import Timer

_HOLD_BACK_S = 0.01  # longest pause of a publisher per batch, unless the receiver catches up first

_DEADLINE_SLACK_S = 1e-6
"""A deadline this near counts as reached, because a timer may fire a rounding error too early."""

_GATE_LOOK_S = 1.0  # interval for checking a gate, which normally releases publishers itself


class WriteRule(NamedTuple):
    """The rule for a socket that does not take output."""

    deadline_s: float
    retries: bool
    """Whether a connection that took some output within the deadline stays."""


class Pressed(Protocol):
    """The attributes of a Channel that BackPressure uses."""

    @property
    def host(self) -> Host:
        """The limits, the clock and the counts."""

    @property
    def owner(self) -> Client:
        """The client that publishes and receives through it."""

    @property
    def peer(self) -> str:
        """The peer's address for the log."""

    @property
    def outbound(self) -> Outbound:
        """The pending output."""

    @property
    def reading(self) -> "Reading":
        """The control that halts and resumes reading."""

    @property
    def max_pending_bytes(self) -> int:
        """Most bytes of pending output."""

    def write_rule(self) -> WriteRule:
        """Return the rule for a socket that does not take output."""

    def close(self, reason: ClosedReason) -> None:
        """Close the channel for `reason`."""


class BackPressure:
    """The receiver that `channel` waits for, and the publishers that wait for `channel`.

    `held_by` is the receiver that the current batch has overwhelmed; `holding` has the publishers
    that are not read until this channel has caught up. `stalls` counts the pauses of this channel.
    """

    __slots__ = (
        "_batch_left",
        "_behind_since",
        "_channel",
        "_deadline_timer",
        "_has_progressed",
        "_hold_timer",
        "_waits_for",
        "held_by",
        "holding",
        "stalls",
    )

    def __init__(self, channel: Pressed) -> None:
        self._channel = channel
        self._behind_since = 0.0
        self._batch_left = 0
        self._has_progressed = False
        self._deadline_timer: Timer | None = None
        self._hold_timer: Timer | None = None
        self._waits_for: Client | None = None
        self.held_by: Client | None = None
        self.holding: dict[Client, None] = {}
        self.stalls = 0

    # As a receiver.

    def has_room(self, publisher: "Client | None", pending: int) -> bool:
        """Return whether more output may be queued on top of `pending` bytes.

        Slows `publisher` down if there is little room left.
        """
        channel = self._channel
        limit = channel.max_pending_bytes
        if pending > limit:
            channel.close(ClosedReason.SLOW_CONSUMER_PENDING)
            return False
        if not channel.host.options.limits.stall_producers:
            return pending < limit * 3 // 4
        if publisher is not None:
            publisher.pause_for(channel.owner)
        return True

    def fell_behind(self) -> None:
        """Called when the socket did not take all output; from now on the write deadline runs."""
        self._begin_batch()
        if self._deadline_timer is None:
            self._watch_deadline(self._channel.write_rule().deadline_s)

    def progressed(self, taken: int) -> None:
        """Called when the socket has taken `taken` bytes of the output, but not all."""
        self._has_progressed = True
        self._batch_left -= taken
        if self._batch_left <= 0:
            self._begin_batch()

    def _begin_batch(self) -> None:
        """Begin the write deadline of all output that is pending now, as nats-server does."""
        self._behind_since = self._channel.host.clock.monotonic()
        self._batch_left = self._channel.outbound.pending_bytes()
        self._has_progressed = False

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
        """Close the channel if its socket has not taken the batch within the write deadline.

        With `retry`, it stays if the socket has taken part of the batch.
        """
        self._deadline_timer = None
        channel = self._channel
        if not channel.outbound.behind:
            return
        rule = channel.write_rule()
        left_s = self._behind_since + rule.deadline_s - channel.host.clock.monotonic()
        if left_s > _DEADLINE_SLACK_S:
            self._watch_deadline(left_s)
        elif rule.retries and (self._has_progressed or channel.outbound.has_shrunk()):
            channel.host.write_timed_out(channel.owner, channel.peer, rule.deadline_s)
            self._begin_batch()
            self._watch_deadline(rule.deadline_s)
        else:
            channel.close(ClosedReason.SLOW_CONSUMER_DEADLINE)

    # As a publisher.

    def pause_for(self, receiver: "Client") -> None:
        """Record that `receiver` is far behind; prefer any other receiver to this channel."""
        if receiver is not self._channel.owner or self.held_by is None:
            self.held_by = receiver

    def hold_back(self) -> None:
        """Stop reading until the recorded receiver has caught up, or for `_HOLD_BACK_S`."""
        receiver = self.held_by
        self.held_by = None
        if receiver is None or self._hold_timer is not None or not _is_behind(receiver):
            return
        host = self._channel.host
        host.stalled_clients += 1
        self.stalls += 1
        self._channel.reading.hold_back()
        receiver.held_publishers()[self._channel.owner] = None
        self._waits_for = receiver
        self._hold_timer = host.clock.call_later(_HOLD_BACK_S, self._look_again)

    def _look_again(self) -> None:
        """Resume reading when the pause ends, unless a gate is still shut."""
        receiver = self._waits_for
        if isinstance(receiver, Gate) and receiver.is_shut:
            clock = self._channel.host.clock
            self._hold_timer = clock.call_later(_GATE_LOOK_S, self._look_again)
        else:
            self.release()

    def release(self) -> None:
        """Resume reading."""
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
            self._wait_no_more()
            self._channel.reading.release()

    def _wait_no_more(self) -> None:
        """Remove this publisher from the receiver, which may live much longer."""
        receiver, self._waits_for = self._waits_for, None
        if receiver is not None:
            receiver.held_publishers().pop(self._channel.owner, None)

    def stop(self) -> None:
        """Stop waiting, and release all publishers: the channel has ended."""
        for timer in (self._deadline_timer, self._hold_timer):
            if timer is not None:
                timer.cancel()
        self._deadline_timer = self._hold_timer = None
        self._wait_no_more()
        self.held_by = None
        self.caught_up()
        self._channel = cast("Pressed", None)  # break the cycle, so that the channel is freed


def _is_behind(receiver: Client) -> bool:
    """Return whether a receiver is still behind, or a gate still shut."""
    return receiver.is_shut if isinstance(receiver, Gate) else receiver.outbound.behind
