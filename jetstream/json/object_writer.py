"""An object written as JSON straight into a buffer, for answers that are given often.

Nothing is made of it but the bytes: no dictionary, and no text for a number. What `encode` would
have to look at more closely it does not write: `is_plain` says afterwards whether all of it was.
"""

from __future__ import annotations

from typing import Any

from midge.jetstream.json.encode import encode
from midge.jetstream.json.times import format_second, format_time
from midge.protocol import digits, memory

_FIRST_SIZE = 1024
_NUMBER_SIZE = 20
_SECOND_NS = 1_000_000_000
_COMMA = 0x2C
_QUOTE = 0x22
_OPENING = 0x7B
_BACKSLASH = 0x5C
_BLANK = 0x20
_LAST_PLAIN = 0x7E
_LESS = 0x3C
_GREATER = 0x3E
_AND = 0x26
_ZERO = 0x30
_DOT = 0x2E
_ESCAPED_SIZE = 6
_ESCAPED_LESS = b"\\u003c"
_ESCAPED_GREATER = b"\\u003e"
_ESCAPED_AND = b"\\u0026"
_MINUS_ONE = b"-1"
_TRUE = b"true"
_END_OF_TIME = b'Z"'


class ObjectWriter:
    """A JSON document in the making.

    A name is given as it is written, with its quotes and its colon. The methods that write a member
    leave it out when its value is empty, as Go's ``omitempty`` does, but for those whose names end
    in `_always`.
    """

    __slots__ = ("_data", "_end", "_second", "_second_text", "is_plain")

    def __init__(self) -> None:
        self._data = bytearray(_FIRST_SIZE)
        self._end = 0
        self._second = -1
        self._second_text = b""
        self.is_plain = True

    def begin(self, head: bytes) -> None:
        """Drop the output, and begin again with `head`."""
        self._end = 0
        self.is_plain = True
        self.literal(head)

    def written(self) -> bytes:
        """Return the output."""
        return memory.take(self._data, 0, self._end)

    def literal(self, text: bytes) -> None:
        """Write `text` as it is."""
        self._make_room(len(text))
        memory.copy_bytes(self._data, self._end, text)
        self._end += len(text)

    def name(self, name: bytes) -> None:
        """Write the name of the next member, behind a comma unless it is the first."""
        self._make_room(1 + len(name))
        if self._data[self._end - 1] != _OPENING:
            self._data[self._end] = _COMMA
            self._end += 1
        memory.copy_bytes(self._data, self._end, name)
        self._end += len(name)

    def text(self, name: bytes, value: str) -> None:
        """Write a text."""
        if value:
            self.text_always(name, value)

    def text_always(self, name: bytes, value: str) -> None:
        """Write a text."""
        if value.isascii():
            self.bytes_always(name, value.encode())
        else:
            self.is_plain = False

    def bytes_always(self, name: bytes, value: bytes) -> None:
        """Write a text that is given as bytes."""
        self.name(name)
        self._make_room(_ESCAPED_SIZE * len(value) + 2)
        data = self._data
        end = self._end
        data[end] = _QUOTE
        end += 1
        for byte in value:
            if byte < _BLANK or byte > _LAST_PLAIN or byte == _QUOTE or byte == _BACKSLASH:
                self.is_plain = False
            elif byte == _GREATER or byte == _LESS or byte == _AND:
                escaped = _ESCAPED_AND
                if byte != _AND:
                    escaped = _ESCAPED_GREATER if byte == _GREATER else _ESCAPED_LESS
                memory.copy_bytes(data, end, escaped)
                end += _ESCAPED_SIZE
            else:
                data[end] = byte
                end += 1
        data[end] = _QUOTE
        self._end = end + 1

    def number(self, name: bytes, value: int) -> None:
        """Write a number, which may be negative."""
        if value:
            self.number_always(name, value)

    def number_always(self, name: bytes, value: int) -> None:
        """Write a number, which may be negative."""
        if value >= 0:
            self.count_always(name, value)
        else:
            self.name(name)
            self.literal(_MINUS_ONE if value == -1 else b"%d" % value)

    def count(self, name: bytes, value: int) -> None:
        """Write a number of up to 64 bits that is not negative."""
        if value:
            self.count_always(name, value)

    def count_always(self, name: bytes, value: int) -> None:
        """Write a number of up to 64 bits that is not negative."""
        self.name(name)
        self._make_room(_NUMBER_SIZE)
        self._end = digits.write_number(self._data, self._end, value)

    def flag(self, name: bytes, value: bool) -> None:
        """Write true."""
        if value:
            self.name(name)
            self.literal(_TRUE)

    def value(self, name: bytes, value: Any) -> None:
        """Write a list, or an object of texts."""
        if value:
            self.name(name)
            self.literal(encode(value))

    def time_always(self, name: bytes, time_ns: int) -> None:
        """Write a moment in RFC 3339, with as many digits of the second as it needs."""
        self.name(name)
        if time_ns < 0:
            self.literal(encode(format_time(time_ns)))
            return
        second = time_ns // _SECOND_NS
        if second != self._second:
            self._second = second
            self._second_text = b'"' + format_second(second).encode()
        self.literal(self._second_text)
        rest = time_ns - second * _SECOND_NS
        self._make_room(_NUMBER_SIZE)
        if rest:
            data = self._data
            data[self._end] = _DOT
            end = digits.write_nine(data, self._end + 1, rest)
            while data[end - 1] == _ZERO:
                end -= 1
            self._end = end
        self.literal(_END_OF_TIME)

    def _make_room(self, size: int) -> None:
        """Make room for `size` more bytes."""
        if self._end + size > len(self._data):
            self._data.extend(bytes(self._end + size))
