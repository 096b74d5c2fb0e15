"""Fast batches: messages whose publisher learns how many unacknowledged ones it may send.

The reply subject of a message has the data of its batch,
``<prefix>.<id>.<flow>.<ok or fail>.<sequence>.<operation>.$FI``, and answers go to it. Each message
is stored on arrival; with ``fail`` a missing one ends the batch.
"""

from __future__ import annotations

from midge.jetstream import errors, headers
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.errors import ApiError
from midge.jetstream.headers import parse_number
from midge.jetstream.json.encode import encode, text
from midge.jetstream.stream import batches
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.batches import OpenBatches, check_room
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.stream_host import StreamHost
from midge.protocol.errors import quote

SUFFIX = b".$FI"
_ID_MAX_BYTES = 64
_FLOW_DEFAULT = 10
_FLOW_MAX = 65535
_FLOW_SHARE = 500
"""Messages between two acks that all publishers of a stream share; a lone one starts with it."""

_START, _APPEND, _COMMIT, _COMMIT_BEFORE, _PING = range(5)


class _Request:
    """The fields of a message's reply subject."""

    __slots__ = ("batch_id", "flow", "gap_ok", "operation", "sequence")

    def __init__(self, batch_id: bytes, flow: int, gap_ok: bool, sequence: int, op: int) -> None:
        self.batch_id = batch_id
        self.flow = flow
        self.gap_ok = gap_ok
        self.sequence = sequence
        self.operation = op

    @property
    def commits(self) -> bool:
        """Return whether the message ends the batch."""
        return self.operation in {_COMMIT, _COMMIT_BEFORE}


class _FastBatch:
    """One open batch: the last sequence of it that came, that was stored, and that was acked."""

    __slots__ = (
        "acked",
        "every",
        "gap_ok",
        "last",
        "most",
        "stored",
        "stream_seq",
    )

    def __init__(self, gap_ok: bool, most: int, every: int) -> None:
        self.gap_ok = gap_ok
        self.most = most
        self.every = every
        self.last = 0
        self.stored = 0
        self.acked = 0
        self.stream_seq = 0


