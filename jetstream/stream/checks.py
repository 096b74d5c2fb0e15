"""Checks of the headers of a published message, in nats-server's order."""

from __future__ import annotations

from midge.jetstream import errors
from midge.jetstream.headers import NEVER, parse_number, parse_ttl
from midge.jetstream.json.encode import text
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream import schedules
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.protocol.errors import quote

_EXPECTATIONS = (
    names.EXPECTED_STREAM,
    names.EXPECTED_LAST_MSG_ID,
    names.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    names.EXPECTED_LAST_SEQ,
    names.EXPECTED_LAST_SUBJECT_SEQ,
)
_UINT64 = 1 << 64
_DIGITS_MAX = 4200  # Python writes no total with more than 4,300
_INCREMENT_SIGNS = b"+-"


def check_headers(stream: StreamHost, message: Incoming) -> None:
    """Refuse what the message's headers do not allow, and note what they ask for.

    A message whose id is known gets its `duplicate_of` and is checked no further.

    Raises:
        Refused: with the error to answer.
    """
    values = message.values
    if not message.is_checked:
        read_increment(stream, message)
        check_expected_stream(stream, message)
        if not message.is_sourced and not stream.config.allow_msg_ttl and names.TTL in values:
            ttl_s = parse_ttl(values[names.TTL])
            if ttl_s > 0 or ttl_s == NEVER:
                raise Refused(errors.MESSAGE_TTL_DISABLED)
        _check_last_subject_sequence(stream, message)
        _check_last_sequence(stream, message)
        if not message.is_sourced:
            schedules.check(stream, message, stream.is_schedule)
            check_source_header(message)
    message.msg_id = message.value(names.MSG_ID)
    if message.msg_id and not message.is_checked and not stream.is_mirror:
        message.duplicate_of = stream.dedup.find(message.msg_id, stream.now_ns)
        if message.duplicate_of:
            return
    expected_id = message.value(names.EXPECTED_LAST_MSG_ID)
    if expected_id and expected_id != stream.last_msg_id:
        raise Refused(errors.STREAM_WRONG_LAST_MSG_ID.fill(id=text(stream.last_msg_id)))
    _check_rollup(stream, message)


def read_increment(stream: StreamHost, message: Incoming) -> None:
    """Read the increment of a counter; raises Refused."""
    value = message.value(names.INCREMENT)
    if not value:
        return
    digits = value[1:] if value[0] in _INCREMENT_SIGNS else value
    if not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise Refused(errors.MESSAGE_INCR_INVALID)
    message.increment = int(value)
    if message.is_sourced:
        return
    if not stream.config.allow_msg_counter:
        raise Refused(errors.MESSAGE_INCR_DISABLED)
    if message.payload:
        raise Refused(errors.MESSAGE_INCR_PAYLOAD)
    if message.value(names.ROLLUP) or any(message.value(name) for name in _EXPECTATIONS):
        raise Refused(errors.MESSAGE_INCR_INVALID)


def check_expected_stream(stream: StreamHost, message: Incoming) -> None:
    """Refuse a message for another stream; raises Refused."""
    expected = message.value(names.EXPECTED_STREAM)
    if expected and expected != stream.name:
        raise Refused(errors.STREAM_NOT_MATCH)


def check_source_header(message: Incoming) -> None:
    """Refuse what only the server may say; raises Refused."""
    if message.value(names.STREAM_SOURCE):
        raise Refused(errors.MESSAGE_SOURCE_HDR_NOT_ALLOWED)


def expected_number(value: bytes) -> int:
    """Return the sequence that an expectation names, an impossible one if it is not a number."""
    return parse_number(value) % _UINT64


def last_sequence_of(stream: StreamHost, subject: bytes) -> int:
    """Return the last sequence of a subject, which may hold wildcards; 0 for none."""
    if subject == b">":
        last = stream.store.last_seq
        return last if stream.store.exists(last) else 0
    return stream.store.last_matching(subject)


def _check_last_subject_sequence(stream: StreamHost, message: Incoming) -> None:
    value = message.value(names.EXPECTED_LAST_SUBJECT_SEQ)
    other = message.value(names.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
    if value:
        last = last_sequence_of(stream, other or message.subject)
        if last != expected_number(value):
            raise Refused(errors.STREAM_WRONG_LAST_SEQUENCE.fill(seq=last))
    elif other:
        raise Refused(errors.STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID)


def _check_last_sequence(stream: StreamHost, message: Incoming) -> None:
    value = message.value(names.EXPECTED_LAST_SEQ)
    if value and expected_number(value) != stream.store.last_seq:
        raise Refused(errors.STREAM_WRONG_LAST_SEQUENCE.fill(seq=stream.store.last_seq))


def _check_rollup(stream: StreamHost, message: Incoming) -> None:
    message.rollup = message.value(names.ROLLUP).lower()
    if not message.rollup:
        return
    if not stream.allows_rollup and not message.is_sourced and not message.is_checked:
        raise Refused(errors.STREAM_ROLLUP_FAILED.fill(err="rollup not permitted"))
    if message.rollup not in {names.ROLLUP_SUBJECT, names.ROLLUP_ALL}:
        err = f"rollup value invalid: {quote(message.rollup)}"
        raise Refused(errors.STREAM_ROLLUP_FAILED.fill(err=err))
