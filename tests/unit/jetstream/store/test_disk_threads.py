"""Threads wait for the disk: they read files into the page cache, and close removed ones."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from select import select

import pytest

from midge.jetstream.store.real_disk import DiskThreads, RealDisk
from tests.unit.jetstream.store.test_commit_thread import Loop

SIZE = 3 << 20


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_work_is_done_in_a_thread_and_told_on_the_loop(tmp_path: Path) -> None:
    loop = Loop()
    disk = RealDisk(str(tmp_path), loop.add_reader, loop.remove_reader)
    threads: list[int] = []
    disk.beside(
        lambda: threads.append(threading.get_ident()),
        lambda: threads.append(threading.get_ident()),
    )
    loop.wait()
    assert len(threads) == 2
    assert threads[0] != threads[1] == threading.get_ident()
    disk.close()


def test_what_is_not_in_the_page_cache_is_fetched(tmp_path: Path) -> None:
    loop = Loop()
    disk = RealDisk(str(tmp_path), loop.add_reader, loop.remove_reader)
    file = disk.create("file")
    data = os.urandom(SIZE)
    file.write(0, data)
    file.sync()
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    before = file.read_cached(1 << 20, 1 << 20)
    assert data.startswith(before or b"", 1 << 20)
    done: list[int] = []
    disk.fetch(file, 1 << 20, SIZE, lambda: done.append(1))
    loop.wait()
    assert done == [1]
    assert file.read_cached(1 << 20, 1 << 20) == data[1 << 20 : 2 << 20]
    assert file.read_cached(SIZE - 10, 100) == data[-10:]
    file.close()
    disk.close()


def test_the_loop_goes_on_while_the_disk_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    threads = DiskThreads(loop.add_reader, loop.remove_reader)
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    file = os.open(path, os.O_RDONLY)
    may_read = threading.Event()
    preadv = os.preadv

    def held(*arguments: object) -> int:
        may_read.wait(30)
        return preadv(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "preadv", held)
    done: list[int] = []
    for number in range(10):
        threads.fetch(file, 0, 100, lambda number=number: done.append(number))  # type: ignore[misc]
    os.close(file)  # as a segment that is removed
    assert not select([loop.descriptor], [], [], 0.1)[0]
    may_read.set()
    while len(done) < 10:
        loop.wait()
    assert sorted(done) == list(range(10))
    threads.close()


def test_what_is_under_way_at_the_end_is_forgotten(tmp_path: Path) -> None:
    loop = Loop()
    threads = DiskThreads(loop.add_reader, loop.remove_reader)
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    file = os.open(tmp_path / "file", os.O_RDONLY)
    before = descriptors()
    for _ in range(20):
        threads.fetch(file, 0, 1 << 20, lambda: pytest.fail("the disk is closed"))
    threads.release(file, lambda: pytest.fail("the disk is closed"))
    threads.close()
    assert descriptors() == before - 3


def test_a_file_that_cannot_be_read_is_left_to_its_reader(tmp_path: Path) -> None:
    loop = Loop()
    threads = DiskThreads(loop.add_reader, loop.remove_reader)
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    done: list[int] = []
    threads.fetch(file, 0, 100, lambda: done.append(1))
    loop.wait()
    assert done == [1]
    os.close(file)
    threads.close()


def test_a_file_that_cannot_be_closed_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop()
    threads = DiskThreads(loop.add_reader, loop.remove_reader)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    close = os.close

    def refused(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    done: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", refused)
        threads.release(file, lambda: done.append(1))
        loop.wait()
    assert done == [1]
    threads.close()
