"""The messages that a stream holds: their limits, and their removal, to make room or by request.

Every removal from a stream passes through `Contents`, so that the account's usage and the consumers
are updated once. The other classes count what a publish is checked against: `Usage` the bytes in
use, `Backlog` the messages that are not yet on the disk, and `Dedup` the message ids.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from midge.jetstream import errors
from midge.jetstream.config.stream import NEW, StreamConfig
from midge.jetstream.consumer.consumer_set import ConsumerSet
from midge.jetstream.errors import ApiError
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.store import Store
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.incoming import Incoming, Refused

_UNLIMITED = -1

_SLICES = 1024
"""An id is forgotten late by at most this part of the window: by 0.12 s of two minutes."""

_HEADERS_MAX = 65535  # nats-server notes the length of the headers in 16 bits
_RECORD_MAX = 32 * 1024 * 1024  # the largest record that nats-server writes to a file
_NO_BYTES = b""
_ALL = b">"
_FIXED_MAX = 64  # more than a message counts beside its parts

_MEANWHILE = 16  # messages that a publish removes of its subject while lower limits are enforced


class Usage:
    """Bytes of one kind of storage in use by an account, or by the server, which is its `parent`.

    A `limit` of -1 means unlimited; bytes here also count at `parent`.
    """

    __slots__ = ("limit", "parent", "used")

    def __init__(self, limit: int = _UNLIMITED, parent: Usage | None = None) -> None:
        self.limit = limit
        self.parent = parent
        self.used = 0

    def add(self, size: int) -> None:
        """Count `size` bytes more, or less."""
        usage: Usage | None = self
        while usage is not None:
            usage.used += size
            usage = usage.parent

    def is_exceeded(self, size: int) -> bool:
        """Return whether the server would use more than it may with `size` bytes more."""
        parent = self.parent
        return parent is not None and 0 <= parent.limit < parent.used + size

    def would_exceed_account(self, size: int) -> bool:
        """Return whether the account would use more than it may with `size` bytes more."""
        return 0 <= self.limit < self.used + size

    def has_room(self, size: int) -> bool:
        """Return whether `size` bytes more are within all limits."""
        parent = self.parent
        return not 0 <= self.limit < self.used + size and not (
            parent is not None and 0 <= parent.limit < parent.used + size
        )


class Slice:
    """The ids that came within one slice of the window, which ends at `end_ns`."""

    __slots__ = ("end_ns", "ids")

    def __init__(self, end_ns: int) -> None:
        self.end_ns = end_ns
        self.ids: list[bytes] = []


class Dedup:
    """The message ids of a stream with the sequence each got, known for the duplicate window.

    An id lives its time whatever becomes of its message: purging does not make it forgotten. Ids
    that came within the same slice of the window are forgotten together, so that remembering one
    takes an entry in a table and one in a list, and nothing else. The oldest come first. With
    `is_exact`, an id is forgotten at the very moment its window ends.
    """

    __slots__ = ("_ids", "_is_exact", "_last", "_next_ns", "_slices", "window_ns")

    def __init__(self, window_ns: int, is_exact: bool = False) -> None:
        self.window_ns = window_ns
        self._is_exact = is_exact
        self._ids: dict[bytes, int] = {}
        self._last: Slice | None = None
        self._slices: deque[Slice] = deque()
        self._next_ns = 0

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, msg_id: bytes, now_ns: int) -> int:
        """Return the sequence that `msg_id` got within the window; 0 when it is new."""
        if self._last is not None and self._next_ns + self.window_ns <= now_ns:
            self._forget_before(now_ns - self.window_ns)
        return self._ids.get(msg_id, 0)

    def add(self, msg_id: bytes, seq: int, time_ns: int) -> None:
        """Remember an id."""
        current = self._last
        if current is None or time_ns >= current.end_ns:
            length_ns = 0 if self._is_exact else self.window_ns // _SLICES + 1
            current = Slice(time_ns + length_ns)
            if not self._slices:
                self._next_ns = current.end_ns
            self._last = current
            self._slices.append(current)
        current.ids.append(msg_id)
        self._ids[msg_id] = seq

    def take_back(self, after_seq: int) -> None:
        """Forget the ids of messages after `after_seq`, which were lost."""
        for current in reversed(self._slices):
            for msg_id in current.ids:
                if self._ids.get(msg_id, 0) > after_seq:
                    del self._ids[msg_id]

    def _forget_before(self, time_ns: int) -> None:
        """Forget the slices that ended before `time_ns`."""
        slices = self._slices
        while slices and slices[0].end_ns <= time_ns:
            for msg_id in slices.popleft().ids:
                self._ids.pop(msg_id, None)
        if slices:
            self._next_ns = slices[0].end_ns
        else:
            self._last = None


class Backlog:
    """Counts the messages of a stream that are not yet on the disk, held against limits.

    At most two groups wait at a time: one that is written, and the open one behind it.
    """

    def __init__(self, store: Store, max_messages: int, max_bytes: int) -> None:
        self._store = store
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._group = 0
        self._messages = 0
        self._bytes = 0
        self._last_seq = 0
        self._written_messages = 0
        self._written_bytes = 0
        self._written_seq = 0

    def refuses(self, size: int) -> bool:
        """Return whether a message of `size` bytes would be too much."""
        if size > self._max_bytes:
            return True
        visible = self._store.visible_seq
        if visible >= self._last_seq:
            return False
        messages, waiting = self._messages, self._bytes
        if visible < self._written_seq:
            messages += self._written_messages
            waiting += self._written_bytes
        return messages >= self._max_messages or waiting + size > self._max_bytes

    def stored(self, seq: int, size: int) -> None:
        """Count a message that was stored."""
        group = self._store.group
        if group != self._group:
            self._group = group
            self._written_messages, self._messages = self._messages, 0
            self._written_bytes, self._bytes = self._bytes, 0
            self._written_seq = self._last_seq
        self._messages += 1
        self._bytes += size
        self._last_seq = seq

    def refuses_lines(self, count: int, size: int) -> bool:
        """Return whether any of `count` messages, of `size` bytes together, might be too much."""
        messages, waiting = count, size
        visible = self._store.visible_seq
        if visible < self._last_seq:
            messages += self._messages
            waiting += self._bytes
            if visible < self._written_seq:
                messages += self._written_messages
                waiting += self._written_bytes
        return messages > self._max_messages or waiting > self._max_bytes

    def stored_lines(self, seq: int, count: int, size: int) -> None:
        """Count `count` messages, the last of them `seq`, of `size` bytes together."""
        self.stored(seq, size)
        self._messages += count - 1


class Contents:
    """The messages of one stream, within its limits; `consumers` are notified of removals."""

    def __init__(self, store: Store, usage: Usage, consumers: ConsumerSet, is_memory: bool) -> None:
        self.store = store
        self.usage = usage
        self._consumers = consumers
        self._is_memory = is_memory
        self._used_bytes = 0
        self.is_enforcing = False
        self.enforcing = 0  # how often the limits were changed, see `removal.enforce`
        self.waiting: list[Callable[[], object]] = []

    def follow(self, config: StreamConfig) -> None:
        """Follow a configuration that has been checked."""
        self._max_msgs = config.max_msgs
        self._max_bytes = config.max_bytes
        self.max_per_subject = config.max_msgs_per_subject
        self._max_msg_size = config.max_msg_size
        self._is_new_per_subject = config.discard_new_per_subject
        self.is_discard_new = config.discard == NEW and (
            config.max_msgs > 0 or config.max_bytes > 0 or config.discard_new_per_subject
        )
        self._has_limits = config.discard != NEW and (config.max_msgs > 0 or config.max_bytes > 0)

    # What may come in.

    def size_of(self, message: Incoming) -> int:
        """Return what a message would count towards the bytes of the stream."""
        size = len(message.subject) + len(message.headers) + len(message.payload)
        if self._is_memory:
            return size + 16
        return size + (34 if message.headers else 30)

    def has_room(self, size: int) -> bool:
        """Return whether a plain message of `size` bytes needs no closer look."""
        return (self._max_msg_size < 0 or size <= self._max_msg_size) and self.usage.has_room(
            size + 1024
        )

    def has_room_for(self, lines: PublishedLines) -> bool:
        """Return whether a batch can be stored without checking the limits between two messages.

        Without consumers, exceeding a limit within the batch has no effect that a client sees.
        """
        size = lines.subject_bytes + lines.payload_bytes + lines.count * _FIXED_MAX
        if self.max_per_subject > 0 or not self.usage.has_room(size + 1024):
            return False
        if 0 <= self._max_msg_size < lines.largest:
            return False
        if not self._has_limits or self._consumers.is_empty():
            return True
        store = self.store
        return not (
            0 < self._max_msgs < store.messages + lines.count
            or 0 < self._max_bytes < store.bytes + size
        )

    def check_record_size(self, message: Incoming) -> None:
        """Refuse a message that no file can hold; raises Refused."""
        size = len(message.subject) + len(message.headers) + len(message.payload)
        if not self._is_memory and size + 34 > _RECORD_MAX:
            raise Refused(errors.STREAM_STORE_FAILED.fill(err="message too large"))

    def check_size(self, message: Incoming) -> None:
        """Refuse a message that is larger than the stream allows; raises Refused."""
        size = len(message.headers) + len(message.payload)
        if 0 <= self._max_msg_size < size:
            raise Refused(errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM)
        if len(message.headers) > _HEADERS_MAX:
            raise Refused(errors.STREAM_HEADER_EXCEEDS_MAXIMUM)

    def check_room(self, message: Incoming) -> None:
        """Refuse a message for which old ones would have to go; raises Refused."""
        store = self.store
        limit = self.max_per_subject
        is_full = limit > 0 and store.count_for_subject(message.subject) >= limit
        if is_full and self._is_new_per_subject and not message.value(names.ROLLUP):
            raise Refused(_full("maximum messages per subject exceeded"))
        if 0 < self._max_msgs <= store.messages and not is_full:
            raise Refused(_full("maximum messages exceeded"))
        size = self.size_of(message)
        if 0 < self._max_bytes < store.bytes + size:
            first = store.first_for_subject(message.subject) if is_full else 0
            if not is_full or store.size_of(first) < size:
                raise Refused(_full("maximum bytes exceeded"))

    # What makes room.

    def stored(self) -> None:
        """See to the limits after a message has been stored."""
        store = self.store
        if (
            self._has_limits
            and not self.is_enforcing
            and (0 < self._max_msgs < store.messages or 0 < self._max_bytes < store.bytes)
        ):
            store.enforce(self._max_msgs, self._max_bytes)
            if not self._consumers.is_empty():
                self._consumers.trimmed()
        self.account()

    def enforce_some(self, most: int) -> bool:
        """Remove about `most` of the oldest messages beyond the limits; False when these hold."""
        store = self.store
        messages, size = self._max_msgs, self._max_bytes
        if not self._has_limits or not (0 < messages < store.messages or 0 < size < store.bytes):
            return False
        if store.messages <= most:
            store.enforce(messages, size)
            return False
        share = store.bytes * most // store.messages
        store.enforce(
            max(messages, store.messages - most) if messages > 0 else -1,
            max(size, store.bytes - share) if size > 0 else -1,
        )
        self.account()
        return True

    def trim_subject(self, subject: bytes, keep: int) -> None:
        """Remove the oldest messages of a subject but `keep`, when one has been stored."""
        if self.is_enforcing:
            count = self.store.count_for_subject(subject)
            keep = count - _MEANWHILE if count > keep + _MEANWHILE else keep
        self.trim_to(subject, keep)

    def trim_to(self, subject: bytes, keep: int) -> None:
        """Remove the oldest messages of a subject but `keep`; notify the consumers of each."""
        store = self.store
        if self._consumers.is_empty():
            store.trim_subject(subject, keep)
            return
        while store.count_for_subject(subject) > keep:
            self.remove(store.first_for_subject(subject))

    # Removals.

    def purge(self, subject: bytes | None, upto_seq: int, keep: int) -> int:
        """Remove messages of a subject, below a sequence, but the newest; return how many."""
        store = self.store
        first_seq = self._first_to_purge(subject, upto_seq, keep)
        # There is no message below sequence 1; consumers are notified as for any purge.
        purged = store.purge(subject, upto_seq, keep) if upto_seq != 1 else 0
        if subject is None and upto_seq > store.last_seq + 1:
            store.skip_to(upto_seq - 1)
        self.account()
        self._consumers.purged(subject or _NO_BYTES, first_seq if purged == 1 else 0)
        return purged

    def _first_to_purge(self, subject: bytes | None, upto_seq: int, keep: int) -> int:
        """Return the first message that a purge of only some messages may remove; 0 for none.

        If it is the only one, nats-server also notifies consumers as for a single removal.
        """
        store = self.store
        is_of_all = subject is None or subject == _ALL
        if self._consumers.is_empty() or (is_of_all and (upto_seq or not keep)):
            return 0
        return store.next_seq(() if subject is None else (subject,), store.first_seq)

    def remove(self, seq: int, *, erase: bool = False) -> bool:
        """Remove one message, visible or not; False if it does not exist."""
        subject = self.store.subject_of(seq)
        if subject is None or not self.store.remove(seq, erase):
            return False
        self.account()
        self._consumers.removed(seq, subject)
        return True

    def remove_settled(self, seq: int) -> None:
        """Remove a message that every consumer which needs it has acknowledged."""
        self.store.remove(seq)
        self.account()

    def trimmed(self) -> None:
        """Called after limits, age or a purge have removed messages."""
        self.account()
        if not self._consumers.is_empty():
            self._consumers.trimmed()

    # What the account counts.

    def account(self) -> None:
        """Count at the account what the stream uses now."""
        used = self.store.bytes
        if used != self._used_bytes:
            self.usage.add(used - self._used_bytes)
            self._used_bytes = used

    def release_usage(self) -> None:
        """Use nothing any more: the stream is deleted."""
        self.usage.add(-self._used_bytes)
        self._used_bytes = 0


def _full(description: str) -> ApiError:
    return errors.STREAM_STORE_FAILED.fill(err=description)
