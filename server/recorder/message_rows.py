"""The columns in memory that messages are recorded in, until the writer takes them.

They have Arrow's layout, so that the writer wraps them without copying: fixed-width columns are
arrays, texts are bytes with the offsets of their ends, and subjects and accounts are codes, each
with its own dictionary.
"""

from array import array

from midge.protocol import memory
from midge.protocol.frame import Frame

_BYTES_MAX = 16 * 1024 * 1024  # of subjects, replies, headers and payloads in full rows

_BYTES_AT_FIRST = 4096

NOT_COUNTED = -1
"""Plain deliveries of a message that other processes have delivered as well."""


class Texts:
    """One column of optional byte strings: value `i` ends at ``ends[i + 1]``.

    While no value is `present`, `ends` and `valid` are undefined.
    """

    __slots__ = ("_data", "_ends", "_valid", "buffer", "ends", "present", "used", "valid")

    def __init__(self, capacity: int) -> None:
        self.ends = array("i", bytes(4 * (capacity + 1)))
        self._ends = memory.int32_items(self.ends)
        self.valid = bytearray((capacity + 7) // 8)
        self._valid = self.valid
        self.buffer = memory.allocate(_BYTES_AT_FIRST)
        self._data = self.buffer
        self.used = 0
        self.present = 0

    def add(self, row: int, frame: Frame, start: int, end: int) -> None:
        """Set `row`, which follows the last row, to ``data[start:end]`` of `frame`."""
        if not self.present:
            self._begin(row)
        used = self.used + end - start
        if used > len(self.buffer):
            self._grow(used)
        memory.copy(self._data, self.used, frame.data, start, end)
        self.used = used
        self.present += 1
        self._valid[row >> 3] |= 1 << (row & 7)
        self._ends[row + 1] = used

    def skip(self, row: int) -> None:
        """Leave `row` without a value; call it only if the column has a value."""
        self._ends[row + 1] = self.used

    def clear(self) -> None:
        """Clear the column."""
        self.used = 0
        if self.present:
            self.present = 0
            self.valid[:] = bytes(len(self.valid))

    def _begin(self, rows: int) -> None:
        """Fill in `rows` that were left without a value."""
        for i in range(rows + 1):
            self._ends[i] = 0

    def _grow(self, wanted: int) -> None:
        """Make room for `wanted` bytes."""
        buffer = memory.allocate(max(wanted, 2 * len(self.buffer)))
        memory.copy(buffer, 0, self._data, 0, self.used)
        self.buffer = buffer
        self._data = buffer


class MessageRows:
    """Up to `count_max` messages of one hour, `count` of them so far.

    Equal consecutive messages share a run. There are `runs` of them, at most `capacity`, and run
    `i` represents ``repeats[i]`` messages. A publisher at full speed fills few runs.

    `hour` is counted from the epoch. `subjects` and `accounts` are dictionaries of codes, in the
    order of the codes. `closed` rows take no more messages even if there is room.
    """

    __slots__ = (
        "_accounts",
        "_cids",
        "_plain",
        "_queued",
        "_repeats",
        "_sizes",
        "_subjects",
        "_times",
        "account_codes",
        "accounts",
        "bytes",
        "capacity",
        "cids",
        "closed",
        "count",
        "count_max",
        "headers",
        "hour",
        "payloads",
        "plain",
        "queued",
        "repeats",
        "replies",
        "runs",
        "sizes",
        "subject_codes",
        "subjects",
        "times",
    )

    def __init__(self, capacity: int, count_max: int = 0) -> None:
        self.capacity = capacity
        self.count_max = count_max or capacity
        self.count = 0
        self.runs = 0
        self.bytes = 0
        self.hour = 0
        self.closed = False
        self.subjects: dict[bytes, int] = {}
        self.accounts: dict[str, int] = {}
        self.times, self.cids, self.sizes = (array("q", bytes(8 * capacity)) for _ in range(3))
        self.subject_codes, self.account_codes, self.plain, self.queued, self.repeats = (
            array("i", bytes(4 * capacity)) for _ in range(5)
        )
        self.replies = Texts(capacity)
        self.headers = Texts(capacity)
        self.payloads = Texts(capacity)
        # The compiled build writes through pointers to the same memory.
        self._times = memory.int64_items(self.times)
        self._cids = memory.int64_items(self.cids)
        self._sizes = memory.int64_items(self.sizes)
        self._subjects = memory.int32_items(self.subject_codes)
        self._accounts = memory.int32_items(self.account_codes)
        self._plain = memory.int32_items(self.plain)
        self._queued = memory.int32_items(self.queued)
        self._repeats = memory.int32_items(self.repeats)

    def is_full(self) -> bool:
        """Return whether no further message may be added."""
        return (
            self.closed
            or self.runs == self.capacity
            or self.count >= self.count_max
            or self.bytes >= _BYTES_MAX
        )

    def subject_code(self, subject: bytes) -> int:
        """Return the code of `subject`; give it a new one if it has none."""
        code = self.subjects.get(subject)
        if code is None:
            code = len(self.subjects)
            self.subjects[subject] = code
            self.bytes += len(subject)
        return code

    def account_code(self, account: str) -> int:
        """Return the code of an account's name; give it a new one if it has none."""
        return self.accounts.setdefault(account, len(self.accounts))

    def add(
        self,
        time_us: int,
        account: int,
        cid: int,
        subject: int,
        frame: Frame,
        plain: int,
        queued: int,
        keeps_payload: bool,
    ) -> None:
        """Record `frame`; `account` and `subject` are codes of these rows."""
        row = self.runs
        self._repeats[row] = 1
        self._times[row] = time_us
        self._accounts[row] = account
        self._cids[row] = cid
        self._subjects[row] = subject
        self._sizes[row] = frame.size
        self._plain[row] = plain
        self._queued[row] = queued
        base = frame.base
        if frame.reply_end > frame.reply_start:
            self.replies.add(row, frame, base + frame.reply_start, base + frame.reply_end)
            self.bytes += frame.reply_end - frame.reply_start
        elif self.replies.present:
            self.replies.skip(row)
        base += frame.payload
        header = frame.header_size if frame.header_size > 0 else 0
        if header:
            self.headers.add(row, frame, base, base + header)
            self.bytes += header
        elif self.headers.present:
            self.headers.skip(row)
        if keeps_payload:
            self.payloads.add(row, frame, base + header, base + frame.size)
            self.bytes += frame.size - header
        elif self.payloads.present:
            self.payloads.skip(row)
        self.runs = row + 1
        self.count += 1

    def repeat(self, count: int) -> int:
        """Record up to `count` messages equal to the last; return how many."""
        room = self.count_max - self.count
        count = min(count, room)
        self._repeats[self.runs - 1] += count
        self.count += count
        return count

    def clear(self) -> None:
        """Clear the rows, for any hour."""
        self.count = 0
        self.runs = 0
        self.bytes = 0
        self.closed = False
        self.subjects = {}
        self.accounts = {}
        self.replies.clear()
        self.headers.clear()
        self.payloads.clear()
