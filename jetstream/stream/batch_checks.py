"""The checks of a batch, made before any of its messages is stored.

A message is checked against the stream and the earlier messages of its batch: their ids, subjects
and counters, and their share of the limits.
"""

from __future__ import annotations

from midge.jetstream import errors, headers
from midge.jetstream.stream import admission, checks, counters, schedule_checks
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.ttl import INVALID, parse_ttl
from midge.protocol.errors import quote


class DuplicateId(Refused):
    """The id of a message is known; `seq` is what it got, 0 when it stands in the same batch."""

    def __init__(self, seq: int) -> None:
        super().__init__(errors.ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE)
        self.seq = seq


class Stage:
    """The changes that the messages of one batch would make."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        self._ids: set[bytes] = set()
        self._counts: dict[bytes, int] = {}
        self._schedules: dict[bytes, bool] = {}
        self._totals: dict[bytes, tuple[int, counters.Sources]] = {}
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
            schedule_checks.check(stream, message, self._schedule_of)
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
            known = counters.read(stream.store.load(stream.store.last_for_subject(subject)))
        total, sources = known[0] + message.increment, known[1]
        counters.set_total(message, total, sources)
        counters.check_size(stream, message)
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
