"""The thread that writes and syncs: when its results come, and what it leaves behind."""

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from select import select

import pytest

from midge.jetstream.store.disk import DiskFile, Write
from midge.jetstream.store.file import records
from midge.jetstream.store.real_disk import RealDisk
from midge.jetstream.store.real_file import RealFile

FS_IOC_FIEMAP = 0xC020660B
UNWRITTEN = 0x800  # has room, and reads as zeros


class Loop:
    """Calls back for the one descriptor that it is told of, when a test says so."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.callback: Callable[[], None] | None = None

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        self.descriptor = descriptor
        self.callback = callback

    def remove_reader(self, descriptor: int) -> None:
        assert descriptor == self.descriptor

    def wait(self) -> None:
        """Wait for a result of the thread, and have it taken."""
        assert select([self.descriptor], [], [], 30)[0]
        self.wake()

    def wake(self) -> None:
        assert self.callback is not None
        self.callback()


class World:
    """A committer over a directory, and the results that it has handed back."""

    def __init__(self, path: Path) -> None:
        self.loop = Loop()
        self.disk = RealDisk(str(path), self.loop.add_reader, self.loop.remove_reader)
        self.results: list[tuple[int, int]] = []
        self.committer = self.disk.committer(
            lambda stage, error: self.results.append((stage, error))
        )
        self.file = self.disk.create("file")

    def write(self, data: bytes, position: int, file: DiskFile | None = None) -> None:
        self.committer.write(Write(file or self.file, bytearray(data), len(data), position))

    def close(self) -> None:
        self.committer.close()
        self.file.close()
        self.disk.close()


def test_each_result_is_handed_back_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(10):
        world.write(b"%d" % number, number)
        world.loop.wait()
        world.loop.wake()  # for nothing: the result has been taken
        assert world.results == [(0, 0)] * (number + 1)
    assert world.file.read(0, 10) == b"0123456789"
    world.close()
    assert len(world.results) == 10


def test_what_is_under_way_is_settled(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(1, 11):
        world.write(b"x", number)
        world.committer.settle()
        world.committer.settle()  # with nothing under way
        assert world.results == [(0, 0)] * number
        world.loop.wake()  # the loop may have seen the result as well
        assert len(world.results) == number
    world.close()


def test_a_write_that_fails_is_told_with_its_reason(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "kept").write_bytes(b"kept")
    file = RealFile(os.open(tmp_path / "kept", os.O_RDONLY))
    world.write(b"lost", 0, file)
    world.committer.settle()
    assert world.results == [(1, errno.EBADF)]
    world.write(b"x", 0)
    world.committer.settle()
    assert world.results[1:] == [(0, 0)]
    file.close()
    world.close()
    assert (tmp_path / "kept").read_bytes() == b"kept"


@pytest.mark.parametrize("position", [0, 8, 4088, 4096, 77_840])
@pytest.mark.parametrize("count", [1, 900, 1_900, 5_000])
@pytest.mark.parametrize("is_passing", [False, True])  # large ones then leave the page cache
def test_a_group_of_any_size_is_sealed_and_written(
    tmp_path: Path, position: int, count: int, is_passing: bool
) -> None:
    world = World(tmp_path)
    before = bytes(range(256)) * (position // 256 + 1)
    world.file.write(0, before[:position])
    data = bytearray(records.GROUP_HEAD)
    records.start_group(data, 9)
    for number in range(count):
        at = len(data)
        size = records.HEAD + 500 + number % 50
        data += bytes(records.padded(size))
        records.start_record(data, at, size, records.STREAM, 7, number, 2)
        data[at + records.HEAD : at + size] = bytes([number & 255]) * (size - records.HEAD)
    records.finish_group(data, len(data), count + 1, 1, 2)
    write = Write(world.file, bytearray(data), len(data), position)
    write.seal, write.seed, write.segment = True, 5, 3
    write.is_passing = is_passing
    world.committer.write(write)
    world.committer.settle()
    assert world.results == [(0, 0)]
    records.seal(data, len(data), 5, 3, position)
    assert world.file.read(0, position + len(data) + 1) == before[:position] + data
    world.close()


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_a_committer_leaves_no_descriptor_open(tmp_path: Path) -> None:
    World(tmp_path).close()
    before = descriptors()
    for _ in range(3):
        world = World(tmp_path)
        world.write(b"x", 0)
        world.close()
        assert world.results == [(0, 0)]
    assert descriptors() <= before


def extents(file: RealFile) -> list[int]:
    """Return the flags of a file's extents, as Linux tells them."""
    answer = bytearray(struct.pack("=QQLLLL", 0, 2**64 - 1, 0, 0, 64, 0) + bytes(64 * 56))
    fcntl.ioctl(file.descriptor, FS_IOC_FIEMAP, answer)
    count = struct.unpack_from("=L", answer, 20)[0]
    return [struct.unpack_from("=L", answer, 32 + 56 * i + 40)[0] for i in range(count)]


@pytest.mark.parametrize("zeroed", [True, False])
def test_what_is_new_of_a_file_is_zeros_that_are_written_if_wanted(
    tmp_path: Path, zeroed: bool
) -> None:
    world = World(tmp_path)
    world.write(b"kept", 4100)  # the file ends within a page
    world.committer.settle()
    write = Write(world.file, bytearray(8), 0, 0)
    write.extend, write.zeroed = 200_000, zeroed
    world.committer.write(write)
    world.committer.settle()
    assert world.results == [(0, 0)] * 2
    assert world.file.read(0, 300_000) == bytes(4100) + b"kept" + bytes(200_000 - 4104)
    try:
        flags = extents(world.file)
    except OSError:
        flags = []  # a file system that does not tell
    assert not flags or any(flag & UNWRITTEN for flag in flags) != zeroed
    world.close()
