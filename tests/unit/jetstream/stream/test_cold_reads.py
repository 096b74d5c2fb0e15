"""Requests for messages that are only on the disk wait for it, and no other client does."""

from __future__ import annotations

import json

import pytest

from midge.jetstream.json.times import format_time
from midge.jetstream.stream.stream import Stream
from tests.support.consumer_rig import SECOND_NS, START_NS
from tests.support.jetstream_account import ColdRig, Sent

MESSAGES = 2_500  # of which the index has the times of three


class Rig(ColdRig):
    """A stream of messages that were stored a second after each other, none of them in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = {"name": "A", "subjects": ["a.>"], "storage": "file", "allow_direct": True}
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


# Times that are searched for.


def at(seq: int) -> dict[str, str]:
    """Request the messages stored after the message before `seq`."""
    return {"start_time": format_time(START_NS + seq * SECOND_NS - 1)}


def seq_of(sent: list[Sent]) -> int:
    (_, block, _) = sent[0]
    return int(block.partition(b"Nats-Sequence: ")[2].split(b"\r")[0])


@pytest.mark.parametrize("seq", [2, 700, 1_024, 1_025, MESSAGES])
def test_a_get_by_time_is_waited_for(rig: Rig, seq: int) -> None:
    assert rig.ask("STREAM.MSG.GET.A", at(seq))["message"]["seq"] == seq
    rig.chill()
    assert not rig.exchange("$JS.API.DIRECT.GET.A", at(seq))
    rig.advance(0.0)
    assert seq_of(rig.outbox.sent) == seq
    rig.chill()
    rig.exchange("$JS.API.DIRECT.GET.A", {"batch": 2, **at(seq)})
    rig.advance(0.0)
    assert seq_of(rig.outbox.sent) == seq
    rig.chill()
    rig.exchange(
        "$JS.API.DIRECT.GET.A", {"multi_last": ["a.*"], "up_to_time": at(seq)["start_time"]}
    )
    rig.advance(0.0)
    assert seq_of(rig.outbox.sent) == max(seq - 2, 1)
    assert rig.disk.cold_reads == 0


def test_of_a_time_that_no_message_has_nothing_is_read(rig: Rig) -> None:
    for time in (at(1), at(MESSAGES + 2), {"start_time": "9000-01-01T00:00:00Z"}):
        body = {"config": {"opt_" + name: value for name, value in time.items()}}
        body["config"] |= {"deliver_policy": "by_start_time", "name": "C"}
        answer = rig.api("CONSUMER.CREATE.A.C", {"stream_name": "A", **body})
        assert answer["num_pending"] == (MESSAGES + 1 if time == at(1) else 0)
        rig.api("CONSUMER.DELETE.A.C")
    assert rig.disk.cold_reads == 0


def test_messages_that_go_meanwhile_are_not_found(rig: Rig) -> None:
    for count in (300, 2_000):
        assert not rig.exchange("$JS.API.STREAM.MSG.GET.A", at(count))
        first = rig.stream.store.first_seq
        rig.stream.purge(None, max(first, count + 1), 0)
        rig.advance(0.0)
        assert b'"seq":%d,' % (count + 1) in rig.outbox.sent[0][2]
        rig.chill()


def test_a_consumer_that_starts_by_time_waits_and_is_made_once(rig: Rig) -> None:
    config = {
        "deliver_policy": "by_start_time",
        "name": "C",
        "opt_start_time": at(700)["start_time"],
    }
    body = {"stream_name": "A", "config": {"durable_name": "C", **config}}
    for _ in range(2):
        assert not rig.exchange("$JS.API.CONSUMER.CREATE.A.C", body)
        first = rig.outbox.sent
    rig.advance(0.0)
    assert first is rig.outbox.sent
    assert [json.loads(payload)["num_pending"] for _, _, payload in first] == [1_802] * 2
    assert len(rig.stream.consumers) == 1
    rig.chill()
    assert rig.ask("CONSUMER.RESET.A.C", {"seq": 699})["error"]["description"].endswith(
        "start time"
    )
    rig.chill()
    assert rig.ask("CONSUMER.RESET.A.C", {"seq": 700})["reset_seq"] == 700
    rig.chill()
    assert not rig.exchange("$JS.API.CONSUMER.RESET.A.C", {"seq": 701})
    rig.stream.consumers.delete_all()
    rig.advance(0.0)
    assert not rig.outbox.sent
    assert rig.disk.cold_reads == 0


def test_a_consumer_that_is_refused_after_waiting_is_answered(rig: Rig) -> None:
    config = {
        "deliver_policy": "by_start_time",
        "name": "C",
        "opt_start_time": at(700)["start_time"],
    }
    body = {"stream_name": "A", "config": {**config, "filter_subject": "b.>"}}
    answer = rig.ask("CONSUMER.CREATE.A.C", {**body, "action": "update"})
    assert answer["error"]["err_code"] == 10149


def test_a_source_that_starts_by_time_waits(rig: Rig) -> None:
    source = {"name": "A", "opt_start_time": at(700)["start_time"]}
    rig.api("STREAM.CREATE.B", {"name": "B", "storage": "memory", "sources": [source]})
    rig.clock.advance(0.0)
    assert not rig.stream.followers
    rig.account.delete(rig.stream)
    rig.advance(0.0)
    copied = Rig()
    copied.api("STREAM.CREATE.B", {"name": "B", "storage": "memory", "sources": [source]})
    copied.advance(0.1)
    copied.advance(0.1)
    assert copied.account.streams["B"].store.messages == 1_802
    assert rig.disk.cold_reads == copied.disk.cold_reads == 0


# Schedules, and messages that are delivered again.


class PlanRig(ColdRig):
    """A stream with schedules of which none is in memory when they are due."""

    def __init__(self, count: int, **headers: str) -> None:
        super().__init__()
        keys = {"allow_msg_schedules": True, "allow_rollup_hdrs": True, "storage": "file"}
        self.api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"], **keys})
        self.exchange("a.source", b"from the source", reply="")
        for number in range(count):
            plan = {"Nats-Schedule": "@at 2023-11-14T23:13:20Z", "Nats-Schedule-Target": "a.out"}
            self.exchange(f"a.plan.{number}", b"x", plan | headers, reply="")
        self.store(0, 0)
        self.chill()

    def count(self, subject: bytes) -> int:
        return self.account.streams["A"].store.count_for_subject(subject)


@pytest.mark.parametrize("headers", [{}, {"Nats-Schedule-Source": "a.source"}])
def test_schedules_that_are_due_are_waited_for(headers: dict[str, str]) -> None:
    rig = PlanRig(200, **headers)
    rig.clock.advance(3_602)
    assert rig.count(b"a.out") == 0
    rig.advance(0.0)
    assert rig.count(b"a.out") == 200
    last = rig.account.streams["A"].store.load(rig.account.streams["A"].store.last_seq)
    assert last is not None
    assert last.payload == (b"from the source" if headers else b"x")
    assert rig.disk.cold_reads == 0


def test_a_schedule_that_is_replaced_or_removed_meanwhile_is_passed_over() -> None:
    rig = PlanRig(3)
    rig.clock.advance(3_602)
    rig.exchange("a.plan.0", b"no schedule", reply="")
    rig.account.streams["A"].contents.remove(3)
    rig.advance(1.0)
    assert rig.count(b"a.out") == 1


def test_whether_a_schedule_may_be_ended_is_told_from_memory() -> None:
    rig = PlanRig(1)
    end = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "a.plan.0"}
    rig.exchange("a.out", b"x", end)
    rig.settle()
    assert b'"error"' not in rig.outbox.sent[0][2]
    assert rig.disk.cold_reads == 0


def test_what_comes_behind_a_message_that_is_given_up_is_waited_for() -> None:
    rig = ColdRig()
    rig.api("STREAM.CREATE.A", {"name": "A", "subjects": ["a.>"], "storage": "file"})
    rig.store(10, 70_000)
    config = {"ack_policy": "explicit", "ack_wait": SECOND_NS, "max_deliver": 2}
    config |= {"durable_name": "C", "deliver_subject": "_INBOX.to", "max_ack_pending": 2}
    rig.exchange("$JS.API.CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    rig.advance(0.1)
    consumer = rig.account.streams["A"].consumers.get(b"C")
    assert consumer is not None
    first, second = rig.delivered
    consumer.ack(first, b"", b"-NAK")
    assert len(rig.delivered) == 3
    rig.clock.advance(0.001)
    consumer.ack(second, b"", b"+WPI")  # its wait ends behind the first one's, and with it
    rig.chill()
    rig.clock.advance(2.0)
    assert len(rig.delivered) == 3
    rig.advance(0.1)
    assert [int(one.split(b".")[5]) for one in rig.delivered[:4]] == [1, 2, 1, 2]
    assert rig.disk.cold_reads == 0
