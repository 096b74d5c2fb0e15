"""The interface of all parsers of byte streams, the costs of commands, and their arguments."""

from __future__ import annotations

from midge.protocol.handler import Handler

# The cost of each command in the unit that work is counted in: the time to copy one byte.
#
# Some 1.6 MiB are copied in a millisecond. A command costs its bytes plus the constant of its verb,
# which covers the least work that its handler does; the handler adds any further work. The
# constants are measured (`tests/unit/server/clients/test_costs.py` measures them again), once with
# compiled modules and once interpreted, and rounded up: a client that is charged too much only
# waits a little sooner while others are busy, but one that is charged too little makes the others
# wait.

RUN = b"run"
"""A run of publishes that repeat one control line: charged once, whatever its length."""

RUN_LINE = b"run line"
"""Each message of a run, for comparing it with the first. Compiled, the charge for bytes covers it.
"""

COMPILED_COSTS = {
    b"PUB": 192,
    b"HPUB": 256,
    b"SUB": 4096,
    b"UNSUB": 2048,
    b"CONNECT": 16384,
    b"INFO": 4096,
    b"-ERR": 1024,
    b"PING": 256,
    b"PONG": 256,
    b"+OK": 64,
    RUN: 256,
    RUN_LINE: 0,
}
"""In the compiled build."""

INTERPRETED_COSTS = {
    b"PUB": 16384,
    b"HPUB": 16384,
    b"SUB": 32768,
    b"UNSUB": 16384,
    b"CONNECT": 65536,
    b"INFO": 16384,
    b"-ERR": 4096,
    b"PING": 8192,
    b"PONG": 8192,
    b"+OK": 4096,
    RUN: 16384,
    RUN_LINE: 512,
}
"""In the interpreted build."""

_BLANKS = bytes.maketrans(b"\t\r\n", b"   ")

_MAX_SIZE_DIGITS = 9  # of a size: nine always fit a C int, so no size can overflow


class LineTaker:
    """Takes many publishes at once from a parser's buffer, in place of its handler."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = 0  # how many the last call took

    def take_lines(
        self, parser: StreamParser, data: bytearray, start: int, end: int, max_control_line: int
    ) -> int:
        """Take the complete, contiguous ``PUB subject size⏎payload⏎`` frames from `start` on.

        Returns the index behind the last one taken, or `start` if the general parser must read the
        first one. Frames that are not taken have had no effect. The arguments of a line are at most
        `max_control_line` bytes.
        """
        return start


class StreamParser:
    """Calls `handler` for each command in the bytes passed to `feed`.

    Setting `halted` makes `feed` return after the current command. `budget` is the work left until
    the parser calls `handler.on_budget_spent`, in bytes copied or other work that takes as long.
    `max_payload` bounds header and payload of a message together, in bytes, -1 for no bound. While
    `connect_required` is set, any command but CONNECT is an error. The parser offers publishes to
    `taker`, unless it is None, before it calls the handler. `run_line_cost` is the charge for each
    message that the handler takes of a run, besides its bytes.
    """

    __slots__ = (
        "budget",
        "connect_required",
        "halted",
        "handler",
        "max_payload",
        "run_line_cost",
        "taker",
    )

    def __init__(self, handler: Handler, max_payload: int = -1) -> None:
        self.handler = handler
        self.halted = False
        self.budget = 0
        self.max_payload = max_payload
        self.run_line_cost = 0
        self.connect_required = False
        self.taker: LineTaker | None = None

    def feed(self, buffer: bytearray, start: int, end: int) -> int:
        """Handle the commands in ``buffer[start:end]``; return the index of the first unused byte.

        The caller passes the unused bytes again, followed by more. Returns at once while `halted`.

        Raises:
            ProtocolError: the peer broke the protocol; `feed` must not be called again.
        """
        raise NotImplementedError

    def charge(self, cost_bytes: int) -> None:
        """Reduce the budget; below 0, the handler adds to it or halts this parser."""
        self.budget -= cost_bytes
        if self.budget < 0:
            self.handler.on_budget_spent()

    def offer_lines(
        self, data: bytearray, start: int, end: int, max_control_line: int, cost_bytes: int
    ) -> int:
        """Offer publishes from `start` on to `taker`; return the index behind the last one taken.

        The taker gets at most as many bytes as are left of the budget. Each publish costs
        `cost_bytes` besides its bytes.
        """
        taker = self.taker
        limit = min(end, start + self.budget // 2)
        if taker is None or limit <= start or self.connect_required:
            return start
        after = taker.take_lines(self, data, start, limit, max_control_line)
        if after > start:
            self.charge(taker.taken * cost_bytes + after - start)
        return after

    def forget_buffer(self) -> None:
        """Drop the reference to the last buffer passed to `feed`."""


def split_arguments(arguments: bytes) -> list[bytes]:
    """Split the arguments of SUB and UNSUB at blanks, TABs, and stray CRs and LFs."""
    return [token for token in arguments.translate(_BLANKS).split(b" ") if token]


def parse_size(data: bytes | bytearray, start: int, end: int) -> int:
    """Parse the decimal number in ``data[start:end]``; -1 when it is malformed or too long."""
    if end == start or end - start > _MAX_SIZE_DIGITS:
        return -1
    number = 0
    for i in range(start, end):
        digit = data[i] - 0x30
        if digit < 0 or digit > 9:
            return -1
        number = number * 10 + digit
    return number
