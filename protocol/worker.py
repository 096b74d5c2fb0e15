"""The dialect of the link between two workers: that of routes, and messages in blocks.

A worker numbers each subscription of its clients that is alone on its subject. Messages for such a
subscription cross the link in the form that the client gets, many behind one block head, and are
not parsed again::

    NS+ <account> <subject> <number> <sid>     interest of one subscription, in place of an RS+
    BLK <number> <count> <length> <size>       followed by `length` bytes of MSG lines and payloads

The four numbers of a block have four bytes each, lowest byte first, without separators. `count` is
the number of messages, and `size` the bytes of their payloads. The block belongs to the account
announced last, see route.py.
"""

from midge.protocol import memory
from midge.protocol.costs import RUN
from midge.protocol.errors import ProtocolError
from midge.protocol.handler import Handler
from midge.protocol.parser import COSTS
from midge.protocol.route import RouteParser

BLOCK_VERB = b"BLK "

BLOCK_HEAD_BYTES = 20
"""Length of a block's head."""

_HEAD = BLOCK_HEAD_BYTES  # C numbers where this is compiled
_VERB = BLOCK_VERB
_B = 0x42
_N = 0x4E
_BLOCK_COST = COSTS[RUN]
_PER_MESSAGE_COST = 16
_ARGUMENTS = 4  # of an NS+ line


class BlockHandler:
    """Handles the blocks and numbered subscriptions of a WorkerParser; routes have neither."""

    def take_block(
        self, data: bytearray, start: int, end: int, number: int, count: int, size: int
    ) -> None:
        """Take `count` MSG lines in ``data[start:end]``, for the subscription `number`."""

    def take_numbered(self, subject: bytes, number: int, sid: bytes) -> None:
        """Record the only subscription to `subject`, in the parser's `account`."""


NOBODY = BlockHandler()
"""A handler that drops everything."""


class WorkerParser(RouteParser):
    """Parser of one end of a link between workers; `blocks` takes the lines that routes lack."""

    __slots__ = ("blocks",)

    def __init__(self, handler: Handler, blocks: BlockHandler, max_control_line: int) -> None:
        RouteParser.__init__(self, handler, max_control_line=max_control_line, max_payload=-1)
        self.blocks = blocks

    def _speaks(self, byte: int) -> bool:
        """Return whether `byte`, in upper case, begins a verb that only links have."""
        return byte == _N or RouteParser._speaks(self, byte)  # noqa: SLF001 - C has no super()

    def _command(self, data: bytearray, start: int, end: int) -> int:
        """Handle the command at `start`; return the index behind it, or `start` if incomplete."""
        if data[start] != _B:
            return RouteParser._command(self, data, start, end)  # noqa: SLF001 - likewise
        if end - start < _HEAD:
            return start
        if not memory.starts_with(data, start, end, _VERB):
            raise ProtocolError(None, "no block after its first byte")
        first = start + _HEAD
        after = first + _number_at(data, start + 12)
        if after > end:
            return start
        count = _number_at(data, start + 8)
        self._repeatable = False
        self._charge(_BLOCK_COST + count * _PER_MESSAGE_COST + after - start)
        number, size = _number_at(data, start + 4), _number_at(data, start + 16)
        self.blocks.take_block(data, first, after, number, count, size)
        return after

    def _take_line(
        self, tokens: list[bytes], data: bytearray, start: int, body: int, end: int
    ) -> int:
        """Handle the line of `tokens`, which ends at `body`; return the same as `_command`."""
        if tokens[0] != b"NS+":
            return RouteParser._take_line(  # noqa: SLF001 - likewise
                self, tokens, data, start, body, end
            )
        if len(tokens) != 1 + _ARGUMENTS:
            raise ProtocolError(None, f"a numbered subscription with {len(tokens) - 1} arguments")
        _, subject, number, sid = self._named(tokens)
        self.blocks.take_numbered(subject, int(number), sid)
        return body


def _number_at(data: bytearray, at: int) -> int:
    """Return the number in the four bytes from `at` on."""
    return data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
