"""The body of a request for stored messages, and look-ups by patterns for it and for others.

In large streams these are done in pieces that let others in between. Nothing says which messages
match a pattern but a look at the subjects, at 10 ns each, and then at the messages in their order,
at 3 to 8 ns each; a pattern that nothing matches takes both in full.
"""

from __future__ import annotations

from msgspec import Struct, field

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.position import in_reach
from midge.jetstream.json.structure import Boolean, Field, Integer, Items, Structure, Text, Time
from midge.jetstream.json.times import Timestamp
from midge.jetstream.store import lookups
from midge.jetstream.store.store import Store
from midge.jetstream.stream.pieces import PendingFetch, Pieces, WaitingPieces, until_time_cached

_UINT64 = Integer("uint64", is_signed=False)
_INT = Integer("int")

PIECE_SUBJECTS = 50_000
"""Subjects looked at in one piece: 0.5 ms to compare them, 3 ms to find their last messages."""

PIECE_OF_MANY = 5_000
"""The same for more filters than `_FEW`: 0.5 us for each subject."""

_FEW = 4

PIECE_ROWS = 250_000
"""Messages looked at in one piece where all subjects have been compared: up to 2 ms."""

PIECE_FOUND = 20_000
"""Messages in one piece of which each is looked up by its sequence: 2 ms, at 0.1 us each."""

_PWC = ord("*")  # numbers: to look for bytes in bytes, CPython raises and catches an exception
_FWC = ord(">")

NEAR = 1024
"""Messages looked at first: most patterns match one that is near."""


