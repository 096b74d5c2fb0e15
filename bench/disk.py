"""The speed of the disk that holds the servers' stores.

Everything that is stored in a file depends on it. The disk of a virtual machine often allocates
room only on the first write, so new room and rewritten room are measured separately.
"""

import mmap
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.stats import percentile

_GROUP_BYTES = 6 * 1024 * 1024  # the size in which midge writes a flood of messages
_PAGE_BYTES = 4096
_PAGES = 200


@dataclass(frozen=True)
class DiskSpeed:
    """Bytes a second synced in new room and in the same room again, and the median of one page."""

    new: float
    again: float
    page_us: float

    def __str__(self) -> str:
        """Return one line for a results page."""
        group, page = _GROUP_BYTES >> 20, _PAGE_BYTES >> 10
        return (
            f"{group} MiB synced at {self.new / 1e9:.2g} GB/s in new room, "
            f"at {self.again / 1e9:.2g} in the same again, {page} KiB in {self.page_us:.0f} µs"
        )


def measure(groups: int = 48, folder: Path | None = None) -> DiskSpeed:
    """Write `groups` groups to a file in the folder, twice, and then pages one by one.

    They bypass the page cache if the file system allows it. The default folder is the one for
    temporary files, which also has the servers' stores.
    """
    with tempfile.NamedTemporaryFile(dir=folder) as named, mmap.mmap(-1, _GROUP_BYTES) as group:
        group.write(os.urandom(_GROUP_BYTES))
        file = _open_direct(named.name)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, groups * _GROUP_BYTES)
            new, again = (groups * _GROUP_BYTES / _seconds(file, group, groups) for _ in range(2))
            page = memoryview(group)[:_PAGE_BYTES]
            waits = sorted(_seconds(file, page, 1) * 1e6 for _ in range(_PAGES))
            page.release()
        finally:
            os.close(file)
    return DiskSpeed(new, again, percentile(waits, 50))


def _open_direct(name: str) -> int:
    try:
        return os.open(name, os.O_RDWR | getattr(os, "O_DIRECT", 0))
    except OSError:  # not every file system supports it
        return os.open(name, os.O_RDWR)


def _seconds(file: int, data: mmap.mmap | memoryview, times: int) -> float:
    """Write the same data `times` times in sequence, with a sync after each; return the seconds."""
    start = time.perf_counter()
    for number in range(times):
        os.pwrite(file, data, number * len(data))
        getattr(os, "fdatasync", os.fsync)(file)
    return time.perf_counter() - start
