"""Message headers: the block between control line and payload, as names and values.

The block begins with ``NATS/1.0``, optionally followed by a status such as ``503``, and ends with
a blank line. Names keep their case; a name may come several times.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

VERSION = b"NATS/1.0"

Headers = Mapping[str, str | Iterable[str]]
"""Header names with one value or several."""

_STATUS = "Status"
_DESCRIPTION = "Description"
_FORBIDDEN_IN_NAMES = frozenset(" \t\r\n:")


def format_headers(headers: Headers) -> bytes:
    """Return the header block of `headers`, its blank line included.

    Raises:
        ValueError: a name is empty or holds a blank or a colon, or a value holds a line end.
    """
    lines = [VERSION]
    for name, value in headers.items():
        if not name or not _FORBIDDEN_IN_NAMES.isdisjoint(name) or not name.isprintable():
            raise ValueError(f"header name: expected no blank, colon or line end, got {name!r}")
        for one in _values(name, value):
            if "\r" in one or "\n" in one:
                raise ValueError(f"header {name}: expected no line end in its value, got {one!r}")
            lines.append(f"{name}: {one}".encode())
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _values(name: str, given: object) -> list[str]:
    """Return the values of one header. Raises: TypeError if one is not text."""
    if isinstance(given, str):
        return [given]
    several = given if isinstance(given, Iterable) and not isinstance(given, bytes) else [given]
    values: list[str] = []
    for one in several:
        if not isinstance(one, str):
            kind = type(one).__name__
            raise TypeError(f"header {name}: expected str, or several of them, got {kind}")
        values.append(one)
    return values


class HeaderBlock(NamedTuple):
    """A parsed header block: its status line, usually empty, and the values of each name."""

    status: str
    description: str
    fields: dict[str, list[str]]


def read_headers(block: bytes, errors: str = "surrogateescape") -> HeaderBlock:
    """Parse a header block; `errors` is the codec's error handler for bytes that are not UTF-8.

    Lines that are not headers are left out, as clients do; `find_malformed` reports them.
    """
    first, *lines = block.decode("utf-8", errors).split("\r\n")
    status, _, description = first[len(VERSION) :].strip().partition(" ")
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), []).append(value.strip())
    return HeaderBlock(status, description.strip(), fields)


def parse_headers(block: bytes) -> dict[str, list[str]]:
    """Return the values of each name; a status line gives `Status` and `Description`."""
    status, description, fields = read_headers(block)
    fields.pop("", None)
    if not status:
        return fields
    line = {_STATUS: [status]} | ({_DESCRIPTION: [description]} if description else {})
    for name, values in fields.items():
        line.setdefault(name, []).extend(values)
    return line


def find_malformed(block: bytes) -> str | None:
    """Return the fault of a header block as text, or None for a correct block."""
    if not block.startswith(VERSION):
        return f"begins with {block[:12]!r} instead of {VERSION!r}"
    if not block.endswith(b"\r\n\r\n"):
        return "does not end with a blank line"
    for line in block[:-4].split(b"\r\n")[1:]:
        name, colon, _ = line.partition(b":")
        if not colon:
            return f"{line[:64]!r} has no colon"
        if not name or b" " in name or b"\t" in name:
            return f"{name[:64]!r} is no header name"
    return None
