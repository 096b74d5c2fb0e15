"""Removals that take long, done in pieces of a bounded size, so that they do not stop other work.

Wildcard purges and lowered limits: nothing that is stored meanwhile is removed but by the limits,
and the request is answered behind the last piece. A crash in between leaves what the pieces before
it have left.

Expiry: messages are removed by the stream's age limit or by their own TTL. Where the stream leaves
markers, a marker replaces the last message of a subject.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from midge.jetstream import errors, headers
from midge.jetstream.environment.clock import Timer
from midge.jetstream.errors import ApiError
from midge.jetstream.headers import NEVER, parse_ttl
from midge.jetstream.json.times import SECOND_NS, format_duration
from midge.jetstream.store import lookups
from midge.jetstream.store.interface import StoreFailedError
from midge.jetstream.store.store import Store
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.contents import Contents
from midge.jetstream.stream.incoming import Incoming
from midge.jetstream.stream.pieces import Pieces, WaitingPieces, in_turns, until_cached
from midge.jetstream.stream.stream_host import StreamHost

PIECE_MESSAGES = 100_000
"""Messages looked at in one piece: some 5 ms, at up to 50 ns for one with a subject of its own."""

PIECE_TRIMMED = 5_000
"""Messages removed one by one in one piece: some 5 ms, at 0.3 us each and 1 with consumers."""

PIECE_BYTES = 1 << 20
"""Read in one piece, or in one turn: some 3 ms."""

_READ_COST = 512
"""Fixed cost of reading a message, besides its bytes: 1.5 us, while a MiB takes some 3 ms.

