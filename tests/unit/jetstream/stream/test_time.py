"""Streams and time: age, TTLs and their markers, schedules."""

from __future__ import annotations

import pytest

from midge.jetstream.json.times import parse_time
from midge.jetstream.stream import cron, removal
from midge.jetstream.stream.cron import PatternProblem, next_time, zone_of
from midge.jetstream.stream.incoming import Incoming
from midge.protocol.memory import is_compiled
from tests.support.jetstream_account import AccountRig

SECOND_NS = 10**9

DAYS = 365 if is_compiled() else 1
"""How long a long time lasts here: the timers of a year take a minute where interpreted."""


def subjects_of(rig: AccountRig) -> dict[str, int]:
    found = rig.api("STREAM.INFO.A", {"subjects_filter": ">"})
    subjects: dict[str, int] = found["state"].get("subjects", {})
    return subjects


def test_messages_go_when_they_are_too_old() -> None:
    rig = AccountRig()
    stream = rig.create(max_age=SECOND_NS)
    rig.publish("a.1", b"x")
    rig.clock.advance(0.6)
    rig.publish("a.2", b"x")
    rig.clock.advance(0.7)
    assert subjects_of(rig) == {"a.2": 1}
    rig.clock.advance(1)
    assert stream.store.messages == 0
    assert stream.store.first_seq == 3


def test_many_messages_go_in_turns() -> None:
    rig = AccountRig()
    stream = rig.create(max_age=SECOND_NS)
    for _ in range(5_000):
        rig.exchange("a.1", b"x", reply="")
    left = []
    rig.clock.advance(3, lambda: left.append(stream.store.messages))
    assert left[:3] == [5_000 - 2_048, 5_000 - 2 * 2_048, 0]


def test_a_message_goes_when_its_own_time_is_over() -> None:
    rig = AccountRig()
    rig.create(allow_msg_ttl=True)
    rig.publish("a.1", b"x", {"Nats-TTL": "2s"})
    rig.publish("a.2", b"x", {"Nats-TTL": "1h"})
    rig.publish("a.3", b"x")
    rig.clock.advance(2.5)
    assert set(subjects_of(rig)) == {"a.2", "a.3"}


def test_ttls_of_messages_stored_before_they_were_allowed_are_found_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removal, "PIECE_BYTES", 100 * 600)
    rig = AccountRig()
    stream = rig.create()
    stream.now_ns = rig.clock.wall_ns()
    for number in range(1_000):
        ttl = (b"1h", b"2s", b"never")[number % 3]
        message = Incoming(b"a.%d" % number, b"", b"NATS/1.0\r\nNats-TTL: %b\r\n\r\n" % ttl, b"x")
        message.is_sourced = True  # as a mirror or a source takes it
        assert stream.take(message)
    rig.api("STREAM.UPDATE.A", {**stream.config.fields(), "allow_msg_ttl": True})
    turns = 0

    def after() -> None:
        nonlocal turns
        turns += 1

    rig.clock.advance(0.001, after)
    assert turns == 9
    rig.clock.advance(5)
    assert stream.store.messages == 667
    rig.api(
        "STREAM.UPDATE.A",
        {**stream.config.fields(), "max_age": 60 * SECOND_NS, "duplicate_window": SECOND_NS},
    )
    rig.clock.advance(120)
    assert stream.store.messages == 333


def test_a_message_that_never_expires_outlives_the_limit() -> None:
    rig = AccountRig()
    rig.create(allow_msg_ttl=True, max_age=SECOND_NS)
    rig.publish("a.1", b"x", {"Nats-TTL": "never"})
    rig.publish("a.2", b"x")
    rig.clock.advance(5)
    assert subjects_of(rig) == {"a.1": 1}


def test_messages_age_while_the_ttl_of_one_that_is_gone_is_far_ahead() -> None:
    rig = AccountRig()
    rig.create(allow_msg_ttl=True, max_age=SECOND_NS)
    rig.publish("a.1", b"x", {"Nats-TTL": "1h"})
    rig.clock.advance(5)
    assert subjects_of(rig) == {}
    rig.publish("a.2", b"x")
    rig.clock.advance(5)
    assert subjects_of(rig) == {}


def test_the_last_message_of_a_subject_leaves_a_marker_which_goes_as_well() -> None:
    rig = AccountRig()
    stream = rig.create(max_age=SECOND_NS, subject_delete_marker_ttl=2 * SECOND_NS)
    rig.publish("a.1", b"x")
    rig.publish("a.1", b"y")
    rig.clock.advance(1.5)
    assert subjects_of(rig) == {"a.1": 1}
    marker = stream.store.load(3)
    assert marker is not None
    assert marker.payload == b""
    assert marker.headers == (
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 2s\r\nNats-Rollup: sub\r\n\r\n"
    )
    rig.clock.advance(3)
    assert stream.store.messages == 0


