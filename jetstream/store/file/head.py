"""The head of a store: the list of its logs, so that a missing one is noticed.

It lies behind the identity in `store.a` and in `store.b`, in its own sector, and is overwritten in
place, one file after the other: after a crash one of them is whole, and the one with the higher
count is newer. It names the logs that have records, the last one with its least length, and the
last sequences of the streams. All of these only grow while a server runs, except for logs that
compaction removes: the head drops such a log before its removal.

A log that the head names and that is missing, or is shorter than its least length, is lost data. So
is the rest of a log that is shorter than the first group of the next log records; this needs no
head. A compacted log may be shorter: its only group, written after the next log's groups, shows it.

Versions of midge without a head leave it alone. Their groups lack `records.FLAG_HEAD`: logs after
the last one of the head that begin without it make the head too old to be held against the files.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from midge.jetstream.store.disk import Disk, Write
from midge.jetstream.store.file.identity import HEAD_AT, HEAD_MAX, NAMES

_TITLE = b"midge logs"


class Contents(NamedTuple):
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
        self._files = [disk.open(name) for name in NAMES]

    def read(self) -> Contents | None:
        """Return the newest of both copies; None if none is whole."""
        found = [parsed(file.read(HEAD_AT, HEAD_MAX), self._seed) for file in self._files]
        whole = [one for one in found if one is not None]
        if not whole:
            return None
        self._count, contents = max(whole, key=lambda one: one[0])
        return contents

    def write(self, contents: Contents) -> None:
        """Write both copies now, one after the other."""
        data = self._next(contents)
        for file in self._files:
            file.write(HEAD_AT, data)
            file.sync()

    def save(
        self,
        contents: Contents,
        chore: Callable[[Write, Callable[[bool], object]], object],
        done: Callable[[bool], object],
    ) -> None:
        """Write both copies by `chore`; call `done` with whether that succeeded."""
        data = self._next(contents)

        def second(is_well: bool) -> None:
            if is_well:
                chore(writes[1], done)
            else:
                done(False)

        writes = [Write(file, bytearray(data), len(data), HEAD_AT) for file in self._files]
        chore(writes[0], second)

    def close(self) -> None:
        """Release the files."""
        for file in self._files:
            file.close()

    def _next(self, contents: Contents) -> bytes:
        self._count += 1
        return serialized(self._count, contents, self._seed)


def serialized(count: int, contents: Contents, seed: int) -> bytes:
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


def parsed(data: bytes, seed: int) -> tuple[int, Contents] | None:
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
    return count, Contents(
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
