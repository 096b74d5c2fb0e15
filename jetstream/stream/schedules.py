"""Schedules: messages that are published when they are due, and the checks of their headers.

A schedule is the last message of its subject; a later message of the subject replaces it. When it
is due, its body, or the last message of its source, is published to its target. The published
message ends a schedule that fires once: both changes are in one group.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from midge.jetstream import errors, headers
from midge.jetstream.environment.clock import Timer
from midge.jetstream.headers import INVALID, parse_ttl
from midge.jetstream.json.encode import text
from midge.jetstream.json.times import SECOND_NS, TimeProblem, format_time, parse_time
from midge.jetstream.store import lookups
from midge.jetstream.stream import cron
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.pieces import WaitingPieces, in_turns, until_cached
from midge.jetstream.stream.stream_host import StreamHost
from midge.sublist.subjects import is_valid_publish_subject, matches

if TYPE_CHECKING:
    from midge.jetstream.store.interface import LoadedMessage

_PAUSE_S = 0.25
"""Least time between looks, as in nats-server."""

_LONGEST_S = 30.0
"""Longest time between looks, for the wall clock may be set forward meanwhile."""

_SCHEDULE_WORK = 3_000  # items of 10 ns, see `Store.work`: its pattern is read twice

_READY_AT_ONCE = 5_000
"""Schedules that are due together and are taken out in one turn: 5 ms."""

_PIECE_SUBJECTS = 1000
"""Subjects of which the last messages are listed at once: some 0.2 ms."""

_PIECE_BYTES = 1 << 20
_READ_COST = 1024
"""Fixed cost of reading a message, besides its bytes: 3 us, while a MiB takes some 3 ms."""

_FIRE_COST = 16 * 1024
"""Fixed cost of publishing a due schedule, besides its bytes: some 50 us."""

_AGAIN_NS = SECOND_NS
"""How soon a schedule is tried again whose message the stream does not take, as it may be full."""

Due = tuple[int, int, bytes]
"""The sequence of a schedule, when it is due, and its subject."""


class Schedules:
    """The schedules of a stream: by subject, the sequence and when it is due."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        self._by_subject: dict[bytes, tuple[int, int]] = {}
        self._due: list[tuple[int, int, bytes]] = []
        self._timer: Timer | None = None
        self._planned_ns = 0

    def start(self) -> None:
        """Take up the schedules that are stored; one that was missed meanwhile fires once.

        The message that a repeating schedule published last says when it is due next. Without one,
        it is due at the first time after the stream's last message, because nothing was published
        since.
        """
        stream = self._stream
        self._by_subject.clear()
        self._due.clear()
        if not stream.config.allow_msg_schedules:
            return
        fired: list[tuple[int, dict[bytes, bytes]]] = []
        for state in lookups.subjects(stream.store, b">"):
            message = stream.store.load(state.last_seq)
            if message is not None and message.headers:
                values = headers.nats_headers(message.headers) or {}
                last_ns = max(stream.store.last_time_ns, message.time_ns)
                self._take(message.subject, message.seq, values, message.time_ns, last_ns)
                if names.SCHEDULER in values:
                    fired.append((message.seq, values))
        for seq, values in sorted(fired, key=lambda one: one[0]):
            scheduler = values[names.SCHEDULER]
            following = values.get(names.SCHEDULE_NEXT, b"")
            if self._by_subject.get(scheduler, (seq, 0))[0] < seq:
                self._move(scheduler, following)
        self._arm()

    def read_all(self) -> WaitingPieces[None]:
        """Take up the schedules that were stored before they were allowed."""
        store = self._stream.store
        room = _PIECE_BYTES
        number = 0
        while number >= 0:
            seqs, number = lookups.newest(
                store, (), number, _PIECE_SUBJECTS, store.last_seq, _PIECE_SUBJECTS
            )
            for seq in seqs:
                yield from until_cached(store, seq)
                message = store.load(seq)
                if message is not None and store.last_for_subject(message.subject) == seq:
                    self._take_stored(message)
                room -= _READ_COST + store.size_of(seq)
                if room <= 0:
                    room = _PIECE_BYTES
                    yield None
        self._arm()

    def stop(self) -> None:
        """Publish nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._planned_ns = 0

    def stored(self, message: Incoming, seq: int) -> None:
        """Handle a stored message that is a schedule, or that ends or moves one."""
        values = message.values
        wall_ns = self._stream.clock.wall_ns()
        is_schedule = self._take(message.subject, seq, values, self._stream.now_ns, wall_ns)
        if not is_schedule and names.SCHEDULER not in values:
            self._by_subject.pop(message.subject, None)
        following = values.get(names.SCHEDULE_NEXT, b"")
        if following and following != PURGE:
            self._move(values.get(names.SCHEDULER, b""), following)
        self._arm()

    def is_schedule(self, subject: bytes) -> bool | None:
        """Return whether the last message of a subject is a schedule; None without a message."""
        store = self._stream.store
        seq = store.last_for_subject(subject)
        if seq and self._by_subject.get(subject, (0, 0))[0] == seq:
            return True
        last = store.load(seq)
        return None if last is None else bool(headers.find(last.headers, names.SCHEDULE))

    def _take_stored(self, message: LoadedMessage) -> None:
        if message.headers:
            values = headers.nats_headers(message.headers) or {}
            wall_ns = self._stream.clock.wall_ns()
            self._take(message.subject, message.seq, values, message.time_ns, wall_ns)

    def _take(
        self, subject: bytes, seq: int, values: dict[bytes, bytes], time_ns: int, fired_ns: int
    ) -> bool:
        """Keep a schedule, which has fired up to `fired_ns`; False for another message."""
        if names.SCHEDULE in values:
            self._stream.store.work += _SCHEDULE_WORK
        try:
            due_ns = next_due_ns(values, time_ns, fired_ns)
        except Refused:
            return False
        if not due_ns:
            return False
        self._keep(subject, seq, due_ns)
        return True

    def _keep(self, subject: bytes, seq: int, due_ns: int) -> None:
        self._by_subject[subject] = (seq, due_ns)
        heapq.heappush(self._due, (due_ns, seq, subject))

    def _move(self, subject: bytes, following: bytes) -> None:
        """Set a repeating schedule due at the time that it named itself."""
        kept = self._by_subject.get(subject)
        if kept is None:
            return
        try:
            self._keep(subject, kept[0], parse_time(text(following)).ns)
        except TimeProblem:
            return

    def _arm(self) -> None:
        """Plan to look when the next one is due."""
        due = self._due
        while due and self._by_subject.get(due[0][2]) != (due[0][1], due[0][0]):
            heapq.heappop(due)
        if not due or due[0][0] == self._planned_ns or self._stream.is_closed:
            return
        self.stop()
        self._planned_ns = due[0][0]
        clock = self._stream.clock
        delay_s = (self._planned_ns - clock.wall_ns()) / SECOND_NS
        if not clock.is_exact:
            delay_s = min(max(delay_s, _PAUSE_S), _LONGEST_S)
        self._timer = clock.call_later(delay_s, self.look)

    def look(self) -> None:
        """Publish the schedules that are due by sequence, the earliest 5,000 of them at first."""
        self._timer = None
        self._planned_ns = 0
        stream = self._stream
        if stream.is_closed:
            return
        stream.now_ns = now_ns = stream.clock.wall_ns()
        ready: list[Due] = []
        while self._due and self._due[0][0] <= now_ns and len(ready) < _READY_AT_ONCE:
            due_ns, seq, subject = heapq.heappop(self._due)
            if self._by_subject.get(subject) == (seq, due_ns):
                ready.append((seq, due_ns, subject))
        in_turns(stream, self._publish_ready(sorted(ready)), _ignore, _ignore)
        self._arm()

    def _publish_ready(self, ready: list[Due]) -> WaitingPieces[None]:
        """Publish the due schedules; skip a schedule that is replaced or ended meanwhile."""
        stream = self._stream
        room = _PIECE_BYTES
        for seq, due_ns, subject in ready:
            if self._by_subject.get(subject) != (seq, due_ns):
                continue
            room -= _FIRE_COST + stream.store.size_of(seq)
            yield from until_cached(stream.store, seq)
            schedule = stream.store.load(seq)
            fired = None
            if schedule is not None:
                fired = yield from self._fire(schedule, due_ns)
            stream.now_ns = now_ns = stream.clock.wall_ns()
            if self._by_subject.get(subject) != (seq, due_ns):
                continue
            if fired is None:
                self._by_subject.pop(subject, None)
            elif not stream.take(fired):
                self._keep(subject, seq, now_ns + _AGAIN_NS)
                self._arm()
            if room <= 0:
                room = _PIECE_BYTES
                yield None

    def _fire(self, schedule: LoadedMessage, due_ns: int) -> WaitingPieces[Incoming | None]:
        """Return the message that a schedule publishes; None if it is not a schedule."""
        now_ns = self._stream.clock.wall_ns()
        values = headers.nats_headers(schedule.headers) or {}
        pattern = text(values.get(names.SCHEDULE, b""))
        target = values.get(names.SCHEDULE_TARGET, b"")
        ttl = values.get(names.SCHEDULE_TTL, b"")
        if not pattern or not target or parse_ttl(ttl) == INVALID:
            return None
        zone_name = values.get(names.SCHEDULE_TIME_ZONE)
        try:
            zone = cron.zone_of(None if zone_name is None else text(zone_name))
            next_ns, repeats = cron.next_time(pattern, zone, due_ns, now_ns)
        except (cron.PatternProblem, cron.ZoneProblem):
            return None
        source = values.get(names.SCHEDULE_SOURCE, b"")
        body = schedule
        if source:
            store = self._stream.store
            yield from until_cached(store, store.last_for_subject(source))
            # A later one that has come meanwhile is in memory.
            body = store.load(store.last_for_subject(source)) or schedule
        following = format_time(next_ns).encode() if repeats else PURGE
        block = _without_schedule(body.headers)
        block = headers.add(block, names.SCHEDULER, schedule.subject)
        block = headers.add(block, names.SCHEDULE_NEXT, following)
        if ttl:
            block = headers.add(block, names.TTL, ttl)
        rollup = values.get(names.SCHEDULE_ROLLUP, b"")
        if rollup:
            block = headers.add(block, names.ROLLUP, rollup)
        fired = Incoming(target, b"", block, body.payload)
        fired.is_sourced = True
        fired.values = headers.nats_headers(block) or {}
        return fired


def _ignore(_: object) -> None:
    """Called when all is done, or will not be."""


def _without_schedule(block: bytes) -> bytes:
    """Return a header block without the schedule's headers, and those that would refuse it."""
    block = headers.remove_prefix(block, names.SCHEDULE)
    block = headers.remove_prefix(block, b"Nats-Expected-")
    for name in (names.MSG_ID, names.TTL, names.ROLLUP):
        block = headers.remove(block, name)
    return block


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


def next_due_ns(values: dict[bytes, bytes], after_ns: int, now_ns: int) -> int:
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
        due = next_due_ns(message.values, stream.now_ns, stream.now_ns)
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
