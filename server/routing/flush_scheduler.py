"""When pending output is written: one write to each client for all that it got in a turn.

Code that appends to a client's output calls `touch`, and nothing else: the scheduler then writes to
the client once, when all sockets that were ready together have been read. Three kinds of callers
frame the work of a turn, because they know when it ends:

- a channel, by `begin_batch` and `end_batch` around each read. With TLS and WebSockets, whose
  sockets the loop calls back one by one, a read ends with a write where the reads of a turn have
  had no receiver in common: see `LoneReads`.
- a callback of the loop that makes all of its output itself, by `write_after`, or by `postpone`
  and `flush_postponed`: the write needs no turn of its own then.
- a publisher within the server, whose observers work per turn without any output, by `flush_soon`.

Without a loop, in tests, output is written at the end of each read, and at once outside of one.
"""

from collections.abc import Callable

from midge.server.routing.client import Client

# Coalescing saves a write per socket that is ready in one poll; it costs memory, and time until the
# first byte. 64 chunks are what the pool keeps; to route 1 MiB takes less than a millisecond.
_DIRTY_CHUNKS_MAX = 64
_READ_BYTES_MAX = 1 << 20


# A flush that the loop calls costs 3,300 instructions more than one at the end of a read, a quarter
# of a small message: a handle, and the interpreter's lock once more; and the first of several reads
# waits for the others. It pays when they have receivers in common, which then get one write. That
# shows only where the loop calls it: four turns in a row without are hardly chance. To look again
# after the reads of 8 turns costs 400 instructions a turn, and a crowd that begins to share
# receivers gets at most 8 writes too many for each socket that was ready.
_LONE_TURNS = 4
_TURNS_AT_ONCE = 8
_READS_MAX = 1024


