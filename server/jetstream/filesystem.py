"""The kind of file system that a store lies on: some lose the store even when it is synced."""

from __future__ import annotations

from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")

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
