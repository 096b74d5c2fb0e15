"""Find, read and change the headers of a message as bytes, as nats-server does.

A name is compared byte by byte, its first line counts, and blanks before the value are ignored. A
client may send any bytes as a block: they are stored as they came, and made whole where a line is
added.
"""

from __future__ import annotations

from midge.protocol.headers import whole_block

_VERSION = b"NATS/1.0"
_EMPTY = b"NATS/1.0\r\n\r\n"
_EMPTY_SIZE = 12  # length of a block without lines
_LINE_END = b"\r\n"
_NATS_LINE = b"\nNats-"
_CR = 0x0D
_LF = 0x0A
_COLON = 0x3A
_SPACE = 0x20

REQUEST_INFO = b"Nats-Request-Info"
"""Header in which a service import describes the requester; not stored."""

TRACE_DESTINATION = b"Nats-Trace-Dest"
_DIGITS_MAX = 64  # digits before the last 64 do not change the value modulo a power of two
_WORD = (1 << 64) - 1
_TRACE_ONLY = b"Nats-Trace-Only"
_SCHEDULE = b"Nats-Schedule"
_KNOWN = frozenset(
    (
        REQUEST_INFO,
        TRACE_DESTINATION,
        _TRACE_ONLY,
        b"Nats-Batch-Commit",
        b"Nats-Batch-Id",
        b"Nats-Batch-Sequence",
        b"Nats-Counter-Sources",
        b"Nats-Expected-Last-Msg-Id",
        b"Nats-Expected-Last-Sequence",
        b"Nats-Expected-Last-Subject-Sequence",
        b"Nats-Expected-Last-Subject-Sequence-Subject",
        b"Nats-Expected-Stream",
        b"Nats-Incr",
        b"Nats-Marker-Reason",
        b"Nats-Msg-Id",
        b"Nats-Required-Api-Level",
        b"Nats-Rollup",
        b"Nats-Schedule",
        b"Nats-Schedule-Next",
        b"Nats-Schedule-Rollup",
        b"Nats-Schedule-Source",
        b"Nats-Schedule-TTL",
        b"Nats-Schedule-Target",
        b"Nats-Schedule-Time-Zone",
        b"Nats-Scheduler",
        b"Nats-Stream-Source",
        b"Nats-TTL",
    )
)
"""The headers that streams read; `stream.incoming` names most of them."""
_TRACE_DISABLED = b"trace disabled"


def nats_headers(block: bytes) -> dict[bytes, bytes] | None:
    """Return the headers that a stream knows by their names, the first line of each.

    Of unknown ones whose names begin with ``Nats-Schedule``, which are refused, one is returned.

    Returns:
        None without such headers, which for most blocks takes a single search.
    """
    at = block.find(_NATS_LINE)
    if at < 0:
        return None
    data = block
    last = len(block) - 1
    found: dict[bytes, bytes] = {}
    has_unknown = False
    while at >= 0:
        start = at + 1
        colon = -1
        end = start
        while end < last and not (data[end] == _CR and data[end + 1] == _LF):
            if colon < 0 and data[end] == _COLON:
                colon = end
            end += 1
        if end >= last:
            break
        if at > 0 and data[at - 1] == _CR and start < colon:
            name = block[start:colon]
            is_known = name in _KNOWN
            if not is_known and not has_unknown and name.startswith(_SCHEDULE):
                is_known = has_unknown = True
            if is_known and name not in found:
                value = colon + 1
                while value < end and data[value] == _SPACE:
                    value += 1
                found[name] = block[value:end]
        at = end + 1  # most often the next line is another one
        if not block.startswith(_NATS_LINE, at):
            at = block.find(_NATS_LINE, at)
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
    """Return `block`, made whole, with one more line at its end."""
    return add_lines(block, b"%b: %b\r\n" % (name, value))


def add_lines(block: bytes, lines: bytes) -> bytes:
    """Return `block`, made whole, with `lines` at its end, each of which ends with CR LF."""
    head = whole_block(block) if block else _EMPTY
    return b"%b%b\r\n" % (head[:-2], lines)


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
    return _without(block, _LINE_END + name + b":", len(_LINE_END))


def remove_prefix(block: bytes, prefix: bytes) -> bytes:
    """Return `block` without the lines that begin with `prefix`; nothing if no line is left."""
    return _without(block, b"\n" + prefix, 1)


def _without(block: bytes, begin: bytes, before: int) -> bytes:
    """Return `block` without the lines that `begin` is found at, `before` bytes ahead of them."""
    at = block.find(begin)
    if at < 0:
        return block
    kept = []
    start = 0
    while at >= 0:
        end = block.find(_LINE_END, at + before)
        if end < 0:
            break
        kept.append(block[start : at + before])
        start = end + len(_LINE_END)
        at = block.find(begin, start - before)
    kept.append(block[start:])
    left = b"".join(kept)
    return left if len(left) > _EMPTY_SIZE or len(kept) == 1 else b""


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
