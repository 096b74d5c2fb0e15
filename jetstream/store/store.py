"""The store of a stream's messages, as streams and consumers see it.

Decisions (limits, expected sequences, duplicates) use the state of the open group: `last_seq`,
`messages`, `bytes` and the look-ups count messages that are appended but not yet durable. Reads for
clients stop at `visible_seq`, because a crash may still lose the messages above it.

Changes join the open group of the store. `group` is its number, and `GroupListener.durable` is
called for every group, in order, once it is on the disk. All changes of one command before control
returns to the event loop are in one group: they survive together or not at all. In a memory store
every group is durable at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.store import lookups, removing
from midge.jetstream.store.entering import KnownSubjects, enter_lines
from midge.jetstream.store.indexes import AppendedMessage, Indexes, Medium
from midge.jetstream.store.interface import (
    LoadedMessage,
    MessageView,
    StoreError,
    Waiter,
)
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.turns import Turns
from midge.protocol import lines as protocol_lines
from midge.protocol.frame import Frame

_SEQ_MAX = SEQ_MAX  # a C number where this is compiled
_SUBJECT_MAX = 0xFFFF  # what a record has room for
_FAR = 0xFFFFFFFF  # a distance that a row of the index has no room for
_NEAR = _FAR - 1024  # so far apart messages may be of which many are stored at once


class Store(Indexes):
    """The messages of one stream, with the state of its consumers.

    Filters are tuples of subjects that may have wildcards; the empty tuple means all messages. An
    `end_seq` or `upto_seq` of 0 means `last_seq`. Sequences start at 1, so 0 means no message.
    """

    def __init__(
        self,
        medium: Medium,
        seed: int,
        turns: Turns | None,
        fixed_bytes: int,
        fixed_bytes_with_headers: int,
    ) -> None:
        super().__init__(medium, seed, turns, fixed_bytes, fixed_bytes_with_headers)
        self.incoming = AppendedMessage()
        self._view = MessageView()
        self._known: KnownSubjects | None = None
        self.saved_config = b""

    def show_copies(self, origin: Store, upto: int) -> None:
        """Make messages up to the sequence `upto` visible that `origin` has on the disk.

        Only where both are in one log: its groups become durable in order, so a crash cannot take
        away the copies after `origin` has removed its messages for good. Elsewhere nothing happens.
        """

    # Changes. All join the open group.

    def append(
        self,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        time_ns: int,
        seq: int = 0,
        ttl_s: int = 0,
        msg_id: bytes | None = None,
    ) -> int:
        """Store a message after the last one and return its sequence.

        `seq` of 0 means the next one; a larger one leaves a gap, as a mirror needs. A `time_ns`
        before the previous message's time is raised to it. `ttl_s` (-1: never expires) and
        `msg_id` are stored beside the message, so that `ttls` and `ids` know them after a restart.

        Raises:
            StoreFullError: the disk is full.
            StoreFailedError: a sync has failed.
        """
        if protocol_lines.has_blank(subject, 0, len(subject)):
            raise StoreError("a subject holds a blank, TAB, CR or LF")
        if seq == 0:
            seq = self.last_seq + 1
        incoming = self.incoming
        incoming.seq = seq
        incoming.time_ns = max(time_ns, self.last_time_ns)
        incoming.subject = subject
        incoming.subject_start = 0
        incoming.subject_end = len(subject)
        incoming.headers = headers
        incoming.headers_start = 0
        incoming.headers_end = len(headers)
        incoming.payload = payload
        incoming.payload_start = 0
        incoming.payload_end = len(payload)
        incoming.ttl_s = ttl_s
        incoming.msg_id = msg_id
        self._store(incoming)
        return seq

    def append_frame(self, frame: Frame, time_ns: int) -> int:
        """Store a published message as it lies in its connection's buffer; see `append`."""
        incoming = self.incoming
        incoming.seq = self.last_seq + 1
        incoming.time_ns = max(time_ns, self.last_time_ns)
        incoming.subject = frame.data
        incoming.subject_start = frame.base + frame.subject_start
        incoming.subject_end = frame.base + frame.subject_end
        incoming.headers = frame.data
        incoming.headers_start = frame.base + frame.payload
        incoming.headers_end = incoming.headers_start
        if frame.header_size > 0:
            incoming.headers_end += frame.header_size
        incoming.payload = frame.data
        incoming.payload_start = incoming.headers_end
        incoming.payload_end = incoming.headers_start + frame.size
        incoming.ttl_s = 0
        incoming.msg_id = None
        self._store(incoming)
        return incoming.seq

    def begin_epoch(self) -> int:
        """Begin an epoch of known subjects, see `KnownSubjects`; return its number."""
        if self._known is None:
            self._known = KnownSubjects(self.subject_index)
        return self._known.begin_epoch()

    def remember_subject(self, data: bytearray, start: int, end: int, epoch: int) -> None:
        """Mark the subject ``data[start:end]`` as known in `epoch`, if it is stored."""
        if self._known is not None:
            self._known.mark(data, start, end, epoch)

    def resolve_lines(self, lines: PublishedLines, epoch: int) -> int:
        """Keep of `lines` those before the first one that `append_lines` cannot take.

        Their subjects are known in `epoch`. Returns how many they are.
        """
        known = self._known
        if (
            known is None
            or self.messages == 0
            or self.last_seq - self.first_seq > _NEAR
            or self.last_seq > _SEQ_MAX - _NEAR
        ):
            lines.keep(0)
            return 0
        return known.resolve(lines, epoch)

    def append_lines(self, lines: PublishedLines, time_ns: int) -> int:
        """Store the messages that `resolve_lines` kept after the last one; return how many.

        Those are fewer where the next one needs a closer look, as there is no room for it.
        """
        known = self._known
        assert known is not None, "or none would have been kept"
        time_ns = lines.time_ns = max(time_ns, self.last_time_ns)
        done = 0
        while done < lines.count:
            placed = self.medium.place_lines(lines, done)
            if placed == 0:
                break
            seq = self.last_seq + 1
            known.append(lines, done, placed, seq)
            size = enter_lines(
                self.message_index, lines, done, placed, seq, time_ns, self.counted(0, 0, 0)
            )
            run = self.runs[-1]
            run.live += placed
            run.live_bytes += size
            self.messages += placed
            self.bytes += size
            self.last_seq += placed
            self.last_time_ns = time_ns
            done += placed
        if self.is_async:
            self.visible_seq = self.last_seq
        return done

    def skip_to(self, last_seq: int) -> None:
        """Use up all sequences to `last_seq` without storing anything."""
        if last_seq <= self.last_seq:
            return
        if last_seq > _SEQ_MAX:
            raise StoreError(f"sequence {last_seq} is above {_SEQ_MAX}")
        self.medium.admit()
        self.last_seq = last_seq
        if self.messages == 0:
            self.first_seq = last_seq + 1
        self.medium.moved()
        if self.is_async:
            self.visible_seq = last_seq

    def remove(self, seq: int, erase: bool = False) -> bool:
        """Remove one message; `erase` also overwrites its bytes, once the removal is durable.

        Returns:
            False if the message does not exist.
        """
        self.medium.admit()
        if not self.drop(seq):
            return False
        self.medium.removed(seq)
        return True

    def enforce(self, max_messages: int, max_bytes: int) -> int:
        """Remove the oldest messages until both limits hold (negative: none); return how many."""
        return removing.enforce(self, max_messages, max_bytes)

    def trim_subject(self, subject: bytes, keep: int) -> int:
        """Remove the oldest messages of the literal `subject` but `keep`; return how many."""
        return removing.trim_subject(self, subject, keep)

    def purge(self, subject: bytes | None = None, upto_seq: int = 0, keep: int = 0) -> int:
        """Remove messages of `subject` (None: all; it may hold wildcards); return how many.

        `upto_seq` is the first sequence that stays, 0 for no bound. `keep` leaves the newest that
        many.
        """
        return removing.purge(self, subject, upto_seq, keep)

    def expire(self, before_ns: int, limit: int, waiter: Waiter | None = None) -> int:
        """Remove up to `limit` of the oldest messages stored before `before_ns`; return how many.

        It stops at the first younger message, and with a `waiter` at a message whose time has to be
        read from the disk; see `is_time_cached`.
        """
        self.medium.admit()
        # All before that is older, so that at most the times of one block of the index are read.
        unsure_seq = self.message_index.at_time(before_ns)
        count = 0
        while count < limit and self.messages > 0:
            seq = self.first_seq
            if seq >= unsure_seq:
                if waiter is not None and not self.is_time_cached(seq, waiter):
                    break
                if self.time_of(seq) >= before_ns:
                    break
            self.drop(seq)
            count += 1
        if count:
            self.medium.moved()
        return count

    # Reading.

    def load(self, seq: int) -> LoadedMessage | None:
        """Return the message of this sequence, visible or not; None if it does not exist."""
        return self._view.copied() if self.show(seq, self._view) else None

    def load_departing(self, seq: int, take: Callable[[LoadedMessage | None], object]) -> None:
        """Hand over a message that is about to be removed, None if it cannot be read.

        At once, or later if it has to be fetched from the disk.
        """
        if not self.medium.fetch_departing(seq, take):
            take(self.load(seq))

    def show(self, seq: int, view: MessageView) -> bool:
        """Set `view` to the message of this sequence; False if there is none."""
        row = self.message_index.locate(seq)
        if row < 0:
            return False
        block = self.message_index.block
        view.seq = seq
        run = self.runs[self.run_index(seq)]
        return self.medium.view_at(
            view, run, block.offset(row), block.size(row), block.subject(row)
        )

    def show_next(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int, view: MessageView
    ) -> bool:
        """Set `view` to the message that `next_seq` finds; False if it finds none."""
        seq = 0
        if not filters and start_seq <= end_seq and self.message_index.locate(start_seq) >= 0:
            seq = start_seq  # as nearly always, when a consumer takes them all
        else:
            seq = self.next_seq(filters, start_seq, end_seq)
        return seq != 0 and self.show(seq, view)

    def try_next(
        self,
        filters: tuple[bytes, ...],
        start_seq: int,
        end_seq: int,
        view: MessageView,
        waiter: Waiter,
    ) -> int:
        """Do what `show_next` does, without waiting for a disk.

        Returns 1 for a message, 0 for none, and -1 for one that is being fetched for `waiter`.
        """
        return 1 if self.show_next(filters, start_seq, end_seq, view) else 0

    def is_cached(self, seq: int, waiter: Waiter) -> bool:
        """Return whether a message can be loaded without waiting for a disk.

        Otherwise it is fetched for `waiter`. There need not be one of this sequence.
        """
        return self.medium.is_cached(seq, waiter)

    def is_time_cached(self, seq: int, waiter: Waiter) -> bool:
        """Return whether `time_of` can return without waiting for a disk.

        Otherwise the store fetches the data for `waiter`. There need not be such a message.
        """
        return self.medium.is_time_cached(seq, waiter)

    def is_first_time_cached(self, waiter: Waiter) -> bool:
        """Return whether `first_time_ns` can return without waiting for a disk.

        Otherwise the store fetches the data for `waiter`.
        """
        return self.medium.is_first_time_cached(waiter)

    def next_seq(self, filters: tuple[bytes, ...], start_seq: int, end_seq: int = 0) -> int:
        """Return the sequence of the first message that matches any filter; 0 for none.

        The messages from `start_seq` to `end_seq` are searched.
        """
        return lookups.next_seq(self, filters, start_seq, end_seq)

    def next_last_seq(self, filters: tuple[bytes, ...], start_seq: int, upto_seq: int = 0) -> int:
        """Return the first sequence from `start_seq` on that is its subject's last; 0 for none.

        Last means: of the messages up to `upto_seq`.
        """
        return lookups.next_last_seq(self, filters, start_seq, upto_seq)

    def exists(self, seq: int) -> bool:
        """Return whether there is a message of this sequence."""
        return self.message_index.locate(seq) >= 0

    def subject_of(self, seq: int) -> bytes | None:
        """Return the subject of the message of this sequence, from memory; None for none."""
        row = self.message_index.locate(seq)
        if row < 0:
            return None
        return self.subject_index.name(self.message_index.block.subject(row))

    def size_of(self, seq: int) -> int:
        """Return what a message counts towards `bytes`; 0 if it does not exist."""
        row = self.message_index.locate(seq)
        return self.message_index.block.size(row) if row >= 0 else 0

    def time_of(self, seq: int) -> int:
        """Return when the message of this sequence, which must exist, was stored.

        Of one that cannot be read it is the time of the last message.
        """
        return self.medium.time_of(seq)

    def first_time_ns(self) -> int:
        """Return when the first message was stored; 0 without messages."""
        return self.medium.first_time_ns() if self.messages > 0 else 0

    def first_for_subject(self, subject: bytes) -> int:
        """Return the first sequence of a literal subject; 0 for none."""
        number = self.subject_index.find(subject, 0, len(subject))
        return self.subject_index.first(number) if number >= 0 else 0

    def last_for_subject(self, subject: bytes) -> int:
        """Return the last sequence of a literal subject; 0 for none."""
        number = self.subject_index.find(subject, 0, len(subject))
        return self.subject_index.last(number) if number >= 0 else 0

    def count_for_subject(self, subject: bytes) -> int:
        """Return how many messages of a literal subject are stored."""
        number = self.subject_index.find(subject, 0, len(subject))
        return self.subject_index.count(number) if number >= 0 else 0

    def last_matching(self, subject: bytes, upto_seq: int = 0, is_near: bool = False) -> int:
        """Return the last sequence, up to `upto_seq`, that matches `subject`; 0 for none.

        With `is_near` only the last messages are looked at, some 4,000: it may be 0 all the same.
        """
        return lookups.last_matching(self, subject, upto_seq, is_near)

    def subject_numbers(self) -> int:
        """Return a number above the numbers of all stored subjects."""
        return self.subject_index.limit()

    def seq_after(self, start_seq: int, messages: int) -> int:
        """Return a sequence with at least `messages` messages between `start_seq` and it.

        There may be somewhat more of them; behind the last message it is any later sequence.
        """
        return self.message_index.seq_after(start_seq, messages)

    def count_pending(
        self,
        filters: tuple[bytes, ...],
        start_seq: int,
        last_per_subject: bool = False,
        end_seq: int = 0,
    ) -> int:
        """Count the messages from `start_seq` to `end_seq` that match any filter, exactly.

        With `last_per_subject` only the last one of each subject counts.
        """
        return lookups.count_pending(self, filters, start_seq, last_per_subject, end_seq)

    def seq_at_time(self, time_ns: int) -> int:
        """Return the first sequence stored at or after `time_ns`; `last_seq` + 1 for none."""
        low, high = lookups.around_time(self, time_ns)
        while low < high:
            middle = (low + high) >> 1
            seq = self.message_index.next_live(middle)
            if seq == 0 or self.time_of(seq) >= time_ns:
                high = middle
            else:
                low = seq + 1
        found = self.message_index.next_live(low)
        return found or self.last_seq + 1

    # State beside the messages. In memory it lives as long as the process, and nothing waits.

    def ids(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate over the message ids found at the start: id, sequence and time, oldest first.

        The ids of messages that have been removed since are among them.
        """
        return iter(())

    def ttls(self) -> Iterator[tuple[int, int]]:
        """Iterate over the stored messages with a TTL: sequence and seconds."""
        return iter(())

    def save_config(self, config: bytes) -> None:
        """Replace the stream's stored configuration."""
        self.saved_config = config

    def config(self) -> bytes:
        """Return the stored configuration."""
        return self.saved_config

    def save_consumer(self, name: bytes, state: bytes) -> None:
        """Replace all that is stored for a consumer: its state and the operations on it."""

    def log_consumer(self, name: bytes, operation: bytes, remove_seq: int = 0) -> None:
        """Append an operation to the stored state of a consumer.

        The same record removes the message `remove_seq`, as an ack on a work queue does.
        """
        if remove_seq:
            self.remove(remove_seq)

    def delete_consumer(self, name: bytes) -> None:
        """Forget a consumer."""

    def consumers(self) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Iterate over the stored consumers: name, state and the operations since."""
        return iter(())

    def barrier(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once all changes so far are durable; in a memory store at once.

        When they are lost, because a sync failed, the callback is not called.
        """
        callback()

    def is_held(self, then: Callable[[], object]) -> bool:
        """Return whether bulk writers must pause, because the write backlog is over its limit.

        If so, `then` is called on the loop as soon as the backlog is written.
        """
        return False

    def set_dedup_window(self, window_ns: int) -> None:
        """Set the time for which ids must be known after a restart."""

    def delete(self) -> None:
        """Delete the stream with everything stored for it; the store must not be used after."""
        self.clear()

    # How messages are stored.

    def _store(self, incoming: AppendedMessage) -> None:
        """Place a message and enter it into the index."""
        length = incoming.subject_end - incoming.subject_start
        if incoming.seq <= self.last_seq:
            raise StoreError(f"sequence {incoming.seq} is not after the last, {self.last_seq}")
        if incoming.seq > _SEQ_MAX:
            raise StoreError(f"sequence {incoming.seq} is above {_SEQ_MAX}")
        if length > _SUBJECT_MAX:
            raise StoreError(f"a subject of {length} bytes is too long to be stored")
        offset = self.medium.place(incoming)
        size = self.counted(
            length,
            incoming.headers_end - incoming.headers_start,
            incoming.payload_end - incoming.payload_start,
        )
        self.enter(incoming, offset, size)
        if self.is_async:
            self.visible_seq = incoming.seq
