"""Keepalive of one connection: when to PING, how long the answer took, when it is stale.

It follows nats-server: a PING each interval unless the client was active within it, an early PING
to measure the round-trip time, and a close when too many stay unanswered. Any traffic except PONG
counts as activity: an active client is never stale, even if it does not answer.
"""

import math
from random import Random
from typing import TYPE_CHECKING, Protocol

from midge.server.clock import Clock

if TYPE_CHECKING:
    from midge.server.clock import Timer

_FIRST_PING_S = 2.0
_FIRST_PING_SPREAD = 0.2  # so that clients that reconnect together are not pinged together
_ROUND_TRIP_AGE_S = 3600.0  # a round-trip time older than this is measured again


class PingedConnection(Protocol):
    """The connection that a `KeepaliveTimer` pings and ends."""

    def send_ping(self) -> None:
        """Send PING."""

    def end_stale(self) -> None:
        """Close the connection: too many PINGs went unanswered."""


class KeepaliveTimer:
    """Makes `kept` send a PING when one is due, and end when `ping_max` have gone unanswered.

    The owner sets `last_heard`, in the clock's monotonic time, at each read. `round_trip_s` is None
    until the client has sent CONNECT; the time until CONNECT is the estimate until the first PONG.
    """

    __slots__ = (
        "_answered_at",
        "_began_at",
        "_clock",
        "_kept",
        "_ping_sent_at",
        "_random",
        "_timer",
        "interval_s",
        "last_heard",
        "ping_max",
        "round_trip_s",
        "unanswered",
    )

    def __init__(
        self,
        kept: PingedConnection,
        clock: Clock,
        random: Random,
        *,
        interval_s: float,
        ping_max: int,
    ) -> None:
        self._clock = clock
        self._random = random
        self._kept: PingedConnection | None = kept
        self._timer: Timer | None = None
        self._ping_sent_at = -math.inf
        self._answered_at = -math.inf
        self._began_at = clock.monotonic()
        self.interval_s = interval_s
        self.ping_max = ping_max
        self.last_heard = self._began_at
        self.round_trip_s: float | None = None
        self.unanswered = 0

    def start(self) -> None:
        """Start with a whole interval, because the client has sent nothing yet."""
        self._schedule(self.interval_s)

    @property
    def has_started(self) -> bool:
        """Return whether a PING is due at some time."""
        return self._timer is not None

    def connect_received(self) -> None:
        """Estimate the round-trip time, when CONNECT comes."""
        if self.round_trip_s is None:
            self.round_trip_s = self._clock.monotonic() - self._began_at

    def connected(self) -> None:
        """Start over with an early PING, now that the client has been admitted."""
        self.connect_received()
        delay_s = min(self.interval_s, _FIRST_PING_S)
        self._schedule(delay_s * (1 + self._random.random() * _FIRST_PING_SPREAD))

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def forget(self) -> None:
        """Drop the owner; the object must not be used after this."""
        self.stop()
        self._kept = None

    def pong(self) -> None:
        """Record the client's answer."""
        self._answered_at = self._clock.monotonic()
        if self.unanswered:
            self.round_trip_s = self._answered_at - self._ping_sent_at
        self.unanswered = 0

    def _schedule(self, delay_s: float) -> None:
        self.stop()
        self._timer = self._clock.call_later(delay_s, self._tick)

    def _is_idle(self, now: float) -> bool:
        """Return whether nothing but a PONG has come for an interval."""
        return now - self.last_heard >= self.interval_s or self.last_heard <= self._answered_at

    def _tick(self) -> None:
        kept = self._kept
        if kept is None:
            return
        now = self._clock.monotonic()
        is_known = self.round_trip_s is not None
        wants_round_trip = not is_known or now - self._ping_sent_at > _ROUND_TRIP_AGE_S
        if self._is_idle(now) or wants_round_trip:
            if self.unanswered + 1 > self.ping_max:
                self._timer = None
                kept.end_stale()
                return
            self.unanswered += 1
            self._ping_sent_at = now
            kept.send_ping()
        self._schedule(self.interval_s)
