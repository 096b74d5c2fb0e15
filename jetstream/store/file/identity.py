"""A store's identity: two small files with the same content, because no record is readable without.

Each has a line that names its purpose, the format, the store's random id, the wrapped key of an
encrypted store, and a checksum. One file is replaced after the other, so that a crash leaves at
least one whole; either of them is sufficient.

Files of two stores must not be mixed. When the identities differ, or one is missing, the logs
decide before anything is written: the right identity is the one under which their records check.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from midge.jetstream.store.disk import Disk, DiskFile
from midge.jetstream.store.file.group import SUFFIX, Segment, segment_number
from midge.jetstream.store.file.recovery import Replay
from midge.jetstream.store.interface import StoreError, StoreKeyError

if TYPE_CHECKING:
    from midge.jetstream.store.encryption import UserKeys

NAMES = ("store.a", "store.b")

NEW = ".new"
"""What the name of a file ends in until it takes the place of the one without it."""

HEAD_AT = 512
"""Where the head of the store stands in both files, see `head`: the next sector."""

HEAD_MAX = 16 * 1024 * 1024  # bytes of it

ASIDE = ".aside"
"""What the name of a file that was put aside goes on with, before a number if there are several."""

_PLAIN = b"1"
_ENCRYPTED = b"2"
_ID_SIZE = 16


class Identity(NamedTuple):
    """The store's id, and its wrapped key; empty where the store is not encrypted."""

    store_id: bytes
    wrapped_key: bytes


class Established(NamedTuple):
    """The store's id, the disk to use, and the files that name another store: they are aside."""

    store_id: bytes
    disk: Disk
    foreign: list[str]


def establish(disk: Disk, keys: UserKeys | None) -> Established:
    """Return which store it is and the disk to use, after making or mending its identity.

    With keys that is an encrypting disk, and the identity is wrapped by the current one. Of two
    identities that differ the one counts under which the logs have records.

    Raises:
        StoreError: the identity cannot be read, or not with these keys, or is of another store.
    """
    names = disk.names()
    found = [_read(disk, name) if name in names else None for name in NAMES]
    logs = [name for name in names if segment_number(name)]
    known = list(dict.fromkeys(one.store_id for one in found if one is not None))
    if not known:
        if any(name.endswith(SUFFIX) for name in names):
            raise StoreError("the store's id cannot be read: store.a and store.b are damaged")
        known = [disk.random_bytes(_ID_SIZE)]
    store_id = known[0]
    if logs and (len(known) > 1 or None in found):
        store_id = _proven(disk, keys, known, found, logs)
    own = [one for one in found if one is not None and one.store_id == store_id]
    wanted, opened = _opened(disk, keys, store_id, own)
    foreign = [
        name
        for name, one in zip(NAMES, found, strict=True)
        if one is not None and one.store_id != store_id
    ]
    for name in foreign:
        put_aside(disk, name)
    _write_where_missing(disk, found, wanted)
    return Established(store_id, opened, foreign)


def _proven(
    disk: Disk,
    keys: UserKeys | None,
    known: list[bytes],
    found: list[Identity | None],
    logs: list[str],
) -> bytes:
    """Return the one id under which logs have records; the only id if the logs are empty."""
    fitting: list[bytes] = []
    refused: StoreKeyError | None = None
    for store_id in known:
        own = [one for one in found if one is not None and one.store_id == store_id]
        try:
            _, opened = _opened(disk, keys, store_id, own)
        except StoreKeyError as error:
            refused = error
            continue
        if any(_has_record(opened, name, zlib.crc32(store_id)) for name in logs):
            fitting.append(store_id)
    if len(fitting) == 1:
        return fitting[0]
    if refused is not None:
        raise refused
    if len(known) > 1:
        raise StoreError(
            "store.a and store.b are of different stores, and no log says which is right"
        )
    if any(_content(disk, name).strip(b"\0") for name in logs):
        raise StoreError("no log has a record of the store that store.a and store.b name")
    return known[0]