class FlushScheduler:
    """The clients that wait for a flush, and when it comes; one per server and loop.

    `batches` goes up with every batch of reads, so that an observer need not ask for the time of
    each message.

    `soon` is the loop's `call_soon`, or None. With it, the first client that something is appended
    for schedules a flush after all sockets that are ready now, so that each receiver gets one write
    for all of them; while these have none in common, each batch ends with a flush.
    """

    __slots__ = (
        "_dirty",
        "_due_since",
        "_first",
        "_is_flush_due",
        "_last",
        "_lone_reads",
        "_read_bytes",
        "batches",
        "soon",
    )

    def __init__(self, soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        self.batches = 0
        self.soon = soon
        # In the order in which they became dirty, by `next_dirty`: a list allocates
        # its memory each time, for 1 % of the CPU time if each read has one message.
        self._first: Client | None = None
        self._last: Client | None = None
        self._dirty = 0  # how many they are
        self._is_flush_due = False
        self._due_since = 0  # the number of batches before
        self._lone_reads = LoneReads()
        self._read_bytes = 0  # since the last flush

    def touch(self, client: Client) -> None:
        """Flush `client` with the others: something has been appended to its output."""
        if not client.dirty:
            self._note_dirty(client)

    def flush_soon(self) -> None:
        """Schedule a flush at the end of this turn of the loop, which also ends a batch."""
        if self._is_flush_due:
            return
        if self.soon is not None:
            self._is_flush_due = True
            self._due_since = self.batches
            self.soon(self._flush_due)
        elif not self._lone_reads.is_reading:
            self._write_dirty()

    def postpone(self) -> bool:
        """Schedule no flush until `flush_postponed`; return False if one is due anyway.

        A caller that makes all of its output in one call from the loop saves a turn: 4 us for a
        client that waits for one answer.
        """
        is_new = self.soon is not None and not self._is_flush_due
        if is_new:
            self._is_flush_due = True
        return is_new

    def flush_postponed(self) -> None:
        """Write the output since `postpone`, which has returned True."""
        self._is_flush_due = False  # and no turn has ended: it was no flush that the loop calls
        self.flush()

    def write_after(self, work: Callable[[], object]) -> None:
        """Call `work` for the loop, and write at its end what it has appended."""
        is_postponed = self.postpone()
        try:
            work()
        finally:
            if is_postponed:
                self.flush_postponed()

    def is_reading(self) -> bool:
        """Return whether a batch of reads has begun and not ended."""
        return self._lone_reads.is_reading

    def begin_batch(self) -> None:
        """Note that a batch of reads begins; `end_batch` follows, whatever happens."""
        self._lone_reads.begin_read(self._dirty)

    def end_batch(self, read_bytes: int) -> None:
        """Record the end of a batch of `read_bytes`; write large pending output at once.

        Without `soon`, or where no other read is expected to share a receiver, write in any case.
        """
        self.batches += 1
        self._read_bytes += read_bytes
        if (
            self._lone_reads.end_read(self._dirty)
            or self.soon is None
            or self._dirty > _DIRTY_CHUNKS_MAX
            or self._read_bytes > _READ_BYTES_MAX
        ):
            self._write_dirty()

    def flush(self) -> None:
        """Write all pending output at once."""
        self.batches += 1
        self._write_dirty()

    def _flush_due(self) -> None:
        """Flush at the end of a turn of the loop."""
        self._is_flush_due = False
        self._lone_reads.end_turn(self.batches - self._due_since)
        self.flush()

    def _note_dirty(self, client: Client) -> None:
        """Note that `client` has output to be flushed, which is dirty from now on until then."""
        client.dirty = True
        if self._last is None:
            self._first = client
        else:
            self._last.next_dirty = client
        self._last = client
        self._dirty += 1
        if not self._lone_reads.are_expected():
            self.flush_soon()

    def _write_dirty(self) -> None:
        """Write to every client that something has been appended for."""
        self._read_bytes = 0
        client, last, left = self._first, self._last, self._dirty
        self._first = self._last = None
        self._dirty = 0
        try:
            while client is not None:
                following, client.next_dirty = client.next_dirty, None
                left -= 1
                client.dirty = False
                client.outbound.flush()
                client.flushed()
                client = following
        finally:
            if left > 0 and last is not None:  # one fault is not to silence the others
                self._put_back(following, last, left)

    def _put_back(self, first: Client | None, last: Client, count: int) -> None:
        """Put `count` clients, `first` to `last`, before the clients that became dirty since."""
        last.next_dirty = self._first
        self._first = first
        if self._last is None:
            self._last = last
        self._dirty += count
        self.flush_soon()


class LoneReads:
    """Notices when no two reads of a turn have a receiver in common, so that none shares a flush.

    `is_reading` says that a batch of reads has begun and not ended.
    """

    __slots__ = ("_before", "_each", "_is_shared", "_left", "_turns", "is_reading")

    def __init__(self) -> None:
        self.is_reading = False
        self._before = 0
        self._each = 0
        self._is_shared = False
        self._turns = 0  # in a row, without receivers in common
        self._left = 0

    def are_expected(self) -> bool:
        """Return whether the current batch is written at its end."""
        return self.is_reading and self._left > 0

    def begin_read(self, receivers: int) -> None:
        """Note the begin of a batch, and how many receivers wait to be written to."""
        self.is_reading = True
        self._before = receivers

    def end_read(self, receivers: int) -> bool:
        """Note the end of a batch, and how many receivers wait; return whether to write now.

        A batch that has added fewer receivers than the first of the turn shares some with it.
        """
        is_lone = self.are_expected()
        self.is_reading = False
        if is_lone:
            self._left -= 1
        elif self._before == 0:
            self._each = receivers
        elif receivers - self._before < self._each:
            self._is_shared = True
        return is_lone

    def end_turn(self, batches: int) -> None:
        """Record the end of a turn with `batches` batches since its first output."""
        if batches == 0 or self._is_shared:
            self._turns = self._left = 0
            self._is_shared = False
            return
        self._turns += 1
        if self._turns >= _LONE_TURNS:
            self._left = min(batches * _TURNS_AT_ONCE, _READS_MAX)
