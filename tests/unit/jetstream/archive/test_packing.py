"""Messages become the same entries straight from a store as one by one."""

from __future__ import annotations

import random

from midge.jetstream.archive import entries
from midge.jetstream.archive.framing import S2Writer
from midge.jetstream.archive.packing import MESSAGE_COST, MessagePacker
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.memory_store import MemoryStore
from midge.testing.simulated_disk import SimulatedDisk
from tests.unit.jetstream.archive.test_entries import read
from tests.unit.jetstream.archive.test_s2 import unpacked


class Nobody:
    """Waits for nothing."""

    def fetched(self) -> None:
        raise AssertionError("nothing was to be fetched")


def test_entries_are_those_that_are_packed_one_by_one() -> None:
    rng = random.Random(5)
    store = MemoryStore()
    expected = b""
    seq = 0
    for number in range(300):
        seq += rng.choice([1, 1, 1, 200, 70_000])
        size = rng.choice([0, 1, 127, 128, 300, 70_000 if number % 50 == 0 else 20])
        headers = rng.choice([b"", b"NATS/1.0\r\nA: b\r\n\r\n"])
        time_ns = number * 10**16
        subject = b"a.%d" % number
        payload = rng.randbytes(size)
        store.append(subject, headers, payload, time_ns, seq)
        expected += entries.pack(subject, time_ns, seq, headers, payload)
    writer = S2Writer()
    packer = MessagePacker(store, writer, 0)
    spent = 0
    while not packer.is_drained:
        took = packer.run(store.last_seq, 5_000, Nobody())
        assert took < 5_000 + 70_500
        spent += took
    writer.finish()
    assert unpacked(writer.take()) == expected
    assert spent == len(expected) + 300 * MESSAGE_COST
    assert packer.at == store.last_seq


def test_a_message_that_cannot_be_read_is_left_out() -> None:
    disk = SimulatedDisk()
    directory = StoreDirectory(disk, lambda: None)
    stream = directory.create_stream(b"$G", b"S", b"{}")
    for number in range(100):
        stream.append(b"s", b"", b"message %d" % number + bytes(20_000), number + 1)
        directory.flush()
        disk.pump()
    (inode,) = [one for one in disk.entries.values() if b"message 3" in one.data]
    at = inode.data.index(b"message 3")
    inode.data[at] ^= 1
    writer = S2Writer()
    writer.write(entries.MAGIC)
    packer = MessagePacker(stream, writer, 0)
    packer.run(100, 1 << 30, Nobody())
    assert packer.is_drained
    writer.finish()
    assert [one.seq for one in read(unpacked(writer.take()))] == [
        seq for seq in range(1, 101) if seq != 4
    ]
    assert stream.lost == {4}
