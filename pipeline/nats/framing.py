"""The server-to-client half of the NATS protocol, sans-I/O: bytes in, messages out.

`midge.protocol` reads what clients send; a client of another server needs the other direction. Only
what a server may send lives here, and no socket. Verbs and layouts are those of the protocol's
documentation: `MSG subject sid [reply] size`, `HMSG subject sid [reply] headers total`.
"""

from typing import NamedTuple

from midge.pipeline.errors import ServerError
from midge.protocol.headers import VERSION, read_headers

_CONTROLS = (b"PING", b"PONG", b"INFO", b"-ERR", b"+OK")
_SIZE_DIGITS_MAX = 10
_WORDS_WITH_REPLY = 5
_LINE_MAX_BYTES = 1 << 20
"""The longest control line believed: an INFO with thousands of cluster URLs is far below it."""


class Message(NamedTuple):
    """One delivery. `headers` is the raw block, empty without headers."""

    subject: bytes
    sid: bytes
    reply: bytes
    headers: bytes
    payload: bytes


class Control(NamedTuple):
    """One line that is not a delivery: `PING`, `PONG`, `INFO`, `-ERR` or `+OK`."""

    verb: bytes
    argument: bytes


class Headers(NamedTuple):
    """A header block taken apart. `status` is 0 unless the server itself answers."""

    status: int
    description: str
    fields: dict[str, list[str]]


class FrameReader:
    """Cut what a server sends into messages and control lines.

    Any split of the bytes gives the same result. A frame that arrives in many pieces is joined
    once, when its last byte is there.
    """

    def __init__(self) -> None:
        self.controls: list[Control] = []
        """Control lines in the order they came; the caller empties it."""
        self._chunks: list[bytes] = []
        self._have_bytes = 0
        self._need_bytes = 1

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that `data` completes.

        Raises:
            ServerError: this is not the NATS protocol.

        """
        self._chunks.append(data)
        self._have_bytes += len(data)
        if self._have_bytes < self._need_bytes:
            return []
        buffer = b"".join(self._chunks) if len(self._chunks) > 1 else data
        messages: list[Message] = []
        consumed = self._scan(buffer, messages)
        rest = buffer[consumed:]
        self._chunks = [rest] if rest else []
        self._have_bytes = len(rest)
        return messages

    def _scan(self, buffer: bytes, messages: list[Message]) -> int:
        """Append every whole message to `messages`; return where the first unfinished frame is."""
        position, size = 0, len(buffer)
        find, append = buffer.find, messages.append
        # What Message(…) does, without the Python function around it: a third of the loop's time.
        new = tuple.__new__
        while position < size:
            line_end = find(b"\r\n", position)
            if line_end < 0:
                return self._unfinished_line(buffer, position)
            words = buffer[position:line_end].split(b" ")
            begin = line_end + 2
            if words[0] == b"MSG":
                subject, sid, reply, total = _msg_arguments(words)
                body = begin
            elif words[0] == b"HMSG":
                subject, sid, reply, total = _msg_arguments(words[:-2] + words[-1:])
                body = begin + _size(words[-2])
            else:
                self.controls.append(_control(buffer[position:line_end]))
                position = begin
                continue
            end = begin + total
            if end + 2 > size:
                self._need_bytes = end + 2 - position
                return position
            if body > end or buffer[end : end + 2] != b"\r\n":
                raise ServerError(f"a message on {subject!r} does not end where its size says")
            append(new(Message, (subject, sid, reply, buffer[begin:body], buffer[body:end])))
            position = end + 2
        self._need_bytes = 1
        return position

    def _unfinished_line(self, buffer: bytes, position: int) -> int:
        """Return `position`: the line may still grow into a valid one, unless it is too long."""
        if len(buffer) - position > _LINE_MAX_BYTES:
            raise _not_nats(buffer[position:])
        self._need_bytes = len(buffer) - position + 1
        return position


def _msg_arguments(words: list[bytes]) -> tuple[bytes, bytes, bytes, int]:
    """Return subject, sid, reply and size; some servers write an empty reply as two blanks."""
    count = len(words)
    if count == _WORDS_WITH_REPLY:
        return words[1], words[2], words[3], _size(words[4])
    if count == _WORDS_WITH_REPLY - 1:
        return words[1], words[2], b"", _size(words[3])
    raise _not_nats(b" ".join(words))


def _size(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _SIZE_DIGITS_MAX:
        raise _not_nats(digits)
    return int(digits)


def _not_nats(data: bytes) -> ServerError:
    return ServerError(f"this is not the NATS protocol: {data[:80]!r}")


def _control(line: bytes) -> Control:
    for verb in _CONTROLS:
        if line.startswith(verb):
            return Control(verb, line[len(verb) :].strip())
    raise _not_nats(line)


def parse_headers(raw: bytes) -> Headers:
    r"""Take a header block apart; what is not UTF-8 comes out escaped as `\xNN`.

    Raises:
        ServerError: the block does not begin with `NATS/1.0`.

    """
    if not raw.startswith(VERSION):
        shown = raw[:40].partition(b"\r\n")[0].decode(errors="backslashreplace")
        raise ServerError(f"headers begin with {shown!r}, expected {VERSION.decode()!r}")
    code, description, fields = read_headers(raw, "backslashreplace")
    status = int(code) if code.isdecimal() and code.isascii() else 0
    return Headers(status, description, fields)
