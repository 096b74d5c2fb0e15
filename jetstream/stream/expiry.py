"""Expiry of messages, by the stream's age limit or by their own TTL.

The work is done in pieces of a bounded size, so that a million messages that expire at once do not
stop other work. Where the stream leaves markers, a marker replaces the last message of a subject.
"""

from __future__ import annotations

import heapq

from midge.jetstream import headers
from midge.jetstream.environment.clock import Timer
from midge.jetstream.headers import NEVER, parse_ttl
from midge.jetstream.json.times import SECOND_NS, format_duration
from midge.jetstream.store.interface import StoreFailedError
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.incoming import Incoming
from midge.jetstream.stream.pieces import WaitingPieces, until_cached

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
        """Plan the next look, or have fetched what tells when that is."""
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
