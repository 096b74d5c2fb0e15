"""A store's directory, read as a start would read it, without changing a byte of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from midge import platforms
from midge.jetstream.store.disk import Committer, Disk, DiskFile, Write
from midge.jetstream.store.file.log_identity import is_own
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.real_disk import LOCK

_SUBFOLDERS = ("", "jetstream")


def find_store(path: Path) -> Path:
    """Return the directory of the store in `path`, which is that directory or the one above it.

    Raises:
        StoreError: there is none.
    """
    for name in _SUBFOLDERS:
        place = path / name
        if place.is_dir() and any(is_own(one.name) for one in place.iterdir()):
            return place
    raise StoreError(f"there is no store of midge's in {path}")


class ReadOnlyFile(DiskFile):
    """A file of which changes stay in memory."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size if descriptor is not None else 0
        self._there = self._size
        self._changes: list[tuple[int, bytes]] = []

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position` on, as they would be."""
        end = min(position + size, self._size)
        if end <= position:
            return b""
        data = bytearray(end - position)
        at = position
        while self._descriptor is not None and at < min(end, self._there):
            piece = os.pread(self._descriptor, min(end, self._there) - at, at)
            if not piece:
                break
            data[at - position : at - position + len(piece)] = piece
            at += len(piece)
        for start, change in self._changes:
            first, last = max(start, position), min(start + len(change), end)
            if first < last:
                data[first - position : last - position] = change[first - start : last - start]
        return bytes(data)

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Note a change, if it is one."""
        end = position + len(data)
        if end > self._size or self.read(position, len(data)) != data:
            self._size = max(self._size, end)
            self._changes.append((position, bytes(data)))

    def allocate(self, size: int) -> None:
        """Behave as a longer file."""
        self._size = max(self._size, size)

    def truncate(self, size: int) -> None:
        """Behave as a file of another length."""
        self._there = min(self._there, size)
        self._changes = [(at, change[: max(size - at, 0)]) for at, change in self._changes]
        self._size = size

    def size(self) -> int:
        """Return how long the file would be."""
        return self._size

    def sync(self) -> None:
        """Do nothing: there is nothing to sync."""

    def close(self) -> None:
        """Keep the file and its changes, as it may be opened again; `release` lets go of it."""

    def release(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ReadOnlyDisk(Disk):
    """A directory of which changes stay in memory.

    Beside a server it shows the files as they are when it opens them. The server may then add to
    them and delete them; at most the last write of the copy seems to be cut short.

    Raises:
        StoreError: another process has the directory, and it is not to be read beside that.
    """

    def __init__(self, path: Path, *, beside_server: bool = False) -> None:
        self._path = path
        self._files: dict[str, ReadOnlyFile] = {}
        is_there = not beside_server and (path / LOCK).exists()
        self._lock = os.open(path / LOCK, os.O_RDONLY) if is_there else -1
        if self._lock >= 0:
            try:
                platforms.lock(self._lock, shared=True)
            except OSError as error:
                os.close(self._lock)
                raise StoreError(f"the store in {path} is in use by another process") from error
        for entry in path.iterdir():
            if entry.name == LOCK or not entry.is_file():
                continue
            try:
                descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # the server has deleted it meanwhile
                continue
            self._files[entry.name] = ReadOnlyFile(descriptor)

    def names(self) -> list[str]:
        """Return the names of the files that would be there, sorted."""
        return sorted(self._files)

    def open(self, name: str) -> DiskFile:
        """Open a file that is there; it stays open until the end."""
        return self._files[name]

    def create(self, name: str) -> DiskFile:
        """Make a file in memory."""
        self._files[name] = ReadOnlyFile(None)
        return self._files[name]

    def rename(self, old: str, new: str) -> None:
        """Behave as if a file had another name."""
        self._files[new] = self._files.pop(old)

    def unlink(self, name: str) -> None:
        """Behave as if a file were gone."""
        del self._files[name]

    def sync_directory(self) -> None:
        """Do nothing: there is nothing to sync."""

    def free_bytes(self) -> int:
        """Return as much as is ever asked for."""
        return 1 << 62

    def random_bytes(self, count: int) -> bytes:
        """Return unpredictable bytes."""
        return os.urandom(count)

    def committer(self, done: Callable[[int, int], None]) -> Committer:
        """Return what writes nothing."""
        return _NoCommitter()

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.release()
        if self._lock >= 0:
            os.close(self._lock)


class _NoCommitter:
    """Commits nothing: nothing is ever written."""

    def write(self, write: Write) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Wait for nothing."""

    def close(self) -> None:
        """Do nothing, because it holds nothing open."""