def test_a_short_ttl_is_raised_to_that_of_the_markers() -> None:
    rig = AccountRig()
    stream = rig.create(subject_delete_marker_ttl=5 * SECOND_NS)
    rig.publish("a.1", b"x", {"Nats-TTL": "1s"})
    message = stream.store.load(1)
    assert message is not None
    assert message.headers == b"NATS/1.0\r\nNats-TTL: 5\r\n\r\n"


def test_a_schedule_that_fires_once_ends_itself() -> None:
    rig = AccountRig()
    stream = rig.create(allow_msg_schedules=True)
    at = "@at 2023-11-14T22:13:22Z"  # two seconds after the clock's beginning
    rig.publish("a.plan", b"body", {"Nats-Schedule": at, "Nats-Schedule-Target": "a.out", "H": "v"})
    rig.clock.advance(1.5)
    assert set(subjects_of(rig)) == {"a.plan"}
    rig.clock.advance(1)
    assert set(subjects_of(rig)) == {"a.out"}
    message = stream.store.load(2)
    assert message is not None
    assert message.payload == b"body"
    assert message.headers == (
        b"NATS/1.0\r\nH: v\r\nNats-Scheduler: a.plan\r\nNats-Schedule-Next: purge\r\n\r\n"
    )


def test_schedules_stored_before_they_were_allowed_are_found_in_turns() -> None:
    rig = AccountRig()
    stream = rig.create()
    stream.now_ns = rig.clock.wall_ns()
    plan = (
        b"NATS/1.0\r\nNats-Schedule: @at 2023-11-14T22:13:22Z\r\n"
        b"Nats-Schedule-Target: a.out\r\n\r\n"
    )
    for number in range(5_000):
        block = plan if number in (7, 8, 4_990) else b""
        message = Incoming(b"a.%d" % number, b"", block, b"x")
        message.is_sourced = True  # as a mirror or a source takes it
        assert stream.take(message)
    rig.api("STREAM.UPDATE.A", {**stream.config.fields(), "allow_msg_schedules": True})
    rig.publish("a.8", b"replaces the schedule")
    turns: list[int] = []
    rig.clock.advance(0.001, lambda: turns.append(1))
    assert len(turns) >= 4
    assert rig.account.streams["A"].store.count_for_subject(b"a.out") == 0
    rig.clock.advance(3)
    assert subjects_of(rig)["a.out"] == 2
    assert "a.8" in subjects_of(rig)


def test_many_schedules_that_are_due_at_once_publish_in_turns() -> None:
    rig = AccountRig()
    stream = rig.create(allow_msg_schedules=True)
    for number in range(200):
        plan = {"Nats-Schedule": "@at 2023-11-14T22:13:22Z", "Nats-Schedule-Target": "a.out"}
        rig.publish(f"a.plan.{number}", b"x", plan)
    done: list[int] = []
    rig.clock.advance(3, lambda: done.append(stream.store.count_for_subject(b"a.out")))
    assert done[-1] == 200
    assert len(set(done)) >= 4


def test_a_schedule_that_repeats_says_when_it_fires_next() -> None:
    rig = AccountRig()
    stream = rig.create(allow_msg_schedules=True)
    rig.publish("a.plan", b"b", {"Nats-Schedule": "@every 2s", "Nats-Schedule-Target": "a.out"})
    rig.clock.advance(7)
    assert subjects_of(rig) == {"a.plan": 1, "a.out": 3}
    message = stream.store.load(4)
    assert message is not None
    assert b"Nats-Schedule-Next: 2023-11-14T22:13:28Z\r\n" in message.headers


def test_a_schedule_is_replaced_by_the_next_message_of_its_subject() -> None:
    rig = AccountRig()
    rig.create(allow_msg_schedules=True)
    rig.publish("a.plan", b"b", {"Nats-Schedule": "@every 2s", "Nats-Schedule-Target": "a.out"})
    rig.publish("a.plan", b"no schedule")
    rig.clock.advance(5)
    assert subjects_of(rig) == {"a.plan": 2}


def test_a_schedule_may_publish_the_last_message_of_another_subject() -> None:
    rig = AccountRig()
    stream = rig.create(allow_msg_schedules=True)
    headers = {"Nats-Schedule": "@every 2s", "Nats-Schedule-Target": "a.out"}
    rig.publish("a.plan", b"own", {**headers, "Nats-Schedule-Source": "a.in"})
    rig.publish("a.in", b"theirs")
    rig.clock.advance(2.5)
    message = stream.store.load(3)
    assert message is not None
    assert (message.subject, message.payload) == (b"a.out", b"theirs")


