"""Consumers get each message announced, and unused sequences cost nothing."""

from __future__ import annotations

from typing import Any

import pytest

from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.store import Store
from tests.support.jetstream_account import AccountRig


class CountingStore(MemoryStore):
    """Counts the sequences that are looked at, whether they have messages or not."""

    looks = 0

    def subject_of(self, seq: int) -> bytes | None:
        self.looks += 1
        return MemoryStore.subject_of(self, seq)

    def next_seq(self, *args: Any) -> int:
        self.looks += 1
        return MemoryStore.next_seq(self, *args)


class Rig(AccountRig):
    """An account whose stores count."""

    store = CountingStore()

    def _make_store(self, config: StreamConfig) -> Store:
        self.store = CountingStore()
        return self.store


FAR = (1 << 62) + 7


@pytest.mark.parametrize("retention", ["limits", "interest", "workqueue"])
def test_a_jump_of_the_sequences_costs_nothing(retention: str) -> None:
    """A purge goes beyond the last message; then messages are left out, as by a mirror."""
    rig = Rig()
    stream = rig.create(retention=retention)
    consumer = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
    asked = {"stream_name": "A", "config": consumer}
    assert "error" not in rig.api("CONSUMER.CREATE.A.C", asked)
    for body in (b"1", b"2"):
        assert rig.publish("a.b", body)["seq"]
    assert rig.api("STREAM.PURGE.A", {"seq": 30_000_000})["success"]
    rig.store.looks = 0
    assert rig.publish("a.b", b"3")["seq"] == 30_000_000
    stream.store.append(b"a.b", b"", b"4", 1, FAR)
    stream.readers.announce_soon()
    assert rig.publish("a.b", b"5")["seq"] == FAR + 1
    assert rig.store.looks < 30
    assert rig.api("CONSUMER.INFO.A.C")["num_pending"] == 3
