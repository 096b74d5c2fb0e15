"""Atomic batches: messages that are stored together, or not at all.

The messages of an open batch wait in memory. They are checked when the batch commits, each against
the stream and against the earlier messages of the batch.
"""

from __future__ import annotations

from midge.jetstream import errors, headers
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.errors import ApiError
from midge.jetstream.json.encode import text
from midge.jetstream.stream import batch_checks
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.open_batches import OpenBatches

_ID_MAX_BYTES = 64
_COMMIT = b"1"
_COMMIT_BEFORE = b"eob"


class _Batch:
    """One open batch."""

    __slots__ = ("messages", "size")

    def __init__(self) -> None:
        self.messages: list[Incoming] = []
        self.size = 0


class AtomicBatches:
    """The open batches of a stream, by id."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        limits = stream.surroundings.bounds.batches
        self._size_max = limits.atomic_size
        self._open: OpenBatches[_Batch] = OpenBatches(
            stream.clock, limits.atomic, limits.timeout_ns, self._time_out
        )

    def takes(self, message: Incoming) -> bool:
        """Take a message that belongs to a batch; False when it belongs to none."""
        batch_id = message.values.get(names.BATCH_ID)
        if not batch_id:
            return False
        try:
            self._take(batch_id, message)
        except Refused as refused:
            self._stream.refuse(message, refused.api)
        return True

    def clear(self) -> None:
        """Forget all open batches."""
        self._open.clear()

    def _take(self, batch_id: bytes, message: Incoming) -> None:
        self._check(batch_id, message)
        sequence = _sequence(message)
        commit = message.values.get(names.BATCH_COMMIT)
        batch = self._open.get(batch_id) or self._begin(batch_id, sequence, commit)
        self._check_commit(batch_id, commit)
        self._check_level(batch_id, message)
        self._open.rearm(batch_id)
        batch.size += 1
        if batch.size != sequence or (sequence == 1 and commit == _COMMIT_BEFORE):
            self._abandon(batch_id, "incomplete")
            raise Refused(errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if _size(sequence, commit) > self._size_max:
            self._abandon(batch_id, "large")
            raise Refused(self._too_large())
        batch.messages.append(message)
        if commit is not None:
            self._commit(batch_id, batch, message, commit)
        elif message.reply and self._stream.acks:
            self._stream.answers.send(message.reply, b"", b"", False)

    def _check(self, batch_id: bytes, message: Incoming) -> None:
        """Refuse what no batch of this stream can hold."""
        stream = self._stream
        if stream.is_sealed:
            raise Refused(errors.STREAM_SEALED)
        check_room(stream, message)
        if not stream.config.allow_atomic:
            raise Refused(errors.ATOMIC_PUBLISH_DISABLED)
        if len(batch_id) > _ID_MAX_BYTES:
            raise Refused(errors.ATOMIC_PUBLISH_INVALID_BATCH_ID)

    def _begin(self, batch_id: bytes, sequence: int, commit: bytes | None) -> _Batch:
        """Open a batch, which its first message must do."""
        if sequence != 1:
            if _size(sequence, commit) > self._size_max:
                raise Refused(self._too_large())
            raise Refused(errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if not self._open.has_room():
            raise Refused(errors.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        batch = _Batch()
        self._open.add(batch_id, batch)
        return batch

    def _check_commit(self, batch_id: bytes, commit: bytes | None) -> None:
        if commit is not None and commit not in {_COMMIT, _COMMIT_BEFORE}:
            self._open.close(batch_id)
            raise Refused(errors.ATOMIC_PUBLISH_INVALID_BATCH_COMMIT)

    def _check_level(self, batch_id: bytes, message: Incoming) -> None:
        level = message.value(names.REQUIRED_API_LEVEL)
        if not level:
            return
        if not is_known_level(text(level)):
            self._abandon(batch_id, "unsupported")
            raise Refused(errors.REQUIRED_API_LEVEL)
        message.headers = headers.remove(message.headers, names.REQUIRED_API_LEVEL)

    def _commit(self, batch_id: bytes, batch: _Batch, last: Incoming, commit: bytes) -> None:
        """Check and store all messages; the last one is acknowledged."""
        messages = batch.messages
        if commit == _COMMIT_BEFORE:
            messages.pop()
        self._open.close(batch_id)
        stage = batch_checks.Stage(self._stream)
        for message in messages:
            if message.value(names.EXPECTED_LAST_MSG_ID):
                header = text(names.EXPECTED_LAST_MSG_ID)
                raise Refused(errors.ATOMIC_PUBLISH_UNSUPPORTED_HEADER_BATCH.fill(header=header))
            stage.check(message)
        final = messages[-1]
        if commit == _COMMIT_BEFORE:
            final.headers = headers.add(final.headers, names.BATCH_COMMIT, _COMMIT)
        seq = 0
        for message in messages:
            message.is_checked = True
            seq = self._stream.store_message(message)
        last.batch_id = batch_id
        last.batch_size = len(messages)
        self._stream.acknowledge_batch(last, seq)

    def _time_out(self, batch_id: bytes) -> None:
        self._abandon(batch_id, "timeout")

    def _abandon(self, batch_id: bytes, reason: str) -> None:
        """Forget an open batch, and tell why."""
        self._open.close(batch_id)
        self._stream.events.batch_abandoned(batch_id, reason)

    def _too_large(self) -> ApiError:
        return errors.ATOMIC_PUBLISH_TOO_LARGE_BATCH.fill(size=self._size_max)


def check_room(stream: StreamHost, message: Incoming) -> None:
    """Refuse a message of a batch if the limit of bytes is exceeded; raises Refused."""
    if stream.usage.is_exceeded(0):
        raise Refused(errors.INSUFFICIENT_RESOURCES)
    if stream.usage.would_exceed_account(stream.contents.size_of(message)):
        raise Refused(errors.ACCOUNT_RESOURCES_EXCEEDED)
    limit = stream.config.max_msg_size
    if 0 <= limit < len(message.headers) + len(message.payload):
        raise Refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM)


def _size(sequence: int, commit: bytes | None) -> int:
    """Return how many messages a batch has by its last sequence.

    Ended before a first message that is called 0, it has 2**64 - 1, as in nats-server.
    """
    return (sequence - (commit == _COMMIT_BEFORE)) % (1 << 64)


def _sequence(message: Incoming) -> int:
    value = message.value(names.BATCH_SEQUENCE)
    if not value.isdigit() or len(value) > 20 or int(value) >= 1 << 64:
        raise Refused(errors.ATOMIC_PUBLISH_MISSING_SEQ)
    return int(value)
