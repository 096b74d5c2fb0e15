"""Atomic batches: messages that are stored together, or not at all.

The messages of an open batch wait in memory. They are checked when the batch commits, each against
the stream and against the earlier messages of the batch: their ids, subjects and counters, and
their share of the limits. `StagedBatch` makes these checks, for fast batches too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from midge.jetstream import errors, headers
from midge.jetstream.config.versions import is_known_level
from midge.jetstream.environment.clock import NanosecondClock, Timer
from midge.jetstream.environment.surroundings import BatchQuota
from midge.jetstream.errors import ApiError
from midge.jetstream.headers import INVALID, parse_ttl
from midge.jetstream.json.encode import text
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.stream import admission, checks, schedules
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.stream_host import StreamHost
from midge.protocol.errors import quote

Batch = TypeVar("Batch")
"""Type of the state that a stream keeps of one batch."""


class OpenBatches(Generic[Batch]):
    """Batches that have begun and not ended.

    `quota` counts the open batches of the whole server. A batch may be idle for `timeout_ns`.
    """

    def __init__(self, clock: NanosecondClock, quota: BatchQuota, timeout_ns: int) -> None:
        self._clock = clock
        self._quota = quota
        self._timeout_s = timeout_ns / SECOND_NS
        self._batches: dict[bytes, Batch] = {}
        self._timers: dict[bytes, Timer] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def get(self, batch_id: bytes) -> Batch | None:
        """Return an open batch."""
        return self._batches.get(batch_id)

    def has_room(self) -> bool:
        """Return whether stream and server may have one more."""
        quota = self._quota
        return len(self._batches) < quota.per_stream and quota.open < quota.total

    def add(self, batch_id: bytes, batch: Batch) -> None:
        """Open a batch; `rearm` begins its time."""
        self._batches[batch_id] = batch
        self._quota.open += 1

    def rearm(self, batch_id: bytes, expired: Callable[[bytes], object]) -> None:
        """Restart the time-out of a batch; `expired`, called with its id, has to close it."""
        self._stop_timer(batch_id)
        self._timers[batch_id] = self._clock.call_later(self._timeout_s, expired, batch_id)

    def close(self, batch_id: bytes) -> None:
        """Forget a batch, if it is open."""
        if self._batches.pop(batch_id, None) is not None:
            self._quota.open -= 1
            self._stop_timer(batch_id)

    def clear(self) -> None:
        """Forget all batches."""
        for batch_id in list(self._batches):
            self.close(batch_id)

    def _stop_timer(self, batch_id: bytes) -> None:
        timer = self._timers.pop(batch_id, None)
        if timer is not None:
            timer.cancel()


_ID_MAX_BYTES = 64
_COMMIT = b"1"
_COMMIT_BEFORE = b"eob"


class _AtomicBatch:
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
        self._open: OpenBatches[_AtomicBatch] = OpenBatches(
            stream.clock, limits.atomic, limits.timeout_ns
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
        self._open.rearm(batch_id, self._time_out)
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

    def _begin(self, batch_id: bytes, sequence: int, commit: bytes | None) -> _AtomicBatch:
        """Open a batch, which its first message must do."""
        if sequence != 1:
            if _size(sequence, commit) > self._size_max:
                raise Refused(self._too_large())
            raise Refused(errors.ATOMIC_PUBLISH_INCOMPLETE_BATCH)
        if not self._open.has_room():
            raise Refused(errors.ATOMIC_PUBLISH_TOO_MANY_INFLIGHT)
        batch = _AtomicBatch()
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

    def _commit(self, batch_id: bytes, batch: _AtomicBatch, last: Incoming, commit: bytes) -> None:
        """Check and store all messages; the last one is acknowledged."""
        messages = batch.messages
        if commit == _COMMIT_BEFORE:
            messages.pop()
        self._open.close(batch_id)
        stage = StagedBatch(self._stream)
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
        """Forget an open batch, and report why."""
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


class DuplicateId(Refused):
    """The id of a message is known; `seq` is what it got, 0 when it stands in the same batch."""

    def __init__(self, seq: int) -> None:
        super().__init__(errors.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
        self.seq = seq


class StagedBatch:
    """The changes that the messages of one batch would make."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        self._ids: set[bytes] = set()
        self._counts: dict[bytes, int] = {}
        self._schedules: dict[bytes, bool] = {}
        self._totals: dict[bytes, tuple[int, checks.Sources]] = {}
        self._expected: dict[bytes, int] = {}
        self._bytes = 0
        self._messages = 0

    def check(self, message: Incoming) -> None:
        """Check a message, change it as it is to be stored, and count it.

        Raises:
            Refused: with the error to answer; nothing of the batch is to be stored.
        """
        stream = self._stream
        raw_subject = message.subject
        if stream.transform is not None:
            message.subject = stream.transform.apply(raw_subject) or raw_subject
            admission.check_message(message)
        stream.contents.check_record_size(message)
        if message.headers:
            self._check_headers(message)
        self._check_counter(message)
        is_schedule = False
        if message.headers:
            self._check_expectations(message)
            schedules.check(stream, message, self._schedule_of)
            is_schedule = bool(message.value(names.SCHEDULE))
            self._check_rollup(message)
        size = stream.contents.size_of(message)
        subject = message.subject
        self._counts[subject] = self._counts.get(subject, 0) + 1
        self._schedules[subject] = is_schedule
        self._bytes += size
        self._messages += 1
        self._check_room(message)
        # Where subjects are transformed the stored one is made of the raw one once more.
        message.subject = raw_subject

    def _check_headers(self, message: Incoming) -> None:
        stream = self._stream
        if len(message.headers) > 65535:
            raise Refused(errors.STREAM_HEADER_EXCEEDS_MAXIMUM)
        checks.read_increment(stream, message)
        checks.check_expected_stream(stream, message)
        ttl_s = parse_ttl(message.value(names.TTL))
        if ttl_s and not stream.config.allow_msg_ttl:
            raise Refused(errors.MESSAGE_TTL_DISABLED)
        if ttl_s == INVALID:
            raise Refused(errors.MESSAGE_TTL_INVALID)
        msg_id = message.value(names.MSG_ID)
        if msg_id:
            if msg_id in self._ids:
                raise DuplicateId(0)
            seq = stream.dedup.find(msg_id, stream.now_ns)
            if seq:
                raise DuplicateId(seq)
            self._ids.add(msg_id)
        checks.check_source_header(message)

    def _check_counter(self, message: Incoming) -> None:
        """Make the total of a counter, which those before it in the batch have changed."""
        stream = self._stream
        if not stream.config.allow_msg_counter:
            return
        if message.increment is None:
            raise Refused(errors.MESSAGE_INCR_MISSING)
        subject = message.subject
        known = self._totals.get(subject)
        if known is None:
            known = checks.read_total(stream.store.load(stream.store.last_for_subject(subject)))
        total, sources = known[0] + message.increment, known[1]
        checks.set_total(message, total, sources)
        checks.check_total_size(stream, message)
        self._totals[subject] = (total, sources)

    def _check_expectations(self, message: Incoming) -> None:
        store = self._stream.store
        value = message.value(names.EXPECTED_LAST_SEQ)
        if value:
            last = store.last_seq + self._messages
            if checks.expected_number(value) != last:
                raise Refused(errors.STREAM_WRONG_LAST_SEQUENCE.fill(seq=last))
            if self._counts:
                raise Refused(errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
        value = message.value(names.EXPECTED_LAST_SUBJECT_SEQ)
        other = message.value(names.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
        if not value:
            if other:
                raise Refused(errors.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)
            return
        subject = other or message.subject
        if subject in self._counts:
            raise Refused(errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT)
        if subject not in self._expected:
            self._expected[subject] = checks.last_sequence_of(self._stream, subject)
        last = self._expected[subject]
        if last != checks.expected_number(value):
            raise Refused(errors.STREAM_WRONG_LAST_SEQUENCE.fill(seq=last))

    def _schedule_of(self, subject: bytes) -> bool | None:
        staged = self._schedules.get(subject)
        return self._stream.is_schedule(subject) if staged is None else staged

    def _check_rollup(self, message: Incoming) -> None:
        rollup = message.value(names.ROLLUP).lower()
        if not rollup:
            return
        if not self._stream.allows_rollup:
            raise _rollup_failed("rollup not permitted")
        if rollup == names.ROLLUP_SUBJECT:
            if message.subject in self._counts:
                raise _rollup_failed("batch rollup sub invalid")
        elif rollup == names.ROLLUP_ALL:
            if self._counts:
                raise _rollup_failed("batch rollup all invalid")
        else:
            raise _rollup_failed(f"rollup value invalid: {quote(rollup)}")

    def _check_room(self, message: Incoming) -> None:
        """Refuse what a stream that discards new messages has no room for."""
        config = self._stream.config
        store = self._stream.store
        if config.discard != "new":
            return
        if 0 < config.max_msgs < store.messages + self._messages:
            raise _full("maximum messages exceeded")
        if 0 < config.max_bytes < store.bytes + self._bytes:
            raise _full("maximum bytes exceeded")
        limit = config.max_msgs_per_subject
        if config.discard_new_per_subject and not headers.find(message.headers, names.ROLLUP):
            count = store.count_for_subject(message.subject) + self._counts[message.subject]
            if count > limit > 0:
                raise _full("maximum messages per subject exceeded")


def _rollup_failed(text: str) -> Refused:
    return Refused(errors.STREAM_ROLLUP_FAILED.fill(err=text))


def _full(text: str) -> Refused:
    return Refused(errors.STREAM_STORE_FAILED.fill(err=text))
