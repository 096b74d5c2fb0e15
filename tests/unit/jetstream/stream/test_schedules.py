"""Schedules that were due while the server was stopped."""

from __future__ import annotations

import pytest

from midge.jetstream.stream.stream import Stream
from tests.support.jetstream_account import AccountRig

HOUR_S = 3600


def scheduled(pattern: str, rig: AccountRig) -> Stream:
    """Make a stream with a schedule that publishes to ``a.out``."""
    keys = {"allow_msg_schedules": True, "allow_rollup_hdrs": True}
    stream = rig.create(**keys)
    plan = {"Nats-Schedule": pattern, "Nats-Schedule-Target": "a.out"}
    assert rig.publish("a.plan", b"tick", plan)["seq"] == 1
    return stream


def fired(stream: Stream) -> int:
    """Return how many messages the schedule has published."""
    return stream.store.last_seq - 1


def restart(stream: Stream, rig: AccountRig, stopped_s: float) -> None:
    """Take up the schedules as a start does that comes some seconds after a stop."""
    stream.schedules.stop()
    rig.clock.advance(stopped_s)
    stream.schedules.start()


@pytest.mark.parametrize("pattern", ["@every 1h", "0 0 * * * *", "@hourly"])
@pytest.mark.parametrize("before", [0, 2], ids=["never fired", "fired twice"])
def test_a_repeating_schedule_that_was_missed_fires_once_and_goes_on(
    pattern: str, before: int
) -> None:
    rig = AccountRig()
    stream = scheduled(pattern, rig)
    rig.clock.advance(before * HOUR_S)
    assert fired(stream) == before
    restart(stream, rig, 5.5 * HOUR_S)
    rig.clock.advance(2)
    assert fired(stream) == before + 1
    rig.clock.advance(4 * HOUR_S)
    assert fired(stream) == before + 5


def test_a_schedule_that_was_not_due_meanwhile_keeps_its_time() -> None:
    """Other messages that the stream has stored since do not put it off."""
    rig = AccountRig()
    stream = scheduled("@every 1h", rig)
    rig.clock.advance(HOUR_S)
    rig.clock.advance(HOUR_S / 2)
    rig.publish("a.other", b"x")
    assert fired(stream) == 2
    restart(stream, rig, 60)
    rig.clock.advance(HOUR_S / 2 - 120)
    assert fired(stream) == 2
    rig.clock.advance(180)
    assert fired(stream) == 3


def test_a_schedule_that_fires_once_and_was_missed_fires_at_the_start() -> None:
    rig = AccountRig()
    stream = scheduled("@at 2023-11-14T23:13:20Z", rig)
    restart(stream, rig, 24 * HOUR_S)
    rig.clock.advance(2)
    assert stream.store.subject_of(stream.store.last_seq) == b"a.out"
    restart(stream, rig, HOUR_S)
    rig.clock.advance(HOUR_S)
    assert fired(stream) == 1
