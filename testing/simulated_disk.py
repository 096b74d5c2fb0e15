"""A disk in memory that loses unsynced data as a real disk may, in any combination.

A power failure keeps any subset of the unsynced sectors of a file, any size between the synced and
the current size, and any subset of the creations, renames and removals since the last sync of the
directory. Killing a process loses nothing, because the page cache stays; a power failure may
follow. Every operation counts as a step, at which the machine can be made to stop.

midge's own simulation of crashes runs on this disk, with writes completed by `pump`. Servers under
test use it as well: `midge.Server(jetstream=True, disk=SimulatedDisk())`.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from midge.jetstream.store.disk import DiskFile, SuppliedDisk, Write
from midge.jetstream.store.file import records

SECTOR = 512
PAGE = 4096

_TRACED_MAX = 10_000
_SIZE = 1 << 40


class Stopped(BaseException):
    """The machine has stopped."""


@dataclass(eq=False)
class Inode:
    """A file's content, in the page cache and on the medium."""

    data: bytearray = field(default_factory=bytearray)
    stored: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    cold: set[int] = field(default_factory=set)
    """The pages that are only on the medium."""

    def drop_pages(self) -> None:
        """Drop the pages from the page cache that can be read from the medium."""
        self.cold = set(range(-(-len(self.data) // PAGE)))
        self.cold.difference_update(sector * SECTOR // PAGE for sector in self.dirty)

    def cold_in(self, position: int, size: int) -> set[int]:
        """Return the pages of a range that are only on the medium."""
        if not self.cold:
            return set()
        return self.cold.intersection(range(position // PAGE, -(-(position + size) // PAGE)))

    def write(self, position: int, data: bytes) -> None:
        """Write into the page cache."""
        end = position + len(data)
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
        self.data[position:end] = data
        self.cold.difference_update(self.cold_in(position, len(data)))
        self.dirty.update(range(position // SECTOR, (end + SECTOR - 1) // SECTOR))

    def resize(self, size: int) -> None:
        """Shorten the content, or extend it by zeros."""
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))

    def sync(self) -> None:
        """Write the page cache to the medium."""
        for sector in self.dirty:
            start = sector * SECTOR
            if start < len(self.data):
                if len(self.stored) < start:
                    self.stored.extend(bytes(start - len(self.stored)))
                self.stored[start : start + SECTOR] = self.data[start : start + SECTOR]
        del self.stored[len(self.data) :]
        self.stored.extend(bytes(len(self.data) - len(self.stored)))
        self.dirty.clear()

    def after_power_failure(self, random: Random) -> Inode:
        """Return a content that the medium may have after a power failure."""
        low, high = sorted((len(self.stored), len(self.data)))
        size = random.choice([low, high, random.randint(low, high)])
        content = bytearray(self.stored[:size])
        content.extend(bytes(size - len(content)))
        share = random.choice([0.0, 0.5, 0.9, 1.0])
        for sector in sorted(self.dirty):
            start = sector * SECTOR
            if start < size and random.random() < share:
                piece = self.data[start : start + SECTOR][: size - start]
                content[start : start + len(piece)] = piece
        return Inode(content, bytearray(content))


class SimulatedDisk(SuppliedDisk):
    """A directory in memory, whose failures `random`, a seed or a generator, makes repeatable.

    `free` is the room left in bytes, and `latency_s` the time of a write with its sync, by the
    server's clock. A sync fails after `fail_sync_at` successful ones; -1 means never. `cold_reads`
    counts the reads after `drop_pages` that had to wait for the medium and blocked everything else.
    """

    def __init__(self, random: Random | int = 0) -> None:
        self.random = Random(random) if isinstance(random, int) else random  # noqa: S311 - repeatable
        self.steps = 0
        self.stop_at = -1
        self.entries: dict[str, Inode] = {}
        self.stored_entries: dict[str, Inode] = {}
        self.pending: list[tuple[tuple[str, ...], Inode | None]] = []
        self.committers: list[SimulatedCommitter] = []
        self.fail_sync_at = -1
        self.free = _SIZE
        self.latency_s = 0.0
        self.cold_reads = 0
        self.fetches: deque[Callable[[], object]] = deque()
        self.sync_failed: Callable[[], object] = lambda: None
        self.trace: deque[str] = deque(maxlen=_TRACED_MAX)
        self._call_later: Callable[..., object] | None = None

    # Called by the store.

    def names(self) -> list[str]:
        """Return the names of the files, sorted."""
        return sorted(self.entries)

    def open(self, name: str) -> DiskFile:
        """Open an existing file."""
        return SimulatedFile(self, self.entries[name])

    def create(self, name: str) -> DiskFile:
        """Make an empty file; replace an existing one of this name."""
        self.step(f"create {name}")
        inode = Inode()
        self._change(("create", name), inode)
        return SimulatedFile(self, inode)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; replace an existing one of the new name."""
        self.step(f"rename {old} {new}")
        self._change(("rename", old, new), self.entries.get(old))

    def unlink(self, name: str) -> None:
        """Remove a file."""
        self.step(f"unlink {name}")
        self._change(("unlink", name), None)

    def sync_directory(self) -> None:
        """Write all creations, renames and removals to the medium."""
        self.step("sync directory")
        self.stored_entries = dict(self.entries)
        self.pending.clear()

    def free_bytes(self) -> int:
        """Return the room left for files, in bytes."""
        return self.free

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that the seed determines."""
        return self.random.randbytes(count)

    def committer(self, done: Callable[[int, int], None]) -> SimulatedCommitter:
        """Return a committer, which does one write at a time."""
        self.committers.append(SimulatedCommitter(self, done))
        return self.committers[-1]

    def fetch(self, file: DiskFile, position: int, size: int, done: Callable[[], object]) -> None:
        """Read a range of a file into the page cache after the disk's latency."""
        assert isinstance(file, SimulatedFile)
        inode = file.inode

        def come() -> None:
            inode.cold.difference_update(inode.cold_in(position, size))
            done()

        self.fetches.append(come)
        if self._call_later is not None:
            self._call_later(self.latency_s, self.pump_fetch)

    def close(self) -> None:
        """Cancel pending fetches."""
        self.fetches.clear()

    # Called by tests and simulations.

    def drop_pages(self) -> None:
        """Drop all synced pages from the page cache."""
        for inode in self.entries.values():
            inode.drop_pages()

    def pump_fetch(self) -> bool:
        """Complete the oldest pending fetch; return False without one."""
        if not self.fetches:
            return False
        self.fetches.popleft()()
        return True

    def work_by(self, call_later: Callable[..., object]) -> None:
        """Complete each write from now on `latency_s` after its begin.

        Without this call, writes wait for `pump`.
        """
        self._call_later = call_later

    def work_later(self, work: Callable[[], object]) -> None:
        """Schedule a write, unless it waits for `pump`."""
        if self._call_later is not None:
            self._call_later(self.latency_s, work)

    def step(self, what: str) -> None:
        """Count an operation, and raise Stopped before it if it is the chosen one."""
        self.trace.append(what)
        if self.steps == self.stop_at:
            raise Stopped(what)
        self.steps += 1

    def pump(self) -> bool:
        """Complete the pending write; return False without one."""
        done = [committer.work() for committer in self.committers]
        return any(done)

    def killed(self) -> SimulatedDisk:
        """Return the disk that the next process finds, with its page cache."""
        disk = SimulatedDisk(self.random)
        disk.entries = self.entries
        disk.stored_entries = self.stored_entries
        disk.pending = self.pending
        disk.free = self.free
        return disk

    def become(self, other: SimulatedDisk) -> None:
        """Take the files of another disk; forget this one's writes and fetches under way."""
        self.entries, self.stored_entries = other.entries, other.stored_entries
        self.pending = other.pending
        self.committers.clear()
        self.fetches.clear()

    def power_failed(self) -> SimulatedDisk:
        """Return a disk as a power failure may leave it."""
        disk = SimulatedDisk(self.random)
        entries = dict(self.stored_entries)
        share = self.random.choice([0.0, 0.5, 1.0])
        for change, inode in self.pending:
            if self.random.random() < share:
                apply_change(entries, change, inode)
        fates: dict[int, Inode] = {}
        for name, inode in entries.items():
            if id(inode) not in fates:
                fates[id(inode)] = inode.after_power_failure(self.random)
            disk.entries[name] = fates[id(inode)]
        disk.stored_entries = dict(disk.entries)
        return disk

    def _change(self, change: tuple[str, ...], inode: Inode | None) -> None:
        replaced = self.entries.get(change[-1])
        if replaced is not None:
            self.free += len(replaced.data)
        self.pending.append((change, inode))
        apply_change(self.entries, change, inode)


def with_disk(options: dict[str, Any]) -> dict[str, Any]:
    """Return a server's keywords with a disk for streams in memory, so that restarts keep them."""
    if options.get("jetstream") is True and "disk" not in options:
        return {**options, "disk": SimulatedDisk()}
    return options


def apply_change(entries: dict[str, Inode], change: tuple[str, ...], inode: Inode | None) -> None:
    """Apply a creation, rename or removal to the entries of a directory."""
    if change[0] == "create":
        assert inode is not None
        entries[change[1]] = inode
    elif change[0] == "unlink":
        entries.pop(change[1], None)
    elif inode is not None:  # a directory refers to files by inode, so only this one is renamed
        entries.pop(change[1], None)
        entries[change[2]] = inode


class SimulatedFile(DiskFile):
    """An open file of a simulated disk."""

    def __init__(self, disk: SimulatedDisk, inode: Inode) -> None:
        self.disk = disk
        self.inode = inode

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position` on."""
        cold = self.inode.cold_in(position, size)
        if cold:
            self.disk.cold_reads += 1
            self.inode.cold.difference_update(cold)
        return bytes(self.inode.data[position : position + size])

    def read_cached(self, position: int, size: int) -> bytes | None:
        """Return the bytes that the page cache has from `position` on, or None."""
        cold = self.inode.cold_in(position, size)
        end = min(cold) * PAGE if cold else position + size
        return self.read(position, end - position) if end > position else None

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write in pieces, so that the machine can stop between them."""
        self.disk.step(f"write {len(data)} at {position}")
        half = self.disk.random.randint(0, len(data)) // 8 * 8  # a page ends at such a position
        more = max(position + len(data) - len(self.inode.data), 0)
        if more > self.disk.free:
            self.inode.write(position, bytes(data[: max(len(self.inode.data) - position, 0)]))
            raise OSError(errno.ENOSPC, "No space left on device")
        self.disk.free -= more
        self.inode.write(position, bytes(data[:half]))
        self.disk.step(f"write the rest at {position + half}")
        self.inode.write(position + half, bytes(data[half:]))

    def allocate(self, size: int) -> None:
        """Make the file `size` bytes long, or as long as there is room."""
        self.disk.step(f"allocate {size}")
        more = size - len(self.inode.data)
        if more > self.disk.free:
            self.inode.resize(len(self.inode.data) + self.disk.free)
            self.disk.free = 0
            raise OSError(errno.ENOSPC, "No space left on device")
        self.disk.free -= more
        self.inode.resize(size)

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long."""
        self.disk.step(f"truncate {size}")
        self.disk.free += len(self.inode.data) - size
        self.inode.resize(size)

    def size(self) -> int:
        """Return the length of the file, in bytes."""
        return len(self.inode.data)

    def sync(self) -> None:
        """Write the file to the medium, unless this sync is to fail."""
        self.disk.step("sync")
        if self.disk.fail_sync_at == 0:
            self.disk.fail_sync_at = -1
            self.disk.sync_failed()
            self.inode.dirty.clear()  # as on Linux, pages that could not be written become clean
            raise OSError(errno.EIO, "Input/output error")
        self.disk.fail_sync_at -= 1 if self.disk.fail_sync_at > 0 else 0
        self.inode.sync()

    def close(self) -> None:
        """Do nothing: the file holds no resources."""


class SimulatedCommitter:
    """Does a write after the disk's latency, or when the simulation pumps it."""

    def __init__(self, disk: SimulatedDisk, done: Callable[[int, int], None]) -> None:
        self.disk = disk
        self.done = done
        self.job: Write | None = None

    def write(self, write: Write) -> None:
        """Begin a write."""
        assert self.job is None, "one write at a time"
        self.job = write
        self.disk.work_later(lambda: self._is_due(write))

    def _is_due(self, write: Write) -> None:
        if self.job is write:  # otherwise it was settled before
            self.work()

    def work(self) -> bool:
        """Complete the pending write; return False without one."""
        job = self.job
        if job is None:
            return False
        stage, error = self.result(job)
        self.job = None
        self.done(stage, error)
        return True

    def result(self, job: Write) -> tuple[int, int]:
        """Write and sync; return 0 and 0, or the stage that failed and the errno."""
        stage = 1
        try:
            if job.extend > job.file.size():
                job.file.allocate(job.extend)
            if job.seal:
                records.seal(job.data, job.used, job.seed, job.segment, job.position)
            job.file.write(job.position, bytes(job.data[: job.used]))
            stage = 2
            if job.sync:
                job.file.sync()
            if job.with_directory:
                self.disk.sync_directory()
        except OSError as error:
            return stage, error.errno or errno.EIO
        return 0, 0

    def settle(self) -> None:
        """Complete the pending write now."""
        self.work()

    def close(self) -> None:
        """Complete the pending write."""
        self.settle()