def _has_record(disk: Disk, name: str, seed: int) -> bool:
    segment = Segment(segment_number(name), DiskFile(), 0, 0)
    reader = Replay(seed, lambda _: None, lambda _: None, lambda _: False)
    return reader.next_record(segment, bytearray(_content(disk, name)), 0) >= 0


def _content(disk: Disk, name: str) -> bytes:
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _opened(
    disk: Disk, keys: UserKeys | None, store_id: bytes, own: list[Identity]
) -> tuple[Identity, Disk]:
    """Return what both files are to hold, and the disk that reads and writes the store.

    Raises:
        StoreKeyError: the keys do not fit.
    """
    wrapped = [one for one in own if one.wrapped_key]
    if keys is None:
        if wrapped:
            raise StoreKeyError("the store is encrypted, and no key is given")
        return Identity(store_id, b""), disk
    from midge.jetstream.store.encrypted_disk import EncryptedDisk  # noqa: PLC0415 - cryptography
    from midge.jetstream.store.encryption import KEY_SIZE  # noqa: PLC0415

    known = Identity(store_id, b"")
    store_key = None
    error: StoreKeyError | None = None
    is_current = True
    for one in dict.fromkeys(wrapped):
        try:
            store_key, is_newest = keys.unwrap(one.wrapped_key, store_id)
        except StoreKeyError as caught:
            error = caught
        else:
            is_current = is_current and is_newest
            known = one
    if store_key is None:
        if error is not None:
            raise error
        store_key = disk.random_bytes(KEY_SIZE)
        is_current = False
    if not is_current:
        known = Identity(store_id, keys.wrap(store_key, store_id))
    return known, EncryptedDisk(disk, store_key, keys.cipher)


def put_aside(disk: Disk, name: str) -> None:
    """Give a file a name by which nothing opens it, so that it can be put back."""
    names = disk.names()
    count = sum(without_aside(one) == name != one for one in names)
    disk.rename(name, f"{name}{ASIDE}{count or ''}")
    disk.sync_directory()


def without_aside(name: str) -> str:
    """Return the name that a file had before it was put aside."""
    return name.partition(ASIDE)[0]


def _write_where_missing(disk: Disk, found: list[Identity | None], wanted: Identity) -> None:
    """See that both files hold the identity."""
    if found != [wanted, wanted]:
        for name in NAMES:
            _write(disk, name, wanted)


def _read(disk: Disk, name: str) -> Identity | None:
    """Return what a file holds, None when it is damaged."""
    file = disk.open(name)
    try:
        lines = file.read(0, 4096).split(b"\n")
    finally:
        file.close()
    count = 4 if lines[1:2] == [_ENCRYPTED] else 3
    if len(lines) <= count or lines[0] != b"midge store":
        return None
    text = b"\n".join(lines[:count]) + b"\n"
    if lines[count] != b"%08x" % zlib.crc32(text):
        return None
    if lines[1] not in {_PLAIN, _ENCRYPTED}:
        newer = lines[1].decode(errors="replace")
        raise StoreError(f"the store is of format {newer}, and this version reads 1 and 2")
    store_id = bytes.fromhex(lines[2].decode())
    return Identity(store_id, bytes.fromhex(lines[3].decode()) if count == 4 else b"")


def _write(disk: Disk, name: str, identity: Identity) -> None:
    """Write the identity into a file that keeps its head, and see that it is on the disk."""
    head = b""
    if name in disk.names():
        before = disk.open(name)
        head = before.read(HEAD_AT, HEAD_MAX)
        before.close()
    lines = [b"midge store", _PLAIN, identity.store_id.hex().encode()]
    if identity.wrapped_key:
        lines[1] = _ENCRYPTED
        lines.append(identity.wrapped_key.hex().encode())
    text = b"\n".join(lines) + b"\n"
    file = disk.create(name + NEW)
    file.write(0, text + b"%08x\n" % zlib.crc32(text))
    if head:
        file.write(HEAD_AT, head)
    file.sync()
    file.close()
    disk.rename(name + NEW, name)
    disk.sync_directory()
