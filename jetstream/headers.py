"""Find, read and change the headers of a message as bytes, as nats-server does.

A name is compared byte by byte, its first line counts, and blanks before the value are ignored. A
block is whole: it begins with ``NATS/1.0`` and ends with a blank line.
"""

from __future__ import annotations

_VERSION = b"NATS/1.0"
_EMPTY_SIZE = 12  # length of a block without lines
_LINE_END = b"\r\n"
_CR = 0x0D
_SPACE = 0x20

REQUEST_INFO = b"Nats-Request-Info"
"""Header in which a service import describes the requester; not stored."""

TRACE_DESTINATION = b"Nats-Trace-Dest"
_DIGITS_MAX = 64  # digits before the last 64 do not change the value modulo a power of two
_WORD = (1 << 64) - 1
_TRACE_ONLY = b"Nats-Trace-Only"
_TRACE_DISABLED = b"trace disabled"


def nats_headers(block: bytes) -> dict[bytes, bytes] | None:
    """Return the headers whose names begin with ``Nats-``, the first line of each.

    Returns:
        None without such headers, which for most blocks takes a single search.
    """
    at = block.find(b"\nNats-")
    if at < 0:
        return None
    found: dict[bytes, bytes] = {}
    while at >= 0:
        start = at + 1
        colon = block.find(b":", start)
        end = block.find(_LINE_END, start)
        if end < 0:
            break
        if block[at - 1] == _CR and start < colon < end:
            name = block[start:colon]
            if name not in found:
                value = colon + 1
                while value < end and block[value] == _SPACE:
                    value += 1
                found[name] = block[value:end]
        at = block.find(b"\nNats-", end)
    return found or None


def find(block: bytes, name: bytes) -> bytes | None:
    """Return the value of the first line called `name`, or None."""
    start = _line(block, name)
    if start < 0:
        return None
    value = start + len(name) + 1
    end = block.find(_LINE_END, value)
    if end < 0:
        end = len(block)
    while value < end and block[value] == _SPACE:
        value += 1
    return block[value:end]


def _line(block: bytes, name: bytes) -> int:
    """Return the index of the first line called `name`, or -1."""
    at = block.find(_LINE_END + name + b":")
    return at + 2 if at >= 0 else -1


def add(block: bytes, name: bytes, value: bytes) -> bytes:
    """Return `block` with one more line at its end."""
    if not block:
        return b"%b\r\n%b: %b\r\n\r\n" % (_VERSION, name, value)
    return b"%b%b: %b\r\n\r\n" % (block[:-2], name, value)


def replace(block: bytes, name: bytes, value: bytes) -> bytes:
    """Return `block` with the value of `name` replaced, or added."""
    start = _line(block, name)
    if start < 0:
        return add(block, name, value)
    at = start + len(name) + 1
    if block[at : at + 1] == b" ":
        at += 1
    end = block.find(b"\r", at)
    return block if end < 0 else block[:at] + value + block[end:]


def remove(block: bytes, name: bytes) -> bytes:
    """Return `block` without the lines called `name`; nothing if no line is left."""
    while (start := _line(block, name)) >= 0:
        end = block.find(_LINE_END, start)
        if end < 0:
            return block
        block = block[:start] + block[end + 2 :]
        if len(block) <= _EMPTY_SIZE:
            return b""
    return block


def remove_prefix(block: bytes, prefix: bytes) -> bytes:
    """Return `block` without the lines that begin with `prefix`; nothing if no line is left."""
    while (at := block.find(b"\n" + prefix)) >= 0:
        end = block.find(_LINE_END, at + 1)
        if end < 0:
            return block
        block = block[: at + 1] + block[end + 2 :]
        if len(block) <= _EMPTY_SIZE:
            return b""
    return block


def to_store(block: bytes) -> bytes:
    """Return the stored form of a published header block: without status, and not traced again."""
    if not block.startswith(_VERSION):
        return block
    end = block.find(b"\r")
    if end > len(_VERSION):
        block = _VERSION + block[end:]
        if len(block) == _EMPTY_SIZE:
            return b""
    return block


def without_request_info(block: bytes) -> bytes:
    """Return `block` without the header that a service import added."""
    return remove(block, REQUEST_INFO)


def untraced(block: bytes, values: dict[bytes, bytes]) -> bytes:
    """Return `block` changed so that deliveries of the stored message are not traced."""
    if not values.get(TRACE_DESTINATION) or is_trace_only(values):
        return block
    return replace(block, TRACE_DESTINATION, _TRACE_DISABLED)


def is_trace_only(values: dict[bytes, bytes]) -> bool:
    """Return whether a message is to be traced but not stored."""
    if not values.get(TRACE_DESTINATION):
        return False
    return values.get(_TRACE_ONLY, b"").lower() in {b"1", b"true", b"on"}


def parse_number(text: bytes) -> int:
    """Return the decimal number in `text`, or -1; it wraps around as nats-server's does."""
    if not text.isdigit():
        return -1
    number = int(text[-_DIGITS_MAX:]) & _WORD
    return number - (1 << 64) if number >> 63 else number
