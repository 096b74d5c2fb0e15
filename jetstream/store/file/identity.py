"""A store's identity: two small files that say the same, since without them nothing can be read.

Each holds a line that says what it is, the format, the store's random id, the store's wrapped key
where it is encrypted, and a checksum. One file is replaced after the other, so that a crash leaves
one of both as it was; what is read of either of them holds for both.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from midge.jetstream.store.disk import Disk
from midge.jetstream.store.file.group import SUFFIX
from midge.jetstream.store.interface import StoreError, StoreKeyError

if TYPE_CHECKING:
    from midge.jetstream.store.encryption import UserKeys

NAMES = ("store.a", "store.b")

NEW = ".new"
"""What the name of a file ends in until it takes the place of the one without it."""

_PLAIN = b"1"
_ENCRYPTED = b"2"
_ID_SIZE = 16


class Identity(NamedTuple):
    """The store's id, and its wrapped key; empty where the store is not encrypted."""

    store_id: bytes
    wrapped_key: bytes


def establish(disk: Disk, keys: UserKeys | None) -> tuple[bytes, Disk]:
    """Return the store's id and the disk to use, after making or mending the store's identity.

    With keys that is an encrypting disk, and the identity is wrapped by the current one.

    Raises:
        StoreError: the identity cannot be read, or not with these keys.
    """
    names = disk.names()
    found = [_read(disk, name) for name in NAMES if name in names]
    known = next(filter(None, found), None)
    if known is None:
        if any(name.endswith(SUFFIX) for name in names):
            raise StoreError("the store's id cannot be read: store.a and store.b are damaged")
        known = Identity(disk.random_bytes(_ID_SIZE), b"")
    if keys is not None:
        return known.store_id, _encrypted(disk, keys, known, found)
    if any(one is not None and one.wrapped_key for one in found):
        raise StoreKeyError("the store is encrypted, and no key is given")
    _write_where_missing(disk, found, known)
    return known.store_id, disk


def _encrypted(disk: Disk, keys: UserKeys, known: Identity, found: list[Identity | None]) -> Disk:
    """Return the encrypting disk; see that both files hold its key, wrapped by the current one."""
    from midge.jetstream.store.encrypted_disk import EncryptedDisk  # noqa: PLC0415 - cryptography
    from midge.jetstream.store.encryption import KEY_SIZE  # noqa: PLC0415

    store_key = None
    error: StoreKeyError | None = None
    is_current = True
    for one in dict.fromkeys(one for one in found if one is not None and one.wrapped_key):
        try:
            store_key, is_newest = keys.unwrap(one.wrapped_key, known.store_id)
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
        known = Identity(known.store_id, keys.wrap(store_key, known.store_id))
    _write_where_missing(disk, found, known)
    return EncryptedDisk(disk, store_key, keys.cipher)


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
    """Write the identity into a file, and see that it is on the disk."""
    lines = [b"midge store", _PLAIN, identity.store_id.hex().encode()]
    if identity.wrapped_key:
        lines[1] = _ENCRYPTED
        lines.append(identity.wrapped_key.hex().encode())
    text = b"\n".join(lines) + b"\n"
    file = disk.create(name + NEW)
    file.write(0, text + b"%08x\n" % zlib.crc32(text))
    file.sync()
    file.close()
    disk.rename(name + NEW, name)
    disk.sync_directory()