@pytest.mark.parametrize(("size", "stored"), [(17, 0), (18, 1)])
def test_the_rollup_that_a_schedule_gets_counts_towards_its_size(size: int, stored: int) -> None:
    rig = AccountRig()
    headers = {"Nats-Schedule": "@every 2s", "Nats-Schedule-Target": "a.out"}
    block = b"NATS/1.0\r\nNats-Schedule: @every 2s\r\nNats-Schedule-Target: a.out\r\n\r\n"
    # A line ``Nats-Rollup: sub`` is added, of 18 bytes.
    stream = rig.create(allow_msg_schedules=True, max_msg_size=len(block) + len(b"b") + size)
    rig.publish("a.plan", b"b", headers)
    assert stream.store.messages == stored


def due(pattern: str, after: str, zone: str | None = None) -> str:
    after_ns = parse_time(after).ns
    ns, _ = next_time(pattern, zone_of(zone), after_ns, after_ns)
    return cron.datetime.fromtimestamp(ns // SECOND_NS, cron.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("pattern", "after", "expected"),
    [
        ("* * * * * *", "2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z"),
        ("0 30 * * * *", "2024-01-01T00:30:00Z", "2024-01-01T01:30:00Z"),
        ("@hourly", "2024-02-28T23:59:59Z", "2024-02-29T00:00:00Z"),
        ("@daily", "2024-12-31T12:00:00Z", "2025-01-01T00:00:00Z"),
        ("@weekly", "2024-01-01T00:00:00Z", "2024-01-07T00:00:00Z"),
        ("@monthly", "2024-01-15T00:00:00Z", "2024-02-01T00:00:00Z"),
        ("@yearly", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"),
        ("0 0 12 29 feb *", "2024-03-01T00:00:00Z", "2028-02-29T12:00:00Z"),
        ("*/15 10-12 8 * * mon-fri", "2024-01-06T00:00:00Z", "2024-01-08T08:10:00Z"),
        ("0 0 0 13 * fri", "2024-01-01T00:00:00Z", "2024-01-05T00:00:00Z"),
    ],
)
def test_a_pattern_is_due_at_the_first_moment_that_fits(
    pattern: str, after: str, expected: str
) -> None:
    assert due(pattern, after) == expected


def test_a_pattern_is_due_by_the_clocks_of_its_zone() -> None:
    assert due("0 0 8 * * *", "2024-07-01T00:00:00Z", "Europe/Berlin") == "2024-07-01T06:00:00Z"
    # On that night the clocks jump from two to three.
    assert due("0 30 2 * * *", "2024-03-30T12:00:00Z", "Europe/Berlin") == "2024-04-01T00:30:00Z"


@pytest.mark.parametrize(
    "pattern",
    [
        "* * * * *",
        "61 * * * * *",
        "a * * * * *",
        "1-2-3 * * * * *",
        "0 0 0 31 feb *",
        "*/0 * * * * *",
        "@every 500ms",
        "@every x",
        "@at x",
        "@never",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternProblem):
        next_time(pattern, None, 0, 0)


def test_a_schedule_whose_message_is_refused_is_tried_again() -> None:
    rig = AccountRig()
    rig.create(allow_msg_schedules=True)
    rig.publish("a.plan", b"b", {"Nats-Schedule": "@every 2s", "Nats-Schedule-Target": "a.out"})
    rig.account.memory.limit = rig.account.memory.used  # as an account that has no room
    rig.clock.advance(5)
    assert subjects_of(rig) == {"a.plan": 1}
    rig.account.memory.limit = -1
    rig.clock.advance(1.5)
    assert subjects_of(rig) == {"a.plan": 1, "a.out": 1}


@pytest.mark.parametrize("longest_ns", [(1 << 63) - 1, 1 << 62])
def test_the_longest_times_are_long(longest_ns: int) -> None:
    rig = AccountRig()
    stream = rig.create(max_age=longest_ns, duplicate_window=longest_ns, allow_msg_ttl=True)
    headers = {"Nats-Msg-Id": "one", "Nats-TTL": f"{(1 << 63) - 1}"}
    assert rig.publish("a.1", b"x", headers)["seq"] == 1
    rig.clock.advance(DAYS * 24 * 3600)
    assert rig.publish("a.1", b"x", headers) == {"stream": "A", "seq": 1, "duplicate": True}
    assert stream.store.messages == 1
