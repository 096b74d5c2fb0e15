"""The directory that a file store lives in, as an object: the simulation has another one.

Names are names of files in the one directory, without subdirectories. Every operation raises
OSError as the operating system does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Write:
    """One task of a committer: write ``data[:used]`` at `position` of `file`, and sync.

    With `seal` the data is a group of the segment with this number, and the committer computes its
    checksums, which begin with `seed`. `with_directory` also syncs the directory, because the file
    is new. Data that `is_passing` is not expected to be read soon: it may leave the page cache once
    it is on the disk. With `is_overwriting`, all pages of the data have been written and synced
    before, if only with zeros.

    Before the data, the committer makes the file `extend` bytes long, if that is not 0, and with
    `zeroed` writes zeros there, from `position` on; synced zeros leave the page cache. Later the
    bytes between `warm_start` and `warm_end` are read into the page cache, because writes may have
    bypassed it.
    """

    __slots__ = (
        "data",
        "extend",
        "file",
        "is_overwriting",
        "is_passing",
        "position",
        "seal",
        "seed",
        "segment",
        "sync",
        "used",
        "warm_end",
        "warm_start",
        "with_directory",
        "zeroed",
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
        self.is_passing = False
        self.is_overwriting = False
        self.extend = 0
        self.zeroed = False
        self.warm_start = 0
        self.warm_end = 0


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

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """Return what `read` would as far as that needs no waiting for the disk; None: nothing."""
        return self.read(position, size)

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
        """Return whether to rewrite a file because the disk now writes another form."""
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

    def fetch(self, file: DiskFile, position: int, size: int, done: Callable[[], object]) -> None:
        """Load bytes of a file into memory, then call `done` on the event loop.

        Errors show when the bytes are read. Closing the disk drops unfinished calls.
        """
        raise NotImplementedError

    def release(self, file: DiskFile, done: Callable[[], object]) -> None:
        """Close a file that has been removed, and call `done` on the event loop.

        Its space is then free. On a disk with discard that takes 4 ms for 16 MiB, and 100 ms while
        other processes write. There must be no unfinished write of the file.
        """
        file.close()
        done()

    def beside(self, work: Callable[[], object], done: Callable[[], object]) -> None:
        """Do work that may wait for the disk, and call `done` on the event loop.

        Closing the disk waits for the work, and drops the call.
        """
        work()
        done()

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
