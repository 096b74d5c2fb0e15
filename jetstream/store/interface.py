"""The store of a stream's messages, as streams and consumers see it.

`memory.py` and the file store implement exactly this. Everything that decides (limits, expected
sequences, duplicates) uses the state as of the open group: `last_seq`, `messages`, `bytes` and the
look-ups count what has been appended but is not yet durable. Everything that shows a message to
anyone stops at `visible_seq`: above it lies what a crash may still take away.

Changes join the open group of the store. `group` is its number, and `GroupListener.durable` is told
of every group in order once it is on the disk. What one command changes before control returns to
the event loop is one group: it survives as a whole or not at all. In a memory store every group is
durable at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from midge.jetstream.store.published import PublishedLines
from midge.protocol import memory
from midge.protocol.errors import MidgeError
from midge.protocol.frame import Frame

_NOTHING = bytearray()


class StoreError(MidgeError):
    """The store cannot do what it is asked; nothing has changed."""


class StoreKeyError(StoreError):
    """The store is encrypted, and its key is missing or another one."""


class StoreFullError(StoreError):
    """The disk has no room for another message; removals are still possible."""


class StoreFailedError(StoreError):
    """A sync failed: the store takes no more changes until it is opened anew."""


class StoredMessage:
    """A message as it was stored.

    `headers` is the whole header block with its blank line, empty when the message has none.
    `time_ns` counts from the epoch.
    """

    __slots__ = ("headers", "payload", "seq", "subject", "time_ns")

    def __init__(
        self, seq: int, time_ns: int, subject: bytes, headers: bytes, payload: bytes
    ) -> None:
        self.seq = seq
        self.time_ns = time_ns
        self.subject = subject
        self.headers = headers
        self.payload = payload

    def __repr__(self) -> str:
        """Show what tells messages apart."""
        return f"StoredMessage({self.seq}, {self.subject!r}, {len(self.payload)} bytes)"


class MessageView:
    """The message that a store was last asked to show: its parts are ranges of the store's buffers.

    It is valid until the next call of the store, or of anything that may call it. The payload
    follows the headers: both are ranges of `body`.
    """

    __slots__ = (
        "body",
        "headers_start",
        "payload_end",
        "payload_start",
        "seq",
        "subject",
        "subject_end",
        "subject_start",
        "time_ns",
    )

    def __init__(self) -> None:
        self.seq = 0
        self.time_ns = 0
        self.subject = _NOTHING
        self.subject_start = 0
        self.subject_end = 0
        self.body = _NOTHING
        self.headers_start = 0
        self.payload_start = 0
        self.payload_end = 0

    def size(self) -> int:
        """Return the length of subject, headers and payload together."""
        return self.subject_end - self.subject_start + self.payload_end - self.headers_start

    def copied(self) -> StoredMessage:
        """Return the message as an object of its own."""
        return StoredMessage(
            self.seq,
            self.time_ns,
            memory.take(self.subject, self.subject_start, self.subject_end),
            memory.take(self.body, self.headers_start, self.payload_start),
            memory.take(self.body, self.payload_start, self.payload_end),
        )


class SubjectState:
    """How often a subject is stored, and the first and the last sequence of it."""

    __slots__ = ("count", "first_seq", "last_seq", "subject")

    def __init__(self, subject: bytes, count: int, first_seq: int, last_seq: int) -> None:
        self.subject = subject
        self.count = count
        self.first_seq = first_seq
        self.last_seq = last_seq


class GroupListener:
    """Is told the result of each group of a store; all calls come on the event loop."""

    def durable(self, group: int) -> None:
        """Take note that `group` and all before it are on the disk."""

    def failed(self, group: int, error: StoreError) -> None:
        """Take note that `group` and all after it are lost: their changes have been taken back."""


class Keeper:
    """Reads messages before they are removed."""

    def removing(self, seq: int) -> None:
        """Take note that a message is about to be removed; it can still be loaded.

        See also `StreamStore.load_departing`.
        """
        raise NotImplementedError

    def removing_all(self) -> None:
        """Take note that all messages are about to be removed at once."""
        raise NotImplementedError


class Waiter(Protocol):
    """Reads messages, and can wait for those that are not in memory."""

    def fetched(self) -> None:
        """Take note that what had to be fetched is there."""


class StreamStore:
    """The messages of one stream, with the state of its consumers.

    Filters are tuples of subjects that may hold wildcards; the empty tuple stands for all messages.
    An `end_seq` or `upto_seq` of 0 stands for `last_seq`. Sequences start at 1, so that 0 stands
    for no message.

    `removals` grows with every message that goes, for whatever reason, so that a count made earlier
    can be known to be stale. `subject_count` is the number of distinct subjects stored.

    `work` counts the items that searches and removals looked at, 10 ns each, to charge a client.

    `keepers` are told of every message before it goes, as a snapshot needs that is being written.

    `is_async` tells that changes count as durable at once, without waiting for their group: so it
    is in memory, and in a file stream that is to be so.
    """

    def __init__(self) -> None:
        self.first_seq = 0  # last_seq + 1 once everything has been removed; 0 in a new store
        self.last_seq = 0
        self.visible_seq = 0
        self.messages = 0
        self.bytes = 0
        self.last_time_ns = 0
        self.subject_count = 0
        self.removals = 0
        self.work = 0
        self.group = 0
        self.is_async = True
        self.keepers: list[Keeper] = []

    def is_in(self, log: object) -> bool:
        """Return whether the changes of this store are written to `log`."""
        return False

    def show_copies(self, origin: StreamStore, upto: int) -> None:
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

        `seq` of 0 means the next one; a larger one leaves a gap, as a mirror needs. `time_ns`
        earlier than that of the message before is raised to it. `ttl_s` (-1: never expires) and
        `msg_id` are kept beside the message, so that `ttls` and `ids` know them after a restart.

        Raises:
            StoreFullError: the disk is full.
            StoreFailedError: a sync has failed.
        """
        raise NotImplementedError

    def append_frame(self, frame: Frame, time_ns: int) -> int:
        """Store a published message as it lies in its connection's buffer; see `append`."""
        raise NotImplementedError

    def begin_epoch(self) -> int:
        """Begin an epoch of known subjects, see known_subjects.py; return its number."""
        raise NotImplementedError

    def know_subject(self, data: bytearray, start: int, end: int, epoch: int) -> None:
        """Take note that the subject ``data[start:end]`` is known in `epoch`, if it is stored."""
        raise NotImplementedError

    def resolve_lines(self, lines: PublishedLines, epoch: int) -> int:
        """Keep of `lines` those before the first one that `append_lines` cannot take.

        Their subjects are known in `epoch`. Returns how many they are.
        """
        raise NotImplementedError

    def append_lines(self, lines: PublishedLines, time_ns: int) -> int:
        """Store the messages that `resolve_lines` kept after the last one; return how many.

        Those are fewer where the next one needs a closer look, as there is no room for it.
        """
        raise NotImplementedError

    def skip_to(self, last_seq: int) -> None:
        """Use up all sequences to `last_seq` without storing anything."""
        raise NotImplementedError

    def remove(self, seq: int, erase: bool = False) -> bool:
        """Remove one message; `erase` also overwrites its bytes, once the removal is durable.

        Returns:
            False if the message does not exist.
        """
        raise NotImplementedError

    def enforce(self, max_messages: int, max_bytes: int) -> int:
        """Remove the oldest messages until both limits hold (negative: none); return how many."""
        raise NotImplementedError

    def trim_subject(self, subject: bytes, keep: int) -> int:
        """Remove the oldest messages of the literal `subject` but `keep`; return how many."""
        raise NotImplementedError

    def purge(self, subject: bytes | None = None, upto_seq: int = 0, keep: int = 0) -> int:
        """Remove messages of `subject` (None: all; it may hold wildcards); return how many.

        `upto_seq` is the first sequence that stays, 0 for no bound. `keep` leaves the newest that
        many.
        """
        raise NotImplementedError

    def expire(self, before_ns: int, limit: int, waiter: Waiter | None = None) -> int:
        """Remove up to `limit` of the oldest messages stored before `before_ns`; return how many.

        It stops at the first message that is younger, and with a `waiter` at one whose age cannot
        be told without waiting for a disk; see `is_time_at_hand`.
        """
        raise NotImplementedError

    # Reading.

    def load(self, seq: int) -> StoredMessage | None:
        """Return the message of this sequence, visible or not; None if it does not exist."""
        raise NotImplementedError

    def load_departing(self, seq: int, take: Callable[[StoredMessage | None], object]) -> None:
        """Hand over a message that is about to be removed, None if it cannot be read.

        At once, or later if it has to be fetched from the disk.
        """
        raise NotImplementedError

    def load_next(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int = 0
    ) -> StoredMessage | None:
        """Return the first message from `start_seq` to `end_seq` that matches any filter."""
        raise NotImplementedError

    def show(self, seq: int, view: MessageView) -> bool:
        """Set `view` to the message of this sequence; False if there is none."""
        raise NotImplementedError

    def show_next(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int, view: MessageView
    ) -> bool:
        """Set `view` to what `load_next` would return; False instead of None."""
        raise NotImplementedError

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
        raise NotImplementedError

    def is_at_hand(self, seq: int, waiter: Waiter) -> bool:
        """Return whether a message can be loaded without waiting for a disk.

        Otherwise it is fetched for `waiter`. There need not be one of this sequence.
        """
        raise NotImplementedError

    def is_time_at_hand(self, seq: int, waiter: Waiter) -> bool:
        """Return whether `time_of` can be told without waiting for a disk.

        Otherwise what it needs is fetched for `waiter`. There need not be such a message.
        """
        raise NotImplementedError

    def is_first_time_at_hand(self, waiter: Waiter) -> bool:
        """Return whether `first_time_ns` can be told without waiting for a disk.

        Otherwise what it needs is fetched for `waiter`.
        """
        raise NotImplementedError

    def next_seq(self, filters: tuple[bytes, ...], start_seq: int, end_seq: int = 0) -> int:
        """Return the sequence that `load_next` would return the message of; 0 for none."""
        raise NotImplementedError

    def next_last_seq(self, filters: tuple[bytes, ...], start_seq: int, upto_seq: int = 0) -> int:
        """Return the first sequence from `start_seq` on that is its subject's last; 0 for none.

        Last means: of the messages up to `upto_seq`.
        """
        raise NotImplementedError

    def exists(self, seq: int) -> bool:
        """Return whether there is a message of this sequence."""
        raise NotImplementedError

    def subject_of(self, seq: int) -> bytes | None:
        """Return the subject of the message of this sequence, from memory; None for none."""
        raise NotImplementedError

    def size_of(self, seq: int) -> int:
        """Return what a message counts towards `bytes`; 0 if it does not exist."""
        raise NotImplementedError

    def time_of(self, seq: int) -> int:
        """Return when the message of this sequence, which must exist, was stored.

        Of one that cannot be read it is the time of the last message.
        """
        raise NotImplementedError

    def first_time_ns(self) -> int:
        """Return when the first message was stored; 0 without messages."""
        raise NotImplementedError

    def first_for_subject(self, subject: bytes) -> int:
        """Return the first sequence of a literal subject; 0 for none."""
        raise NotImplementedError

    def last_for_subject(self, subject: bytes) -> int:
        """Return the last sequence of a literal subject; 0 for none."""
        raise NotImplementedError

    def count_for_subject(self, subject: bytes) -> int:
        """Return how many messages of a literal subject are stored."""
        raise NotImplementedError

    def last_matching(self, subject: bytes, upto_seq: int = 0, is_near: bool = False) -> int:
        """Return the last sequence, up to `upto_seq`, that matches `subject`; 0 for none.

        With `is_near` only the last messages are looked at, some 4,000: it may be 0 all the same.
        """
        raise NotImplementedError

    def subjects(self, subject: bytes = b">") -> Iterator[SubjectState]:
        """Iterate over the stored subjects that match, in no order."""
        raise NotImplementedError

    def crowded(self, limit: int, number: int, count: int) -> tuple[list[bytes], int]:
        """Return the subjects with more than `limit` messages, of `count` subjects from `number`.

        Subjects are numbered from 0 on. Behind them stands the number to go on with; -1 when
        all were given.
        """
        raise NotImplementedError

    def subject_numbers(self) -> int:
        """Return the number that is above those of all stored subjects."""
        raise NotImplementedError

    def subject_names(self, subject: bytes, number: int, count: int) -> tuple[list[bytes], int]:
        """Return the subjects that match, in no order, of `count` numbers from `number`.

        Behind them stands the number to go on with; -1 when all were given.
        """
        raise NotImplementedError

    def note_subjects(self, filters: tuple[bytes, ...], number: int, count: int) -> int:
        """Compare `count` subjects from `number` with filters, for what is asked of them next.

        Returns the number to go on with; -1 when there are no more.
        """
        raise NotImplementedError

    def newest(
        self, filters: tuple[bytes, ...], number: int, count: int, upto_seq: int, most: int
    ) -> tuple[list[int], int]:
        """Return the last sequences up to `upto_seq` of `count` subjects from `number` that match.

        They are in no order, and at most `most`. Behind them stands the number to go on with; -1
        when there are no more. That looks at every message behind `upto_seq`.
        """
        raise NotImplementedError

    def newest_between(
        self, filters: tuple[bytes, ...], start_seq: int, end_seq: int, upto_seq: int, most: int
    ) -> list[int]:
        """Return the first `most` sequences from `start_seq` to `end_seq` that match and are last.

        Last means: of the messages of their subject up to `upto_seq`.
        """
        raise NotImplementedError

    def stretch_end(self, start_seq: int, messages: int) -> int:
        """Return a sequence before which lie at least so many messages from `start_seq` on.

        There may be somewhat more of them; behind the last message it is any later sequence.
        """
        raise NotImplementedError

    def count_subjects(self, subject: bytes = b">") -> int:
        """Return how many stored subjects match."""
        raise NotImplementedError

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
        raise NotImplementedError

    def seq_at_time(self, time_ns: int) -> int:
        """Return the first sequence stored at or after `time_ns`; `last_seq` + 1 for none."""
        raise NotImplementedError

    def around_time(self, time_ns: int) -> tuple[int, int]:
        """Return between which sequences `seq_at_time` has to read times, without reading any.

        Everything before the first of them is older than `time_ns`, and nothing from the second one
        on is.
        """
        raise NotImplementedError

    def unsendable_subject(self) -> bytes | None:
        """Return a stored subject that no line of the protocol can carry; None for none.

        No message is taken under such a subject: a store that was written before may hold some.
        """
        raise NotImplementedError

    def deleted_count(self) -> int:
        """Return how many sequences from the first to the last are without a message."""
        raise NotImplementedError

    def deleted(self) -> Iterator[int]:
        """Iterate over those sequences."""
        raise NotImplementedError

    def gap(self, seq: int) -> tuple[int, int]:
        """Return the first of those sequences from `seq` on, and the next one with a message.

        Behind the last message that is the sequence after `last_seq`. Two zeros: there is none.
        """
        raise NotImplementedError

    def ids(self) -> Iterator[tuple[bytes, int, int]]:
        """Iterate over the message ids found at the start: id, sequence and time, oldest first.

        The ids of messages that have been removed since are among them.
        """
        raise NotImplementedError

    def ttls(self) -> Iterator[tuple[int, int]]:
        """Iterate over the stored messages with a TTL: sequence and seconds."""
        raise NotImplementedError

    # State beside the messages.

    def save_config(self, config: bytes) -> None:
        """Replace the stream's stored configuration."""
        raise NotImplementedError

    def config(self) -> bytes:
        """Return the stored configuration."""
        raise NotImplementedError

    def save_consumer(self, name: bytes, state: bytes) -> None:
        """Replace all that is stored for a consumer: its state and the operations on it."""
        raise NotImplementedError

    def log_consumer(self, name: bytes, operation: bytes, remove_seq: int = 0) -> None:
        """Add an operation to what is stored for a consumer.

        `remove_seq` is removed in the same record, as an ack does on a work queue.
        """
        raise NotImplementedError

    def delete_consumer(self, name: bytes) -> None:
        """Forget a consumer."""
        raise NotImplementedError

    def consumers(self) -> Iterator[tuple[bytes, bytes, list[bytes]]]:
        """Iterate over the stored consumers: name, state and the operations since."""
        raise NotImplementedError

    def barrier(self, callback: Callable[[], object]) -> None:
        """Call back on the loop once all changes so far are durable; in a memory store at once.

        When they are lost, because a sync failed, the callback is not called.
        """
        raise NotImplementedError

    def is_held(self, then: Callable[[], object]) -> bool:
        """Return whether bulk writers must pause, because the write backlog is over its limit.

        If so, `then` is called on the loop as soon as the backlog is written.
        """
        raise NotImplementedError

    def set_dedup_window(self, window_ns: int) -> None:
        """Say how long ids must be known after a restart."""
        raise NotImplementedError

    def delete(self) -> None:
        """Delete the stream with everything stored for it; the store must not be used after."""
        raise NotImplementedError
