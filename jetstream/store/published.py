"""A batch of published messages in one buffer: find their lines first, then store them together.

Most of the work to store a message is then done once for the batch: limits, times, counts, a call
for each layer. Only the plainest messages qualify, as nearly all without acks are: no reply, no
headers, a subject that is already stored in the stream.
"""

from __future__ import annotations

from midge.jetstream.store import layout, numbers
from midge.jetstream.store.numbers import BytesLike
from midge.protocol import lines

LINES_MAX = 128
"""Most messages of a batch: the work done once for the batch is then a hundredth of the whole."""

_MOST_MIN = 2
_LINE_MIN = len(b"PUB a 0\r\n\r\n")
_CR = 0x0D
_LF = 0x0A
_SPACE = 0x20


class PublishedLines:
    """Up to 128 messages in `data`, each by a row of seven numbers of 32 bits in `rows`.

    The numbers are places in `data` from `base` on. `count` messages are to be stored, with
    `subject_bytes` and `payload_bytes` together, the largest payload of `largest` bytes; `after`
    is the index behind them. Their store sets `time_ns`, when they come to be stored.
    """

    __slots__ = (
        "_most",
        "after",
        "base",
        "count",
        "data",
        "largest",
        "payload_bytes",
        "rows",
        "subject_bytes",
        "time_ns",
    )

    def __init__(self) -> None:
        self.rows = bytearray(layout.LINE * LINES_MAX)
        self.data: BytesLike = b""
        self.base = 0
        self.after = 0
        self.count = 0
        self.largest = 0
        self.subject_bytes = 0
        self.payload_bytes = 0
        self.time_ns = 0
        self._most = _MOST_MIN

    def find(
        self, data: bytearray, start: int, end: int, max_control_line: int, max_payload: int
    ) -> int:
        """Find the lines ``PUB subject size`` at `start` that are whole; return how many they are.

        More are looked for the more of the last ones could be stored.
        """
        self.data = data
        self.base = start
        rows = self.rows
        row = 0
        stop = self._most * layout.LINE
        position = start
        while row < stop and end - position >= _LINE_MIN and lines.is_publish(data, position):
            subject_end = lines.token_end(data, position + 4, end)
            found = lines.size_at(data, subject_end + 1, end)
            line_end = subject_end + 1 + (found & 7)
            size = found >> 3
            after = line_end + 2 + size + 2
            if (
                found == 0
                or after > end
                or subject_end == position + 4
                or data[subject_end] != _SPACE
                or data[line_end] != _CR
                or data[line_end + 1] != _LF
                or data[after - 2] != _CR
                or data[after - 1] != _LF
                or line_end - position - 4 > max_control_line
                or (size > max_payload >= 0)
            ):
                break
            numbers.set_u32_at(rows, row + layout.LINE_SUBJECT, position + 4 - start)
            numbers.set_u32_at(rows, row + layout.LINE_SUBJECT_LENGTH, subject_end - position - 4)
            numbers.set_u32_at(rows, row + layout.LINE_PAYLOAD, line_end + 2 - start)
            numbers.set_u32_at(rows, row + layout.LINE_PAYLOAD_LENGTH, size)
            row += layout.LINE
            position = after
        self.after = position
        self.count = row // layout.LINE
        return self.count

    def keep(self, count: int) -> None:
        """Leave it at the first `count` of the messages, and sum up what these take."""
        self._most = min(self._most * 2, LINES_MAX) if count == self.count else _MOST_MIN
        rows = self.rows
        subject_bytes = payload_bytes = largest = 0
        for i in range(count):
            row = i * layout.LINE
            size = numbers.u32_at(rows, row + layout.LINE_PAYLOAD_LENGTH)
            subject_bytes += numbers.u32_at(rows, row + layout.LINE_SUBJECT_LENGTH)
            payload_bytes += size
            if size > largest:  # noqa: PLR1730 - compiled, `max` makes numbers of them
                largest = size
        self.count = count
        self.subject_bytes = subject_bytes
        self.payload_bytes = payload_bytes
        self.largest = largest
        self.after = self.end_of(count)

    def end_of(self, count: int) -> int:
        """Return the index in `data` behind the first `count` messages."""
        if count == 0:
            return self.base
        row = (count - 1) * layout.LINE
        end = numbers.u32_at(self.rows, row + layout.LINE_PAYLOAD) + numbers.u32_at(
            self.rows, row + layout.LINE_PAYLOAD_LENGTH
        )
        return self.base + end + 2

    def part_bytes(self, first: int, count: int) -> int:
        """Return the length of subjects and payloads of `count` messages from number `first` on."""
        if count == self.count:
            return self.subject_bytes + self.payload_bytes
        total = 0
        for i in range(first, first + count):
            total += numbers.u32_at(self.rows, i * layout.LINE + layout.LINE_SUBJECT_LENGTH)
            total += numbers.u32_at(self.rows, i * layout.LINE + layout.LINE_PAYLOAD_LENGTH)
        return total
