"""Messages that are being written to the disk reach consumers that come meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.environment.surroundings import BacklogLimits, BatchLimits, Bounds
from midge.jetstream.store.file.directory import StoreDirectory
from tests.support.jetstream_account import FileAccountRig


def stored(rig: FileAccountRig, count: int = 3) -> None:
    """Hand messages to the disk, which has not written them yet."""
    rig.create("A", storage="file")
    for _ in range(count):
        rig.exchange("a.b", b"x")
    rig.hand_over()
    assert rig.account.streams["A"].store.visible_seq == 0


def counted(rig: FileAccountRig) -> Any:
    """Make a consumer C that has counted 100 messages; return the consumers of its stream."""
    stored(rig, 100)
    rig.settle()
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.exchange("$JS.API.CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    return rig.account.streams["A"].consumers


@pytest.mark.parametrize("is_open", [False, True], ids=["on its way", "in the open group"])
def test_a_new_consumer_is_told_of_what_becomes_visible(is_open: bool) -> None:
    rig = FileAccountRig()
    stored(rig)
    if is_open:
        rig.exchange("a.c", b"x")
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.exchange(
        "$JS.API.CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config}, reply="_INBOX.2"
    )
    rig.settle()
    assert rig.api("CONSUMER.INFO.A.C")["num_pending"] == 3 + is_open


def test_a_new_mirror_takes_what_becomes_visible() -> None:
    rig = FileAccountRig()
    stored(rig)
    config = {"name": "M", "mirror": {"name": "A"}, "storage": "memory"}
    rig.exchange("$JS.API.STREAM.CREATE.M", config)
    rig.clock.advance(0.1)
    assert rig.account.streams["M"].store.messages == 0
    rig.settle()
    rig.clock.advance(0.1)
    assert rig.account.streams["M"].store.messages == 3


def test_a_first_consumer_is_not_told_of_what_it_has_counted() -> None:
    rig = FileAccountRig()
    consumers = counted(rig)
    store = rig.account.streams["A"].store
    matched = consumers.get(b"C").acks.counted_seq
    assert (matched, store.visible_seq) == (100, 100)
    rig.exchange("a.d", b"x")
    rig.settle()
    assert rig.api("CONSUMER.INFO.A.C")["num_pending"] == 101


def test_what_waits_for_the_disk_is_bounded() -> None:
    rig = FileAccountRig()
    refused = []
    surroundings = rig.account.surroundings
    surroundings.bounds = Bounds(BatchLimits(), BacklogLimits(4, 1000), lambda: refused.append(1))
    rig.create("A", storage="file")
    rig.outbox.sent = []
    for size in (1, 500, 500, 1, 1, 1):
        rig.exchange("a.b", b"x" * size)
    assert len(refused) == 2  # 500 bytes too many; the other three fit
    rig.hand_over()
    sent = rig.exchange("a.b", b"x")
    assert sent[0][1] == b"NATS/1.0 429 Too Many Requests\r\n\r\n"
    assert json.loads(sent[0][2])["error"]["err_code"] == 10167
    rig.settle()
    assert rig.account.streams["A"].store.messages == 4
    assert rig.exchange("a.b", b"x" * 1001)[0][1].startswith(b"NATS/1.0 429")
    rig.exchange("a.b", b"x")
    rig.settle()
    assert rig.account.streams["A"].store.messages == 5


def mirrored(storage: str = "file", origin: str = "file") -> FileAccountRig:
    """Store three messages durably, for a mirror that has taken them and not synced them."""
    rig = FileAccountRig()
    rig.create("A", storage=origin)
    config = {"name": "M", "mirror": {"name": "A"}, "storage": storage}
    rig.exchange("$JS.API.STREAM.CREATE.M", config)
    rig.settle()
    rig.clock.advance(0.1)
    for _ in range(3):
        rig.exchange("a.b", b"x")
    rig.settle()
    rig.clock.advance(0.1)
    return rig


def test_a_mirror_shows_at_once_what_its_origin_has_on_the_disk() -> None:
    rig = mirrored()
    mirror = rig.account.streams["M"].store
    assert (mirror.last_seq, mirror.visible_seq) == (3, 3)
    sent = rig.exchange("$JS.API.STREAM.MSG.GET.M", {"seq": 3})
    assert json.loads(sent[0][2])["message"]["seq"] == 3


@pytest.mark.parametrize("steps", range(12))
def test_what_a_mirror_has_shown_is_lost_nowhere_by_a_power_failure(steps: int) -> None:
    rig = mirrored()
    assert rig.account.streams["M"].store.visible_seq == 3
    rig.exchange("$JS.API.STREAM.PURGE.A")
    rig.directory.flush()
    for _ in range(steps):
        rig.disk.pump()
        rig.directory.flush()
    stores = StoreDirectory(rig.disk.power_failed(), lambda: None).streams()
    assert 3 in [store.messages for store in stores], "in the origin, or in its mirror"


def test_a_mirror_does_not_show_what_only_memory_has() -> None:
    rig = mirrored(origin="memory")
    mirror = rig.account.streams["M"].store
    assert (mirror.last_seq, mirror.visible_seq) == (3, 0)
    rig.settle()
    assert mirror.visible_seq == 3


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
def test_what_is_delivered_before_it_is_announced_is_counted_once(retention: str) -> None:
    """A consumer that joins while groups are written, and is quicker than the last of them."""
    rig = FileAccountRig()
    stream = rig.create("A", storage="file", retention=retention)
    for is_on_its_way in (False, True, None):  # on the disk, handed over, in the open group
        for _ in range(40):
            rig.exchange("a.b", b"x")
        if is_on_its_way is not None:
            rig.hand_over()
        if is_on_its_way is False:
            rig.settle()
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.exchange("$JS.API.CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    rig.disk.pump()
    assert (stream.store.visible_seq, stream.store.last_seq) == (80, 120)

    assert pulled(rig, 80) == 80
    rig.settle()

    assert rig.api("CONSUMER.INFO.A.C")["num_pending"] == 40
    assert pulled(rig, 100) == 40


def test_a_message_whose_room_another_one_makes_counts_that_one_as_pending() -> None:
    """As on nats-server, where a stream's limit removes a message that awaits its ack."""
    rig = FileAccountRig()
    rig.create("A", storage="file", max_msgs=3)
    config = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 2}
    rig.exchange("$JS.API.CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    for _ in range(3):
        rig.exchange("a.b", b"x")
    rig.settle()
    rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", {"batch": 5})
    rig.clock.advance(0.1)
    assert len(rig.delivered) == 2, "the third one has no room"
    rig.exchange("a.b", b"x")
    rig.clock.advance(0.1)
    rig.settle()
    rig.clock.advance(0.1)
    *_, seq, _, _, pending = rig.delivered[-1].split(b".")
    assert (seq, pending) == (b"3", b"1")


def pulled(rig: FileAccountRig, count: int) -> int:
    """Pull up to `count` messages that are there, and acknowledge them; return their number."""
    rig.delivered.clear()
    rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", {"batch": count, "no_wait": True})
    rig.clock.advance(0.1)
    consumer = rig.account.streams["A"].consumers.get(b"C")
    assert consumer is not None
    for subject in rig.delivered:
        consumer.ack(subject, b"", b"")
    return len(rig.delivered)