class GetRequest(Struct):
    """Which message, or messages, to get, by the API or directly."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time: Timestamp | None = None
    multi_last: list[str] = field(default_factory=list)
    up_to_seq: int = 0
    up_to_time: Timestamp | None = None
    no_hdr: bool = False

    def asks_nothing(self) -> bool:
        """Return whether no message is named."""
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    def is_contradictory(self) -> bool:
        """Return whether a direct request names messages in two ways."""
        has_time = self.start_time is not None
        last = bool(self.last_by_subj)
        return bool(
            (self.seq and last)
            or (self.seq and has_time)
            or (has_time and last)
            or (last and (self.next_by_subj or self.batch > 0 or self.multi_last))
            or (self.next_by_subj and self.multi_last)
            or (self.up_to_seq and self.up_to_time is not None)
        )

    def says_more_than_headers(self) -> bool:
        """Return whether more is asked for than to leave headers out."""
        return bool(
            self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.seq
            or self.batch
            or self.start_time is not None
            or self.up_to_seq
            or self.up_to_time is not None
        )


GET = Structure(
    "JSApiMsgGetRequest",
    GetRequest,
    [
        Field("seq", _UINT64),
        Field("last_by_subj", Text()),
        Field("next_by_subj", Text()),
        Field("batch", _INT),
        Field("max_bytes", _INT),
        Field("start_time", Time()),
        Field("multi_last", Items(Text(), "[]string")),
        Field("up_to_seq", _UINT64),
        Field("up_to_time", Time()),
        Field("no_hdr", Boolean()),
    ],
)


def is_quick(store: Store, filters: tuple[bytes, ...]) -> bool:
    """Return whether each of these filters is a subject, or the stream is small."""
    if not any(is_pattern(one) for one in filters):
        return True
    return store.messages <= piece_of(filters)


def piece_of(filters: tuple[bytes, ...]) -> int:
    """Return how many subjects are compared with these filters in one piece."""
    return PIECE_SUBJECTS if len(filters) <= _FEW else PIECE_OF_MANY


def is_pattern(subject: bytes) -> bool:
    """Return whether a subject has wildcards."""
    return _PWC in subject or _FWC in subject


def compare(store: Store, filters: tuple[bytes, ...]) -> Pieces[None]:
    """Compare all subjects with the filters: what looks for messages next has that behind it."""
    number = 0
    piece = piece_of(filters)
    while (number := lookups.note_subjects(store, filters, number, piece)) >= 0:
        yield


def takes_turns(store: Store, config: ConsumerConfig) -> bool:
    """Return whether to compare the filters of a new consumer would hold up others."""
    if len(config.filter_subjects) <= _FEW:
        return False
    return store.subject_numbers() > PIECE_OF_MANY


def prepare(store: Store, config: ConsumerConfig) -> WaitingPieces[None]:
    """Look up what making a consumer looks up again: its start by time, what its filters take."""
    if config.opt_start_time is not None:
        yield from seq_at_time(store, config.opt_start_time.ns)
    if takes_turns(store, config):
        yield from compare(store, config.filters())


def next_matching(store: Store, subject: bytes, start: int, end: int) -> Pieces[int]:
    """Return the first sequence from `start` to `end` that matches; 0 for none."""
    filters = (subject,)
    if is_quick(store, filters):
        return store.next_seq(filters, start, end)
    near = min(end, store.seq_after(start, NEAR) - 1)
    seq = store.next_seq(filters, start, near)
    start = near + 1
    if not seq and start <= end:
        yield from compare(store, filters)
    while not seq and start <= end:
        stop = min(end, store.seq_after(start, PIECE_ROWS) - 1)
        seq = store.next_seq(filters, start, stop)
        start = stop + 1
        yield
    return seq


def last_matching(store: Store, subject: bytes, upto: int) -> Pieces[int]:
    """Return the last sequence up to `upto` that matches; 0 for none."""
    if is_quick(store, (subject,)):
        return store.last_matching(subject, upto)
    found = store.last_matching(subject, upto, True)
    number = 0 if not found else -1
    while number >= 0:
        seqs, number = lookups.newest(
            store, (subject,), number, PIECE_SUBJECTS, upto, PIECE_SUBJECTS
        )
        found = max([found, *seqs])
        yield
    return found


def seq_at_time(store: Store, time_ns: int) -> WaitingPieces[int]:
    """Return the first sequence stored at or after `time_ns`; `last_seq` + 1 for none.

    The times of up to ten messages are read for that, one after the other.
    """
    time_ns = in_reach(time_ns)
    low, high = lookups.around_time(store, time_ns)
    fetch = PendingFetch()
    while low < high:
        middle = (low + high) >> 1
        seq = store.next_seq((), middle, high - 1)
        if seq:
            yield from until_time_cached(store, seq, fetch)
        if not seq:
            high = middle
        elif not store.exists(seq):
            pass  # it has gone meanwhile: the one behind it is looked at
        elif store.time_of(seq) < time_ns:
            low = seq + 1
        else:
            high = middle
    return store.next_seq((), low) or store.last_seq + 1


def newest(store: Store, filters: tuple[bytes, ...], upto: int, most: int) -> Pieces[list[int]]:
    """Return the last sequences up to `upto` of the subjects that match, in order.

    The search ends when there are more than `most` of them.
    """
    if not any(is_pattern(one) for one in filters):
        seqs = {store.last_matching(one, upto) for one in filters}
        return sorted(seqs - {0})
    if store.last_seq - upto <= PIECE_FOUND:
        return (yield from _newest_of_subjects(store, filters, upto, most))
    return (yield from _newest_of_rows(store, filters, upto, most))


def _newest_of_subjects(
    store: Store, filters: tuple[bytes, ...], upto: int, most: int
) -> Pieces[list[int]]:
    """Ask each subject for its last message; few messages lie behind `upto`."""
    found: list[int] = []
    number = 0
    piece = piece_of(filters)
    while number >= 0 and len(found) <= most:
        seqs, number = lookups.newest(store, filters, number, piece, upto, most + 1 - len(found))
        found += seqs
        if number >= 0:
            yield
    return sorted(found)


def _newest_of_rows(
    store: Store, filters: tuple[bytes, ...], upto: int, most: int
) -> Pieces[list[int]]:
    """Ask each message up to `upto` whether it was the last one of its subject."""
    found: list[int] = []
    start = store.first_seq
    if not is_quick(store, filters):
        yield from compare(store, filters)
    while start <= upto and len(found) <= most:
        stop = min(upto, store.seq_after(start, PIECE_FOUND) - 1)
        found += lookups.newest_between(store, filters, start, stop, upto, most + 1 - len(found))
        start = stop + 1
        if start <= upto:
            yield
    return found
