"""Messages that have been delivered and await an ack, by sequence and by the end of their ack wait.

A dictionary finds an entry by its stream sequence. Each entry is also in two linked lists: by
sequence, for the ack floor, and by the time of its delivery, for the ack wait. A new delivery is
the latest in both, so both are kept in order by appending. With backoff, each number of deliveries
has its own line, because the waits differ; a NAK with a delay goes to a heap. A message that is due
for redelivery is in the queue instead.
"""

import heapq
from collections.abc import Callable
from functools import partial

DELAYED = -1
NOWHERE = -2
QUEUED = -3

UNLINKED_AT_ONCE = 10_000
"""Entries that are forgotten in one turn: a millisecond."""

_NO_ENTRIES: dict[int, "Entry"] = {}
"""The entries of every consumer that awaits no ack yet; never changed."""


class Entry:
    """One delivered message.

    `consumer_seq` is the number of its first delivery. `sent_ns`, on the monotonic clock, is the
    begin of its wait. `line` is the index of its line, `DELAYED` or `NOWHERE`; a delayed entry is
    due at `due_ns`.
    """

    __slots__ = (
        "after",
        "before",
        "consumer_seq",
        "due_ns",
        "earlier",
        "later",
        "line",
        "sent_ns",
        "seq",
    )

    def __init__(self) -> None:
        self.seq = 0
        self.consumer_seq = 0
        self.sent_ns = 0
        self.due_ns = 0
        self.line = NOWHERE
        self.before: Entry | None = None
        self.after: Entry | None = None
        self.earlier: Entry | None = None
        self.later: Entry | None = None


class Line:
    """Entries that wait equally long, the earliest first."""

    __slots__ = ("first", "last", "wait_ns")

    def __init__(self, wait_ns: int) -> None:
        self.wait_ns = wait_ns
        self.first: Entry | None = None
        self.last: Entry | None = None

    def append(self, entry: Entry) -> None:
        """Add an entry whose wait began last."""
        entry.earlier = self.last
        if self.last is None:
            self.first = entry
        else:
            self.last.later = entry
        self.last = entry

    def prepend(self, entry: Entry) -> None:
        """Put an entry before all others."""
        entry.later = self.first
        if self.first is None:
            self.last = entry
        else:
            self.first.earlier = entry
        self.first = entry

    def remove(self, entry: Entry) -> None:
        """Take an entry out."""
        if entry.earlier is None:
            self.first = entry.later
        else:
            entry.earlier.later = entry.later
        if entry.later is None:
            self.last = entry.earlier
        else:
            entry.later.earlier = entry.earlier
        entry.earlier = None
        entry.later = None


