"""Read JSON text into a tree of nodes, and refuse what nats-server refuses, with its words.

A node is a tuple ``(kind, value, start, end)``: the value's text is ``data[start:end]``. An
object's value is a list of ``(name, node)`` pairs in order, duplicates included; an array's is a
list of nodes; a number keeps its text. The scan keeps its own stack, so that the depth of the text
costs no depth of calls.
"""

from __future__ import annotations

import re
from typing import Any

from midge.protocol.errors import MidgeError

OBJECT = 0
ARRAY = 1
STRING = 2
NUMBER = 3
BOOL = 4
NULL = 5

DEPTH_MAX = 10_000
"""Deepest nesting that is read, as in Go."""

Node = tuple[int, Any, int, int]

UNEXPECTED_END = "unexpected EOF"

_BLANKS = re.compile(rb"[ \t\r\n]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NUMBER_PREFIX = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][-+]?)?)?")
_HEX = re.compile(rb"[0-9a-fA-F]{4}")
_LITERALS = {
    0x74: (b"true", BOOL, True),
    0x66: (b"false", BOOL, False),
    0x6E: (b"null", NULL, None),
}
_ESCAPES = {
    0x22: '"',
    0x5C: "\\",
    0x2F: "/",
    0x62: "\b",
    0x66: "\f",
    0x6E: "\n",
    0x72: "\r",
    0x74: "\t",
}


class SyntaxProblem(MidgeError):
    """The text is not JSON; `offset` is how many bytes were read, or None if it ends early."""

    def __init__(self, text: str, offset: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.offset = offset

    def with_offset(self) -> str:
        """Return the text with the offset behind it, as strict requests are answered."""
        return self.text if self.offset is None else f"{self.text} at offset {self.offset}"


def skip_blanks(data: bytes, at: int) -> int:
    """Return the position of the first byte from `at` on that is not white space."""
    found = _BLANKS.match(data, at)
    return found.end() if found else at


def read_value(data: bytes, at: int) -> Node:
    """Read the value that begins at or after `at`.

    Raises:
        SyntaxProblem: the value is missing or malformed.
    """
    reader = _Reader(data)
    return reader.read(at)


class _Reader:
    """One pass over `data`; containers that are open wait on a stack."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._stack: list[tuple[int, list[Any], int]] = []
        self._names: list[str] = []

    def read(self, at: int) -> Node:
        """Read one value, blanks before it skipped."""
        data = self._data
        at = skip_blanks(data, at)
        while True:
            byte = self._byte(at)
            if byte == 0x7B or byte == 0x5B:
                at = self._open(byte, at)
                if at >= 0:
                    continue
                node = self._close(-at)
            else:
                node = self._scalar(byte, at)
            # The value is whole; go on in what holds it, which may end there too.
            while self._stack:
                at = self._add(node)
                if at >= 0:
                    break
                node = self._close(-at)
            else:
                return node

    def _open(self, byte: int, at: int) -> int:
        """Enter a container; return where its first value begins, or minus its end if empty."""
        if len(self._stack) >= DEPTH_MAX:
            raise SyntaxProblem("exceeded max depth", at + 1)
        kind = OBJECT if byte == 0x7B else ARRAY
        self._stack.append((kind, [], at))
        at = skip_blanks(self._data, at + 1)
        if self._byte(at) == (0x7D if kind == OBJECT else 0x5D):
            return -(at + 1)
        return self._name(at) if kind == OBJECT else at

    def _close(self, end: int) -> Node:
        """Leave the innermost container, which ends at `end`."""
        kind, values, start = self._stack.pop()
        return kind, values, start, end

    def _add(self, node: Node) -> int:
        """Put `node` into its container; return where the next value begins, or minus its end."""
        kind, values, _ = self._stack[-1]
        at = skip_blanks(self._data, node[3])
        byte = self._byte(at)
        if kind == OBJECT:
            values.append((self._names.pop(), node))
            if byte == 0x7D:
                return -(at + 1)
            if byte != 0x2C:
                raise self.invalid(at, "after object key:value pair")
            return self._name(skip_blanks(self._data, at + 1))
        values.append(node)
        if byte == 0x5D:
            return -(at + 1)
        if byte != 0x2C:
            raise self.invalid(at, "after array element")
        return skip_blanks(self._data, at + 1)

    def _name(self, at: int) -> int:
        """Read the name of an object's member and its colon; return where the value begins."""
        if self._byte(at) != 0x22:
            raise self.invalid(at, "looking for beginning of object key string")
        name, end = self._string(at)
        at = skip_blanks(self._data, end)
        if self._byte(at) != 0x3A:
            raise self.invalid(at, "after object key")
        self._names.append(name)
        return skip_blanks(self._data, at + 1)

    def _scalar(self, byte: int, at: int) -> Node:
        """Read a string, a number or a literal."""
        if byte == 0x22:
            text, end = self._string(at)
            return STRING, text, at, end
        if byte == 0x2D or 0x30 <= byte <= 0x39:
            return self._number(at)
        if byte in _LITERALS:
            return self._literal(byte, at)
        raise self.invalid(at, "looking for beginning of value")

    def _literal(self, byte: int, at: int) -> Node:
        word, kind, value = _LITERALS[byte]
        for i, expected in enumerate(word):
            if self._byte(at + i) != expected:
                raise self.invalid(
                    at + i, f"in literal {word.decode()} (expecting {_quote_rune(chr(expected))})"
                )
        return kind, value, at, at + len(word)

    def _number(self, at: int) -> Node:
        found = _NUMBER.match(self._data, at)
        end = found.end() if found else at
        following = self._data[end : end + 1]
        if found is None or (following and following in b".eE"):
            prefix = _NUMBER_PREFIX.match(self._data, at)
            stop = prefix.end() if prefix else at
            self._byte(stop)
            raise self.invalid(stop, "in numeric literal")
        return NUMBER, self._data[at:end].decode(), at, end

    def _string(self, at: int) -> tuple[str, int]:
        """Read the string whose quotation mark stands at `at`; return it and where it ends."""
        data = self._data
        found = _PLAIN.match(data, at + 1)
        end = found.end() if found else at + 1
        if self._byte(end) == 0x22:
            return decode_text(data[at + 1 : end]), end + 1
        pieces = [decode_text(data[at + 1 : end])]
        while (byte := self._byte(end)) != 0x22:
            if byte != 0x5C:
                raise self.invalid(end, "in string")
            piece, start = self._escape(end)
            found = _PLAIN.match(data, start)
            end = found.end() if found else start
            pieces += [piece, decode_text(data[start:end])]
        return "".join(pieces), end + 1

    def _escape(self, at: int) -> tuple[str, int]:
        """Read the escape whose backslash stands at `at`; return its text and where it ends."""
        byte = self._byte(at + 1)
        if byte in _ESCAPES:
            return _ESCAPES[byte], at + 2
        if byte != 0x75:
            raise self._bad_escape(at, 2)
        code = self._hex(at)
        if 0xD800 <= code < 0xDC00 and self._data[at + 6 : at + 8] == b"\\u":
            low = self._hex(at + 6)
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), at + 12
        return ("\ufffd" if 0xD800 <= code < 0xE000 else chr(code)), at + 6

    def _hex(self, at: int) -> int:
        """Return the code of the escape of four hexadecimal digits at `at`."""
        found = _HEX.match(self._data, at + 2)
        if found is None:
            if len(self._data) < at + 6 and b'"' not in self._data[at + 2 :]:
                raise SyntaxProblem(UNEXPECTED_END)
            raise self._bad_escape(at, 6)
        return int(found[0], 16)

    def _bad_escape(self, at: int, length: int) -> SyntaxProblem:
        sequence = self._data[at : at + length]
        text = f"invalid escape sequence `{decode_text(sequence)}` in string"
        return SyntaxProblem(text, at + len(sequence))

    def _byte(self, at: int) -> int:
        """Return the byte at `at`; raises SyntaxProblem at the end."""
        if at >= len(self._data):
            raise SyntaxProblem(UNEXPECTED_END)
        return self._data[at]

    def invalid(self, at: int, where: str) -> SyntaxProblem:
        """Return the error for the character at `at`."""
        length = _rune_length(self._data[at])
        raw = self._data[at : at + length]
        try:
            shown = _quote_rune(raw.decode())
        except UnicodeDecodeError:
            shown, raw = f"'\\x{raw[0]:02x}'", raw[:1]
        return SyntaxProblem(f"invalid character {shown} {where}", at + len(raw))


