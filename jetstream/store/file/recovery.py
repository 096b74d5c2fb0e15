"""Recovery: read segments again, and distinguish whole groups from torn and damaged ones.

A group with a wrong checksum is *torn* if the process or the machine stopped while it was being
written: none of it has been acknowledged, and recovery cuts it off. Every other one is *damaged*:
recovery keeps its readable records, reports the others, and leaves the file unchanged, because it
never cuts bytes that may be data.

The log writes one group at a time, and the next one only after the sync. So a group is torn only if
no group follows it, in its segment or in a later one, and if it has a gap of an unfinished write:

- its head is whole, no byte other than zero lies behind the end that its head names, and a sector
  of it has only zeros, or its last byte is zero; or
- the sector in which its head begins was lost as a whole, and has only zeros; or
- less than a page is there, and no record is found in it.

A segment file without any sound record, though its first sector is not empty, is neither. Its
checksums belong to another store or to another number: it is *misplaced*. The store does not open
until the right file is back, because new records would contradict that file.
"""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream.store import numbers
from midge.jetstream.store.file import records, replayed
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment, segment_name

_HEAD = 48
_GROUP_HEAD = 80
_GROUP = 1
_STREAM_DELETED = 6

_SECTOR = 512
"""Bytes that a disk writes whole or not at all."""

_PIECE = 4096
"""Bytes behind the last group, in which no record can be found, that are still a torn end."""

_TORN_MAX = 16 * 1024 * 1024
"""Bytes behind the last group that are still a torn end when the sector of its head was lost: the
largest group, as a power failure in the middle of a large one leaves it."""

_REPAIRED_MAX = 4096  # bytes of a record that is small enough to try to mend, in some 100 ms


class Damage:
    """Bytes of a segment that could not be read, and the message lost with them, if it is known.

    `owner` names that message's stream, and `note` says what else is known, for log and command.
    """

    __slots__ = ("length", "note", "owner", "position", "segment", "seq", "stream")

    def __init__(self, segment: int, position: int, length: int, stream: int, seq: int) -> None:
        self.segment = segment
        self.position = position
        self.length = length
        self.stream = stream
        self.seq = seq
        self.owner = ""
        self.note = ""

    def __str__(self) -> str:
        """Return the place of the damage, and the lost message."""
        if not self.segment:
            return self.note
        if self.position < 0:
            return f"{segment_name(self.segment)}: {self.note}"
        place = f"{segment_name(self.segment)} at {self.position}: {self.length} bytes"
        if self.seq:
            return f"{place}, message {self.seq} of {self.owner}"
        return f"{place}, {self.note}" if self.note else place


