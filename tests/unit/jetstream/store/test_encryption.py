"""An encrypted store: the data on the disk, the keys that open it, and old files."""

from __future__ import annotations

from random import Random

import pytest

from midge.jetstream.store.encrypted_disk import (
    AES_CTR,
    CHACHA,
    KeyStream,
    UserKeys,
    stretched,
)
from midge.jetstream.store.file import log
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.interface import StoreKeyError
from midge.testing.simulated_disk import SimulatedDisk
from tests.simulation.world import quickly_stretched


def keys(current: bytes, previous: bytes = b"", cipher: str = CHACHA) -> UserKeys:
    return UserKeys(current, previous, cipher, quickly_stretched)


def written(disk: SimulatedDisk, user_keys: UserKeys | None, count: int = 3) -> SimulatedDisk:
    """Write a few messages into a new store, and close it; return the data on the disk."""
    directory = StoreDirectory(disk, lambda: None, keys=user_keys)
    stream = directory.create_stream(b"$G", b"ORDERS", b"configuration")
    for i in range(count):
        stream.append(b"orders.%d" % i, b"", b"payload number %d" % i + bytes(100), i)
        directory.flush()
        disk.pump()
    directory.close()
    return disk.killed()


def payloads(directory: StoreDirectory) -> list[bytes]:
    (stream,) = directory.streams()
    found = [stream.load(seq) for seq in range(1, stream.last_seq + 1)]
    return [one.payload.rstrip(b"\0") for one in found if one is not None]


def contents(disk: SimulatedDisk) -> bytes:
    return b"".join(bytes(inode.data) for inode in disk.entries.values())


@pytest.mark.parametrize("cipher", [CHACHA, AES_CTR])
def test_nothing_of_a_stream_is_readable_on_the_disk(cipher: str) -> None:
    plain = contents(written(SimulatedDisk(Random(1)), None))
    disk = written(SimulatedDisk(Random(1)), keys(b"a key", cipher=cipher))
    secret = contents(disk)
    for word in (b"ORDERS", b"orders.1", b"payload", b"configuration"):
        assert word in plain
        assert word not in secret
    # Zeros in a payload and in a checkpoint are encrypted as well.
    files = [inode.data for inode in disk.entries.values() if b"midge encrypted" in inode.data]
    assert len(files) == 2
    assert all(bytes(64) not in data[4096:].rstrip(b"\0") for data in files)


@pytest.mark.parametrize("cipher", [CHACHA, AES_CTR])
def test_what_was_written_is_read_again(cipher: str) -> None:
    disk = written(SimulatedDisk(Random(1)), keys(b"a key", cipher=cipher))
    directory = StoreDirectory(disk, lambda: None, keys=keys(b"a key"))
    assert payloads(directory) == [b"payload number %d" % i for i in range(3)]
    assert not directory.damages


def test_every_start_writes_into_a_new_file_with_a_key_of_its_own() -> None:
    disk = written(SimulatedDisk(Random(1)), keys(b"a key"))
    before = {name: bytes(inode.data) for name, inode in disk.entries.items() if "log" in name}
    directory = StoreDirectory(disk, lambda: None, keys=keys(b"a key"))
    next(directory.streams()).append(b"more", b"", b"of it", 99)
    directory.close()
    headers = {bytes(one.data[:128]) for name, one in disk.entries.items() if "log" in name}
    assert len(headers) == len(before) + 1
    for name, data in before.items():
        assert bytes(disk.entries[name].data).rstrip(b"\0") == data.rstrip(b"\0")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "the store is encrypted, and no key is given"),
        (keys(b"another"), "the store is encrypted with another key"),
        (keys(b"another", b"a third"), "the store is encrypted with another key"),
    ],
)
def test_a_wrong_key_is_told_and_changes_nothing(given: UserKeys | None, text: str) -> None:
    disk = written(SimulatedDisk(Random(1)), keys(b"a key"))
    before = contents(disk)
    with pytest.raises(StoreKeyError, match=text):
        StoreDirectory(disk, lambda: None, keys=given)
    assert contents(disk) == before
    assert len(payloads(StoreDirectory(disk, lambda: None, keys=keys(b"a key")))) == 3


