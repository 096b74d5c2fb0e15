"""Segments of the log, and groups: what goes to the disk in one write and one sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.file import records

SUFFIX = ".log"


def pages(size: int) -> int:
    """Return `size` in whole pages."""
    return (size + 4095) & ~4095


def segment_name(number: int) -> str:
    """Return the name of a segment's file."""
    return f"{number:016x}{SUFFIX}"


def segment_number(name: str) -> int:
    """Return the number of the segment in the file of this name; 0 when that is no segment."""
    digits = name.removesuffix(SUFFIX)
    try:
        number = int(digits, 16)
    except ValueError:
        return 0
    return number if name == segment_name(number) else 0


class Segment:
    """One file of the log.

    `end` is where its last durable group ends, `allocated` how long the file is: what is between is
    zeros with room on the disk, and from `zeroed_from` to `zeroed_to` they have been written and
    synced. Up to `promised` there will be room when it is needed. What is before `warm_to` is in
    the page cache, as far as that has room.
    `live_bytes` is what is left in it of the messages, as streams count them, and `message_bytes`
    what has been written of them. `holds_more` tells that there is something in it that counts even
    when its messages are gone: ids, removals, consumers, deletions of streams, or what could not be
    read.
    """

    __slots__ = (
        "allocated",
        "end",
        "erasures",
        "file",
        "has_erasures",
        "holds_more",
        "is_damaged",
        "is_new",
        "is_rewritten",
        "is_unsynced",
        "live_bytes",
        "message_bytes",
        "number",
        "promised",
        "purged_group",
        "warm_to",
        "zeroed_from",
        "zeroed_to",
    )

    def __init__(self, number: int, file: DiskFile, end: int, allocated: int) -> None:
        self.number = number
        self.file = file
        self.end = end
        self.allocated = allocated
        self.promised = allocated
        self.zeroed_from = 0
        self.zeroed_to = 0
        self.warm_to = end
        self.purged_group = 0  # every removal up to this group has been carried out in the file
        self.is_damaged = False
        self.is_rewritten = False
        self.is_unsynced = False
        self.has_erasures = False  # bytes of it are to be overwritten: a copy must not be kept
        self.erasures = 0  # how often that was so: a copy made meanwhile must not be kept either
        self.is_new = False  # the directory does not know it for good yet
        self.live_bytes = 0
        self.message_bytes = 0
        self.holds_more = False


class Group:
    """Records that become durable together, to be written at `base` of a segment.

    One that `is_lone` has one message, like the one before it. One that `is_overwriting`, as was
    noted when it was handed to the disk, went to pages that had been written with zeros before.
    """

    __slots__ = (
        "barriers",
        "base",
        "count",
        "data",
        "erasures",
        "is_lone",
        "is_overwriting",
        "lasts",
        "number",
        "overwrites",
        "segment",
        "streams",
        "used",
    )

    def __init__(self, number: int, segment: Segment, base: int, data: bytearray) -> None:
        self.number = number
        self.segment = segment
        self.base = base
        self.data = data
        self.streams: list[Any] = []
        self.lasts: list[int] = []
        self.barriers: list[Callable[[], object]] = []
        self.erasures: list[tuple[Segment, int, int]] = []
        self.overwrites: list[tuple[Segment, int, int]] = []
        self.used = records.GROUP_HEAD
        self.count = 1
        self.is_lone = False
        self.is_overwriting = False
        records.start_group(data, number)

    def note_overwriting(self) -> None:
        """Note whether a lone group goes to pages that have been written with zeros before."""
        segment = self.segment
        end = pages(self.base + self.used)
        self.is_overwriting = (
            self.is_lone
            and segment.zeroed_from <= self.base
            and end <= segment.zeroed_to
            and not segment.is_new
        )
