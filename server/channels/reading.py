"""Reading and parsing of one channel: how much it may do before others have their turn.

A connection must not keep the loop from the others, and must not fill memory with unprocessed
input. `Reading` has two means for this, each with a set of reasons. Parsing or reading goes on
when the last reason is removed.

    halt        The parser stops after the current command. Input that has arrived stays in the
                inbound buffer. Reasons: AUTHENTICATING, TURN_OVER, WAITING, FINISHING, ENDED,
                SETTLING and OVER_QUOTA.
    stop        The transport stops reading. Input stays in the kernel, whose window then slows the
                peer down. Reasons: _HALTED, _HELD_BACK and _RESTING.

A halt alone does not stop reading: most halts are short, and stopping costs a system call or two.
Only when a halted channel has more than `_HELD_BYTES` unparsed does `finish` stop it, for _HALTED.

One batch. Each read is a batch, from `begin` to `finish`, with four steps:

    1. `begin` raises the parser's budget to PORTION_BYTES, which a connection gets in any case, and
       records the time.
    2. The parser runs. Each command takes its charge off the budget.
    3. When the budget is spent, the parser calls `on_budget_spent`, which draws more from the turn
       that all connections share (see fair_turns.py). If there is none, or this connection has been
       busy for BUSY_S, it halts the parser for TURN_OVER and waits for its share of the next turn.
       `_take_turn` then resumes the channel, and returns the unused rest of the share.
    4. `finish` returns the unused rest of a draw, and decides whether the transport may read again
       at once.

Reads in a row. A loop reads a socket again and again while each read fills its buffer, before it
looks at other sockets. A batch is short, but many batches in a row are not. Two counters therefore
run over several batches, `_read_bytes` and `_busy_s`; at `_READ_IN_A_ROW_BYTES` or BUSY_S, `_rest`
stops reading for _RESTING until the loop has polled all other sockets.

Both counters start at 0 after such a rest. `_read_bytes` also starts again after a read that did
not fill its buffer, because the loop then looks at other sockets anyway, and `_busy_s` does when
the channel takes its share of a new turn.
"""

import contextlib
from typing import TYPE_CHECKING, Protocol

from midge.protocol.inbound import Inbound
from midge.protocol.stream_parser import StreamParser
from midge.server.channels.fair_turns import BUSY_S, PORTION_BYTES
from midge.server.channels.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.channels.transports import Transport

# Reasons to halt the parser; it goes on when none is left.
AUTHENTICATING = 1  # authentication is in progress
TURN_OVER = 2  # others have their turn
WAITING = 4  # too many commands wait for interceptors
FINISHING = 8  # the peer has gone; its subscriptions are removed before its last input is parsed
ENDED = 16  # the channel has ended; this reason stays
SETTLING = 32  # other workers are learning the peer's subscriptions
OVER_QUOTA = 64  # the peer has published more than its quota

# Reasons to stop reading; it goes on when none is left.
_HALTED = 1  # too much input waits to be parsed
_HELD_BACK = 2  # a receiver is far behind
_RESTING = 4  # the loop has not polled the other sockets for long

_PORTION_BYTES = PORTION_BYTES  # C numbers where this is compiled
_BUSY_S = BUSY_S
_TURN_OVER = TURN_OVER
_ENDED = ENDED

# A loop reads the same socket up to 32 times before it looks at another, as long as each read fills
# its buffer. Four such reads in a row have the throughput of 32 (with two, a 1 KiB message took 11
# % more CPU time); further input waits for the next round of the loop. Pausing for a round costs 7
# µs, so only full reads end a row.
_READ_IN_A_ROW_BYTES = 1024 * 1024

_HELD_BYTES = 64 * 1024  # unparsed input that may wait while the parser is halted


class Resumable(Protocol):
    """A channel that resumes when its turn has come."""

    def resume(self) -> None:
        """Parse the waiting input."""


class Reading:
    """Halts `parser` and stops reading from `transport`, for the reasons above.

    `channel` is resumed when its next turn has come. `transport` is None before it is made and
    after it is lost.
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
        self._read_bytes = 0  # bytes read since the loop last polled the other sockets
        self._is_last = False  # whether the loop polls the other sockets after this read
        self._began_at = host.clock.monotonic()
        self._busy_s = 0.0  # time of the batches that drew, since others had their turn
        self._drew = False  # whether the current batch has used up its portion

    def begin(self, count: int, is_last: bool) -> float:
        """Begin a batch with a read of `count` bytes; return the time.

        With `is_last`, the loop polls the other sockets before it reads this one again.
        """
        now = self._host.now()
        self._began_at = now
        self._drew = False
        self._read_bytes += count
        self._is_last = is_last
        self._parser.budget = max(self._parser.budget, _PORTION_BYTES)
        return now

    def finish(self) -> bool:
        """End the batch; return whether it stopped reading because of too much unparsed input."""
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

    # Halts and turns.

    def halt(self, why: int) -> None:
        """Stop parsing after the current command; further input waits."""
        self._halts |= why
        self._parser.halted = True

    def unhalt(self, why: int) -> None:
        """Remove `why` from the reasons to halt; call `resume` of the channel to parse on."""
        self._halts &= ~why
        self._parser.halted = self._halts != 0

    def on_budget_spent(self) -> None:
        """Draw more of this turn, or halt until others have had theirs."""
        if self._halts & (_TURN_OVER | _ENDED):
            return
        self._drew = True
        busy_s = self._busy_s + self._host.now() - self._began_at
        if busy_s >= _BUSY_S or not self.may_spend(0):
            self.halt(_TURN_OVER)
            self._host.turns.wait(self._take_turn)

    def may_spend(self, cost_bytes: int) -> bool:
        """Return whether `cost_bytes` fit the budget; draw more of the turn if they do not."""
        parser = self._parser
        while parser.budget < cost_bytes:
            drawn: int = self._host.turns.draw(cost_bytes - parser.budget)
            if not drawn:
                return False
            parser.budget += drawn
        return True

    def _take_turn(self) -> None:
        """Take a share of the next turn, resume the channel, and give the unused rest back."""
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

    # Stops of reading.

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
        """Stop reading for the reason `why`."""
        self._stops |= why
        if self.transport is not None:
            with contextlib.suppress(RuntimeError):  # the transport is being closed
                self.transport.pause_reading()

    def _allow(self, why: int) -> None:
        """Resume reading, unless another reason to stop is left."""
        if self._stops & why:
            self._stops &= ~why
            if not (self._stops or self._halts & _ENDED or self.transport is None):
                with contextlib.suppress(RuntimeError):
                    self.transport.resume_reading()