class Replay:
    """Does again what segments say, one after the other.

    `stream_of` returns the store of a stream's number, a new one if necessary, or None when
    the stream has been deleted. `repairs` are the bytes that have been put right in memory, and
    are still to be on the disk. `is_followed` returns whether a later segment has a group, and
    `pass_hole` is called before the records that follow bytes which cannot be read.
    """

    def __init__(
        self,
        seed: int,
        stream_of: Callable[[int], FileStore | None],
        delete_stream: Callable[[int], object],
        is_followed: Callable[[Segment], bool],
        pass_hole: Callable[[], object] = lambda: None,
    ) -> None:
        self.seed = seed
        self.damages: list[Damage] = []
        self.repairs: list[tuple[Segment, int, int]] = []
        self.group = 0
        self.mark_segment = 0
        self.mark_position = 0
        self.stream_of = stream_of
        self._delete_stream = delete_stream
        self._is_followed = is_followed
        self._pass_hole = pass_hole
        self._last_number = 0
        self._last_stream: FileStore | None = None

    def scan(self, segment: Segment, data: bytearray) -> int:
        """Replay one segment; return where its last group ends."""
        at = 0
        size = len(data)
        while at < size:
            end = self.group_end(segment, data, at)
            if end:
                if at == 0:  # this segment has no message removed before its first group
                    segment.purged_group = numbers.u64_at(data, 24) - 1
                self._note_mark(data, at)
                self._apply(segment, data, at, end)
                at = end
                continue
            if is_zero(data, at):
                break
            following = self.next_group(segment, data, at + 8)
            if following < 0:
                if not self._is_followed(segment) and self._is_torn(segment, data, at):
                    break
                following = size
            self._salvage(segment, data, at, following)
            at = following
        return at

    def group_end(self, segment: Segment, data: bytearray, at: int) -> int:
        """Return where the group at ``data[at]`` ends, 0 when it is not whole."""
        size = len(data)
        if records.check(data, at, size, self.seed, segment.number, at) != 2:
            return 0
        if data[at + 12] != _GROUP:
            return 0
        end = at + numbers.u64_at(data, at + _HEAD)
        count = numbers.u32_at(data, at + _HEAD + 8)
        if end > size:
            return 0
        chain = records.place_seed(self.seed, segment.number, at)
        position = at + _GROUP_HEAD
        while position < end:
            if records.check(data, position, end, self.seed, segment.number, position) != 2:
                return 0
            chain = records.checksum(data, position, position + 4, chain)
            position += records.padded(numbers.u32_at(data, position + 8))
            count -= 1
        if count != 1 or chain != numbers.u32_at(data, at + _HEAD + 12):
            return 0
        return end

    def next_group(self, segment: Segment, data: bytearray, at: int) -> int:
        """Return where the next head of a group is, from `at` on; -1 for none."""
        end = len(data) - _GROUP_HEAD
        while at <= end:
            if (
                data[at + 12] == _GROUP
                and numbers.u32_at(data, at + 8) == _GROUP_HEAD
                and records.check(data, at, len(data), self.seed, segment.number, at) == 2
            ):
                return at
            at += 8
        return -1

    def next_record(self, segment: Segment, data: bytearray, at: int) -> int:
        """Return where the next sound head of a record is, from `at` on; -1 for none."""
        end = len(data) - _HEAD
        while at <= end:
            if records.check_head(data, at, len(data), self.seed, segment.number, at):
                return at
            at += 8
        return -1

    def is_misplaced(self, segment: Segment, data: bytearray) -> bool:
        """Return whether the bytes of a segment's file were written to another place or store."""
        return (
            not is_zero(data[:_SECTOR], 0)
            and self.next_record(segment, data, 0) < 0
            and end_of_bytes(data) > _GROUP_HEAD
        )

    def _is_torn(self, segment: Segment, data: bytearray, at: int) -> bool:
        """Return whether the bytes at `at`, behind the last group, are of an unfinished write."""
        written = end_of_bytes(data)
        sector_end = at - at % _SECTOR + _SECTOR
        following = data[sector_end : sector_end + _SECTOR]
        if written - at <= _GROUP_HEAD:
            return True
        if self._is_group(segment, data, at):
            end = at + numbers.u64_at(data, at + _HEAD)
            return written <= end and self._is_cut_short(segment, data, at, end)
        if at == 0:  # the directory puts such a file aside
            return is_zero(data[:_SECTOR], 0)
        if self.next_record(segment, data, at + 8) < 0 and written - at <= _PIECE:
            return True
        return written - at <= _TORN_MAX and (
            is_zero(data[at:sector_end], 0)
            or (sector_end - at < _GROUP_HEAD and is_zero(following, 0))
        )

    def _is_group(self, segment: Segment, data: bytearray, at: int) -> bool:
        """Return whether the head of a group is whole at ``data[at]``."""
        whole = records.check(data, at, len(data), self.seed, segment.number, at)
        return whole == 2 and data[at + 12] == _GROUP

    def _is_cut_short(self, segment: Segment, data: bytearray, at: int, end: int) -> bool:
        """Return whether some of the group in ``data[at:end]`` was never written.

        Zeros that a message has in its payload look the same.
        """
        if end > len(data):
            return True
        start = at
        while start < end:
            sector_end = start - start % _SECTOR + _SECTOR
            if is_zero(data[start : min(sector_end, end)], 0):
                return True
            start = sector_end
        at += _GROUP_HEAD
        last = at
        while records.check_head(data, at, end, self.seed, segment.number, at):
            last = at + numbers.u32_at(data, at + 8)
            at = records.padded(last)
        return is_zero(data[end - 8 : end], 0) if at != end else data[last - 1] == 0

    def _note_mark(self, data: bytearray, at: int) -> None:
        self.group = max(self.group, numbers.u64_at(data, at + 24))
        segment = numbers.u64_at(data, at + _HEAD + 16)
        position = numbers.u64_at(data, at + _HEAD + 24)
        if segment > self.mark_segment or (
            segment == self.mark_segment and position > self.mark_position
        ):
            self.mark_segment = segment
            self.mark_position = position

    def _apply(self, segment: Segment, data: bytearray, at: int, end: int) -> None:
        """Replay the records of a whole group."""
        at += _GROUP_HEAD
        while at < end:
            self._replay(segment, data, at)
            at += records.padded(numbers.u32_at(data, at + 8))

    def _replay(self, segment: Segment, data: bytearray, at: int) -> None:
        number = numbers.u32_at(data, at + 16)
        if data[at + 12] == _STREAM_DELETED:
            segment.holds_more = True
            self._delete_stream(number)
            self._last_number = 0
            return
        if number != self._last_number:
            self._last_stream = self.stream_of(number)
            self._last_number = number
        stream = self._last_stream
        if stream is not None:
            replayed.replay(stream, data, at, segment, at)

    def _salvage(self, segment: Segment, data: bytearray, at: int, end: int) -> None:
        """Replay what can be read from `at` to `end`, and note the rest as damage.

        Zeros before a group are damage, too: groups follow each other without a gap.
        """
        segment.holds_more = True
        is_expected = True
        damaged_from = -1
        while at < end:
            whole = records.check(data, at, end, self.seed, segment.number, at)
            if whole != 2 and is_expected:
                whole = self._mend(segment, data, at, end)
            if whole == 0:
                if damaged_from < 0:
                    damaged_from = at
                is_expected = False
                at += 8
                continue
            if damaged_from >= 0:
                self._note(segment, damaged_from, at)
                damaged_from = -1
            if whole == 2 and data[at + 12] != _GROUP:
                self._replay(segment, data, at)
            elif whole == 1:
                self._lose(segment, data, at)
            at += records.padded(numbers.u32_at(data, at + 8))
            is_expected = True
        if end == len(data):
            end = end_of_bytes(data)
        if 0 <= damaged_from < end:
            self._note(segment, damaged_from, end)

    def _note(self, segment: Segment, start: int, end: int) -> None:
        self._pass_hole()
        self.damages.append(Damage(segment.number, start, end - start, 0, 0))

    def _lose(self, segment: Segment, data: bytearray, at: int) -> None:
        """Note a record of which only the head can be read."""
        number = numbers.u32_at(data, at + 16)
        seq = numbers.u64_at(data, at + 24)
        length = numbers.u32_at(data, at + 8)
        stream = self.stream_of(number)
        if stream is not None and data[at + 12] == records.MESSAGE:
            replayed.lose(stream, seq, segment)
            self.damages.append(Damage(segment.number, at, length, number, seq))
        else:
            self._note(segment, at, at + length)

    def _mend(self, segment: Segment, data: bytearray, at: int, end: int) -> int:
        """Find the single byte that repairs a record; return the result of `check` after that.

        It tries every value of every byte of the head, and of the body unless the record is a
        message: the other records have the fate of messages, and a flipped bit must not bring a
        removed message back.
        """
        whole = records.check(data, at, end, self.seed, segment.number, at)
        if whole == 0:
            whole = self._try_bytes(segment, data, at, at, min(at + _HEAD, end), end, 1)
        if whole != 1 or data[at + 12] == records.MESSAGE:
            return whole
        length = numbers.u32_at(data, at + 8)
        if length > _REPAIRED_MAX or at + length > end:
            return whole
        return max(1, self._try_bytes(segment, data, at, at + _HEAD, at + length, end, 2))

    def _try_bytes(
        self,
        segment: Segment,
        data: bytearray,
        at: int,
        start: int,
        stop: int,
        end: int,
        wanted: int,
    ) -> int:
        """Try every value of the bytes from `start` to `stop`; return what `check` says, or 0."""
        for position in range(start, stop):
            before = data[position]
            for value in range(256):
                data[position] = value
                whole = records.check(data, at, end, self.seed, segment.number, at)
                if whole >= wanted:
                    self.repairs.append((segment, position, value))
                    return whole
            data[position] = before
        return 0


def sound_end(data: bytearray, seed: int, number: int, position: int) -> int:
    """Return up to where `data`, from `position` of a segment on, has whole records."""
    at = 0
    while records.check(data, at, len(data), seed, number, position + at) == 2:
        at += records.padded(numbers.u32_at(data, at + 8))
    return at


def sound_head(data: bytearray, at: int, seed: int, number: int, position: int) -> int:
    """Return where from `at` on `data` has a sound head of a record; its length without one."""
    while at < len(data) and not records.check_head(
        data, at, len(data), seed, number, position + at
    ):
        at += 8
    return min(at, len(data))


def end_of_bytes(data: bytearray) -> int:
    """Return from where on there are only zeros; records end at multiples of eight."""
    return min(records.padded(len(data.rstrip(b"\0"))), len(data))


def is_zero(data: bytearray, start: int) -> bool:
    """Return whether there are only zeros from `start` on."""
    return data.count(0, start) == len(data) - start