def test_a_new_key_takes_the_place_of_the_one_before() -> None:
    disk = written(SimulatedDisk(Random(1)), keys(b"old"))
    StoreDirectory(disk, lambda: None, keys=keys(b"new", b"old")).close()
    disk = disk.power_failed()
    assert len(payloads(StoreDirectory(disk, lambda: None, keys=keys(b"new")))) == 3
    with pytest.raises(StoreKeyError):
        StoreDirectory(disk.killed(), lambda: None, keys=keys(b"old"))


def after_ticks(disk: SimulatedDisk, user_keys: UserKeys) -> StoreDirectory:
    """Open a store, and let it do what it does every second."""
    directory = StoreDirectory(disk, lambda: None, keys=user_keys)
    for _ in range(20):
        directory.tick()
        while disk.pump():
            directory.flush()
    return directory


def test_a_store_without_a_key_becomes_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 1024)
    disk = written(SimulatedDisk(Random(1)), None, 30)
    assert b"payload" in contents(disk)
    directory = after_ticks(disk, keys(b"a key"))
    assert len(payloads(directory)) == 30
    directory.close()
    assert b"payload" not in contents(disk)
    directory = StoreDirectory(disk.killed(), lambda: None, keys=keys(b"a key"))
    assert len(payloads(directory)) == 30


def test_another_cipher_is_used_for_what_is_there_too() -> None:
    disk = written(SimulatedDisk(Random(1)), keys(b"a key"), 30)
    after_ticks(disk, keys(b"a key", cipher=AES_CTR)).close()
    files = [one.data for name, one in disk.entries.items() if name.endswith(".log")]
    assert {data[16] for data in files} == {1}
    assert len(payloads(StoreDirectory(disk, lambda: None, keys=keys(b"a key")))) == 30


def test_erased_messages_are_overwritten_by_bare_zeros() -> None:
    disk = SimulatedDisk(Random(1))
    directory = StoreDirectory(disk, lambda: None, keys=keys(b"a key"))
    stream = directory.create_stream(b"$G", b"S", b"")
    stream.append(b"s", b"", b"x" * 3000, 1)
    stream.append(b"s", b"", b"y", 2)
    directory.flush()
    disk.pump()
    inode = next(one for name, one in disk.entries.items() if name.endswith(".log"))
    before = bytes(inode.data)
    stream.remove(1, True)
    for _ in range(10):
        directory.flush()
        disk.pump()
    erased = [i for i, (a, b) in enumerate(zip(before, inode.data, strict=False)) if a and not b]
    assert 2900 < len(erased) <= 3001
    directory.close()
    directory = StoreDirectory(disk.killed(), lambda: None, keys=keys(b"a key"))
    assert payloads(directory) == [b"y"]
    assert not directory.damages


def test_a_lost_key_of_one_file_is_damage() -> None:
    disk = written(SimulatedDisk(Random(1)), keys(b"a key"))
    StoreDirectory(disk, lambda: None, keys=keys(b"a key")).close()
    first = next(one for name, one in sorted(disk.entries.items()) if name.endswith(".log"))
    first.data[:4096] = bytes(4096)
    directory = StoreDirectory(disk, lambda: None, keys=keys(b"a key"))
    assert directory.damages


@pytest.mark.parametrize("cipher", [CHACHA, AES_CTR])
def test_the_key_stream_is_the_same_from_any_position(cipher: str) -> None:
    stream = KeyStream(cipher, bytes(range(32)))
    whole = stream.apply(bytes(1000), 0)
    for start in (1, 15, 16, 17, 63, 64, 65, 500):
        assert stream.apply(bytes(100), start) == whole[start : start + 100]


def test_a_key_is_stretched_with_the_stores_id() -> None:
    one = stretched(b"a key", b"id")
    assert len(one) == 32
    assert one != stretched(b"a key", b"another id")
