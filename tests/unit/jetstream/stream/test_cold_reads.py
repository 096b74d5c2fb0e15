"""What requests need of messages that are only on the disk: they wait for it, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.json.times import format_time
from midge.jetstream.stream.stream import Stream
from tests.support.consumer_rig import SECOND_NS, START_NS
from tests.support.jetstream_account import ColdRig

MESSAGES = 2_500  # of which the index has the times of three


class Rig(ColdRig):
    """A stream of messages that were stored a second after each other, none of them in memory."""

    def __init__(self, **keys: Any) -> None:
        super().__init__()
        self.keys = {"name": "A", "subjects": ["a.>"], "storage": "file", **keys}
        self.api("STREAM.CREATE.A", self.keys)
        for _ in range(MESSAGES // 100):
            for number in range(100):
                self.clock.advance(1.0)
                self.exchange(f"a.{number % 2}", bytes(1_000), reply="")
            self.settle()
        self.store(0, 0)
        self.chill()

    @property
    def stream(self) -> Stream:
        return self.account.streams["A"]

    def begin_later(self) -> None:
        """Remove the first message, so that no index has the time of the next one."""
        self.stream.contents.remove(1)
        self.settle()


def time_of(seq: int) -> str:
    """Return when the message of a sequence was stored."""
    return format_time(START_NS + seq * SECOND_NS)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_time_of_the_first_message_ever_is_in_memory(rig: Rig) -> None:
    assert rig.api("STREAM.INFO.A")["state"]["first_ts"] == time_of(1)
    assert rig.disk.cold_reads == 0


@pytest.mark.parametrize(
    "request_of", ["STREAM.INFO.A", "STREAM.LIST", "STREAM.CREATE.A", "STREAM.UPDATE.A"]
)
def test_the_time_of_a_later_first_message_is_waited_for_once(rig: Rig, request_of: str) -> None:
    rig.begin_later()
    body = rig.keys if "ATE" in request_of else b""
    for ask in (rig.ask, rig.api):
        answer = ask(request_of, body)
        shown = answer["streams"][0] if "streams" in answer else answer
        assert shown["state"]["first_ts"] == time_of(2)
        rig.chill()
    assert rig.disk.cold_reads == 0


def test_a_snapshot_waits_for_the_time_of_the_first_message(rig: Rig) -> None:
    rig.begin_later()
    assert not rig.exchange("$JS.API.STREAM.SNAPSHOT.A", {"deliver_subject": "to"})
    rig.advance(0.0)
    (answer, *_) = (payload for to, _, payload in rig.outbox.sent if to != "to")
    assert time_of(2).encode() in answer
    assert rig.disk.cold_reads == 0


def test_a_first_message_that_is_another_one_each_time_is_not_waited_for_in_vain(rig: Rig) -> None:
    rig.begin_later()
    assert not rig.exchange("$JS.API.STREAM.INFO.A")
    for _ in range(100):
        rig.stream.contents.remove(rig.stream.store.first_seq)
        rig.chill()
        rig.disk.pump_fetch()
        rig.clock.advance(0.0)
        rig.settle()
    assert rig.outbox.sent


def test_a_stream_that_is_deleted_meanwhile_is_not_listed(rig: Rig) -> None:
    rig.begin_later()
    assert not rig.exchange("$JS.API.STREAM.LIST")
    rig.account.delete(rig.stream)
    rig.advance(0.0)
    assert b'"streams":[]' in rig.outbox.sent[0][2]


def test_a_damaged_first_message_has_the_time_of_the_last(rig: Rig) -> None:
    rig.begin_later()
    for inode in rig.disk.entries.values():
        at = bytes(inode.data).find(b"a.1" + bytes(100))
        if at >= 0:
            inode.data[at - 10] ^= 1
            break
    answer = rig.ask("STREAM.INFO.A")
    assert answer["state"]["first_ts"] == answer["state"]["last_ts"]
