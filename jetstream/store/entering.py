"""Many published messages entered into the indexes of a stream at once.

`KnownSubjects` looks up the subjects of a batch and counts its messages in the subject index;
`enter_lines` makes their rows in the message index, and the chains of their subjects.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.block import Block
from midge.jetstream.store.message_index import MessageIndex
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.subject_index import SubjectIndex


class KnownSubjects:
    """The subjects whose messages are known to be for a stream alone, by their numbers.

    Which subscriptions match a subject changes with every subscription that comes or goes. Between
    two such changes, an epoch, each subject is looked at once; a mark of eight bytes says in which
    epoch that was last. `epoch` counts the epochs begun, by whomever.
    """

    __slots__ = ("_marks", "epoch", "subjects")

    def __init__(self, subjects: SubjectIndex) -> None:
        self.subjects = subjects
        self.epoch = 0
        self._marks = bytearray()
        subjects.known = self._marks

    def begin_epoch(self) -> int:
        """Begin an epoch, in which nothing is known yet; return its number."""
        self.epoch += 1
        return self.epoch

    def mark(self, data: numbers.BytesLike, start: int, end: int, epoch: int) -> None:
        """Mark the subject ``data[start:end]``, if there is anything of it."""
        number = self.subjects.find(data, start, end)
        if number < 0 or self.subjects.count(number) == 0:
            return
        if len(self._marks) < (number + 1) * 8:
            numbers.resize(self._marks, self.subjects.limit() * 8)
        numbers.set_u64_at(self._marks, number * 8, epoch)

    def resolve(self, lines: PublishedLines, epoch: int) -> int:
        """Note the numbers of the subjects; keep the messages before the first unknown one."""
        subjects = self.subjects
        marks = self._marks
        rows = lines.rows
        limit = len(marks)
        base = lines.base
        row = 0
        end = lines.count * layout.LINE
        while row < end:
            start = base + numbers.u32_at(rows, row + layout.LINE_SUBJECT)
            length = numbers.u32_at(rows, row + layout.LINE_SUBJECT_LENGTH)
            number = subjects.find(lines.data, start, start + length)
            if number < 0 or number * 8 >= limit or numbers.u64_at(marks, number * 8) != epoch:
                break
            numbers.set_u32_at(rows, row + layout.LINE_NUMBER, number)
            row += layout.LINE
        lines.keep(row // layout.LINE)
        return lines.count

    def append(self, lines: PublishedLines, first: int, count: int, seq: int) -> None:
        """Count messages from number `first` on, of consecutive sequences from `seq` on.

        Each row gets the distance to the message before it of its subject, of which there is one.
        """
        subjects = self.subjects
        rows = lines.rows
        for i in range(first, first + count):
            row = i * layout.LINE
            number = numbers.u32_at(rows, row + layout.LINE_NUMBER)
            before = subjects.append_known(number, seq)
            numbers.set_u32_at(rows, row + layout.LINE_DISTANCE, seq - before)
            seq += 1


def enter_lines(
    index: MessageIndex,
    lines: PublishedLines,
    first: int,
    count: int,
    seq: int,
    time_ns: int,
    fixed_bytes: int,
) -> int:
    """Make rows for `count` messages from number `first` of `lines` on, the first of them `seq`.

    A message counts `fixed_bytes` towards the stream's bytes besides its parts. Returns what they
    count together.
    """
    total = 0
    while count > 0:
        place = (seq - 1) & layout.MASK
        stretch = min(count, layout.SPAN - place)
        block = index.tail_for(seq, time_ns)
        total += _write_rows(block, place, lines, first, stretch, fixed_bytes)
        _link(index, block, lines, first, stretch, seq)
        seq += stretch
        first += stretch
        count -= stretch
    return total


def _write_rows(
    block: Block, place: int, lines: PublishedLines, first: int, count: int, fixed_bytes: int
) -> int:
    """Write `count` rows of one block; return what their messages count."""
    position = block.begin_rows(place, count)
    rows = block.rows
    found = lines.rows
    total = 0
    for i in range(first, first + count):
        line = i * layout.LINE
        size = fixed_bytes + numbers.u32_at(found, line + layout.LINE_SUBJECT_LENGTH)
        size += numbers.u32_at(found, line + layout.LINE_PAYLOAD_LENGTH)
        numbers.set_u32_at(
            rows, position + layout.ROW_OFFSET, numbers.u32_at(found, line + layout.LINE_PLACE)
        )
        numbers.set_u32_at(rows, position + layout.ROW_SIZE, size)
        numbers.set_u32_at(
            rows, position + layout.ROW_SUBJECT, numbers.u32_at(found, line + layout.LINE_NUMBER)
        )
        numbers.set_u32_at(
            rows, position + layout.ROW_BEFORE, numbers.u32_at(found, line + layout.LINE_DISTANCE)
        )
        numbers.set_u32_at(rows, position + layout.ROW_AFTER, 0)
        position += layout.ROW
        total += size
    return total


def _link(
    index: MessageIndex, block: Block, lines: PublishedLines, first: int, count: int, seq: int
) -> None:
    """Note in the row of the message before each one, of its subject, how far away it is."""
    found = lines.rows
    before = block  # the block of the last message that was in another one than they are
    for i in range(first, first + count):
        line = i * layout.LINE
        distance = numbers.u32_at(found, line + layout.LINE_DISTANCE)
        number = (seq - distance - 1) >> layout.BITS
        holder = block
        if number != block.number:
            if number != before.number:
                before = index.block_number(index.block_at_or_after(seq - distance))
            holder = before
        place = (seq - distance - 1) & layout.MASK
        row = place if holder.keys is None else holder.row(place)
        if not layout.try_put(holder.rows, row, layout.ROW_AFTER, distance):
            holder.set(row, layout.ROW_AFTER, distance)
        seq += 1