class FastBatches:
    """The open fast batches of a stream, by id."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        limits = stream.surroundings.bounds.batches
        self._open: OpenBatches[_FastBatch] = OpenBatches(
            stream.clock, limits.fast, limits.timeout_ns
        )

    def takes(self, message: Incoming) -> bool:
        """Take a message that belongs to a fast batch; False when it belongs to none."""
        if len(message.reply) <= len(SUFFIX) or not message.reply.endswith(SUFFIX):
            return False
        try:
            self._take(_read(message.reply), message)
        except Refused as refused:
            self._stream.refuse(message, refused.api)
        return True

    def clear(self) -> None:
        """Forget all open batches."""
        self._open.clear()

    def _take(self, request: _Request | None, message: Incoming) -> None:
        self._check(message)
        if request is None:
            raise Refused(errors.BATCH_PUBLISH_INVALID_PATTERN)
        if len(request.batch_id) > _ID_MAX_BYTES:
            raise Refused(errors.BATCH_PUBLISH_INVALID_BATCH_ID)
        batch = self._open.get(request.batch_id) or self._begin(request)
        level = message.value(names.REQUIRED_API_LEVEL)
        if level:
            if not is_known_level(text(level)):
                self._open.close(request.batch_id)
                raise Refused(errors.REQUIRED_API_LEVEL)
            message.headers = headers.remove(message.headers, names.REQUIRED_API_LEVEL)
        self._open.rearm(request.batch_id, self._time_out)
        if request.operation == _PING:
            self._ping(request, batch, message.reply)
        elif self._follows(request, batch, message.reply):
            self._add(request, batch, message)

    def _check(self, message: Incoming) -> None:
        stream = self._stream
        if stream.is_sealed:
            raise Refused(errors.STREAM_SEALED)
        check_room(stream, message)
        if not stream.config.allow_batched:
            raise Refused(errors.BATCH_PUBLISH_DISABLED)

    def _begin(self, request: _Request) -> _FastBatch:
        if request.sequence != 1:
            raise Refused(errors.BATCH_PUBLISH_UNKNOWN_BATCH_ID)
        if not self._open.has_room():
            raise Refused(errors.BATCH_PUBLISH_TOO_MANY_INFLIGHT)
        every = min(_FLOW_SHARE, request.flow) if not self._open else 1
        batch = _FastBatch(request.gap_ok, request.flow, every)
        self._open.add(request.batch_id, batch)
        return batch

    def _ping(self, request: _Request, batch: _FastBatch, reply: bytes) -> None:
        """Answer with the progress of the batch; a message missing by then is a gap."""
        if request.sequence > batch.last:
            self._send_gap(reply, batch.last + 1, request.sequence + 1)
            if not batch.gap_ok:
                self._commit(request.batch_id, batch, reply)
                return
            batch.last = batch.stored = request.sequence
            if self._check_flow(batch, reply):
                return
        self._send_flow(reply, batch.acked, batch.every)

    def _follows(self, request: _Request, batch: _FastBatch, reply: bytes) -> bool:
        """Return whether a message is the next one, or may be taken for it."""
        expected = batch.last + 1
        if request.sequence > expected:
            self._send_gap(reply, expected, request.sequence)
        if request.sequence == expected or (batch.gap_ok and request.sequence > expected):
            batch.last = request.sequence
            return True
        self._commit(request.batch_id, batch, reply)
        return False

    def _add(self, request: _Request, batch: _FastBatch, message: Incoming) -> None:
        """Store a message, or end the batch before it."""
        if request.operation == _COMMIT_BEFORE:
            batch.last -= 1
            batch.stored = batch.last
            self._commit(request.batch_id, batch, message.reply)
            return
        if request.sequence == 1 and not request.commits and self._stream.acks:
            self._send_flow(message.reply, 0, batch.every)
        try:
            batches.StagedBatch(self._stream).check(message)
        except batches.DuplicateId as duplicate:
            self._duplicate(request, batch, message, duplicate.seq)
            return
        except Refused as refused:
            self._failed(request, batch, message, refused.api)
            return
        message.is_checked = True
        batch.stream_seq = self._stream.store_message(message)
        batch.stored = batch.last
        if request.commits:
            self._commit(request.batch_id, batch, message.reply)
        else:
            self._check_flow(batch, message.reply)

    def _duplicate(self, request: _Request, batch: _FastBatch, message: Incoming, seq: int) -> None:
        """Pass over a message that is stored already."""
        batch.stored = request.sequence
        self._check_flow(batch, message.reply)
        if not request.commits:
            return
        if not request.gap_ok and batch.last == 1:
            self._open.close(request.batch_id)
            shown = quote(request.batch_id).encode("utf-8", "surrogateescape")
            tail = b',"duplicate": true,"batch":%b,"count":%d}' % (shown, request.sequence)
            self._stream.acknowledge(message, seq, tail)
            return
        self._commit(request.batch_id, batch, message.reply)

    def _failed(
        self, request: _Request, batch: _FastBatch, message: Incoming, error: ApiError
    ) -> None:
        """Send the error of a message that cannot be stored; without gaps it ends the batch."""
        if not request.gap_ok and batch.last == 1:
            self._open.close(request.batch_id)
            self._stream.refuse(message, error)
            return
        self._send(message.reply, {"type": "err", "seq": request.sequence, "error": error.fields()})
        if request.gap_ok and not request.commits:
            return
        batch.last -= 1
        batch.stored = batch.last
        self._commit(request.batch_id, batch, message.reply)

    def _commit(self, batch_id: bytes, batch: _FastBatch, reply: bytes) -> None:
        """End a batch, and acknowledge its stored messages."""
        self._open.close(batch_id)
        shown = quote(batch_id).encode("utf-8", "surrogateescape")
        tail = b',"batch":%b,"count":%d}' % (shown, batch.last)
        self._stream.answers.send(
            reply, b"", self._stream.ack_head + b"%d" % batch.stream_seq + tail, True
        )

    def _check_flow(self, batch: _FastBatch, reply: bytes) -> bool:
        """Ack when enough has come, and let the publisher go faster or slower."""
        if batch.stored < batch.acked + batch.every:
            return False
        batch.acked += (batch.stored - batch.acked) // batch.every * batch.every
        most = min(max(_FLOW_SHARE // len(self._open), 1), batch.most)
        if batch.every < most:
            batch.every = min(batch.every * 2, most)
        elif batch.every > most:
            batch.every = max(batch.every // 2, most)
        self._send_flow(reply, batch.acked, batch.every)
        return True

    def _send_flow(self, reply: bytes, sequence: int, every: int) -> None:
        self._send(reply, {"type": "ack", "seq": sequence, "msgs": every})

    def _send_gap(self, reply: bytes, expected: int, sequence: int) -> None:
        self._send(reply, {"type": "gap", "last_seq": expected, "seq": sequence})

    def _send(self, reply: bytes, fields: dict[str, object]) -> None:
        self._stream.answers.send(reply, b"", encode(fields), False)

    def _time_out(self, batch_id: bytes) -> None:
        self._open.close(batch_id)


def _read(reply: bytes) -> _Request | None:
    """Return what a reply subject says; None when it is malformed."""
    tokens = reply[: -len(SUFFIX)].rsplit(b".", 5)
    if len(tokens) < 6:
        return None
    _, batch_id, flow, gap, sequence, operation = tokens
    op = parse_number(operation)
    if not _START <= op <= _PING or gap not in {b"ok", b"fail"}:
        return None
    number = int(sequence) if sequence.isdigit() and len(sequence) <= 20 else 0
    if not 0 < number < (1 << 64) - 1:
        return None
    begins = number == 1
    if (begins and op in {_APPEND, _COMMIT_BEFORE}) or (not begins and op == _START):
        return None
    limit = parse_number(flow)
    limit = _FLOW_DEFAULT if limit <= 0 else min(limit, _FLOW_MAX)
    return _Request(batch_id, limit, gap == b"ok", number, op)