To remove one takes about 1 us, so that a turn removes up to 2,048 of which nothing is read.
"""

_PAUSE_S = 0.25
"""Least time between looks, as in nats-server: many small ones would slow down publishing."""

_LONGEST_S = 30.0
"""Longest time between looks, for the wall clock may be set forward meanwhile."""

_OPERATION = b"KV-Operation"


def purge_now(stream: StreamHost, subject: bytes | None, upto_seq: int, keep: int) -> int:
    """Remove messages of a subject, below a sequence, but the newest; return how many."""
    if subject == b">" and not keep:
        subject = None
    stream.save_origins()
    return stream.contents.purge(subject, upto_seq, keep)


def purge(
    stream: StreamHost,
    subject: bytes | None,
    upto_seq: int,
    keep: int,
    done: Callable[[int], object],
    refused: Callable[[ApiError], object],
) -> None:
    """Purge as `purge_now` does; `done` is called with the number of removed messages.

    A small stream is purged at once. `refused` is called if the stream is deleted before the end,
    or its store fails.
    """
    store = stream.store
    is_simple = not keep and upto_seq <= 1 and subject in (None, b">")
    if is_simple or store.messages <= PIECE_MESSAGES:
        done(purge_now(stream, subject, upto_seq, keep))
        return
    pieces = _purging(stream, subject, upto_seq, keep)
    in_turns(stream, pieces, done, refused, errors.STREAM_PURGE_FAILED)


def enforce(stream: StreamHost) -> None:
    """Remove the messages beyond the limits, after these were lowered.

    A large stream is trimmed in pieces; `when_enforced` waits for the end. Until then a publish
    does not enforce the limits itself beyond its own message, because it would do all the rest at
    once.
    """
    contents = stream.contents
    contents.enforcing += 1
    number = contents.enforcing
    pieces = _enforcing(contents, number)
    if stream.store.messages <= PIECE_MESSAGES:
        for _ in pieces:
            pass
        _enforced(contents, number)
        return
    contents.is_enforcing = True

    def done(_: object) -> None:
        _enforced(contents, number)

    in_turns(stream, pieces, done, done)


def when_enforced(contents: Contents, callback: Callable[[], object]) -> None:
    """Call back as soon as the limits hold."""
    if contents.is_enforcing:
        contents.waiting.append(callback)
    else:
        callback()


def _purging(stream: StreamHost, subject: bytes | None, upto_seq: int, keep: int) -> Pieces[int]:
    """Purge in pieces; return how many messages have gone.

    With `keep` the newest at the end of it are kept, of those that match then. The last piece is
    an ordinary purge.
    """
    store = stream.store
    upto = min(upto_seq or store.last_seq + 1, store.last_seq + 1)
    ends = _ends(store, upto)
    if keep:
        ends = yield from _whole(store, subject, keep, ends)
    stream.save_origins()
    purged = 0
    for end in ends[:-1] if not keep else ends:
        purged += store.purge(subject, end, 0)
        stream.contents.account()
        yield
    return purged + purge_now(stream, subject, upto_seq if keep or upto_seq else upto, keep)


def _ends(store: Store, upto: int) -> list[int]:
    """Return where pieces end that together are all messages below `upto`."""
    ends = [store.seq_after(store.first_seq, PIECE_MESSAGES)]
    while ends[-1] < upto:
        ends.append(store.seq_after(ends[-1], PIECE_MESSAGES))
    ends[-1] = upto
    return ends


def _whole(store: Store, subject: bytes | None, keep: int, ends: list[int]) -> Pieces[list[int]]:
    """Return the ends of those pieces behind which at least `keep` messages match."""
    filters = () if subject is None else (subject,)
    left = 0
    for i in range(len(ends) - 1, 0, -1):
        left += store.count_pending(filters, ends[i - 1], False, ends[i] - 1)
        if left >= keep:
            return ends[:i]
        yield
    return []


def _enforcing(contents: Contents, number: int) -> Pieces[int]:
    """Remove the messages beyond the limits in pieces; a later change of the limits ends it.

    As in nats-server the stream's limits come first, and then the limit of each subject: if both
    are lowered, fewer messages than either allows may be left.
    """
    store = contents.store
    while contents.enforce_some(PIECE_MESSAGES):
        yield
        if contents.enforcing != number:
            return 0
    at = 0
    while at >= 0 and contents.max_per_subject > 0:
        crowded, at = lookups.subjects_over_limit(
            store, contents.max_per_subject, at, PIECE_MESSAGES
        )
        yield from _trimming(contents, crowded, number)
        yield
        if contents.enforcing != number:
            return 0
    contents.trimmed()
    return 0


def _trimming(contents: Contents, crowded: list[bytes], number: int) -> Pieces[None]:
    """Remove the oldest messages of subjects that have more than they may."""
    room = PIECE_TRIMMED
    for subject in crowded:
        limit = contents.max_per_subject
        surplus = contents.store.count_for_subject(subject) - limit
        while surplus > 0 and contents.enforcing == number:
            gone = min(surplus, room)
            surplus -= gone
            room -= gone
            contents.trim_to(subject, limit + surplus)
            if not room:
                contents.account()
                room = PIECE_TRIMMED
                yield


def _enforced(contents: Contents, number: int) -> None:
    """Notify the waiting callers, unless the limits have been changed again."""
    if contents.enforcing != number:
        return
    contents.is_enforcing = False
    waiting, contents.waiting = contents.waiting, []
    for callback in waiting:
        callback()


class Expiry:
    """The age limit of a stream and the TTLs of its messages.

    The stream's `is_expiry_armed` is True while a check is scheduled, or none is needed.
    """

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        self._due: list[tuple[int, int]] = []
        self._has_immortal = False
        self._mortal_from = 1  # the messages left below never expire
        self._is_fetching = False  # the message of the last request
        self._timer: Timer | None = None

    def start(self) -> None:
        """Take up the TTLs of the messages stored before."""
        store = self._stream.store
        for seq, ttl_s in store.ttls():
            if store.exists(seq):
                self.add(seq, store.time_of(seq), ttl_s)
        self.arm()

    def stop(self) -> None:
        """Plan nothing any more."""
        self._cancel()
        self._stream.is_expiry_armed = True

    def read_all(self) -> WaitingPieces[None]:
        """Find the messages with a TTL that were stored before TTLs were allowed."""
        store = self._stream.store
        end_seq = store.last_seq
        seq = store.next_seq((), store.first_seq or 1, end_seq)
        room = PIECE_BYTES
        while seq:
            yield from until_cached(store, seq)
            message = store.load(seq)
            if message is not None and message.headers:
                ttl_s = parse_ttl(headers.find(message.headers, names.TTL) or b"")
                if ttl_s > 0 or ttl_s == NEVER:
                    self.add(seq, message.time_ns, ttl_s)
            room -= self._cost_of(seq)
            if room <= 0:
                room = PIECE_BYTES
                yield None
            seq = store.next_seq((), seq + 1, end_seq) if seq < end_seq else 0

    def add(self, seq: int, time_ns: int, ttl_s: int) -> None:
        """Remove a message `ttl_s` seconds after it was stored, or never."""
        if ttl_s == NEVER:
            self._has_immortal = True
            return
        due_ns = time_ns + ttl_s * SECOND_NS
        heapq.heappush(self._due, (due_ns, seq))
        if self._due[0][1] == seq:
            self.arm()

    def fetched(self) -> None:
        """Go on with the message that was not in memory."""
        if not self._stream.is_closed:
            self._plan(0.0)

    def arm(self) -> None:
        """Plan the next look, or fetch the message that says when that is."""
        if self._stream.is_closed:
            return
        self._is_fetching = False
        old_ns = self._next_old_ns()
        due_ns = self._due[0][0] if self._due else 0
        if old_ns:
            due_ns = min(due_ns or old_ns, old_ns)
        self._cancel()
        # Without a message that may age, the next one that is stored is to be waited for as well.
        self._stream.is_expiry_armed = (
            old_ns > 0 or self._is_fetching or self._stream.config.max_age_ns <= 0
        )
        if due_ns:
            clock = self._stream.clock
            delay_s = (due_ns - clock.wall_ns()) / SECOND_NS
            self._plan(delay_s if clock.is_exact else min(max(delay_s, _PAUSE_S), _LONGEST_S))

    def look(self) -> None:
        """Remove the expired messages, and schedule the next check."""
        self._timer = None
        stream = self._stream
        if stream.is_closed:
            return
        now_ns = stream.now_ns = stream.clock.wall_ns()
        self._is_fetching = False
        try:
            stream.save_origins()
            room = self._expire_old(now_ns, PIECE_BYTES)
            room = self._expire_due(now_ns, room)
        except StoreFailedError:
            return  # the store refuses changes until the server is restarted
        stream.contents.trimmed()
        if room <= 0:
            self._plan(0.0)
        elif self._is_fetching:
            stream.is_expiry_armed = True  # `fetched` plans the next look
        else:
            self.arm()

    def _plan(self, delay_s: float) -> None:
        self._cancel()
        self._timer = self._stream.clock.call_later(delay_s, self.look)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next_old_ns(self) -> int:
        """Return when the next message is beyond the age limit; 0 for none, or as yet unknown."""
        max_age_ns = self._stream.config.max_age_ns
        if max_age_ns <= 0 or self._stream.store.messages == 0:
            return 0
        oldest_ns = self._oldest_ns()
        return oldest_ns + max_age_ns if oldest_ns else 0

    def _oldest_ns(self) -> int:
        """Return the time of the oldest message that may expire; 0 for none, or as yet unknown.

        It may be the time of a later message: many messages that never expire take several turns.
        """
        store = self._stream.store
        if not self._has_immortal:
            self._is_fetching = not store.is_first_time_cached(self)
            return 0 if self._is_fetching else store.first_time_ns()
        passed_ns = 0
        room = PIECE_BYTES
        while room > 0:
            seq = self._next_mortal()
            if not seq or not self._is_cached(seq):
                return 0
            message = store.load(seq)
            passed_ns = store.time_of(seq) if message is None else message.time_ns
            if message is None or not _is_immortal(message.headers):
                break
            self._mortal_from = seq + 1
            room -= self._cost_of(seq)
        return passed_ns

    def _next_mortal(self) -> int:
        """Return the first sequence that may expire; 0 for none."""
        store = self._stream.store
        start = max(store.first_seq, self._mortal_from)
        return store.next_seq((), start) if store.messages and start <= store.last_seq else 0

    def _is_cached(self, seq: int) -> bool:
        """Return whether a message can be loaded now; otherwise it is fetched for the next look."""
        self._is_fetching = not self._stream.store.is_cached(seq, self)
        return not self._is_fetching

    def _cost_of(self, seq: int) -> int:
        """Return how much reading a message takes of a piece."""
        return _READ_COST + self._stream.store.size_of(seq)

    def _expire_old(self, now_ns: int, room: int) -> int:
        """Remove messages older than the limit; return the rest of a turn's `room`."""
        stream = self._stream
        store = stream.store
        max_age_ns = stream.config.max_age_ns
        if max_age_ns <= 0:
            return room
        before_ns = now_ns - max_age_ns + 1
        if not self._has_immortal and not self._marker_ttl_s():
            return room - store.expire(before_ns, room // _READ_COST, self) * _READ_COST
        end_seq = store.last_seq  # later messages are markers
        while room > 0:
            seq = self._next_mortal()
            if not 0 < seq <= end_seq or not self._is_cached(seq):
                break
            cost = self._cost_of(seq)
            message = store.load(seq)
            if (store.time_of(seq) if message is None else message.time_ns) >= before_ns:
                break
            if message is None:  # it cannot be read
                stream.contents.remove(seq)
            elif _is_immortal(message.headers):
                self._mortal_from = seq + 1
            else:
                self._remove(seq, message.subject, message.headers)
            room -= cost
        return room

    def _expire_due(self, now_ns: int, room: int) -> int:
        """Remove messages whose TTL has expired; return the rest of a turn's `room`."""
        store = self._stream.store
        due = self._due
        while due and due[0][0] <= now_ns and room > 0:
            seq = due[0][1]
            is_marked = self._marker_ttl_s() > 0 and store.exists(seq)
            if is_marked and not self._is_cached(seq):
                break
            heapq.heappop(due)
            message = store.load(seq) if is_marked else None
            room -= self._cost_of(seq) if is_marked else _READ_COST
            if message is not None:
                self._remove(seq, message.subject, message.headers)
            elif store.exists(seq):
                self._stream.contents.remove(seq)
        return room

    def _remove(self, seq: int, subject: bytes, header_block: bytes) -> None:
        """Remove a message; leave a marker when it was the last of its subject."""
        stream = self._stream
        marker_ttl_s = self._marker_ttl_s()
        if (
            not marker_ttl_s
            or stream.store.count_for_subject(subject) > 1
            or _is_marker(header_block)
        ):
            stream.contents.remove(seq)
            return
        marker = Incoming(subject, b"", _marker_headers(marker_ttl_s), b"")
        marker.is_sourced = True
        marker.values = headers.nats_headers(marker.headers) or {}
        stream.take(marker)

    def _marker_ttl_s(self) -> int:
        return self._stream.config.subject_delete_marker_ttl_ns // SECOND_NS


def _marker_headers(ttl_s: int) -> bytes:
    ttl = format_duration(ttl_s * SECOND_NS).encode()
    return (
        b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %b\r\nNats-Rollup: sub\r\n\r\n" % ttl
    )


def _is_immortal(header_block: bytes) -> bool:
    return bool(header_block) and parse_ttl(headers.find(header_block, names.TTL) or b"") == NEVER


def _is_marker(header_block: bytes) -> bool:
    """Return whether a message itself says that its subject is deleted."""
    if not header_block:
        return False
    if headers.find(header_block, names.MARKER_REASON):
        return True
    return headers.find(header_block, _OPERATION) == b"PURGE"
