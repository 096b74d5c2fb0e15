"""A first look at the header block of a message, where it lies in its connection's buffer.

Most messages have no header that concerns a stream, or the message id alone. These are recognised
here without an object being made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.jetstream.store.numbers import BytesLike

NOTHING = 0
MSG_ID = 1
OTHERS = 2

_CR = 0x0D
_LF = 0x0A
_SPACE = 0x20
_FIRST_LINE = 10  # bytes of ``NATS/1.0`` and its line end
_NATS = b"Nats-"
_MSG_ID = b"Msg-Id:"


class HeaderScan:
    """Result of the last scan: the value of the message id is ``data[id_start:id_end]``."""

    __slots__ = ("id_end", "id_start")

    def __init__(self) -> None:
        self.id_start = 0
        self.id_end = 0

    def scan(self, data: BytesLike, start: int, end: int) -> int:
        """Return which headers the block ``data[start:end]`` has whose names begin with ``Nats-``.

        Returns:
            `NOTHING`, `MSG_ID` when it is the only one, else `OTHERS`; that stands, too, for a
            block that is written in an unusual way or has a status.
        """
        if end - start < _FIRST_LINE or data[start + _FIRST_LINE - 2] != _CR:
            return OTHERS
        kind = NOTHING
        at = start + _FIRST_LINE
        while at < end:
            if self._begins(data, at, end, _NATS, 5):
                if kind != NOTHING or not self._begins(data, at + 5, end, _MSG_ID, 7):
                    return OTHERS
                kind = MSG_ID
                self.id_start = at + 12
            line = at
            while at < end and data[at] != _LF:
                at += 1
            if at >= end or at == line or data[at - 1] != _CR:
                return OTHERS
            if kind == MSG_ID and self.id_start > line:
                self._trim(data, at - 1)
            at += 1
        return kind

    def _begins(self, data: BytesLike, at: int, end: int, word: bytes, length: int) -> bool:
        """Return whether `word`, of `length` bytes, stands at `at`."""
        if at + length > end:
            return False
        for i in range(length):  # noqa: SIM110 - compiled, this is a loop in C
            if data[at + i] != word[i]:
                return False
        return True

    def _trim(self, data: BytesLike, line_end: int) -> None:
        """Leave out the blanks before the value that ends at `line_end`."""
        self.id_end = line_end
        while self.id_start < line_end and data[self.id_start] == _SPACE:
            self.id_start += 1
