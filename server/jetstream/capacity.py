"""How much JetStream may use where nothing is configured: three quarters of memory and disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from midge.jetstream.account.limits import ServerLimits
from midge.jetstream.environment.surroundings import BacklogLimits, BatchLimits
from midge.jetstream.json.times import SECOND_NS
from midge.jetstream.store.file.log_identity import is_own

if TYPE_CHECKING:
    from midge.server.config.jetstream import JetStream, JetStreamLimits

_BLOCK = 512  # bytes, in which `stat` counts

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def store_directory(options: JetStream) -> Path:
    """Return the directory that files go to: `jetstream` in the configured one."""
    if options.store_dir:
        return Path(options.store_dir) / "jetstream"
    import tempfile  # noqa: PLC0415 - takes a millisecond, and most servers name a directory

    return Path(tempfile.gettempdir()) / "nats" / "jetstream"


def memory_limit(options: JetStream) -> int:
    """Return the most bytes of memory streams: as set, or 3/4 of the machine's or container's."""
    if options.max_memory_bytes >= 0:
        return options.max_memory_bytes
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, *(_cgroup_limit(path, total) for path in _CGROUP_LIMITS)) // 4 * 3


def disk_limit(options: JetStream) -> int:
    """Return the most bytes of file streams: as set, or 3/4 of the free disk and the store's files.

    The messages stored count against the limit, so that without the size of the files a restart
    would leave less of it the more is stored.
    """
    if options.max_file_bytes >= 0:
        return options.max_file_bytes
    place = store_directory(options)
    stored = _size_of_files(place) if place.is_dir() else 0
    while not place.exists() and place != place.parent:
        place = place.parent
    disk = os.statvfs(place)
    return (disk.f_bavail * disk.f_frsize + stored) // 4 * 3


def _size_of_files(place: Path) -> int:
    """Return the bytes of disk that the files of the store in a directory take."""
    files = [entry.stat() for entry in os.scandir(place) if is_own(entry.name)]
    return sum(file.st_blocks * _BLOCK for file in files)


def server_limits(options: JetStream) -> ServerLimits:
    """Return what all streams and consumers of the server may use."""
    asked = options.limits
    return ServerLimits(
        max_memory=memory_limit(options),
        max_storage=disk_limit(options),
        duplicate_window_max_ns=round(asked.duplicate_window_s * SECOND_NS),
        max_ack_pending=asked.max_ack_pending,
        max_request_batch=asked.max_request_batch,
    )


def batch_limits(asked: JetStreamLimits) -> BatchLimits:
    """Return the bounds of atomic batches, as set or the defaults."""
    limits = BatchLimits()
    return BatchLimits(
        asked.max_batch_inflight_per_stream or limits.atomic.per_stream,
        asked.max_batch_inflight_total or limits.atomic.total,
        asked.max_batch_messages or limits.atomic_size,
        round(asked.max_batch_timeout_s * SECOND_NS) or limits.timeout_ns,
    )


def backlog_limits(options: JetStream) -> BacklogLimits:
    """Return how much of one stream may wait for the disk, as set or the defaults."""
    limits = BacklogLimits()
    return BacklogLimits(
        options.max_buffered_messages or limits.messages,
        options.max_buffered_bytes or limits.size,
    )


def _cgroup_limit(path: Path, total: int) -> int:
    """Return the memory limit of a control group; `total` without one."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or `max`
        return total
