"""Reading a whole store of midge's as a start would, without changing a byte of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from midge.jetstream.account.account import UNFINISHED
from midge.jetstream.json.encode import text
from midge.jetstream.store.encrypted_disk import UserKeys
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.read_only import ReadOnlyDisk, find_store
from midge.jetstream.stream import admission

_LOST_SHOWN_MAX = 100


@dataclass
class CheckedStream:
    """The contents of one stream; `lost` has the sequences that cannot be read, the first 100.

    `invalid` describes what a start refuses to use of it, and then the whole stream.
    """

    account: str
    stream: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    consumers: int
    lost: list[int] = field(default_factory=list)
    lost_count: int = 0
    invalid: str = ""


@dataclass
class Checked:
    """The contents of a store. `damages` describes what cannot be read of its files."""

    streams: list[CheckedStream]
    damages: list[str]
    repairable: int
    """Bytes that are damaged and can be put right; the next start of a server does so."""
    unknown_bytes: int
    """Damaged bytes of which it is not known what they were."""
    torn: list[str]
    """Ends of files that hold no whole group: of a write that was cut short, in all likelihood."""
    aside: list[str]
    """Files that the next start gives another name: they are of no use, yet may hold data."""


def check_store(path: Path, key: bytes = b"") -> Checked:
    """Read all of a store and verify every checksum; `key` opens an encrypted one.

    Raises:
        StoreError: the store does not exist, is in use, or cannot be read at all.
    """
    disk = ReadOnlyDisk(find_store(path))
    try:
        directory = StoreDirectory(
            disk, lambda: None, keys=UserKeys(key) if key else None, is_checked=True
        )
        streams = [_check(store) for store in directory.streams()]
        return Checked(
            streams,
            [str(one) for one in directory.damages],
            directory.repaired,
            sum(one.length for one in directory.damages if not one.seq),
            [str(one) for one in directory.torn],
            directory.aside,
        )
    finally:
        disk.close()


def _check(store: FileStore) -> CheckedStream:
    """Read all messages of a stream."""
    lost = set(store.lost)
    seq = store.next_seq((), store.first_seq) if store.messages else 0
    while seq:
        if store.load(seq) is None:
            lost.add(seq)
        seq = store.next_seq((), seq + 1) if seq < store.last_seq else 0
    consumers = [name for name, _, _ in store.consumers() if not name.startswith(b"\x00")]
    return CheckedStream(
        text(store.account),
        text(store.name),
        store.messages,
        store.bytes,
        store.first_seq,
        store.last_seq,
        len(consumers),
        sorted(lost)[:_LOST_SHOWN_MAX],
        len(lost),
        admission.stored_problem(store) if store.config() != UNFINISHED else "",
    )
