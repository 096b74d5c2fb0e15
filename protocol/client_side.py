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
from midge.protocol.stream_parser import parse_size

PING = b"PING\r\n"
PONG = b"PONG\r\n"

_CONTROLS = (b"PING", b"PONG", b"INFO", b"-ERR", b"+OK")
_BEFORE_REPLY = 2
"""Blanks between the subject and a reply."""
_H, _SPACE, _CR, _LF, _DOT, _ZERO, _NINE = b"H \r\n.09"
_ACK_DOTS = 8
_SEQ_DOTS = 5
_INT64_DIGITS = 19
_LINE_MAX_BYTES = 1 << 20
"""The longest control line accepted: an INFO with thousands of cluster URLs is far below it."""


class ReceivedMessage(NamedTuple):
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
        self._blanks = self._first = self._second = self._before = self._last = 0

    def feed(self, data: bytes) -> list[ReceivedMessage]:
        """Return the messages that `data` completes.

        Raises:
            ProtocolError: this is not the NATS protocol.

        """
        self._chunks.append(data)
        self._have_bytes += len(data)
        if self._have_bytes < self._need_bytes:
            return []
        buffer = b"".join(self._chunks) if len(self._chunks) > 1 else data
        messages: list[ReceivedMessage] = []
        consumed = self._scan(buffer, messages)
        rest = buffer[consumed:]
        self._chunks = [rest] if rest else []
        self._have_bytes = len(rest)
        return messages

    def _scan(self, buffer: bytes, messages: list[ReceivedMessage]) -> int:
        """Append every whole message to `messages`; return where the first unfinished frame is."""
        position, size = 0, len(buffer)
        # Every index lies before `size`, so the pointer that this is in C stays within the bytes.
        data = buffer
        # What Message(…) does, without the Python function around it: a third of the loop's time.
        new = tuple.__new__
        while position < size:
            sizes = 2 if data[position] == _H else 1
            start = position + sizes + 3
            if start > size or buffer[position:start] != (b"MSG " if sizes == 1 else b"HMSG "):
                line_end = buffer.find(b"\r\n", position)
                if line_end < 0:
                    return self._unfinished_line(buffer, position)
                self.controls.append(_control(buffer[position:line_end]))
                position = line_end + 2
                continue
            line_end = self._line_end(data, start, size)
            if line_end < 0:
                return self._unfinished_line(buffer, position)
            begin = line_end + 2
            # A reply is optional; some servers write an empty one as two blanks.
            has_reply = self._blanks == _BEFORE_REPLY + sizes
            total = parse_size(data, self._last + 1, line_end)
            header = parse_size(data, self._before + 1, self._last) if sizes > 1 else 0
            if total < 0 or header < 0 or not (has_reply or self._blanks == 1 + sizes):
                raise _not_nats(buffer[position:line_end])
            end = begin + total
            body = begin + header
            if end + 2 > size:
                self._need_bytes = end + 2 - position
                return position
            reply_end = self._before if sizes > 1 else self._last
            if body > end or data[end] != _CR or data[end + 1] != _LF:
                subject = buffer[start : self._first]
                raise ProtocolError(
                    None, f"a message on {subject!r} does not end where its size says"
                )
            fields = (
                buffer[start : self._first],
                buffer[self._first + 1 : self._second],
                buffer[self._second + 1 : reply_end] if has_reply else b"",
                buffer[begin:body],
                buffer[body:end],
            )
            messages.append(new(ReceivedMessage, fields))
            position = end + 2
        self._need_bytes = 1
        return position

    def _line_end(self, data: bytes, start: int, size: int) -> int:
        """Return the end of a line, -1 without one; note the first, second and last two blanks."""
        self._blanks = self._first = self._second = self._before = self._last = 0
        for at in range(start, size - 1):
            if data[at] == _SPACE:
                self._blanks += 1
                self._before, self._last = self._last, at
                if self._blanks == 1:
                    self._first = at
                elif self._blanks == _BEFORE_REPLY:
                    self._second = at
            elif data[at] == _CR and data[at + 1] == _LF:
                return at
        return -1

    def _unfinished_line(self, buffer: bytes, position: int) -> int:
        """Return `position`: the line may still grow into a valid one, unless it is too long."""
        if len(buffer) - position > _LINE_MAX_BYTES:
            raise _not_nats(buffer[position:])
        self._need_bytes = len(buffer) - position + 1
        return position


def delivery_columns(messages: list[ReceivedMessage]) -> tuple[list[int], list[int], int]:
    """Return the sequences, times in ns, and the last pending count of messages of one consumer.

    Their reply subjects read `$JS.ACK.[domain.account.]stream.consumer.n.seq.cseq.time.pending`,
    with a further token after a domain.

    Raises:
        ValueError: one is not such a subject.
    """
    seqs: list[int] = []
    times_ns: list[int] = []
    pending = 0
    for message in messages:
        reply = message[2]
        data = reply
        size = len(reply)
        dots = 0
        for at in range(size):
            if data[at] == _DOT:
                dots += 1
        # The token after seven dots of the longer form is that after five of the shorter one.
        skipped = _SEQ_DOTS if dots == _ACK_DOTS else _SEQ_DOTS + 2
        token = number = digits = 0
        for at in range(size + 1):
            if at < size and data[at] != _DOT:
                if token >= skipped:
                    if not _ZERO <= data[at] <= _NINE or digits == _INT64_DIGITS:
                        raise _not_an_ack(reply)
                    number = 10 * number + data[at] - _ZERO
                    digits += 1
                continue
            if token >= skipped and not digits:
                raise _not_an_ack(reply)
            if token == skipped:
                seqs.append(number)
            elif token == skipped + 2:
                times_ns.append(number)
            elif token == skipped + 3:
                pending = number
                break
            token += 1
            number = digits = 0
        else:
            raise _not_an_ack(reply)
    return seqs, times_ns, pending


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


def _not_an_ack(reply: bytes) -> ValueError:
    return ValueError(f"expected a JetStream reply subject, got {reply!r}")


def _not_nats(data: bytes) -> ProtocolError:
    return ProtocolError(None, f"this is not the NATS protocol: {data[:80]!r}")


def _control(line: bytes) -> Control:
    for verb in _CONTROLS:
        if line.startswith(verb):
            return Control(verb, line[len(verb) :].strip())
    raise _not_nats(line)
