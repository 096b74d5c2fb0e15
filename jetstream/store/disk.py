"""The directory that a file store lives in, as an object: the simulation has another one.

Names are names of files in the one directory; there are no others below it. Every operation raises
OSError as the operating system does.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from midge.jetstream.store.interface import StoreError


class Write:
    """What a committer is to do: write ``data[:used]`` at `position` of `file`, and sync.

    With `seal` the data is a group of the segment with this number, and its checksums, which begin
    with `seed`, are still to be put in. `with_directory` syncs the directory as well, for the file
    is new. First of all the file is made `extend` bytes long, if that is not 0; last of all
    `closing` is closed, as letting go of the room of a removed file may take 100 ms.
    """

    __slots__ = (
        "closing",
        "data",
        "extend",
        "file",
        "position",
        "seal",
        "seed",
        "segment",
        "sync",
        "used",
        "with_directory",
    )

    def __init__(self, file: DiskFile, data: bytearray, used: int, position: int) -> None:
        self.file = file
        self.data = data
        self.used = used
        self.position = position
        self.seal = False
        self.seed = 0
        self.segment = 0
        self.sync = True
        self.with_directory = False
        self.extend = 0
        self.closing: DiskFile | None = None


class Committer(Protocol):
    """Writes and syncs one group at a time, without holding up the event loop."""

    def write(self, write: Write) -> None:
        """Write and sync, then call `done`.

        The data must not be changed until then, and only one write may be under way.
        """

    def settle(self) -> None:
        """Wait until no write is under way; `done` has been called then."""

    def close(self) -> None:
        """Settle, and let go of everything."""


class DiskFile:
    """An open file."""

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position` on."""
        raise NotImplementedError

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of `data` at `position`."""
        raise NotImplementedError

    def rewrite(self, start: int, end: int) -> None:
        """Write what the file has from `start` to `end` once more.

        A sync that failed has left pages that only look written.
        """
        self.write(start, self.read(start, end - start))

    def allocate(self, size: int) -> None:
        """Make the file `size` bytes long, of zeros where it is not yet, with room on the disk."""
        raise NotImplementedError

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long."""
        raise NotImplementedError

    def size(self) -> int:
        """Return how long the file is."""
        raise NotImplementedError

    def sync(self) -> None:
        """Return once what the file holds is on the disk."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the file."""
        raise NotImplementedError


class Disk:
    """One directory."""

    def names(self) -> list[str]:
        """Return the names of the files that are there, sorted."""
        raise NotImplementedError

    def open(self, name: str) -> DiskFile:
        """Open a file that is there."""
        raise NotImplementedError

    def create(self, name: str) -> DiskFile:
        """Make an empty file, in place of any there is of this name."""
        raise NotImplementedError

    def rename(self, old: str, new: str) -> None:
        """Rename a file, over any there is of the new name."""
        raise NotImplementedError

    def unlink(self, name: str) -> None:
        """Remove a file."""
        raise NotImplementedError

    def sync_directory(self) -> None:
        """Return once all creations, renames and removals are on the disk."""
        raise NotImplementedError

    def is_outdated(self, file: DiskFile) -> bool:
        """Tell whether a file is to be written anew: the disk would write another form now."""
        return False

    def free_bytes(self) -> int:
        """Return how much room there is left for files."""
        raise NotImplementedError

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        raise NotImplementedError

    def committer(self, done: Callable[[int, int], None]) -> Committer:
        """Return what writes groups; it calls `done` on the event loop after each of them.

        `done` gets 0 and 0, or 1 or 2 when the write or the sync failed, and the errno.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release the lock of the directory."""
        raise NotImplementedError


class SuppliedDisk(Disk):
    """A disk that a program hands to its server in place of a directory, as tests do.

    A write with its sync takes `latency_s`. There are `free` bytes left. The sync after
    `fail_sync_at` others fails, -1 for none, and `sync_failed` is called.
    """

    latency_s: float
    free: int
    fail_sync_at: int
    sync_failed: Callable[[], object]

    def work_by(self, call_later: Callable[..., object]) -> None:
        """Complete writes by `call_later` from now on."""
        raise NotImplementedError


class RealFile(DiskFile):
    """A file of the operating system; `descriptor` is its number."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position` on."""
        data = os.pread(self.descriptor, size, position)
        while len(data) < size:  # a read may end early, and does so above 2 GiB
            more = os.pread(self.descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of `data` at `position`."""
        done = 0
        while done < len(data):
            done += os.pwrite(self.descriptor, memoryview(data)[done:], position + done)

    def allocate(self, size: int) -> None:
        """Make the file `size` bytes long, with room on the disk where that can be promised."""
        before = os.fstat(self.descriptor).st_size
        if size > before and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.descriptor, before, size - before)
        elif size > before:
            os.ftruncate(self.descriptor, size)

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long."""
        os.ftruncate(self.descriptor, size)

    def size(self) -> int:
        """Return how long the file is."""
        return os.fstat(self.descriptor).st_size

    def sync(self) -> None:
        """Return once what the file holds is on the disk."""
        _sync(self.descriptor)

    def close(self) -> None:
        """Release the file."""
        os.close(self.descriptor)


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
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._lock = os.open(Path(path) / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            os.close(self.descriptor)
            raise StoreError(f"the store in {path} is in use by another process") from error

    def names(self) -> list[str]:
        """Return the names of the files that are there, sorted, the lock's left out."""
        return sorted(entry.name for entry in Path(self.path).iterdir() if entry.name != "lock")

    def open(self, name: str) -> DiskFile:
        """Open a file that is there."""
        return RealFile(os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self.descriptor))

    def create(self, name: str) -> DiskFile:
        """Make an empty file, in place of any there is of this name."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        return RealFile(os.open(name, flags, 0o600, dir_fd=self.descriptor))

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
        """Return how much room there is left for files of this user."""
        state = os.fstatvfs(self.descriptor)
        return state.f_bavail * state.f_frsize

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        return os.urandom(count)

    def committer(self, done: Callable[[int, int], None]) -> Committer:
        """Return a thread that writes and syncs, without the interpreter in the compiled build."""
        # Not needed, and not there, where the simulation has its own.
        from midge.jetstream.store.file.commit_thread import CommitThread  # noqa: PLC0415

        return CommitThread(self, done)

    def close(self) -> None:
        """Release the lock of the directory."""
        os.close(self._lock)
        os.close(self.descriptor)


def _sync(descriptor: int) -> None:
    """Sync a file to the medium, where macOS has a way of its own."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with contextlib.suppress(OSError):  # a network file system has only fsync
            fcntl.fcntl(descriptor, full)
            return
    getattr(os, "fdatasync", os.fsync)(descriptor)
