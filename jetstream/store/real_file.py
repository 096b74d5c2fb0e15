"""A file of the operating system, as stores use it."""

from __future__ import annotations

import errno
import os

from midge import platforms
from midge.jetstream.store.disk import DiskFile

_NO_WAITING = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_TELL = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class RealFile(DiskFile):
    """A file of the operating system; `descriptor` is its number.

    It has been opened by `name` in a directory, of which the descriptor is given.
    """

    def __init__(self, descriptor: int, directory: int, name: str) -> None:
        self.descriptor = descriptor
        self._directory = directory
        self._name = name

    def open_direct(self) -> int:
        """Return another descriptor, to write past the page cache; -1 where there is none.

        The file must still have the name that it was opened by.
        """
        if not hasattr(os, "O_DIRECT"):
            return -1
        flags = os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC
        try:
            return os.open(self._name, flags, dir_fd=self._directory)
        except OSError:
            return -1

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position` on."""
        data = os.pread(self.descriptor, size, position)
        while len(data) < size:  # a read may end early, and does so above 2 GiB
            more = os.pread(self.descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_cached(self, position: int, size: int) -> bytes | bytearray | None:
        """Return what the page cache has of `size` bytes from `position` on; None for nothing.

        Where the system or the file system cannot say, as in memory, it is read in any case.
        """
        if not _NO_WAITING:
            return self.read(position, size)
        data = bytearray(size)
        try:
            count = os.preadv(self.descriptor, [data], position, _NO_WAITING)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
            return self.read(position, size)
        del data[count:]
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
        platforms.sync(self.descriptor)

    def close(self) -> None:
        """Release the file."""
        os.close(self.descriptor)

    def give_up(self) -> int:
        """Return the descriptor for another to close; nothing can be done with the file then."""
        descriptor = self.descriptor
        self.descriptor = -1
        return descriptor
