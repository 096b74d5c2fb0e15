"""How much of a channel is read, and parsed, before others have their turn."""

import contextlib
from typing import TYPE_CHECKING, Protocol

from midge.protocol.inbound import Inbound
from midge.protocol.stream_parser import StreamParser
from midge.server.clients.fair_turns import BUSY_S, PORTION_BYTES
from midge.server.clients.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clients.seams import Transport

# Why the parser may be halted; it goes on when no reason is left.
AUTHENTICATING = 1  # authentication is in progress
TURN_OVER = 2  # others have their turn
WAITING = 4  # interceptors have too much to look at
FINISHING = 8  # the peer has gone, and its own subscriptions go before what it sent last is done
ENDED = 16  # the channel has ended; this reason stays
SETTLING = 32  # other workers take note of what the peer subscribes to

# Why nothing is read; it goes on when no reason is left.
_HALTED = 1  # too much waits to be parsed
_HELD_BACK = 2  # a receiver is far behind
_RESTING = 4  # others' sockets have not been looked at for long

_PORTION_BYTES = PORTION_BYTES  # C numbers where this is compiled
_BUSY_S = BUSY_S
_TURN_OVER = TURN_OVER
_ENDED = ENDED

# A loop reads the same socket up to 32 times before it looks at another, as long as each read fills
# its buffer. Four such reads in a row keep the throughput of 32 (with two, 1 KiB messages took 11 %
# more CPU each); the rest waits until the loop has gone round. Not to read for a round costs 7 µs,
# so a row is ended by nothing but full reads.
_READ_IN_A_ROW_BYTES = 1024 * 1024

_HELD_BYTES = 64 * 1024  # what may wait unparsed while the parser is halted


class Resumable(Protocol):
    """A channel that resumes when its turn has come."""

    def resume(self) -> None:
        """Parse what waits."""


class Reading:
    """Halts `parser` and stops reading when it has had its turn, or for a reason from outside.

    `channel` is resumed when its next turn has come. `transport` is what is read, or None. A batch
    is what one read brings: it may do PORTION_BYTES of work in any case, and what can be drawn of
    the turn that all share.
    """

    def __init__(
        self, host: Host, parser: StreamParser, inbound: Inbound, channel: Resumable
    ) -> None:
        self.transport: Transport | None = None
        self._host = host
        self._parser = parser
        self._inbound = inbound
        self._channel: Resumable | None = channel
        self._halts = 0
        self._stops = 0
        self._read_bytes = 0  # since others' sockets were looked at
        self._is_last = False  # whether the loop looks at others' sockets after this read
        self._began_at = host.clock.monotonic()
        self._busy_s = 0.0  # in batches that used up a portion, since others had their turn
        self._drew = False  # whether the batch at hand has used up a portion

    def begin(self, count: int, is_last: bool) -> float:
        """Begin a batch with a read of `count` bytes; return the time.

        `is_last` tells that the loop looks at others' sockets before it reads this one again.
        """
        now = self._host.now()
        self._began_at = now
        self._drew = False
        self._read_bytes += count
        self._is_last = is_last
        self._parser.budget = max(self._parser.budget, _PORTION_BYTES)
        return now

    def finish(self) -> bool:
        """End the batch; tell whether reading had to stop because too much waits unparsed."""
        parser = self._parser
        is_full = False
        if parser.halted and not self._stops & _HALTED:
            is_full = self._inbound.held_bytes() > _HELD_BYTES
            if is_full:
                self._stop(_HALTED)
        if self._drew:
            self._busy_s += self._host.now() - self._began_at
            self._drew = False
            if parser.budget > 0:
                self._host.turns.give_back(parser.budget)
                parser.budget = 0
        if self._read_bytes >= _READ_IN_A_ROW_BYTES or self._busy_s >= _BUSY_S:
            self._rest()
        elif self._is_last:
            self._read_bytes = 0
        return is_full

    def forget(self) -> None:
        """Drop transport and channel; nothing is read any more."""
        self.transport = None
        self._channel = None

    # Halted and in turns.

    def halt(self, why: int) -> None:
        """Stop parsing after the current command; further input waits."""
        self._halts |= why
        self._parser.halted = True

    def unhalt(self, why: int) -> None:
        """Remove `why` from the reasons to halt; the channel's `resume` then parses what waits."""
        self._halts &= ~why
        self._parser.halted = self._halts != 0

    def on_budget_spent(self) -> None:
        """Draw more of this turn; without any, the rest waits until others have had theirs."""
        if self._halts & (_TURN_OVER | _ENDED):
            return
        self._drew = True
        busy_s = self._busy_s + self._host.now() - self._began_at
        if busy_s >= _BUSY_S or not self.may_spend(0):
            self.halt(_TURN_OVER)
            self._host.turns.wait(self._take_turn)

    def may_spend(self, cost_bytes: int) -> bool:
        """Tell whether the turn, or what can still be drawn of it, is enough for that."""
        parser = self._parser
        while parser.budget < cost_bytes:
            drawn: int = self._host.turns.draw(cost_bytes - parser.budget)
            if not drawn:
                return False
            parser.budget += drawn
        return True

    def _take_turn(self) -> None:
        """Take a share of the next turn, and return what is not used of it."""
        turns = self._host.turns
        parser = self._parser
        parser.budget = turns.share()
        self._began_at = self._host.now()
        self._busy_s = 0.0
        if self._channel is not None and not self._halts & _ENDED:
            self.unhalt(_TURN_OVER)
            self._channel.resume()
        turns.give_back(max(parser.budget, 0))
        parser.budget = 0

    # Read or not.

    def hold_back(self) -> None:
        """Stop reading until a receiver has caught up."""
        self._stop(_HELD_BACK)

    def release(self) -> None:
        """Resume reading: no receiver is far behind."""
        self._allow(_HELD_BACK)

    def go_on(self) -> None:
        """Resume reading: the parser has caught up."""
        self._allow(_HALTED)

    def _rest(self) -> None:
        """Stop reading until the loop has polled all other sockets."""
        self._read_bytes = 0
        self._busy_s = 0.0
        if not self._stops & _RESTING:
            self._stop(_RESTING)
            go_on: Callable[[int], None] = self._allow
            self._host.clock.call_later(0, go_on, _RESTING)

    def _stop(self, why: int) -> None:
        """Stop reading; the transport keeps what comes."""
        self._stops |= why
        if self.transport is not None:
            with contextlib.suppress(RuntimeError):  # it is being closed
                self.transport.pause_reading()

    def _allow(self, why: int) -> None:
        """Resume reading, unless another reason to stop is left."""
        if self._stops & why:
            self._stops &= ~why
            if not (self._stops or self._halts & _ENDED or self.transport is None):
                with contextlib.suppress(RuntimeError):
                    self.transport.resume_reading()
