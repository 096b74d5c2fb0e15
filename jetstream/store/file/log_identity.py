"""A store's identity and its head: two small files with the same contents, `store.a`, `store.b`.

The identity is a line with the file's purpose, the format, the store's random id, the wrapped key
of an encrypted store, and a checksum. One file is replaced after the other, so that a crash leaves
at least one whole; either of them is sufficient.

Files of two stores must not be mixed. When the identities differ, or one is missing, the logs
decide before anything is written: the right identity is the one under which their records check.

The head is the list of the logs, so that a missing one is noticed. It lies behind the identity in
its own sector, and is overwritten in place, one file after the other: after a crash one of them is
whole, and the one with the higher count is newer. It names the logs that have records, the last one
with its least length, and the last sequences of the streams. All of these only grow while a server
runs, except for logs that compaction removes: the head drops such a log before its removal.

A log that the head names and that is missing, or is shorter than its least length, is lost data. So
is the rest of a log that is shorter than the first group of the next log records; this needs no
head. A compacted log may be shorter: its only group, written after the next log's groups, shows it.

Versions of midge without a head leave it alone. Their groups lack `records.FLAG_HEAD`: logs after
the last one of the head that begin without it make the head too old to be held against the files.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from midge.jetstream.store.disk import Disk, DiskFile, Write
from midge.jetstream.store.file.group import SUFFIX, Segment, segment_number
from midge.jetstream.store.file.recovery import Replay
from midge.jetstream.store.interface import StoreError, StoreKeyError

if TYPE_CHECKING:
    from midge.jetstream.store.encrypted_disk import UserKeys

NAMES = ("store.a", "store.b")

NEW = ".new"
"""What the name of a file ends in until it takes the place of the one without it."""

CHECKPOINT = "checkpoint"
"""The name of the file that a start can do without, see checkpoint.py."""

HEAD_AT = 512
"""Where the head of the store stands in both files, see `Head`: the next sector."""

HEAD_MAX = 16 * 1024 * 1024  # bytes of it

ASIDE = ".aside"
"""What the name of a file that was put aside goes on with, before a number if there are several."""

_PLAIN = b"1"
_ENCRYPTED = b"2"
_ID_SIZE = 16


class LogIdentity(NamedTuple):
    """The store's id, and its wrapped key; empty where the store is not encrypted."""

    store_id: bytes
    wrapped_key: bytes


class EstablishedStore(NamedTuple):
    """The store's id, the disk to use, and the files that name another store: they are aside."""

    store_id: bytes
    disk: Disk
    foreign: list[str]


def establish(disk: Disk, keys: UserKeys | None) -> EstablishedStore:
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
    return EstablishedStore(store_id, opened, foreign)


def _proven(
    disk: Disk,
    keys: UserKeys | None,
    known: list[bytes],
    found: list[LogIdentity | None],
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
    disk: Disk, keys: UserKeys | None, store_id: bytes, own: list[LogIdentity]
) -> tuple[LogIdentity, Disk]:
    """Return what both files are to hold, and the disk that reads and writes the store.

    Raises:
        StoreKeyError: the keys do not fit.
    """
    wrapped = [one for one in own if one.wrapped_key]
    if keys is None:
        if wrapped:
            raise StoreKeyError("the store is encrypted, and no key is given")
        return LogIdentity(store_id, b""), disk
    from midge.jetstream.store.encrypted_disk import KEY_SIZE, EncryptedDisk  # noqa: PLC0415

    known = LogIdentity(store_id, b"")
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
        known = LogIdentity(store_id, keys.wrap(store_key, store_id))
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


def _write_where_missing(disk: Disk, found: list[LogIdentity | None], wanted: LogIdentity) -> None:
    """See that both files hold the identity."""
    if found != [wanted, wanted]:
        for name in NAMES:
            _write(disk, name, wanted)


def _read(disk: Disk, name: str) -> LogIdentity | None:
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
    return LogIdentity(store_id, bytes.fromhex(lines[3].decode()) if count == 4 else b"")


def _write(disk: Disk, name: str, identity: LogIdentity) -> None:
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


_TITLE = b"midge logs"


class LogContents(NamedTuple):
    """What a head says: the logs, the length of the last one, and of each stream some numbers.

    These are the first and the last sequence, and the number of messages; all of them are as they
    were at the end if the store `is_closed`. `short` has the lengths of logs that are shorter now:
    what they lack is lost.
    """

    logs: frozenset[int]
    length: int
    short: dict[int, int]
    sequences: dict[int, tuple[int, int, int]]
    is_closed: bool

    def last(self) -> int:
        """Return the number of the last log; 0 without logs."""
        return max(self.logs, default=0)


