"""The subjects whose messages are known to be for a stream alone, by their numbers.

Which subscriptions match a subject changes with every subscription that comes or goes. Between two
such changes, an epoch, each subject is looked at once; a mark of eight bytes says in which epoch
that was last.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.subject_index import SubjectIndex


class KnownSubjects:
    """Marks subjects in `subjects`; `epoch` counts the epochs begun, by whomever."""

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
        if number < 0:
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
            if (
                number < 0
                or number * 8 >= limit
                or numbers.u64_at(marks, number * 8) != epoch
                or subjects.count(number) == 0
            ):
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
