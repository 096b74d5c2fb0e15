"""The thread that writes and syncs: when its results come, and what it leaves behind."""

import errno
import fcntl
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from select import select

import pytest

from midge.jetstream.store import numbers
from midge.jetstream.store.disk import DiskFile, Write
from midge.jetstream.store.file import records
from midge.jetstream.store.file.commit_thread import CommitThread
from midge.jetstream.store.real_disk import RealDisk
from midge.jetstream.store.real_file import RealFile
from tests.direct_writes import can_write_direct

FS_IOC_FIEMAP = 0xC020660B
UNWRITTEN = 0x800  # has room, and reads as zeros


class Loop:
    """Calls back for its one descriptor when a test says so."""

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
    file = RealFile(os.open(tmp_path / "kept", os.O_RDONLY), -1, "kept")
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
    """Return the flags of a file's extents, as Linux reports them."""
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
        flags = []  # a file system that does not say
    assert not flags or any(flag & UNWRITTEN for flag in flags) != zeroed
    world.close()


class SmallGroups:
    """Groups written one behind the other into room of zeros, as the log has them written."""

    ROOM = 256 * 1024

    def __init__(self, path: Path) -> None:
        self.world = World(path)
        self.end = 0
        self.content = bytearray()
        zeros = Write(self.world.file, bytearray(8), 0, 0)
        zeros.extend = self.ROOM
        zeros.zeroed = True
        self.write(zeros)

    def add(self, size: int, is_overwriting: bool = True) -> None:
        write = self.next(size, is_overwriting)
        self.write(write)
        self.content += write.data  # it has been sealed where it is

    def next(self, size: int, is_overwriting: bool = True) -> Write:
        """Return a group of `size` bytes and a head, for the place behind the last one."""
        length = records.padded(records.GROUP_HEAD + size)
        data = bytearray([self.end % 251 + 1]) * length
        records.start_group(data, 1)
        numbers.set_u32_at(data, 8, length)  # all of it is the head's body
        write = Write(self.world.file, data, length, self.end)
        write.seal = True
        write.seed = 5
        write.segment = 1
        write.is_overwriting = is_overwriting
        self.end += length
        return write

    def write(self, write: Write) -> None:
        before = len(self.world.results)
        self.world.committer.write(write)
        while len(self.world.results) == before:
            self.world.loop.wait()
        assert self.world.results[-1] == (0, 0)

    def check(self) -> None:
        read = self.world.file.read(0, self.ROOM)
        assert read == bytes(self.content) + bytes(self.ROOM - len(self.content))


def test_small_groups_are_written_without_the_thread(tmp_path: Path) -> None:
    groups = SmallGroups(tmp_path)
    for size in [*range(0, 3000, 100), 4000, 4096, 16_000, 60_000]:
        groups.add(size)
    groups.check()
    groups.world.close()


def test_groups_of_the_thread_and_of_the_kernel_alternate(tmp_path: Path) -> None:
    """Either finds what the other one wrote before in the same page, in the page cache or not."""
    groups = SmallGroups(tmp_path)
    random = Random(3)
    for _ in range(200):
        groups.add(random.choice([0, 8, 200, 700, 5000]), random.random() < 0.7)
        if random.random() < 0.2:
            groups.check()
        if groups.end > groups.ROOM - 8192:
            break
    groups.check()
    groups.world.close()


def test_what_is_in_the_page_cache_is_written_by_the_thread(tmp_path: Path) -> None:
    """The kernel would have to wait for it, and says so, after the write was asked for."""
    groups = SmallGroups(tmp_path)
    for _ in range(30):
        groups.world.file.read(0, groups.ROOM)
        groups.add(300)
    groups.check()
    groups.world.close()


def test_what_was_overwritten_in_the_last_page_stays_so(tmp_path: Path) -> None:
    """A message may be erased there before the next group is put behind it."""
    groups = SmallGroups(tmp_path)
    for _ in range(3):
        groups.add(300)
        erased = Write(groups.world.file, bytearray(8), 8, groups.end - 100)
        groups.write(erased)
        groups.content[groups.end - 100 : groups.end - 92] = bytes(8)
        groups.add(300)
        groups.check()
    groups.world.close()


def test_settling_waits_for_what_the_thread_takes_over(tmp_path: Path) -> None:
    groups = SmallGroups(tmp_path)
    for number in range(5):
        groups.world.file.read(0, groups.ROOM)
        write = groups.next(300)
        groups.world.committer.write(write)
        groups.world.committer.settle()
        groups.content += write.data
        assert groups.world.results == [(0, 0)] * (number + 2)
    groups.check()
    groups.world.close()


def test_a_write_of_the_kernel_is_waited_for_at_the_end(tmp_path: Path) -> None:
    groups = SmallGroups(tmp_path)
    write = groups.next(300)
    groups.world.committer.write(write)
    groups.world.committer.close()
    assert groups.world.results == [(0, 0)] * 2
    groups.content += write.data
    groups.check()


def test_the_kernel_writes_where_it_can(tmp_path: Path, is_pure_build: bool) -> None:
    groups = SmallGroups(tmp_path)
    for _ in range(20):
        groups.add(300)
    committer = groups.world.committer
    assert isinstance(committer, CommitThread)
    assert (committer.direct_writes > 0) == (not is_pure_build and can_write_direct(tmp_path))
    groups.world.close()


def test_a_file_that_is_written_to_no_more_is_let_go_of(tmp_path: Path) -> None:
    groups = SmallGroups(tmp_path)
    groups.add(300)
    open_before = len([*Path("/dev/fd").iterdir()])
    groups.world.file = groups.world.disk.create("other")
    groups.end = 0
    groups.write(groups.next(300, is_overwriting=False))
    assert len([*Path("/dev/fd").iterdir()]) == open_before + 1
    groups.world.close()


def test_a_file_that_is_removed_is_closed_by_a_thread_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letting go of its room may take long: neither the loop nor the writing thread does it."""
    groups = SmallGroups(tmp_path)
    groups.add(300)
    file = groups.world.file
    assert isinstance(file, RealFile)
    name = Path(f"/dev/fd/{file.descriptor}").readlink()

    def holders() -> int:
        links = [one.readlink() for one in Path("/dev/fd").iterdir() if one.is_symlink()]
        return links.count(name)

    may_close = threading.Event()
    close = os.close
    removed = file.descriptor

    def held(descriptor: int) -> None:
        if descriptor == removed:
            assert may_close.wait(30)
        close(descriptor)

    monkeypatch.setattr(os, "close", held)
    beside = Loop()
    groups.world.disk.add_reader = beside.add_reader
    groups.world.disk.remove_reader = beside.remove_reader
    done: list[int] = []
    groups.world.disk.release(file, lambda: done.append(1))
    assert (file.descriptor, holders(), done) == (-1, 1, [])
    groups.world.file = groups.world.disk.create("other")
    groups.end = 0
    groups.write(groups.next(300, is_overwriting=False))
    assert (holders(), done) == (1, [])
    may_close.set()
    beside.wait()
    assert (holders(), done) == (0, [1])
    monkeypatch.undo()
    groups.world.close()