class Head:
    """Both copies of the head of a store."""

    def __init__(self, disk: Disk, seed: int) -> None:
        self._seed = seed
        self._count = 0
        self._waiting: list[Callable[[bool], object]] = []  # for the head after the one in progress
        self._is_saving = False
        self._files = [disk.open(name) for name in NAMES]

    @property
    def count(self) -> int:
        """The count of the newest head; it grows with each."""
        return self._count

    def read(self) -> LogContents | None:
        """Return the newest of both copies; None if none is whole."""
        found = [parsed(file.read(HEAD_AT, HEAD_MAX), self._seed) for file in self._files]
        whole = [one for one in found if one is not None]
        if not whole:
            return None
        self._count, contents = max(whole, key=lambda one: one[0])
        return contents

    def write(self, contents: LogContents) -> None:
        """Write both copies now, one after the other."""
        data = self._next(contents)
        for file in self._files:
            file.write(HEAD_AT, data)
            file.sync()

    def save(
        self,
        contents: Callable[[], LogContents],
        chore: Callable[[Write, Callable[[bool], object]], object],
        done: Callable[[bool], object],
    ) -> None:
        """Write both copies by `chore`; call `done` with whether that succeeded.

        All calls that come while a head is being written share the next one.
        """
        self._waiting.append(done)
        if not self._is_saving:
            self._save_next(contents, chore)

    def _save_next(
        self,
        contents: Callable[[], LogContents],
        chore: Callable[[Write, Callable[[bool], object]], object],
    ) -> None:
        """Write a head for all that wait for one."""
        waiting, self._waiting = self._waiting, []
        self._is_saving = bool(waiting)
        if not waiting:
            return
        data = self._next(contents())

        def second(is_well: bool) -> None:
            if is_well:
                chore(writes[1], saved)
            else:
                saved(False)

        def saved(is_well: bool) -> None:
            for done in waiting:
                done(is_well)
            self._save_next(contents, chore)

        writes = [Write(file, bytearray(data), len(data), HEAD_AT) for file in self._files]
        chore(writes[0], second)

    def close(self) -> None:
        """Release the files."""
        for file in self._files:
            file.close()

    def _next(self, contents: LogContents) -> bytes:
        self._count += 1
        return serialized(self._count, contents, self._seed)


def serialized(count: int, contents: LogContents, seed: int) -> bytes:
    """Return a head as a file has it."""
    lines = [
        b"%b %d %d %d" % (_TITLE, count, len(contents.sequences), contents.is_closed),
        b" ".join(b"%d-%d" % pair for pair in ranges(contents.logs)),
        b"%d" % contents.length,
        b" ".join(b"%d-%d" % pair for pair in sorted(contents.short.items())),
        *(b"%d %d %d %d" % (one, *three) for one, three in sorted(contents.sequences.items())),
    ]
    text = b"\n".join(lines) + b"\n"
    return text + b"%08x\n" % zlib.crc32(text, seed)


def parsed(data: bytes, seed: int) -> tuple[int, LogContents] | None:
    """Return a head's count and contents; None if it is not whole."""
    lines = data.split(b"\n")
    title, _, numbers = lines[0].rpartition(_TITLE + b" ")
    if title or not numbers:
        return None
    try:
        count, streams, is_closed = map(int, numbers.split())
        text = b"\n".join(lines[: streams + 4]) + b"\n"
        if lines[streams + 4] != b"%08x" % zlib.crc32(text, seed):
            return None
    except (ValueError, IndexError):
        return None
    logs: set[int] = set()
    for first, last in _pairs(lines[1]):
        logs.update(range(first, last + 1))
    sequences = {}
    for line in lines[4 : streams + 4]:
        number, first_seq, last_seq, messages = map(int, line.split())
        sequences[number] = (first_seq, last_seq, messages)
    return count, LogContents(
        frozenset(logs), int(lines[2]), dict(_pairs(lines[3])), sequences, is_closed == 1
    )


def _pairs(line: bytes) -> list[tuple[int, int]]:
    """Return the pairs of numbers in a line of a head."""
    found = []
    for piece in line.split():
        one, other = map(int, piece.split(b"-"))
        found.append((one, other))
    return found


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges, first and last, of which the numbers consist."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def is_own(name: str) -> bool:
    """Return whether a store makes files of this name; all others are left alone."""
    whole = without_aside(name.removesuffix(NEW))
    return whole in {*NAMES, CHECKPOINT} or bool(segment_number(whole))
