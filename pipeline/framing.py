"""The server-to-client half of the NATS protocol, sans-I/O: bytes in, messages out.

`midge.protocol` reads what clients send; a client of another server needs the other direction. Only
what a server may send lives here, and no socket. Verbs and layouts are those of the protocol's
documentation: `MSG subject sid [reply] size`, `HMSG subject sid [reply] headers total`.
"""

import re
from typing import NamedTuple

from midge.pipeline.errors import ServerError

_TOKEN = rb"([^ \t\r\n]+)"
_MSG = re.compile(rb"MSG " + _TOKEN + rb" " + _TOKEN + rb" +(?:" + _TOKEN + rb" +)?(\d{1,10})\r\n")
_HMSG = re.compile(
    rb"HMSG " + _TOKEN + rb" " + _TOKEN + rb" +(?:" + _TOKEN + rb" +)?(\d{1,10}) +(\d{1,10})\r\n"
)
_CONTROLS = (b"PING", b"PONG", b"INFO", b"-ERR", b"+OK")
_STATUS_LINE = b"NATS/1.0"
_MSG_START, _HMSG_START = b"MH"
_LINE_MAX_BYTES = 1 << 20
"""The longest control line believed: an INFO with thousands of cluster URLs is far below it."""


class Message(NamedTuple):
    """One delivery. `headers` is the raw block, empty when there is none."""

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
        append, match_msg = messages.append, _MSG.match
        # What Message(…) does, without the Python function around it: a third of the loop's time.
        new = tuple.__new__
        while position < size:
            start = buffer[position]
            if start == _MSG_START:
                found = match_msg(buffer, position)
                if found is None:
                    return self._unfinished_line(buffer, position)
                subject, sid, reply, total = found.groups()
                begin, header_bytes = found.end(), 0
                end = begin + int(total)
            elif start == _HMSG_START:
                found = _HMSG.match(buffer, position)
                if found is None:
                    return self._unfinished_line(buffer, position)
                subject, sid, reply, headers, total = found.groups()
                begin, header_bytes = found.end(), int(headers)
                end = begin + int(total)
            else:
                line_end = buffer.find(b"\r\n", position)
                if line_end < 0:
                    return self._unfinished_line(buffer, position)
                self.controls.append(_control(buffer[position:line_end]))
                position = line_end + 2
                continue
            if end + 2 > size:
                self._need_bytes = end + 2 - position
                return position
            body = begin + header_bytes
            if body > end or buffer[end : end + 2] != b"\r\n":
                raise ServerError(f"a message on {subject!r} does not end where its size says")
            fields = (subject, sid, reply or b"", buffer[begin:body], buffer[body:end])
            append(new(Message, fields))
            position = end + 2
        self._need_bytes = 1
        return position

    def _unfinished_line(self, buffer: bytes, position: int) -> int:
        """Return `position` when the line may still grow into a valid one."""
        if b"\r\n" in buffer[position:] or len(buffer) - position > _LINE_MAX_BYTES:
            raise ServerError(
                f"this is not the NATS protocol: {buffer[position : position + 80]!r}"
            )
        self._need_bytes = len(buffer) - position + 1
        return position


def _control(line: bytes) -> Control:
    for verb in _CONTROLS:
        if line.startswith(verb):
            return Control(verb, line[len(verb) :].strip())
    raise ServerError(f"this is not the NATS protocol: {line[:80]!r}")


def parse_headers(raw: bytes) -> Headers:
    r"""Take a header block apart; what is not UTF-8 comes out escaped as `\xNN`.

    Raises:
        ServerError: the block does not begin with `NATS/1.0`.

    """
    first, *lines = raw.decode(errors="backslashreplace").split("\r\n")
    if not first.startswith(_STATUS_LINE.decode()):
        raise ServerError(f"headers begin with {first[:40]!r}, expected 'NATS/1.0'")
    code, _, description = first[len(_STATUS_LINE) :].strip().partition(" ")
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), []).append(value.strip())
    status = int(code) if code.isdecimal() and code.isascii() else 0
    return Headers(status, description, fields)
