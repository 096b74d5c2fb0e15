"""A store's directory: the file system that it lies on, and what is not the store's in it.

Some file systems lose the store even when it is synced.
"""

from __future__ import annotations

from pathlib import Path

from midge.jetstream.store.file.directory import is_own
from midge.jetstream.store.real_disk import LOCK

_MOUNTS = Path("/proc/self/mountinfo")

_NAMED_MAX = 5

_VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "fuse.sshfs"}
)


def weakness_of(directory: Path, mounts: Path = _MOUNTS) -> str:
    """Say why a directory does not suit a store; empty if nothing is known against it."""
    kind = kind_of(directory, mounts)
    if kind in _VOLATILE:
        return f"{kind} is memory: nothing outlives the machine"
    if kind in _REMOTE:
        return f"{kind} is on the network: its locks and syncs may promise less than a disk's"
    return ""


def kind_of(directory: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system of a directory; empty where that cannot be told."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:  # not Linux
        return ""
    place = directory.resolve()
    found, longest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if place.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = after.split()[0], len(point.parts)
    return found


def strangers_in(directory: Path) -> str:
    """Name what is in a store's directory and not the store's; empty when there is nothing else."""
    names = sorted(one.name for one in directory.iterdir() if one.name != LOCK)
    found = [name for name in names if not is_own(name)]
    left_out = len(found) - _NAMED_MAX
    shown = found[:_NAMED_MAX] + ([f"{left_out} more"] if left_out > 0 else [])
    return ", ".join(shown)


def has_nats_streams(directory: Path) -> bool:
    """Tell whether nats-server keeps streams in a directory: one for each account there."""
    return any(True for _ in directory.glob("*/streams/*/meta.inf"))