def decode_text(raw: bytes) -> str:
    """Decode UTF-8; each invalid byte becomes U+FFFD."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _SURROGATES.sub("\ufffd", raw.decode("utf-8", "surrogateescape"))


_SURROGATES = re.compile("[\udc80-\udcff]")


def _rune_length(byte: int) -> int:
    """Return how many bytes the UTF-8 sequence that begins with `byte` has."""
    if byte < 0xC0:
        return 1
    return 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4


_RUNE_ESCAPES = {"'": "'\\''", "\\": "'\\\\'", "\a": "'\\a'", "\b": "'\\b'", "\f": "'\\f'"}
_RUNE_ESCAPES |= {"\n": "'\\n'", "\r": "'\\r'", "\t": "'\\t'", "\v": "'\\v'"}


def _quote_rune(rune: str) -> str:
    """Quote one character as Go's ``%q`` does."""
    if rune in _RUNE_ESCAPES:
        return _RUNE_ESCAPES[rune]
    code = ord(rune)
    if code < 0x20 or code == 0x7F:
        return f"'\\x{code:02x}'"
    if rune.isprintable():
        return f"'{rune}'"
    return f"'\\u{code:04x}'" if code < 0x10000 else f"'\\U{code:08x}'"


def trailing(data: bytes, at: int) -> str:
    """Return the error for text behind the only value there may be."""
    return _Reader(data).invalid(at, "after top-level value").text
