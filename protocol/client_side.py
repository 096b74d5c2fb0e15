"""The client's half of the NATS protocol, sans-I/O: reading what servers send, writing commands.

`parser.py` reads the commands of clients; a client needs the other direction. Every client here is
built on this module: the pipeline's client, `midge bench` and the clients of the tests. Verbs and
layouts follow the protocol's documentation: `MSG subject sid [reply] size` and
`HMSG subject sid [reply] headers total`.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from midge.protocol.errors import ProtocolError

PING = b"PING\r\n"
PONG = b"PONG\r\n"

_CONTROLS = (b"PING", b"PONG", b"INFO", b"-ERR", b"+OK")
_SIZE_DIGITS_MAX = 10
_WORDS_WITH_REPLY = 5
_LINE_MAX_BYTES = 1 << 20
"""The longest control line accepted: an INFO with thousands of cluster URLs is far below it."""


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


class FrameReader:
    """Cuts the bytes that a server sends into messages and control lines.

    Any split of the bytes gives the same result. A frame that arrives in many pieces is joined
    once, when its last byte has arrived.
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
            ProtocolError: this is not the NATS protocol.

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
                raise ProtocolError(
                    None, f"a message on {subject!r} does not end where its size says"
                )
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


def read_info(document: bytes) -> dict[str, Any]:
    """Return the fields of an INFO. Raises: ProtocolError when it is not a JSON object."""
    try:
        info = json.loads(document)
    except ValueError as error:
        raise ProtocolError(None, f"INFO is not JSON: {document[:80]!r}") from error
    if not isinstance(info, dict):
        raise ProtocolError(None, f"INFO is not a JSON object: {document[:80]!r}")
    return info


# Commands. The caller makes sure that subjects, queue names and sids have no blank, CR or LF.


def connect_line(options: Mapping[str, object]) -> bytes:
    """Return CONNECT with `options`."""
    return b"CONNECT %b\r\n" % json.dumps(options, separators=(",", ":")).encode()


def subscribe_line(subject: bytes, sid: bytes, queue: bytes = b"") -> bytes:
    """Return SUB, in the group `queue` if one is named."""
    return b"SUB %b %b%b%b\r\n" % (subject, queue, b" " if queue else b"", sid)


def unsubscribe_line(sid: bytes, max_messages: int = 0) -> bytes:
    """Return UNSUB: at once, or after `max_messages` in all."""
    return b"UNSUB %b %d\r\n" % (sid, max_messages) if max_messages else b"UNSUB %b\r\n" % sid


def publish_frame(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return PUB, or HPUB if `headers`, a whole block, is not empty; `reply` may be empty."""
    to = b"%b %b" % (subject, reply) if reply else subject
    if headers:
        sizes = (len(headers), len(headers) + len(payload))
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (to, *sizes, headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (to, len(payload), payload)


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


def _not_nats(data: bytes) -> ProtocolError:
    return ProtocolError(None, f"this is not the NATS protocol: {data[:80]!r}")


def _control(line: bytes) -> Control:
    for verb in _CONTROLS:
        if line.startswith(verb):
            return Control(verb, line[len(verb) :].strip())
    raise _not_nats(line)
