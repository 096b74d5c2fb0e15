"""A pull request with `no_wait` while messages are being written to the disk."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.store.interface import StoreFailedError
from tests.support.jetstream_account import FileAccountRig

NO_WAIT = b'{"batch":2,"no_wait":true}'
AT_ONCE = b'{"batch":2,"no_wait":true,"expires":1000000000}'


class NoWaitRig(FileAccountRig):
    """A file stream with one consumer, and pull requests."""

    def __init__(self, stream: dict[str, Any] | None = None, **consumer: Any) -> None:
        super().__init__()
        self.stream = self.create("A", storage="file", **(stream or {}))
        config = {"durable_name": "C", "ack_policy": "explicit", **consumer}
        self.api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})

    def pull(self, body: bytes = NO_WAIT, reply: str = "_INBOX.2") -> list[str]:
        """Send a pull request; return the statuses that came at once."""
        self.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", body, reply=reply)
        return self.statuses()

    def statuses(self, reply: str = "_INBOX.2") -> list[str]:
        """Return the statuses that came since the last request or message."""
        found = [block for to, block, _ in self.outbox.sent if to == reply]
        return [block.decode().split("\r\n")[0].removeprefix("NATS/1.0 ") for block in found]

    def publish_unsynced(self, subject: str = "a.b", body: bytes = b"x") -> None:
        """Store a message that is not on the disk yet."""
        self.exchange(subject, body)

    def written(self) -> list[str]:
        """Write all stored messages to the disk; return the statuses that came then."""
        self.outbox.sent = []
        self.settle()
        return self.statuses()


@pytest.mark.parametrize("is_handed_over", [False, True], ids=["open group", "on its way"])
def test_it_waits_for_a_message_on_its_way_to_the_disk(is_handed_over: bool) -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    if is_handed_over:
        rig.hand_over()
    assert rig.pull() == []
    assert rig.delivered == []
    assert rig.written() == ["404 No Messages"]
    assert len(rig.delivered) == 1


def test_it_is_answered_at_once_when_what_is_on_its_way_is_for_others() -> None:
    rig = NoWaitRig(filter_subject="a.c")
    rig.publish_unsynced("a.b")
    assert rig.pull() == ["404 No Messages"]


def test_it_is_answered_at_once_when_it_was_delivered_already() -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    rig.settle()
    rig.pull(b'{"batch":1}')
    assert len(rig.delivered) == 1
    assert rig.pull() == ["404 No Messages"]


def test_a_message_that_replaces_one_awaiting_its_ack_is_delivered() -> None:
    rig = NoWaitRig({"max_msgs": 1}, max_ack_pending=1)
    rig.publish_unsynced()
    rig.settle()
    assert rig.pull(b'{"batch":3,"no_wait":true}') == []  # it is at its `max_ack_pending`
    for seq in (b"2", b"3"):
        rig.publish_unsynced()
        assert rig.statuses() == []
        assert rig.written() == []
        assert rig.delivered[-1].split(b".")[5] == seq
    assert len(rig.delivered) == 3


def test_a_request_that_began_to_be_served_goes_on_with_what_is_on_its_way() -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    rig.settle()
    rig.publish_unsynced()
    assert rig.pull(b'{"batch":3,"no_wait":true}') == []
    assert len(rig.delivered) == 1
    assert rig.written() == ["404 No Messages"]
    assert len(rig.delivered) == 2


@pytest.mark.parametrize("is_written", [False, True])
def test_it_ends_when_the_message_is_removed_before_it_is_on_the_disk(is_written: bool) -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    if is_written:
        rig.hand_over()
    assert rig.pull() == []
    assert rig.stream.contents.remove(1)
    assert rig.written() == ["404 No Messages"]
    assert rig.delivered == []


def test_it_ends_behind_the_messages_it_has_waited_for() -> None:
    rig = NoWaitRig({"max_msgs": 1})
    rig.publish_unsynced()
    rig.hand_over()
    assert rig.pull() == []
    rig.publish_unsynced()  # removes the first, and comes with the next group
    rig.outbox.sent = []
    rig.disk.pump()
    assert rig.statuses() == ["404 No Messages"]


def test_it_ends_when_what_was_on_its_way_is_lost() -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    rig.hand_over()
    assert rig.pull() == []
    rig.outbox.sent = []
    rig.disk.fail_sync_at = 0
    rig.settle()
    assert rig.statuses() == []
    rig.account.lost(StoreFailedError("the disk failed"))
    assert rig.statuses() == ["404 No Messages"]
    assert rig.delivered == []


def test_it_does_not_wait_for_a_disk_that_is_full() -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    rig.hand_over()
    assert rig.pull() == []
    rig.outbox.sent = []
    rig.clock.advance(2)
    assert rig.statuses() == ["404 No Messages"]
    assert rig.pull() == ["404 No Messages"]
    assert rig.written() == []
    assert rig.pull(b"1") == []
    rig.publish_unsynced()
    assert rig.pull() == []
    assert rig.written() == ["404 No Messages"]
    assert len(rig.delivered) == 2


def test_a_paused_consumer_ends_it_behind_the_disk() -> None:
    rig = NoWaitRig(pause_until="2100-01-01T00:00:00Z")
    rig.publish_unsynced()
    assert rig.pull() == []
    assert rig.written() == ["404 No Messages"]
    assert rig.delivered == []


def test_with_an_expiry_it_waits_as_ever() -> None:
    rig = NoWaitRig()
    rig.publish_unsynced()
    assert rig.pull(AT_ONCE) == []
    assert rig.written() == ["404 No Messages"]
    assert len(rig.delivered) == 1
    assert rig.pull(AT_ONCE) == []
    rig.outbox.sent = []
    rig.clock.advance(2)
    assert rig.statuses() == ["408 Request Timeout"]


def test_bytes_are_counted_as_ever() -> None:
    rig = NoWaitRig()
    rig.publish_unsynced(body=b"x" * 100)
    assert rig.pull(b'{"batch":2,"no_wait":true,"max_bytes":60}') == []
    assert rig.written() == ["409 Message Size Exceeds MaxBytes"]
    assert rig.delivered == []


def test_it_counts_among_those_that_wait() -> None:
    rig = NoWaitRig(max_waiting=1)
    rig.publish_unsynced()
    assert rig.pull() == []
    assert rig.pull(reply="_INBOX.3") == []
    assert rig.statuses("_INBOX.3") == ["409 Exceeded MaxWaiting"]


def test_behind_others_of_a_stalled_consumer_it_is_refused() -> None:
    rig = NoWaitRig(max_ack_pending=1)
    rig.publish_unsynced()
    rig.settle()
    rig.pull(b'{"batch":5,"expires":9000000000}')
    assert len(rig.delivered) == 1
    rig.publish_unsynced()
    assert rig.pull() == ["408 Requests Pending"]


def test_in_memory_there_is_nothing_to_wait_for() -> None:
    rig = FileAccountRig()
    rig.create("A")
    config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "a.c"}
    rig.exchange("$JS.API.CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    rig.exchange("a.b", b"x")
    sent = rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", NO_WAIT)
    assert [block for _, block, _ in sent] == [b"NATS/1.0 404 No Messages\r\n\r\n"]
