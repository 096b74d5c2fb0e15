"""Reading segments again: what is whole, what is torn, and what is damaged.

A group that the disk was known to have is damaged when it does not check; what can be read of it is
kept. One that was still being written when the process or the machine stopped is torn: nothing of
it has been acknowledged, and it is cut off. The two are told apart by the groups after it, each of
which says how far the store was synced when it was written.
"""

from __future__ import annotations

from collections.abc import Callable

from midge.jetstream.store import numbers
from midge.jetstream.store.file import records
from midge.jetstream.store.file.group import Segment, segment_name
from midge.jetstream.store.file.stream import FileStore

_HEAD = 48
_GROUP_HEAD = 80
_GROUP = 1
_STREAM_DELETED = 6

_REPAIRED_MAX = 4096  # bytes of a record that is small enough to try to mend, in some 100 ms


class Damage:
    """Bytes of a segment that could not be read, and the message lost with them, if it is known.

    `owner` names that message's stream for those who read of it.
    """

    __slots__ = ("length", "owner", "position", "segment", "seq", "stream")

    def __init__(self, segment: int, position: int, length: int, stream: int, seq: int) -> None:
        self.segment = segment
        self.position = position
        self.length = length
        self.stream = stream
        self.seq = seq
        self.owner = ""

    def __str__(self) -> str:
        """Say where the damage is, and what is lost by it."""
        place = f"{segment_name(self.segment)} at {self.position}: {self.length} bytes"
        return f"{place}, message {self.seq} of {self.owner}" if self.seq else place


class Replay:
    """Does again what segments say, one after the other.

    `stream_of` returns the store of a stream's number, a new one if necessary, or None when
    the stream has been deleted. `repairs` are the bytes that have been put right in memory, and
    are still to be on the disk. `later_mark` tells how far the segments after the given one say
    that it was synced.
    """

    def __init__(
        self,
        seed: int,
        stream_of: Callable[[int], FileStore | None],
        delete_stream: Callable[[int], object],
        later_mark: Callable[[Segment], int],
    ) -> None:
        self.seed = seed
        self.damages: list[Damage] = []
        self.repairs: list[tuple[Segment, int, int]] = []
        self.group = 0
        self.mark_segment = 0
        self.mark_position = 0
        self.stream_of = stream_of
        self._delete_stream = delete_stream
        self._later_mark = later_mark
        self._last_number = 0
        self._last_stream: FileStore | None = None

    def scan(self, segment: Segment, data: bytearray) -> int:
        """Replay one segment; return where its last group ends."""
        at = 0
        size = len(data)
        while at < size:
            end = self.group_end(segment, data, at)
            if end:
                if at == 0:  # whatever was removed before the first group is not in this segment
                    segment.purged_group = numbers.u64_at(data, 24) - 1
                self._note_mark(data, at)
                self._apply(segment, data, at, end)
                at = end
                continue
            if is_zero(data, at):
                break
            following = self.next_group(segment, data, at + 8, segment.number, at)
            if following < 0:
                if self._later_mark(segment) <= at:
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

    def next_group(
        self, segment: Segment, data: bytearray, at: int, number: int, position: int
    ) -> int:
        """Return where the next group begins that says how far the store was synced; -1 for none.

        That must be beyond `position` of the segment `number`.
        """
        end = len(data) - _GROUP_HEAD
        while at <= end:
            if (
                data[at + 12] == _GROUP
                and numbers.u32_at(data, at + 8) == _GROUP_HEAD
                and records.check(data, at, len(data), self.seed, segment.number, at) == 2
            ):
                marked = numbers.u64_at(data, at + _HEAD + 16)
                synced = numbers.u64_at(data, at + _HEAD + 24)
                if marked > number or (marked == number and synced > position):
                    return at
            at += 8
        return -1

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
            stream.replay(data, at, segment, at)

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
        if damaged_from >= 0 and (end < len(data) or not is_zero(data, damaged_from)):
            self._note(segment, damaged_from, end)

    def _note(self, segment: Segment, start: int, end: int) -> None:
        self.damages.append(Damage(segment.number, start, end - start, 0, 0))

    def _lose(self, segment: Segment, data: bytearray, at: int) -> None:
        """Note a record of which only the head can be read."""
        number = numbers.u32_at(data, at + 16)
        seq = numbers.u64_at(data, at + 24)
        length = numbers.u32_at(data, at + 8)
        stream = self.stream_of(number)
        if stream is not None and data[at + 12] == records.MESSAGE:
            stream.lose(seq)
            self.damages.append(Damage(segment.number, at, length, number, seq))
        else:
            self._note(segment, at, at + length)

    def _mend(self, segment: Segment, data: bytearray, at: int, end: int) -> int:
        """Find the one byte that makes a record whole again; return what `check` says then.

        Every value of every byte of the head is tried, and of the body unless it is a message: the
        other records say what has become of messages, and one of them must not come back because
        of a bit.
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


def is_zero(data: bytearray, start: int) -> bool:
    """Tell whether there are only zeros from `start` on."""
    return data.count(0, start) == len(data) - start
