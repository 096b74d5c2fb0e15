"""Archives count against the limits of account and server from their start to their end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.account.limits import JetStreamAccountLimits, ServerLimits
from midge.jetstream.archive.entries import ArchiveEntry
from tests.support.jetstream_account import AccountRig
from tests.unit.jetstream.archive.test_tar_restore import OF_2_14
from tests.unit.jetstream.archive.test_transfers import Rig, Wire, archive, state_entry
from tests.unit.jetstream.stream.test_admission import consumer_entry


class LimitedRig(Rig):
    """An account with limits."""

    def __init__(self, server: ServerLimits | None = None, **limits: Any) -> None:
        AccountRig.__init__(self, limits=JetStreamAccountLimits(**limits), server_limits=server)
        self.wire = Wire()
        self.outbox = self.wire
        self.account.surroundings.sink = self.wire

    def begin(self, name: str, **config: Any) -> bytes:
        """Begin a restore; return where its chunks go, empty if it is refused."""
        config = {"name": name, "subjects": [f"{name}.>"], "storage": "memory", **config}
        body = {"config": config, "state": {}}
        answer = self.api(f"STREAM.RESTORE.{name}", body)
        self.code = answer.get("error", {}).get("err_code", 0)
        return str(answer.get("deliver_subject", "")).encode()

    def take(self, to: bytes, piece: bytes) -> dict[str, Any]:
        """Send a chunk; return the answer, nothing while there is more to come."""
        before = len(self.wire.to("_INBOX.r"))
        assert self.account.transfers.take(to, b"_INBOX.r", piece)
        while len(self.wire.to("_INBOX.r")) == before:
            self.work()
        body = self.wire.to("_INBOX.r")[-1][2]
        return dict(json.loads(body)) if body else {}

    def is_clear(self) -> bool:
        account = self.account
        reserved = account.server_limits.reserved_memory + account.server_limits.reserved_storage
        return account.memory.used == account.storage.used == reserved == 0


def messages(count: int, size: int = 1000, **state: Any) -> bytes:
    found = [ArchiveEntry(b"x", 1, seq, b"", bytes(size)) for seq in range(1, count + 1)]
    return archive(state_entry(first_seq=1, **state), *found)


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_bytes_count_while_they_are_stored(storage: str) -> None:
    rig = LimitedRig(max_memory=10_000, max_storage=10_000)
    answer = rig.take(rig.begin("S", storage=storage), messages(60))
    assert "(10002)" in answer["error"]["description"]
    assert rig.account.streams == {}
    assert rig.is_clear()
    to = rig.begin("S", storage=storage)
    assert not rig.take(to, messages(8))
    usage = rig.account.memory if storage == "memory" else rig.account.storage
    assert usage.used > 8_000
    rig.create("OTHER", subjects=["o"], storage=storage)
    assert rig.publish("o", bytes(3000))["error"]["err_code"] == 10002
    assert rig.take(to, b"")["state"]["messages"] == 8
    assert usage.used == sum(one.store.bytes for one in rig.account.streams.values())
    for name in ("S", "OTHER"):
        rig.api(f"STREAM.DELETE.{name}")
    assert rig.is_clear()


def test_bytes_of_the_server_count() -> None:
    rig = LimitedRig()
    assert rig.account.memory.parent is None
    rig.account.memory.parent = type(rig.account.memory)(5_000)
    answer = rig.take(rig.begin("S"), messages(6))
    assert "(10023)" in answer["error"]["description"]
    assert rig.account.memory.parent.used == 0


def test_an_older_backup_counts_as_well() -> None:
    rig = LimitedRig(max_memory=200)
    answer = rig.take(rig.begin("S", subjects=["S.>"]), OF_2_14)
    assert "(10002)" in answer["error"]["description"]
    assert rig.is_clear()


def test_a_restore_that_is_given_up_counts_no_more() -> None:
    rig = LimitedRig(max_memory=10_000)
    to = rig.begin("S", max_bytes=9_000)
    rig.take(to, messages(5))
    assert not rig.is_clear()
    rig.clock.advance(10)
    assert not rig.account.transfers.receiving
    assert rig.is_clear()


def test_streams_count_from_the_start() -> None:
    rig = LimitedRig(max_streams=3)
    rig.create("OLD", subjects=["old"])
    one, _ = rig.begin("A"), rig.begin("B")
    assert rig.code == 0
    assert not rig.begin("C")
    assert rig.code == 10027
    assert rig.take(one, b"")["error"]["err_code"] == 10062
    assert rig.begin("C")


def test_a_name_is_restored_once_at_a_time() -> None:
    rig = LimitedRig()
    assert rig.begin("A")
    assert not rig.begin("A")
    assert rig.code == 10130


def test_max_bytes_are_reserved_from_the_start() -> None:
    rig = LimitedRig(ServerLimits(max_memory=2_000), max_memory=1_000)
    one = rig.begin("A", max_bytes=600)
    assert rig.account.server_limits.reserved_memory == 600
    assert not rig.begin("B", max_bytes=600)
    assert rig.code == 10028
    assert rig.begin("C", max_bytes=400)
    assert not rig.take(one, messages(0))
    rig.take(one, b"")
    assert rig.account.server_limits.reserved_memory == 1_000
    rig.clock.advance(10)
    assert rig.account.server_limits.reserved_memory == 600
    rig.api("STREAM.DELETE.A")
    assert rig.is_clear()


@pytest.mark.parametrize(
    ("lowered", "code"), [({"max_streams": 1}, 10027), ({"max_memory": 3_000}, 10002)]
)
def test_limits_are_looked_at_again_at_the_end(lowered: dict[str, int], code: int) -> None:
    rig = LimitedRig()
    rig.create("OLD", subjects=["old"])
    to = rig.begin("S", max_bytes=2_000)
    rig.take(to, messages(5))
    rig.account.set_limits({"": JetStreamAccountLimits(**lowered)})
    answer = rig.take(to, b"")
    assert f"({code})" in answer["error"]["description"]
    assert set(rig.account.streams) == {"OLD"}
    assert rig.is_clear()


@pytest.mark.parametrize(
    ("limits", "config"),
    [
        ({"max_consumers": 5}, {}),
        ({}, {"max_consumers": 5}),
        ({"max_consumers": 5}, {"max_consumers": 5}),
    ],
)
def test_consumers_count(limits: dict[str, int], config: dict[str, int]) -> None:
    for count in (5, 6):
        rig = LimitedRig(**limits)
        found = [consumer_entry(f"C{number}") for number in range(count)]
        data = archive(state_entry(first_seq=1, consumer_count=count), *found)
        to = rig.begin("S", **config)
        answer = rig.take(to, data)
        if count == 5:
            assert rig.take(to, b"")["state"]["consumer_count"] == 5
        else:
            assert "(10026)" in answer["error"]["description"]
            assert rig.is_clear()


def test_what_the_limits_of_the_stream_remove_counts_no_more() -> None:
    rig = LimitedRig(max_memory=20_000)
    to = rig.begin("S", max_msgs=3)
    rig.take(to, messages(10))
    assert rig.take(to, b"")["state"]["messages"] in (3, 10)
    assert rig.account.memory.used == rig.account.streams["S"].store.bytes
