"""Checks of the headers of a message that is a schedule, or that ends one."""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream import errors, headers
from midge.jetstream.json.encode import text
from midge.jetstream.stream import cron
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.ttl import INVALID, parse_ttl
from midge.sublist.subjects import is_valid_publish_subject, matches

PURGE = b"purge"
"""The value of ``Nats-Schedule-Next`` that ends a schedule."""

_SCHEDULE_HEADERS = (names.SCHEDULE, names.SCHEDULE_TIME_ZONE)
_PREFIX = b"Nats-Schedule"


def check(
    stream: StreamHost, message: Incoming, is_schedule: Callable[[bytes], bool | None]
) -> None:
    """Refuse a malformed schedule; a valid one rolls its subject up from now on.

    `is_schedule` returns whether the last message of a subject is a schedule, None without one.

    Raises:
        Refused: with the error to answer.
    """
    if not any(name.startswith(_PREFIX) for name in message.values):
        return
    if any(name in message.values for name in _SCHEDULE_HEADERS):
        _check_schedule(stream, message)
    _check_scheduler(stream, message, is_schedule)


def due_ns(values: dict[bytes, bytes], after_ns: int, now_ns: int) -> int:
    """Return when the schedule that `values` describe is due next; 0 when they describe none.

    Raises:
        Refused: the pattern or the time zone is invalid.
    """
    zone_name = values.get(names.SCHEDULE_TIME_ZONE)
    try:
        zone = cron.zone_of(None if zone_name is None else text(zone_name))
        pattern = text(values.get(names.SCHEDULE, b""))
        return cron.next_time(pattern, zone, after_ns, now_ns)[0] if pattern else 0
    except cron.ZoneProblem:
        raise Refused(errors.MESSAGE_SCHEDULES_TIME_ZONE_INVALID) from None
    except cron.PatternProblem:
        raise Refused(errors.MESSAGE_SCHEDULES_PATTERN_INVALID) from None


def _check_schedule(stream: StreamHost, message: Incoming) -> None:
    try:
        due = due_ns(message.values, stream.now_ns, stream.now_ns)
    except Refused:
        if not stream.config.allow_msg_schedules:
            raise Refused(errors.MESSAGE_SCHEDULES_DISABLED) from None
        raise
    if not due:
        return
    if not stream.config.allow_msg_schedules:
        raise Refused(errors.MESSAGE_SCHEDULES_DISABLED)
    ttl = message.value(names.SCHEDULE_TTL)
    if parse_ttl(ttl) == INVALID:
        raise Refused(errors.MESSAGE_SCHEDULES_TTL_INVALID)
    if message.value(names.SCHEDULE_ROLLUP) not in {b"", names.ROLLUP_SUBJECT}:
        raise Refused(errors.MESSAGE_SCHEDULES_ROLLUP_INVALID)
    if ttl and not stream.config.allow_msg_ttl:
        raise Refused(errors.MESSAGE_TTL_DISABLED)
    _check_subjects(stream, message)
    rollup = message.value(names.ROLLUP).lower()
    if not rollup:
        message.headers = headers.add(message.headers, names.ROLLUP, names.ROLLUP_SUBJECT)
        message.values = {**message.values, names.ROLLUP: names.ROLLUP_SUBJECT}
        limit = stream.config.max_msg_size
        if 0 <= limit < len(message.headers) + len(message.payload):
            raise Refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
    elif rollup != names.ROLLUP_SUBJECT:
        raise Refused(errors.MESSAGE_SCHEDULES_ROLLUP_INVALID)


def _check_subjects(stream: StreamHost, message: Incoming) -> None:
    """Refuse a target or a source outside the stream, or that is the schedule itself."""
    target = message.value(names.SCHEDULE_TARGET)
    source = message.value(names.SCHEDULE_SOURCE)
    if not is_valid_publish_subject(target) or target == message.subject:
        raise Refused(errors.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and (source in {target, message.subject} or not is_valid_publish_subject(source)):
        raise Refused(errors.MESSAGE_SCHEDULES_SOURCE_INVALID)
    if not any(matches(target, subject) for subject in stream.subjects):
        raise Refused(errors.MESSAGE_SCHEDULES_TARGET_INVALID)
    if source and not any(matches(source, subject) for subject in stream.subjects):
        raise Refused(errors.MESSAGE_SCHEDULES_SOURCE_INVALID)


def _check_scheduler(
    stream: StreamHost, message: Incoming, is_schedule: Callable[[bytes], bool | None]
) -> None:
    """Refuse a message that says it ends a schedule, unless it does."""
    following = message.value(names.SCHEDULE_NEXT)
    scheduler = message.value(names.SCHEDULER)
    if not following:
        if scheduler:
            raise Refused(errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
        return
    if (
        following != PURGE
        or scheduler == message.subject
        or not is_valid_publish_subject(scheduler)
    ):
        raise Refused(errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
    if not stream.config.allow_msg_schedules:
        raise Refused(errors.MESSAGE_SCHEDULES_DISABLED)
    if is_schedule(scheduler) is False:
        raise Refused(errors.MESSAGE_SCHEDULES_SCHEDULER_INVALID)
