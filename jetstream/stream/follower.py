"""Mirrors and sources whose origin is a stream of the same account.

The follower reads the origin's store directly: the visible messages from the sequence after the
last one taken, in pieces. A mirror keeps sequence, time and headers. A sourcing stream assigns its
own, and records the origin of a message in ``Nats-Stream-Source``, from which it also finds its
position after a restart.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from midge.jetstream import errors, headers
from midge.jetstream.config.names import short_hash, to_bytes
from midge.jetstream.config.source import EXTERNAL, TRANSFORM, StreamSource
from midge.jetstream.environment.clock import Timer
from midge.jetstream.errors import ApiError
from midge.jetstream.json.times import format_time
from midge.jetstream.store.interface import LoadedMessage
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream import searching
from midge.jetstream.stream.incoming import Incoming
from midge.jetstream.stream.pieces import WaitingPieces, in_turns
from midge.jetstream.stream.stream_host import StreamHost
from midge.jetstream.transform import StreamTransform
from midge.sublist.subjects import matches

_TURN_BYTES = 1 << 20
"""Taken from an origin in one turn: a few milliseconds."""

_TAKE_COST = 2048
"""Fixed cost of taking a message, besides its bytes: 6 us, while a MiB takes some 3 ms."""

_RETRY_S = 1.0
"""How long to wait when a message cannot be stored, for the stream may be full."""


class Follower:
    """One origin of a stream: `last_seq` has been read, `taken_seq` is the last one stored.

    `identity` distinguishes the origin from another one of the same name, made later.
    """

    def __init__(self, stream: StreamHost, source: StreamSource, *, is_mirror: bool) -> None:
        self.source = source
        self.is_mirror = is_mirror
        self.last_seq = 0
        self.taken_seq = 0
        self.identity = b""
        self.seen_ns = 0
        self.error: ApiError | None = None
        self._stream = stream
        self._filters = tuple(to_bytes(one) for one in source.filters() if one != ">")
        if len(self._filters) != len(source.filters()):
            self._filters = ()
        self._transforms = [
            (to_bytes(one.source or ">"), one)
            for one in source.subject_transforms
            if one.destination
        ]
        self._compiled: dict[bytes, StreamTransform] = {}  # each for the first message that matches
        self._origin: StreamHost | None = None
        self._awaited: StreamHost | None = None  # where to begin there is being looked for
        self._timer: Timer | None = None
        self._created_ns = 0

    def connect(self, origin: StreamHost | None) -> None:
        """Follow `origin` from now on, None when it does not exist."""
        self.connect_none()
        self._awaited = origin
        if origin is None:
            self.error = errors.STREAM_NOT_FOUND if not self.seen_ns else None
            return
        self.error = None
        if self._created_ns and self._created_ns != origin.created_ns:
            self.last_seq = 0  # another stream of the same name
        self._created_ns = origin.created_ns
        in_turns(self._stream, self._find_start(origin), partial(self._follow, origin), _ignore)

    def stop(self) -> None:
        """Read no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.connect_none()

    def connect_none(self) -> None:
        """Drop the origin."""
        self._awaited = None
        if self._origin is not None:
            self._origin.followers.discard(self.wake)
            self._origin = None

    def wake(self, delay_s: float = 0.0) -> None:
        """Read soon what the origin shows by then."""
        if self._timer is None and not self._stream.is_closed:
            self._timer = self._stream.clock.call_later(delay_s, self.read)

    def fetched(self) -> None:
        """Go on with the message that was not in memory."""
        self.wake()

    def read(self) -> None:
        """Take the visible messages, some at a time; a mirror shows them at once."""
        self._timer = None
        origin = self._origin
        if origin is None or self._stream.is_closed:
            return
        taken_seq = self.taken_seq
        self._take_visible(origin)
        if self.is_mirror and self.taken_seq > taken_seq:
            own = self._stream.store
            visible_seq = own.visible_seq
            own.show_copies(origin.store, self.taken_seq)
            if own.visible_seq > visible_seq:
                self._stream.readers.announce()

    def _take_visible(self, origin: StreamHost) -> None:
        """Take what `origin` shows; the rest waits for the next turn."""
        store = origin.store
        self._stream.now_ns = self.seen_ns = self._stream.clock.wall_ns()
        room = _TURN_BYTES
        while room > 0:
            if self.last_seq >= store.visible_seq or self._stream.store.is_held(self.wake):
                return
            seq = store.next_seq(self._filters, self.last_seq + 1, store.visible_seq)
            if seq and not store.is_cached(seq, self):
                return
            message = store.load(seq) if seq else None
            if message is None:
                self.last_seq = store.visible_seq
                return
            room -= _TAKE_COST + store.size_of(seq)
            if not self.take(message, identity(origin.created_ns)):
                self.wake(_RETRY_S)
                return
            self.last_seq = self.taken_seq = message.seq
        self.wake()

    def lag(self) -> int:
        """Return how many messages of the origin are still to be taken."""
        if self._origin is None or self.last_seq >= self._origin.store.visible_seq:
            return 0
        store = self._origin.store
        return store.count_pending(self._filters, self.last_seq + 1, False, store.visible_seq)

    def info(self, now_ns: int) -> dict[str, Any]:
        """Return what the stream's info says of this origin."""
        source = self.source
        fields: dict[str, Any] = {"name": source.name}
        if source.external is not None:
            fields["external"] = EXTERNAL.encode(source.external)
        fields["lag"] = self.lag()
        if not self.is_mirror and self.taken_seq:
            fields["seq"] = self.taken_seq
        fields["active"] = now_ns - self.seen_ns if self.seen_ns else -1
        if self.error is not None:
            fields["error"] = self.error.fields()
        if source.filter_subject:
            fields["filter_subject"] = source.filter_subject
        if source.subject_transforms:
            fields["subject_transforms"] = [TRANSFORM.encode(o) for o in source.subject_transforms]
        return fields

    def _find_start(self, origin: StreamHost) -> WaitingPieces[int]:
        """Return the sequence to begin with."""
        if self.last_seq:
            return self.last_seq + 1
        if self.source.start_seq:
            return self.source.start_seq
        if self.source.start_time is not None:
            return (yield from searching.seq_at_time(origin.store, self.source.start_time.ns))
        return 1

    def _follow(self, origin: StreamHost, seq: int) -> None:
        """Follow the origin from a sequence on, unless another one was asked for meanwhile."""
        if origin is not self._awaited:
            return
        self._awaited = None
        self._origin = origin
        self.last_seq = seq - 1
        origin.followers.add(self.wake)
        origin.readers.announce_when_durable()
        self.wake()

    def take(self, message: LoadedMessage, origin: bytes) -> bool:
        """Store a message of the stream that has the identity `origin`; False: not possible now."""
        subject = self._mapped(message.subject)
        block = headers.remove_prefix(message.headers, b"Nats-Expected-")
        block = headers.remove_prefix(block, b"Nats-Batch-")
        if self.is_mirror:
            block = headers.whole(block) if block else block
        else:
            block = headers.remove(block, names.STREAM_SOURCE)
            block = headers.add(block, names.STREAM_SOURCE, self._where(message, origin))
        taken = Incoming(subject, b"", block, message.payload)
        taken.is_sourced = True
        taken.values = headers.nats_headers(block) or {}
        if self.is_mirror:
            taken.is_checked = True
            taken.seq = message.seq
            taken.time_ns = message.time_ns
            if taken.seq <= self._stream.store.last_seq:
                return True
        return self._stream.take(taken)

    def _mapped(self, subject: bytes) -> bytes:
        """Return the subject that a message is stored under."""
        for pattern, given in self._transforms:
            if matches(subject, pattern):
                transform = self._compiled.get(pattern)
                if transform is None:
                    random = self._stream.surroundings.random
                    transform = StreamTransform(given.source, given.destination, random)
                    self._compiled[pattern] = transform
                return transform.apply(subject) or subject
        return subject

    def _where(self, message: LoadedMessage, origin: bytes) -> bytes:
        """Return stream, sequence, filter, destination, subject and identity of the origin."""
        name, pattern, destination = self.source.index_name().split(" ", 2)
        where = b"%b %d %b %b %b" % (
            to_bytes(name),
            message.seq,
            to_bytes(pattern),
            to_bytes(destination),
            message.subject,
        )
        return b"%b %b" % (where, origin) if origin else where


def identity(created_ns: int) -> bytes:
    """Return what distinguishes a stream from another one of the same name, made later."""
    return short_hash(format_time(created_ns)).encode()


def _ignore(_: ApiError) -> None:
    """Called when the stream is gone."""
