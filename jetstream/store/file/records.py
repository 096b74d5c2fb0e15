"""The log's format: groups of records, each of which proves its own place.

A segment file is a sequence of groups, from its first byte on. A group is a record of kind GROUP
and the records that belong to it. Every record begins at a multiple of eight bytes with this head,
all numbers little-endian, followed by its body:

==  ===  ========================================================================================
 0   4   checksum of the bytes 4 to 47
 4   4   checksum of the body
 8   4   length of the record, without the zeros up to a multiple of eight
12   1   kind
13   1   flags
14   2   length of the subject
16   4   number of the stream
20   4   length of the message's headers
24   8   sequence; of a group: its number
32   8   time, nanoseconds since the epoch
40   4   length of the fields after the payload: the TTL if flagged, then the message id
44   4   zero
==  ===  ========================================================================================

Both checksums start from a value made of the store's random id, the segment's number and the
record's position, so only bytes that this store wrote at this place pass for a record. The body of
a GROUP has the group's length, its number of records, the checksum over their checksums, and the
position up to which the store had been synced when the group was written.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.file import native
from midge.jetstream.store.numbers import BytesLike
from midge.jetstream.store.published import PublishedLines

native.prepare()

HEAD = 48
GROUP_HEAD = 80
"""The length of a GROUP: its body is length 8, count 4, checksum 4, segment 8 and position 8."""

GROUP = 1
MESSAGE = 2
REMOVE = 3
"""Messages have been removed, each on its own: the body is their sequences."""
BOUNDS = 4
"""All messages below the sequence are gone; the body is the last sequence used, and its time."""
STREAM = 5
"""The stream's configuration, of the version that the sequence says; written twice."""
STREAM_DELETED = 6
CONSUMER = 7
"""A consumer's state: the body is the length of its name, in two bytes, the name and the state."""
CONSUMER_STEP = 8
"""An operation on a consumer; a sequence other than 0 names a message removed with it."""
CONSUMER_DELETED = 9
MESSAGE_ID = 10
"""The id of a message whose record has been dropped; the body is the id."""
CLEARED = 11
"""All messages up to the sequence are gone."""
PURGED = 12
"""All messages below the sequence are gone whose subject matches the body, a filter."""

FLAG_TTL = 1
FLAG_HEADERS = 2
FLAG_HEAD = 4
"""Of a group: the version that wrote it keeps a head, see `head`."""

_HEAD = HEAD  # C numbers where this is compiled
_MESSAGE = MESSAGE

LENGTH_MAX = 1 << 31
"""A longer record does not exist: payloads end at 64 MiB."""


def padded(length: int) -> int:
    """Return the room that a record of this length takes."""
    return (length + 7) & ~7


def start_record(
    data: bytearray, at: int, length: int, kind: int, stream: int, seq: int, time_ns: int
) -> None:
    """Write the head of a record, but for its checksums; the parts' lengths are zero.

    The up to seven bytes after the record are set to zero.
    """
    numbers.set_u64_at(data, at + padded(length) - 8, 0)
    numbers.set_u64_at(data, at, 0)
    numbers.set_u32_at(data, at + 8, length)
    numbers.set_u32_at(data, at + 12, kind)
    numbers.set_u32_at(data, at + 16, stream)
    numbers.set_u32_at(data, at + 20, 0)
    numbers.set_u64_at(data, at + 24, seq)
    numbers.set_u64_at(data, at + 32, time_ns)
    numbers.set_u64_at(data, at + 40, 0)


def put_lines(
    data: bytearray,
    at: int,
    end: int,
    lines: PublishedLines,
    first: int,
    stream: int,
    seq: int,
    base: int,
) -> int:
    """Write messages from number `first` of `lines` on into ``data[at:end]``; return how many fit.

    The first has sequence `seq`. Notes in their rows where they are, `base` being what position 0
    of `data` is.
    """
    rows = lines.rows
    row = first * layout.LINE
    while row < lines.count * layout.LINE:
        subject_length = numbers.u32_at(rows, row + layout.LINE_SUBJECT_LENGTH)
        size = numbers.u32_at(rows, row + layout.LINE_PAYLOAD_LENGTH)
        length = _HEAD + subject_length + size
        following = at + padded(length)
        if following > end:
            break
        start_record(data, at, length, _MESSAGE, stream, seq, lines.time_ns)
        numbers.set_u32_at(data, at + 12, _MESSAGE | subject_length << 16)
        start = lines.base + numbers.u32_at(rows, row + layout.LINE_SUBJECT)
        numbers.put(data, at + _HEAD, lines.data, start, start + subject_length)
        start = lines.base + numbers.u32_at(rows, row + layout.LINE_PAYLOAD)
        numbers.put(data, at + _HEAD + subject_length, lines.data, start, start + size)
        numbers.set_u32_at(rows, row + layout.LINE_PLACE, base + at)
        at = following
        seq += 1
        row += layout.LINE
    return row // layout.LINE - first


def end_of_line(lines: PublishedLines, line: int) -> int:
    """Return the position behind the record that `put_lines` has written for a message."""
    row = line * layout.LINE
    length = numbers.u32_at(lines.rows, row + layout.LINE_SUBJECT_LENGTH) + numbers.u32_at(
        lines.rows, row + layout.LINE_PAYLOAD_LENGTH
    )
    return numbers.u32_at(lines.rows, row + layout.LINE_PLACE) + padded(_HEAD + length)


def start_group(data: bytearray, number: int) -> None:
    """Write the head of a group at the beginning of `data`; `finish_group` completes it."""
    start_record(data, 0, GROUP_HEAD, GROUP, 0, number, 0)
    data[13] = FLAG_HEAD


def finish_group(
    data: bytearray, used: int, count: int, synced_segment: int, synced_position: int
) -> None:
    """Complete the head of the group in ``data[:used]``, but for the checksums."""
    numbers.set_u64_at(data, HEAD, used)
    numbers.set_u32_at(data, HEAD + 8, count)
    numbers.set_u32_at(data, HEAD + 12, 0)
    numbers.set_u64_at(data, HEAD + 16, synced_segment)
    numbers.set_u64_at(data, HEAD + 24, synced_position)


def check(data: BytesLike, at: int, end: int, seed: int, segment: int, position: int) -> int:
    """Return 2 for a whole record in ``data[at:end]``, 1 for one with only its head, 0 for none."""
    return native.check_record(data, at, end, seed, segment, position)


def check_head(data: BytesLike, at: int, end: int, seed: int, segment: int, position: int) -> bool:
    """Return whether ``data[at:end]`` begins with the head of a record; the rest is not read."""
    return native.check_head(data, at, end, seed, segment, position)


def seal(data: bytearray, used: int, seed: int, segment: int, position: int) -> None:
    """Put the checksums into the group in ``data[:used]``."""
    native.seal_group(data, used, seed, segment, position)


def place_seed(seed: int, segment: int, position: int) -> int:
    """Return the initial value of the checksums of a record at a position of a segment."""
    return native.place_seed(seed, segment, position)


def checksum(data: BytesLike, start: int, end: int, seed: int) -> int:
    """Return the checksum of ``data[start:end]``, beginning with `seed`."""
    return native.crc32(data, start, end, seed)
