"""Tar archives as they come, cut into files: what Go's `archive/tar` writes for regular files."""

from __future__ import annotations

import re
from typing import NamedTuple

from midge.jetstream.archive.entries import ArchiveError

_BLOCK = 512
_NAME = slice(0, 100)
_SIZE = slice(124, 136)
_SUM = slice(148, 156)
_KIND = 156
_PREFIX = slice(345, 500)
_REGULAR = b"0\x00"
_EXTENDED = ord("x")
_GLOBAL = ord("g")
_LONG_NAME = ord("L")
_EXTENDED_MAX = 1 << 20
_SIZE_MAX = (1 << 62) - 1  # of a file; larger numbers in a head are negative ones, as in Go
_LF = 0x0A
_OCTAL = re.compile(rb"[0-7]+")
_DECIMAL = re.compile(r"[0-9]{1,18}")
_LENGTH = re.compile(rb"([1-9][0-9]{0,7}) ")
_USED = (b"path", b"size")
_INVALID = "archive/tar: invalid tar header"
_BINARY = 0x80  # the top bit of a size that is no octal text


class Piece(NamedTuple):
    """A piece of a file; `is_last` with the last one, which may be empty."""

    name: str
    size: int
    data: bytes
    is_last: bool


class TarReader:
    """Yields the files of an archive piece by piece, in the order they have in it."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0
        self._name = ""
        self._size = 0
        self._left = 0
        self._padding = 0
        self._has_file = False
        self._extended: dict[str, str] = {}
        self._awaits_file = False  # an extended head has come, and not the file behind it
        self._is_over = False

    def feed(self, data: bytes | bytearray) -> None:
        """Take more of the archive."""
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    def next_piece(self) -> Piece | None:
        """Return the next piece; None when more is needed, or behind the end.

        Raises:
            ArchiveError: this is not an archive, or it holds more than files.
        """
        while not self._has_file:
            if not self._next_head():
                return None
        available = len(self._data) - self._at
        size = min(self._left, available)
        if self._left and not size:
            return None
        data = self._take(size)
        self._left -= size
        self._has_file = self._left > 0
        return Piece(self._name, self._size, data, not self._has_file)

    def finish(self) -> None:
        """Check that nothing is cut short; raises ArchiveError.

        The blocks of zeros at the end may be missing, as for `archive/tar`.
        """
        left = len(self._data) - self._at
        is_cut = left > self._padding or self._awaits_file
        if self._has_file or (is_cut and not self._is_over):
            raise ArchiveError("unexpected EOF")

    def _next_head(self) -> bool:
        """Read a head, with the contents of one that extends the next; False for more data."""
        available = len(self._data) - self._at
        if self._is_over or available < self._padding + _BLOCK:
            return False
        head = bytes(self._data[self._at + self._padding : self._at + self._padding + _BLOCK])
        if not any(head):
            self._is_over = True
            return False
        size = self._check(head)
        kind = head[_KIND]
        if kind in (_EXTENDED, _GLOBAL, _LONG_NAME):
            if size > _EXTENDED_MAX:
                raise ArchiveError(_INVALID)
            if available < self._padding + _BLOCK + size:
                return False
            self._take(self._padding + _BLOCK)
            self._extend(kind, self._take(size))
        elif kind in _REGULAR:
            self._take(self._padding + _BLOCK)
            self._begin(head, size)
            size = self._size
        else:
            raise ArchiveError("unexpected content")
        self._padding = -size % _BLOCK
        return True

    def _check(self, head: bytes) -> int:
        """Return the size in a head, whose checksum must be right."""
        total = sum(head) - sum(head[_SUM]) + 8 * ord(" ")
        if _octal(head[_SUM]) != total:
            raise ArchiveError(_INVALID)
        size = head[_SIZE]
        if not size[0] & _BINARY:
            return _octal(size)
        number = int.from_bytes(size, "big") & ~(_BINARY << 8 * (len(size) - 1))
        if number > _SIZE_MAX:  # or negative
            raise ArchiveError(_INVALID)
        return number

    def _extend(self, kind: int, data: bytes) -> None:
        """Note what an extended head says of the file behind it."""
        self._awaits_file = self._awaits_file or kind != _GLOBAL
        if kind == _LONG_NAME:
            self._extended["path"] = _text(data)
        while kind == _EXTENDED and data:
            length = _LENGTH.match(data)
            if length is None or not length.end() < int(length[1]) <= len(data):
                raise ArchiveError(_INVALID)
            record = data[length.end() : int(length[1]) - 1]
            if data[int(length[1]) - 1] != _LF or b"=" not in record:
                raise ArchiveError(_INVALID)
            name, _, value = record.partition(b"=")
            if name in _USED:
                self._extended[_text(name)] = _text(value)
            data = data[int(length[1]) :]

    def _begin(self, head: bytes, size: int) -> None:
        """Begin a file."""
        prefix = _text(head[_PREFIX]) if head[257:263] == b"ustar\x00" else ""
        name = _text(head[_NAME])
        self._name = self._extended.get("path") or (f"{prefix}/{name}" if prefix else name)
        said = self._extended.get("size")
        if said is not None and _DECIMAL.fullmatch(said) is None:
            raise ArchiveError(_INVALID)
        self._size = self._left = size if said is None else int(said)
        self._extended = {}
        self._awaits_file = False
        self._has_file = True

    def _take(self, size: int) -> bytes:
        data = bytes(self._data[self._at : self._at + size])
        self._at += size
        return data


def _octal(field: bytes) -> int:
    """Return the number in a field of a head; raises ArchiveError.

    Python's own reader of numbers would take signs and underscores, and a file of -1000 bytes never
    ends.
    """
    digits = field.strip(b"\x00 ")
    if not digits:
        return 0
    if _OCTAL.fullmatch(digits) is None:
        raise ArchiveError(_INVALID)
    return int(digits, 8)


def _text(data: bytes) -> str:
    return data.partition(b"\x00")[0].decode("utf-8", "surrogateescape")
