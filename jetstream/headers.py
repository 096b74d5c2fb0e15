"""Find, read and change the headers of a message as bytes, as nats-server does.

A name is compared byte by byte, its first line counts, and blanks before the value are ignored. A
client may send any bytes as a block: they are stored as they came, and made whole where a line is
added. `HeaderScan` has a first look at a block where it lies in its connection's buffer.
"""

from __future__ import annotations

from midge.jetstream.json.encode import text as to_text
from midge.jetstream.json.times import SECOND_NS, TimeProblem, parse_duration

NOTHING = 0
MSG_ID = 1
OTHERS = 2

_VERSION = b"NATS/1.0"
_VERSION_SIZE = 8
_EMPTY_SIZE = 12  # length of a block without lines
_LINE_END = b"\r\n"
_NATS_LINE = b"\nNats-"
_CR = 0x0D
_LF = 0x0A
_COLON = 0x3A
_SPACE = 0x20
_FIRST_LINE = 10  # bytes of ``NATS/1.0`` and its line end
_NATS = b"Nats-"
_MSG_ID = b"Msg-Id:"

NEVER = -1
"""The TTL of a message that even the stream's age limit does not remove."""

INVALID = -2
"""Not a TTL."""

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
_KNOWN_BY_LENGTH = [
    [name for name in _KNOWN if len(name) == length] for length in range(max(map(len, _KNOWN)) + 1)
]
_TRACE_DISABLED = b"trace disabled"


class HeaderScan:
    """A first look at a block, and its result: the message id is ``data[id_start:id_end]``.

    Most messages have no header that concerns a stream, or the message id alone. These are
    recognised here without an object being made.
    """

    __slots__ = ("id_end", "id_start")

    def __init__(self) -> None:
        self.id_start = 0
        self.id_end = 0

    def scan(self, data: bytes | bytearray, start: int, end: int) -> int:
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

    def _begins(self, data: bytes | bytearray, at: int, end: int, word: bytes, length: int) -> bool:
        """Return whether `word`, of `length` bytes, stands at `at`."""
        if at + length > end:
            return False
        for i in range(length):  # noqa: SIM110 - compiled, this is a loop in C
            if data[at + i] != word[i]:
                return False
        return True

    def _trim(self, data: bytes | bytearray, line_end: int) -> None:
        """Leave out the blanks before the value that ends at `line_end`."""
        self.id_end = line_end
        while self.id_start < line_end and data[self.id_start] == _SPACE:
            self.id_start += 1


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
            name = _known(data, start, colon)
            if name is None and not has_unknown and _begins(data, start, colon, _SCHEDULE):
                has_unknown = True
                name = block[start:colon]
            if name is not None and name not in found:
                value = colon + 1
                while value < end and data[value] == _SPACE:
                    value += 1
                found[name] = block[value:end]
        at = end + 1  # most often the next line is another one
        if not _begins(data, at, last, _NATS_LINE):
            at = block.find(_NATS_LINE, at)
    return found or None


def _known(data: bytes, start: int, end: int) -> bytes | None:
    """Return the header that `data[start:end]` names if streams read it."""
    if end - start >= len(_KNOWN_BY_LENGTH):
        return None
    names = _KNOWN_BY_LENGTH[end - start]
    for name in names:
        if _begins(data, start, end, name):
            return name
    return None


def _begins(data: bytes, start: int, end: int, word: bytes) -> bool:
    """Return whether `data[start:end]` begins with `word`."""
    length = len(word)
    if start + length > end:
        return False
    letters = word
    for i in range(length):  # noqa: SIM110 - compiled, this is a loop in C
        if data[start + i] != letters[i]:
            return False
    return True


def whole(block: bytes) -> bytes:
    """Return `block` as a status line, header lines and a blank line.

    Clients may send any bytes as a block. A last line without its end gets one; everything from the
    first line without a name on is left out, all of a block without a status line.
    """
    if not block.endswith(b"\n"):
        block = block.rstrip(b"\r") + _LINE_END
    data = block
    size = len(block)
    at = _VERSION_SIZE
    kept = 0
    if _begins(data, 0, size, _VERSION) and (data[at] == _CR or data[at] == _SPACE):
        while True:
            while data[at] != _CR and data[at] != _LF:
                at += 1
            if data[at] == _LF or data[at + 1] != _LF:
                break
            at += 2
            kept = start = at
            while at < size and data[at] != _COLON and data[at] > _SPACE:
                at += 1
            if at == start or at == size or data[at] != _COLON:
                break
    if kept == 0:
        return b"NATS/1.0\r\n\r\n"
    if kept + 2 == size and _begins(data, kept, size, _LINE_END):
        return block
    return block[:kept] + _LINE_END


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
    return b"%b%b\r\n" % (whole(block)[:-2], lines)


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


def parse_ttl(value: bytes) -> int:
    """Return the seconds that ``Nats-TTL`` says: 0 for none, `NEVER`, or `INVALID`."""
    if not value:
        return 0
    if value.lower() == b"never":
        return NEVER
    try:
        duration_ns = parse_duration(to_text(value))
    except TimeProblem:
        seconds = parse_number(value)
        return seconds if seconds >= 0 else INVALID
    return duration_ns // SECOND_NS if duration_ns >= SECOND_NS else INVALID