class Pending:
    """The entries of one consumer, of which `queued` are in the queue.

    `waits_ns` holds the backoff, or the ack wait alone. Lines, queue and heap are made when the
    first entry comes: without them, an idle consumer takes 420 bytes less.
    """

    __slots__ = ("_delayed", "_lines", "_queue", "_waits_ns", "entries", "first", "last", "queued")

    def __init__(self, waits_ns: list[int]) -> None:
        self.entries = _NO_ENTRIES
        self.first: Entry | None = None
        self.last: Entry | None = None
        self._waits_ns = waits_ns
        self._lines: list[Line] | None = None
        self._delayed: list[tuple[int, int]] | None = None
        self._queue: Line | None = None
        self.queued = 0

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, seq: int) -> Entry | None:
        """Return the entry of a stream sequence."""
        return self.entries.get(seq)

    def add(self, seq: int, consumer_seq: int) -> Entry:
        """Make an entry; it waits nowhere yet."""
        entry = Entry()
        entry.seq = seq
        entry.consumer_seq = consumer_seq
        before = self.last
        while before is not None and before.seq > seq:
            before = before.before
        self._link(entry, before)
        if self.entries is _NO_ENTRIES:
            self.entries = {}
        self.entries[seq] = entry
        return entry

    def remove(self, entry: Entry) -> None:
        """Forget an entry."""
        self.stop_waiting(entry)
        del self.entries[entry.seq]
        if entry.before is None:
            self.first = entry.after
        else:
            entry.before.after = entry.after
        if entry.after is None:
            self.last = entry.before
        else:
            entry.after.before = entry.before
        entry.before = None

    def clear(self, call_later: Callable[..., object] | None = None) -> None:
        """Forget all entries; free their memory now, or piece by piece with `call_later`."""
        entries = self.entries
        self.entries = _NO_ENTRIES
        self.first = None
        self.last = None
        self._lines = None
        self._queue = None
        self._delayed = None
        self.queued = 0
        if entries:
            unlink(entries, call_later)

    def wait(self, entry: Entry, now_ns: int, redeliveries: int) -> int:
        """Begin the wait of an entry now; return its end."""
        self.stop_waiting(entry)
        lines = self._lines
        if lines is None:
            lines = [Line(wait_ns) for wait_ns in self._waits_ns]
            self._lines = lines
        last = len(lines) - 1
        place = redeliveries if redeliveries < last else last
        line = lines[place]
        entry.sent_ns = now_ns
        entry.line = place
        line.append(entry)
        return now_ns + line.wait_ns

    def wait_until(self, entry: Entry, due_ns: int) -> None:
        """Let the wait of an entry end at `due_ns`, whatever its line."""
        self.stop_waiting(entry)
        entry.line = DELAYED
        entry.due_ns = due_ns
        if self._delayed is None:
            self._delayed = []
        heapq.heappush(self._delayed, (due_ns, entry.seq))

    def stop_waiting(self, entry: Entry) -> None:
        """Take an entry out of its line or the queue: it never falls due by itself."""
        if entry.line >= 0:
            assert self._lines is not None
            line = self._lines[entry.line]
            line.remove(entry)
        elif entry.line == QUEUED:
            assert self._queue is not None
            self._queue.remove(entry)
            self.queued -= 1
        entry.line = NOWHERE

    def enqueue(self, entry: Entry) -> None:
        """Queue an entry for redelivery, behind the queued ones."""
        self.stop_waiting(entry)
        entry.line = QUEUED
        if self._queue is None:
            self._queue = Line(0)
        self._queue.append(entry)
        self.queued += 1

    def enqueue_first(self, entry: Entry) -> None:
        """Queue an entry for redelivery, before all others."""
        self.stop_waiting(entry)
        entry.line = QUEUED
        if self._queue is None:
            self._queue = Line(0)
        self._queue.prepend(entry)
        self.queued += 1

    def next_queued(self) -> int:
        """Return the sequence of what `take_queued` would return; 0 for none."""
        entry = None if self._queue is None else self._queue.first
        return 0 if entry is None else entry.seq

    def take_queued(self) -> Entry | None:
        """Take the first entry out of the queue; it waits nowhere."""
        entry = None if self._queue is None else self._queue.first
        if entry is not None:
            self.stop_waiting(entry)
        return entry

    def is_queued(self, entry: Entry) -> bool:
        """Return whether an entry is to be delivered again."""
        return entry.line == QUEUED

    def wait_ns(self, redeliveries: int) -> int:
        """Return how long a message delivered again so often waits for its ack."""
        last = len(self._waits_ns) - 1
        return self._waits_ns[redeliveries if redeliveries < last else last]

    def set_waits(self, waits_ns: list[int]) -> None:
        """Change the waits; those under way are counted from when they began."""
        if self._lines is not None and len(self._lines) == len(waits_ns):
            self._waits_ns = waits_ns
            for line, wait_ns in zip(self._lines, waits_ns, strict=True):
                line.wait_ns = wait_ns
            return
        waiting: list[Entry] = []
        for line in self._lines or ():
            entry = line.first
            while entry is not None:
                waiting.append(entry)
                entry = entry.later
        places = [entry.line for entry in waiting]
        for entry in waiting:
            self.stop_waiting(entry)
        self._waits_ns = waits_ns
        self._lines = None
        for entry, place in sorted(zip(waiting, places, strict=True), key=_by_time):
            self.wait(entry, entry.sent_ns, place)

    def next_due_ns(self) -> int:
        """Return when the next entry falls due; 0 for none."""
        due_ns = 0
        for line in self._lines or ():
            entry = line.first
            if entry is not None and (due_ns == 0 or entry.sent_ns + line.wait_ns < due_ns):
                due_ns = entry.sent_ns + line.wait_ns
        self._drop_stale()
        if self._delayed and (due_ns == 0 or self._delayed[0][0] < due_ns):
            due_ns = self._delayed[0][0]
        return due_ns

    def take_due(self, now_ns: int, most: int) -> list[Entry]:
        """Return up to `most` entries that are due, by sequence; they wait no more."""
        due: list[Entry] = []
        for line in self._lines or ():
            entry = line.first
            while entry is not None and entry.sent_ns + line.wait_ns <= now_ns and len(due) < most:
                later = entry.later
                self.stop_waiting(entry)
                due.append(entry)
                entry = later
        self._drop_stale()
        while self._delayed and self._delayed[0][0] <= now_ns and len(due) < most:
            entry = self.entries[heapq.heappop(self._delayed)[1]]
            entry.line = NOWHERE
            due.append(entry)
            self._drop_stale()
        due.sort(key=_by_seq)
        return due

    def _drop_stale(self) -> None:
        """Drop the head of the heap while its wait has been cancelled."""
        while self._delayed:
            due_ns, seq = self._delayed[0]
            entry = self.entries.get(seq)
            if entry is not None and entry.line == DELAYED and entry.due_ns == due_ns:
                return
            heapq.heappop(self._delayed)

    def _link(self, entry: Entry, before: Entry | None) -> None:
        """Put an entry behind `before` in the order of sequences."""
        entry.before = before
        entry.after = self.first if before is None else before.after
        if before is None:
            self.first = entry
        else:
            before.after = entry
        if entry.after is None:
            self.last = entry
        else:
            entry.after.before = entry


def _by_seq(entry: Entry) -> int:
    return entry.seq


def _by_time(pair: tuple[Entry, int]) -> int:
    return pair[0].sent_ns


def unlink(entries: dict[int, Entry], call_later: Callable[..., object] | None) -> None:
    """Free entries that hold each other by their links; see `Pending.clear`."""
    left = UNLINKED_AT_ONCE
    while entries and left > 0:
        _, entry = entries.popitem()
        entry.line = NOWHERE
        entry.before = None
        entry.after = None
        entry.earlier = None
        entry.later = None
        left -= call_later is not None
    if entries and call_later is not None:
        call_later(0, partial(unlink, entries, call_later))
