"""Checks of the headers of a published message, in nats-server's order, and its counter.

With counters, each message adds to the total of its subject, and the stream stores the total. A
counter message from another stream has that stream's total. The stream adds the growth of that
total, which it remembers in ``Nats-Counter-Sources``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors, headers
from midge.jetstream.headers import NEVER, parse_number, parse_ttl
from midge.jetstream.json.encode import decode, encode, text
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream import schedules
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.stream_host import StreamHost
from midge.protocol.errors import quote

if TYPE_CHECKING:
    from midge.jetstream.store.interface import LoadedMessage

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
_WHOLE = re.compile(r"[+-]?[0-9]{1,4200}")

Sources = dict[str, dict[str, str]]


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


def apply_increment(stream: StreamHost, message: Incoming) -> None:
    """Turn an increment into the new total of its subject.

    Raises:
        Refused: the stored or the new message is not a counter.
    """
    if message.increment is None:
        if stream.config.allow_msg_counter:
            raise Refused(errors.MESSAGE_INCR_MISSING)
        return
    if not stream.config.allow_msg_counter:
        return
    last = stream.store.load(stream.store.last_for_subject(message.subject))
    total, sources = read_total(last)
    source = message.value(names.STREAM_SOURCE)
    if source:
        message.increment = _growth(message, source, sources)
        message.headers = headers.replace(
            message.headers, names.INCREMENT, b"%d" % message.increment
        )
    total += message.increment
    set_total(message, total, sources)
    check_total_size(stream, message)


def check_total_size(stream: StreamHost, message: Incoming) -> None:
    """Refuse a total that has become too long; raises Refused."""
    limit = stream.config.max_msg_size
    limit = stream.max_payload if limit < 0 else min(limit, stream.max_payload)
    if len(message.headers) + len(message.payload) > limit:
        raise Refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM)


def read_total(last: LoadedMessage | None) -> tuple[int, Sources]:
    """Return the total in a stored message, and the totals of its source streams.

    Raises:
        Refused: the message is not a counter.
    """
    if last is None:
        return 0, {}
    total = _value(last.payload)
    given = headers.find(last.headers, names.COUNTER_SOURCES)
    if not given:
        return total, {}
    sources = _object(given)
    return total, {str(name): dict(totals) for name, totals in sources.items()}


def set_total(message: Incoming, total: int, sources: Sources) -> None:
    """Replace the payload with the total."""
    message.counter_value = str(total)
    message.payload = b'{"val":"%d"}' % total
    if sources:
        ordered = {name: dict(sorted(sources[name].items())) for name in sorted(sources)}
        message.headers = headers.replace(message.headers, names.COUNTER_SOURCES, encode(ordered))


def _growth(message: Incoming, source: bytes, sources: Sources) -> int:
    """Return what the total that a sourced message brings has grown by since the one before."""
    fields = text(source).split(" ")
    subject = fields[4] if len(fields) >= 5 else text(message.subject)
    total = _value(message.payload)
    totals = sources.setdefault(fields[0], {})
    before = totals.get(subject, "0")
    totals[subject] = str(total)
    return total - (int(before) if _WHOLE.fullmatch(before) else 0)


def _value(payload: bytes) -> int:
    value = _object(payload).get("val", "")
    if not isinstance(value, str):
        raise Refused(errors.MESSAGE_COUNTER_BROKEN)
    return int(value) if _WHOLE.fullmatch(value) else 0


def _object(payload: bytes) -> dict[str, Any]:
    try:
        read = decode(payload)
    except (ValueError, RecursionError):
        raise Refused(errors.MESSAGE_COUNTER_BROKEN) from None
    if not isinstance(read, dict):
        raise Refused(errors.MESSAGE_COUNTER_BROKEN)
    return read
