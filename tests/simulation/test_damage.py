"""Bytes that change on the disk cost at most the message that they are in."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.store.encrypted_disk import UserKeys
from midge.jetstream.store.file.directory import StoreDirectory
from midge.testing.simulated_disk import Inode, SimulatedDisk
from tests.simulation.world import Model, StreamModel, quickly_stretched


def opened(disk: SimulatedDisk, is_encrypted: bool = False) -> StoreDirectory:
    keys = UserKeys(b"a key", stretch=quickly_stretched) if is_encrypted else None
    return StoreDirectory(disk, lambda: None, keys=keys)


def small_store(is_encrypted: bool = False) -> SimulatedDisk:
    """Return a disk with a little of everything, closed in good order."""
    disk = SimulatedDisk(Random(1))
    directory = opened(disk, is_encrypted)
    one = directory.create_stream(b"$G", b"ONE", b"first config")
    two = directory.create_stream(b"$G", b"TWO", b"second config")
    for i in range(12):
        one.append(b"a.%d" % (i % 3), b"", b"payload %d" % i, i, 0, 0, b"id%d" % i)
        if i % 4 == 3:
            directory.flush()
            disk.pump()
    two.append(b"b", b"NATS/1.0\r\nA: b\r\n\r\n", b"x" * 50, 99)
    one.remove(5)
    one.purge(None, 3)
    one.save_consumer(b"c", b"state")
    one.log_consumer(b"c", b"ack 7", 7)
    directory.close()
    return disk


def copied(disk: SimulatedDisk) -> SimulatedDisk:
    other = SimulatedDisk(Random(2))
    for name, inode in disk.entries.items():
        other.entries[name] = Inode(bytearray(inode.data), bytearray(inode.data))
    other.stored_entries = dict(other.entries)
    return other


def found_in(directory: StoreDirectory) -> Model:
    """Read all that can be read."""
    model = {}
    for stream in directory.streams():
        found = StreamModel(stream.name, stream.config(), {}, stream.last_seq)
        for seq in range(1, stream.last_seq + 1):
            message = stream.load(seq)
            if message is not None:
                found.kept[seq] = (
                    message.time_ns, message.subject, message.headers, message.payload
                )  # fmt: skip
        found.consumers = {name: (s, tuple(steps)) for name, s, steps in stream.consumers()}
        model[stream.number] = found
    return model


def check(expected: Model, disk: SimulatedDisk, is_encrypted: bool) -> int:
    """Recover, and return how many messages are lost; anything else wrong is an error."""
    directory = opened(disk, is_encrypted)
    found = found_in(directory)
    assert found.keys() == expected.keys()
    lost = 0
    for number, stream in expected.items():
        other = found[number]
        assert (other.name, other.config, other.last_seq, other.consumers) == (
            stream.name, stream.config, stream.last_seq, stream.consumers,
        )  # fmt: skip
        for seq, message in other.kept.items():
            assert stream.kept[seq] == message
        lost += len(stream.kept) - len(other.kept)
    if lost:
        assert directory.damages
    return lost


@pytest.mark.parametrize(
    ("flipped", "is_encrypted"), [(0x01, False), (0x80, False), (0xFF, False), (0x10, True)]
)
def test_every_byte_flipped_costs_one_message_at_most(flipped: int, is_encrypted: bool) -> None:
    disk = small_store(is_encrypted)
    expected = found_in(opened(copied(disk), is_encrypted))
    for name in sorted(disk.entries):
        data = disk.entries[name].data
        used = len(data.rstrip(b"\0"))
        for position in [*range(used), *range(used, len(data), 4099)]:
            if data[position] or position >= used or not is_encrypted:
                damaged = copied(disk)
                damaged.entries[name].data[position] ^= flipped
                assert check(expected, damaged, is_encrypted) <= 1, (name, position)


def test_lost_sectors_cost_what_is_in_them() -> None:
    disk = small_store()
    expected = found_in(opened(copied(disk)))
    name = next(name for name in sorted(disk.entries) if name.endswith(".log"))
    damaged = copied(disk)
    damaged.entries[name].data[512:1024] = bytes(512)
    directory = opened(damaged)
    found = found_in(directory)
    assert directory.damages
    assert found.keys() == expected.keys()
    assert len(found[1].kept) >= len(expected[1].kept) - 6
