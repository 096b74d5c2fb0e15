"""A directory of the operating system that file stores live in."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from pathlib import Path

from midge.jetstream.store.disk import Committer, Disk, DiskFile, Write
from midge.jetstream.store.disk_threads import DiskThreads
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
        StoreError: another process has the directory.
    """

    def __init__(
        self,
        path: str,
        add_reader: Callable[[int, Callable[[], None]], object],
        remove_reader: Callable[[int], object],
    ) -> None:
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
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
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

        A file system in memory that has no limit does not tell.
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
            self._committer.let_go(file)
        self._beside().release(file.give_up(), done)

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
