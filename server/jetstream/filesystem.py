"""A store's directory: its file system, and foreign files in it.

Some file systems lose the store's data even after a sync.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from midge.jetstream.store.file.log_identity import is_own
from midge.jetstream.store.real_disk import LOCK
from midge.server.jetstream.capacity import store_directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from midge.server.config.jetstream import JetStream

_MOUNTS = Path("/proc/self/mountinfo")

IMPORTED = "imported"
"""The file that lists the streams of nats-server beside it that `midge store import` has copied."""

_NAMED_MAX = 5

_VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "fuse.sshfs"}
)


def weakness_of(directory: Path, mounts: Path = _MOUNTS) -> str:
    """Return why a directory does not suit a store; empty if there is no known reason."""
    kind = kind_of(directory, mounts)
    if kind in _VOLATILE:
        return f"{kind} is memory: nothing outlives the machine"
    if kind in _REMOTE:
        return f"{kind} is on the network: its locks and syncs may promise less than a disk's"
    return ""


def kind_of(directory: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type of the file system of a directory; empty where it is unknown."""
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
    """Return the names of foreign files in a store's directory; empty when there are none."""
    known = {LOCK, IMPORTED, *(one.partition("/")[0] for one in nats_streams_in(directory))}
    names = sorted(one.name for one in directory.iterdir() if one.name not in known)
    found = [name for name in names if not is_own(name)]
    left_out = len(found) - _NAMED_MAX
    shown = found[:_NAMED_MAX] + ([f"{left_out} more"] if left_out > 0 else [])
    return ", ".join(shown)


def nats_streams_in(directory: Path) -> list[str]:
    """Return `account/stream` of each stream that nats-server keeps in a directory."""
    found = (path.parent for path in directory.glob("*/streams/*/meta.inf"))
    return sorted(f"{path.parent.parent.name}/{path.name}" for path in found)


def note_imported(directory: Path, streams: Iterable[str]) -> None:
    """Record that midge's store in `directory` has these streams of nats-server, by name."""
    lines = sorted({*_imported(directory), *streams})
    (directory / IMPORTED).write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")


def unread_nats_streams(options: JetStream) -> str:
    """Return a refusal that names the unread streams of nats-server and the import; "" for none.

    Programs would begin again at sequence 1 in the directory that has their data.
    """
    place = store_directory(options)
    left = [one for one in nats_streams_in(place) if one not in _imported(place)]
    if options.in_memory or not left:
        return ""
    shown = ", ".join(left[:_NAMED_MAX]) + (", …" if len(left) > _NAMED_MAX else "")
    base = shlex.quote(str(place.parent))
    keys = " --key-file FILE --nats-key-file FILE" if options.encryption_key else ""
    return (
        f"{place} holds streams of nats-server that midge does not have ({shown}); to import them, "
        f"run: midge store import {base} --into {base}{keys}; to start without them: "
        "--jetstream-ignore-nats-streams"
    )


def _imported(directory: Path) -> frozenset[str]:
    """Return the streams that `note_imported` has recorded."""
    try:
        return frozenset((directory / IMPORTED).read_text(encoding="utf-8").splitlines())
    except OSError:
        return frozenset()
