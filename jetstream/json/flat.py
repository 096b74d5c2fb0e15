"""Requests read straight into the objects that they describe, where every key is there once.

Clients' libraries write such objects of texts, whole numbers, switches and further objects. Nothing
is made of one but its values: no dictionary, and no text for a name. Lists and whatever else Go's
rules know is left to `structure`.
"""

from __future__ import annotations

from typing import Any

from midge.jetstream.json.structure import Boolean, Choice, Integer, Structure, Text
from midge.protocol import memory

_TEXT = 1
_WORD = 2
_NUMBER = 3
_FLAG = 4
_OBJECT = 5
_BITS = 64
_DIGITS_MAX = 18  # what fits 64 bits for sure

_QUOTE = 0x22
_BACKSLASH = 0x5C
_BLANK = 0x20
_DEL = 0x7F
_COMMA = 0x2C
_TAB = 0x09
_LF = 0x0A
_CR = 0x0D
_COLON = 0x3A
_OPENING = 0x7B
_CLOSING = 0x7D
_MINUS = 0x2D
_ZERO = 0x30
_NINE = 0x39
_FIRST_OF_TRUE = 0x74
_TRUE = b"true"
_FALSE = b"false"
_UNFIT = -1


class _Member:
    """The reader of one member. `bit` distinguishes it from the others of its object.

    `after` is the member that followed it last time. A client always writes members in one order,
    and comparing a name takes a thirtieth of the time of looking it up.
    """

    __slots__ = ("after", "attribute", "bit", "is_signed", "kind", "name", "reader", "words")

    def __init__(self, name: bytes, attribute: str, bit: int) -> None:
        self.name = name
        self.after: _Member | None = None
        self.attribute = attribute
        self.bit = bit
        self.kind = 0
        self.is_signed = True
        self.words: dict[bytes, str] = {}
        self.reader: FlatReader | None = None


class FlatReader:
    """Reads the members of one kind of object."""

    __slots__ = ("_before", "_members")

    def __init__(self, structure: Structure) -> None:
        self._before = _Member(b"", "", 0)  # a member before the first one
        self._members: dict[bytes, _Member] = {}
        for place, field in enumerate(structure.fields):
            member = _Member(field.name.encode(), field.attribute, 1 << place)
            kind = field.kind
            if type(kind) is Text:
                member.kind = _TEXT
            elif isinstance(kind, Choice):
                member.kind = _WORD
                member.words = kind.words
            elif isinstance(kind, Integer) and kind.bits == _BITS:
                member.kind = _NUMBER
                member.is_signed = kind.is_signed
            elif isinstance(kind, Boolean):
                member.kind = _FLAG
            elif isinstance(kind, Structure):
                member.kind = _OBJECT
                member.reader = FlatReader(kind)
            else:
                continue
            self._members[member.name] = member

    def read(self, data: bytes, into: Any) -> bool:
        """Read all of `data` into `into`; False if it is not flat, with some of it read perhaps."""
        size = len(data)
        ended = data + b"\0"  # which nothing takes for its own, so that no index need be compared
        at = self.read_object(ended, _skip_blanks(ended, 0), into)
        return at != _UNFIT and _skip_blanks(ended, at) == size

    def read_object(self, data: bytes, at: int, into: Any) -> int:
        """Read the object at `at`; return where it ends."""
        if data[at] != _OPENING:
            return _UNFIT
        seen = 0
        before = self._before
        at = _skip_blanks(data, at + 1)
        if data[at] == _CLOSING:
            return at + 1
        while True:
            end = _text_end(data, at)
            if end == _UNFIT:
                return _UNFIT
            member = self._member_named(data, at + 1, end - 1, before)
            if member is None or seen & member.bit:
                return _UNFIT
            seen |= member.bit
            before = member
            at = _skip_blanks(data, end)
            if data[at] != _COLON:
                return _UNFIT
            at = _read_value(data, _skip_blanks(data, at + 1), member, into)
            if at == _UNFIT:
                return _UNFIT
            at = _skip_blanks(data, at)
            if data[at] == _CLOSING:
                return at + 1
            if data[at] != _COMMA:
                return _UNFIT
            at = _skip_blanks(data, at + 1)

    def _member_named(self, data: bytes, start: int, end: int, before: _Member) -> _Member | None:
        """Return the member whose name is at ``data[start:end]``, behind that of `before`."""
        member = before.after
        if (
            member is None
            or end - start != len(member.name)
            or not memory.starts_with(data, start, end, member.name)
        ):
            member = self._members.get(data[start:end])
            before.after = member
        return member


def _read_value(data: bytes, at: int, member: _Member, into: Any) -> int:
    """Read the value at `at`; return where it ends."""
    kind = member.kind
    if kind == _NUMBER:
        return _read_number(data, at, member, into)
    if kind == _TEXT or kind == _WORD:
        return _read_text(data, at, member, into)
    if kind == _OBJECT:
        assert member.reader is not None  # of that kind
        return member.reader.read_object(data, at, getattr(into, member.attribute))
    return _read_flag(data, at, member, into)


def _read_flag(data: bytes, at: int, member: _Member, into: Any) -> int:
    """Read true or false, byte by byte: no more than one that differs is looked at."""
    word = _TRUE if data[at] == _FIRST_OF_TRUE else _FALSE
    for byte in word:
        if data[at] != byte:
            return _UNFIT
        at += 1
    setattr(into, member.attribute, word is _TRUE)
    return at


def _read_text(data: bytes, at: int, member: _Member, into: Any) -> int:
    end = _text_end(data, at)
    if end == _UNFIT:
        return _UNFIT
    if member.kind == _TEXT:
        setattr(into, member.attribute, data[at + 1 : end - 1].decode("utf-8"))
        return end
    word = member.words.get(data[at:end])
    if word is None:
        return _UNFIT
    setattr(into, member.attribute, word)
    return end


def _read_number(data: bytes, at: int, member: _Member, into: Any) -> int:
    """Read a whole number of few digits; the caller checks the bytes after them."""
    is_negative = data[at] == _MINUS
    if is_negative:
        at += 1
    start = at
    value = 0
    while data[at] >= _ZERO and data[at] <= _NINE and at - start < _DIGITS_MAX:
        value = value * 10 + data[at] - _ZERO
        at += 1
    size = at - start
    if size == 0 or (data[start] == _ZERO and (size > 1 or is_negative)):
        return _UNFIT
    if is_negative and not member.is_signed:
        return _UNFIT
    setattr(into, member.attribute, -value if is_negative else value)
    return at


def _text_end(data: bytes, at: int) -> int:
    """Return the index behind the text at `at`; none of another sign than plain ASCII is one."""
    if data[at] != _QUOTE:
        return _UNFIT
    at += 1
    while data[at] != _QUOTE:
        if data[at] < _BLANK or data[at] >= _DEL or data[at] == _BACKSLASH:
            return _UNFIT
        at += 1
    return at + 1


def _skip_blanks(data: bytes, at: int) -> int:
    """Return the index of the first byte after blanks, tabs and line ends."""
    while data[at] == _BLANK or data[at] == _TAB or data[at] == _LF or data[at] == _CR:
        at += 1
    return at
