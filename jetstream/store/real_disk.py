"""A directory of the operating system that file stores are in, and the threads that wait for it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local

from midge import platforms
from midge.jetstream.store.disk import Committer, Disk, DiskFile, Write
from midge.jetstream.store.file.commit_thread import CommitThread
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.real_file import RealFile

LOCK = "lock"
"""The file by which a process keeps others out of a directory."""


class RealDisk(Disk):
    """A directory of the operating system, which this process alone uses.

    Args:
        path: The directory; it is made if it is missing.
        add_reader: Has the event loop call a function when a file descriptor can be read.
        remove_reader: Ends that.

    Raises:
        StoreError: another process has the directory, or this system has no locks.
    """

    def __init__(
        self,
        path: str,
        add_reader: Callable[[int, Callable[[], None]], object],
        remove_reader: Callable[[int], object],
    ) -> None:
        if not platforms.HAS_LOCKS:
            raise StoreError("streams on a disk need file locks (flock), which this system lacks")
        self.path = path
        self.add_reader = add_reader
        self.remove_reader = remove_reader
        self._threads: DiskThreads | None = None
        self._committer: CommitThread | None = None
        self.timing: tuple[Callable[[], float], Callable[[float], object]] | None = None
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._lock = os.open(Path(path) / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            platforms.lock(self._lock)
        except OSError as error:
            os.close(self._lock)
            os.close(self.descriptor)
            raise StoreError(f"the store in {path} is in use by another process") from error

    def names(self) -> list[str]:
        """Return the names of the files that are there, sorted, the lock's left out."""
        return sorted(entry.name for entry in Path(self.path).iterdir() if entry.name != LOCK)

    def open(self, name: str) -> DiskFile:
        """Open a file that is there."""
        return self._file(name, os.O_RDWR | os.O_CLOEXEC)

    def create(self, name: str) -> DiskFile:
        """Make an empty file, in place of any there is of this name."""
        return self._file(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)

    def _file(self, name: str, flags: int) -> RealFile:
        descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        return RealFile(descriptor, self.descriptor, name)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, over any there is of the new name."""
        os.rename(old, new, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(name, dir_fd=self.descriptor)

    def sync_directory(self) -> None:
        """Return once all creations, renames and removals are on the disk."""
        os.fsync(self.descriptor)

    def free_bytes(self) -> int:
        """Return how much room there is left for files of this user.

        A file system in memory that has no limit does not say.
        """
        state = os.fstatvfs(self.descriptor)
        return state.f_bavail * state.f_frsize if state.f_blocks else sys.maxsize

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        return os.urandom(count)

    def committer(self, done: Callable[[int, int], None]) -> Committer:
        """Return a thread that writes and syncs, without the interpreter in the compiled build."""
        if self.timing is None:
            made = CommitThread(self.descriptor, self.add_reader, self.remove_reader, done)
            self._committer = made
            return made
        timed = TimedCommitter(done, *self.timing)
        made = CommitThread(self.descriptor, self.add_reader, self.remove_reader, timed.done)
        self._committer = timed.inner = made
        return timed

    def fetch(self, file: DiskFile, position: int, size: int, done: Callable[[], object]) -> None:
        """Read bytes of a file in a thread, so that they are in the page cache."""
        assert isinstance(file, RealFile)
        self._beside().fetch(file.descriptor, position, size, done)

    def release(self, file: DiskFile, done: Callable[[], object]) -> None:
        """Close a removed file in a thread, because closing may wait for the disk."""
        assert isinstance(file, RealFile)
        if self._committer is not None:
            self._committer.drop_file(file)
        self._beside().release(file.give_up(), done)

    def beside(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        """Do work in a thread, and call `done` on the event loop."""
        self._beside().do(work, done)

    def _beside(self) -> DiskThreads:
        """Return the threads that wait for the disk, started when they are first needed."""
        if self._threads is None:
            self._threads = DiskThreads(self.add_reader, self.remove_reader)
        return self._threads

    def close(self) -> None:
        """Release the lock of the directory."""
        if self._threads is not None:
            self._threads.close()
        os.close(self._lock)
        os.close(self.descriptor)


class TimedCommitter:
    """Passes writes on, and reports how many seconds each took with its sync."""

    inner: Committer

    def __init__(
        self,
        done: Callable[[int, int], None],
        now_s: Callable[[], float],
        observe: Callable[[float], object],
    ) -> None:
        self._done = done
        self._now_s = now_s
        self._observe = observe
        self._begun_s = 0.0

    def write(self, write: Write) -> None:
        """Write and sync, then call `done`."""
        self._begun_s = self._now_s()
        self.inner.write(write)

    def done(self, stage: int, error: int) -> None:
        """Report the time, and pass the result on."""
        self._observe(self._now_s() - self._begun_s)
        self._done(stage, error)

    def settle(self) -> None:
        """Wait until no write is under way."""
        self.inner.settle()

    def close(self) -> None:
        """End the thread."""
        self.inner.close()


_THREADS = 4
"""Requests that the disk has at once: it takes them in the order that suits it."""

_PIECE_BYTES = 1024 * 1024
"""Read by one call: after each of them a thread waits for the interpreter, or holds it up."""


class DiskThreads:
    """Reads pieces of files, or lets go of files, and reports to the event loop when that is done.

    `add_reader` and `remove_reader` are those of `RealDisk`.
    """

    def __init__(
        self,
        add_reader: Callable[[int, Callable[[], None]], object],
        remove_reader: Callable[[int], object],
    ) -> None:
        self._remove_reader = remove_reader
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._finished: deque[Callable[[], object]] = deque()
        self._is_closed = False
        self._buffers = local()
        self._threads = ThreadPoolExecutor(_THREADS, "midge-disk", self._begin)
        add_reader(self._wake_in, self._woken)

    def fetch(self, file: int, position: int, size: int, done: Callable[[], object]) -> None:
        """Read `size` bytes into the page cache, then call `done` on the event loop.

        They are those from `position` on. `file` may be closed meanwhile.
        """
        # Without this the system marks a page from which to read further ahead, and a reader of
        # that page starts that: 4 ms of the event loop beside a busy disk, instead of 0.3.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        self._threads.submit(self._read, os.dup(file), position, size, done)

    def release(self, file: int, done: Callable[[], object]) -> None:
        """Close a file, then call `done` on the event loop."""
        self._threads.submit(self._close, file, done)

    def do(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        """Do work, then call `done` on the event loop."""
        self._threads.submit(self._do, work, done)

    def close(self) -> None:
        """End the threads; drop unfinished reads."""
        self._is_closed = True
        self._threads.shutdown()
        self._remove_reader(self._wake_in)
        os.close(self._wake_in)
        os.close(self._wake_out)

    def _begin(self) -> None:
        """Prepare a thread."""
        self._buffers.one = memoryview(bytearray(_PIECE_BYTES))

    def _read(self, file: int, position: int, size: int, done: Callable[[], object]) -> None:
        """Read, in a thread."""
        buffer = self._buffers.one
        end = position + size
        with contextlib.suppress(OSError):  # the later read fails in the same way
            while position < end and not self._is_closed:
                count = os.preadv(file, [buffer[: end - position]], position)
                if not count:
                    break
                position += count
        self._close(file, done)

    def _close(self, file: int, done: Callable[[], object]) -> None:
        """Close a file, in a thread."""
        with contextlib.suppress(OSError):  # a network file system may report an earlier write
            os.close(file)
        self._finish(done)

    def _do(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        """Work, in a thread."""
        try:
            work()
        finally:
            self._finish(done)

    def _finish(self, done: Callable[[], object]) -> None:
        """Make the event loop call `done`."""
        self._finished.append(done)
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes the loop, too
            os.write(self._wake_out, b"\0")

    def _woken(self) -> None:
        """Call the callbacks of finished work, on the event loop."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 4096)
        for _ in range(len(self._finished)):
            if self._is_closed:
                return
            self._finished.popleft()()
