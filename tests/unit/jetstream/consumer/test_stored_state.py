from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from midge.jetstream.store.memory_store import MemoryStore
from tests.support.consumer_rig import Rig, Sent

DELAY_S = 0.11


class KeepingStore(MemoryStore):
    """Keeps the state of consumers, as a store on disk does."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[bytes, tuple[bytes, list[bytes]]] = {}
        self.is_slow = False
        self.waiting: list[Any] = []

    def save_consumer(self, name: bytes, state: bytes) -> None:
        self.kept[name] = (state, [])

    def log_consumer(self, name: bytes, operation: bytes, remove_seq: int = 0) -> None:
        self.kept[name][1].append(operation)

    def delete_consumer(self, name: bytes) -> None:
        self.kept.pop(name, None)

    def consumers(self) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        return iter([(name, *one) for name, one in self.kept.items()])

    def barrier(self, callback: Any) -> None:
        if self.is_slow:
            self.waiting.append(callback)
        else:
            callback()


def rig() -> Rig:
    return Rig(store=KeepingStore(), storage="file")


def again(old: Rig, *, orderly: bool = False) -> Rig:
    """Start over with the stored state of `old`."""
    if orderly:
        old.consumers.stop()
    new = Rig(store=old.store, storage="file", clock=old.clock)
    new.consumers.restore()
    return new


def seqs(sent: list[Sent]) -> list[int]:
    return [one.numbers[1] for one in sent]


def test_what_was_written_comes_back() -> None:
    old = rig()
    old.publish(*["a.1"] * 6)
    consumer = old.create(ack_wait_ns=10_000_000_000, max_deliver=7)
    old.pull(consumer, "5")
    sent = old.taken()
    for place in (0, 1, 3):
        old.ack(consumer, sent[place])
    old.advance(DELAY_S)
    new = again(old)
    restored = new.consumers.get(b"C")
    assert restored is not None
    before, after = old.info(consumer), new.info(restored)
    for info in (before, after):
        del info["ts"]
    assert after == before
    new.pull(restored, "9")
    assert seqs(new.taken()) == [6]
    new.advance(9.95)
    assert seqs(new.taken()) == [3, 5]


def test_what_the_stream_keeps_beside_its_consumers_is_none() -> None:
    old = rig()
    old.create()
    old.store.save_consumer(b"\x00sources", b'{"O > >":3}')
    assert [one.name for one in again(old).consumers] == [b"C"]


def test_changes_within_the_delay_are_lost_in_a_crash() -> None:
    old = rig()
    old.publish("a.1", "a.2")
    consumer = old.create()
    old.pull(consumer)
    old.advance(DELAY_S)
    old.pull(consumer)
    new = again(old)
    restored = new.consumers.get(b"C")
    assert restored is not None
    new.pull(restored)
    assert seqs(new.taken()) == [2]


def test_an_orderly_stop_loses_nothing() -> None:
    old = rig()
    old.publish("a.1", "a.2")
    consumer = old.create()
    old.pull(consumer, "2")
    old.ack(consumer, old.taken()[0])
    new = again(old, orderly=True)
    restored = new.consumers.get(b"C")
    assert restored is not None
    assert new.info(restored)["num_ack_pending"] == 1
    assert new.floors(restored) == (2, 2, 1, 1)


def test_acks_are_confirmed_when_durable() -> None:
    old = rig()
    store = old.store
    assert isinstance(store, KeepingStore)
    old.publish("a.1", "a.2")
    consumer = old.create()
    old.pull(consumer, "2")
    sent = old.taken()
    store.is_slow = True
    for one in sent:
        old.ack(consumer, one, b"", b"_INBOX.ack")
    old.advance(0)
    assert old.taken() == []
    assert len(store.waiting) == 1
    store.waiting.pop()()
    assert len(old.taken()) == 2
    restored = again(old).consumers.get(b"C")
    assert restored is not None
    assert len(restored.acks.pending) == 0


def test_delivery_counts_come_back() -> None:
    old = rig()
    old.publish("a.1")
    consumer = old.create(max_deliver=2, ack_wait_ns=1_000_000_000)
    old.pull(consumer, "9")
    old.advance(1.5)
    new = again(old)
    restored = new.consumers.get(b"C")
    assert restored is not None
    new.pull(restored, "9")
    new.advance(5)
    assert new.taken() == []
    assert new.info(restored)["num_redelivered"] == 1
    assert new.info(restored)["num_ack_pending"] == 0


def test_delivery_counts_are_forgotten() -> None:
    old = rig()
    old.publish("a.1", "a.2")
    consumer = old.create(ack_wait_ns=1_000_000_000)
    old.pull(consumer, "3")
    old.advance(1.5)
    sent = old.taken()
    assert seqs(sent) == [1, 2, 1]
    old.advance(DELAY_S)
    old.ack(consumer, sent[1])
    old.ack(consumer, sent[2])
    old.advance(DELAY_S)
    restored = again(old).consumers.get(b"C")
    assert restored is not None
    assert restored.acks.redelivered == {}
    assert len(restored.acks.pending) == 0


def test_the_position_without_acks_comes_back() -> None:
    old = rig()
    old.publish(*["a.1"] * 3)
    consumer = old.create(ack_policy="none")
    old.pull(consumer, "2")
    old.advance(DELAY_S)
    new = again(old)
    restored = new.consumers.get(b"C")
    assert restored is not None
    new.pull(restored, "9")
    assert [one.numbers for one in new.taken()] == [(1, 3, 3, 0)]


def test_a_state_ahead_of_its_stream_is_cut() -> None:
    old = rig()
    old.publish(*["a.1"] * 5)
    consumer = old.create()
    old.pull(consumer, "5")
    old.ack(consumer, old.taken()[0])
    old.advance(DELAY_S)
    lost = KeepingStore()
    store = old.store
    assert isinstance(store, KeepingStore)
    lost.kept = store.kept
    for _ in range(3):
        lost.append(b"a.1", b"", b"x", old.clock.wall_ns())
    old.store = lost
    new = again(old)
    restored = new.consumers.get(b"C")
    assert restored is not None
    assert sorted(restored.acks.pending.entries) == [2, 3]
    assert restored.acks.next_seq == 4
    new.pull(restored, "9")
    new.publish("a.1")
    assert seqs(new.taken()) == [4]


def test_what_is_gone_from_the_stream_is_settled() -> None:
    old = rig()
    old.publish(*["a.1"] * 3)
    consumer = old.create()
    old.pull(consumer, "3")
    old.advance(DELAY_S)
    old.store.remove(1)
    restored = again(old).consumers.get(b"C")
    assert restored is not None
    assert sorted(restored.acks.pending.entries) == [2, 3]


def test_many_changes_become_a_snapshot() -> None:
    old = rig()
    store = old.store
    assert isinstance(store, KeepingStore)
    consumer = old.create(max_ack_pending=-1)
    for _ in range(60):
        old.publish(*["a.1"] * 100)
        old.pull(consumer, "100")
        old.advance(DELAY_S)
    state, operations = store.kept[b"C"]
    assert len(operations) < 50
    assert len(state) + sum(map(len, operations)) < 6 * 64 * 1024


def test_a_deleted_consumer_is_forgotten() -> None:
    old = rig()
    consumer = old.create()
    old.publish("a.1")
    old.pull(consumer)
    old.consumers.delete(consumer)
    old.advance(1)
    assert list(old.store.consumers()) == []


def test_memory_consumers_are_not_kept() -> None:
    old = rig()
    old.create(mem_storage=True)
    assert list(old.store.consumers()) == []


def test_what_was_settled_meanwhile_is_not_written() -> None:
    old = rig()
    old.publish(*["a.1"] * 50)
    consumer = old.create(max_ack_pending=-1)
    old.pull(consumer, "50")
    for one in old.taken()[:49]:
        old.ack(consumer, one)
    old.advance(DELAY_S)

    (operation,) = old.store.kept[b"C"][1]
    numbers_of_one_pending_message = 3
    assert len(operation) == 8 * (11 + 3 + numbers_of_one_pending_message)


def test_very_many_changes_do_not_wait_for_the_delay() -> None:
    old = rig()
    old.publish(*["a.1"] * 9_000)
    consumer = old.create(max_ack_pending=-1)
    old.pull(consumer, "9000")
    for one in old.taken():
        old.ack(consumer, one)
    assert old.store.kept[b"C"][1] == []
    old.advance(0)

    assert len(old.store.kept[b"C"][1]) == 1
