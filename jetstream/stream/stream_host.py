"""Interface of a stream to its parts: its data, and the methods they call.

Checks, batches, timers and followers know `StreamHost`; `stream.Stream` puts them together. A
stream's consumers and followers are in its `StreamReaders`, which announces messages to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from midge.jetstream import errors
from midge.jetstream.config.stream import MEMORY, StreamConfig
from midge.jetstream.consumer.consumer_set import ConsumerSet
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.environment.clock import LONGEST_NS
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.environment.ticks import ticks_of
from midge.jetstream.errors import ApiError
from midge.jetstream.store.published import PublishedLines
from midge.jetstream.store.store import Store
from midge.jetstream.stream.answers import Answers, StreamEvents
from midge.jetstream.stream.contents import Backlog, Contents, Dedup, Usage
from midge.jetstream.stream.incoming import Incoming
from midge.jetstream.transform import StreamTransform
from midge.protocol.errors import quote

_NO_BYTES = b""


class StreamReaders:
    """The consumers and the followers of one stream, notified when messages become visible.

    `remove` removes a message that every consumer which needs it has acknowledged. `followers` are
    the functions to call when further messages are visible.
    """

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        shared: Surroundings,
        remove: Callable[[int], object],
    ) -> None:
        self._store = store
        self._announced_seq = store.visible_seq
        self._asked_group = 0
        self.followers: set[Callable[[], object]] = set()
        self.consumers = ConsumerSet(config, store, shared, remove, self._on_join)

    def follow(self, config: StreamConfig) -> None:
        """Follow a change of the stream's configuration."""
        self.consumers.follow(config)

    def close(self) -> None:
        """End all consumers, for the stream is deleted."""
        self.consumers.delete_all()

    def shut_down(self) -> None:
        """Answer waiting pull requests, as the server stops."""
        for consumer in self.consumers:
            if isinstance(consumer.receivers, PullRequests):
                consumer.receivers.shut_down()

    # Announcements.

    def _on_join(self) -> None:
        """Announce to a new consumer the messages stored before it that are not visible yet."""
        if len(self.consumers) == 1:
            # Without consumers nothing was announced; a new one counts visible messages itself.
            self._announced_seq = self._store.visible_seq
        self.announce_when_durable()

    def announce_when_durable(self) -> None:
        """Announce the messages being written to the disk once they are there, if there are any."""
        if self._store.visible_seq < self._store.last_seq:
            self._store.barrier(self.announce)

    def announce_soon(self) -> None:
        """Announce new messages once they are visible."""
        if self._store.group == 0:  # a store in memory, whatever the configuration says
            self.announce()
        elif self._asked_group != self._store.group:  # once for all messages of a group
            self._asked_group = self._store.group
            self._store.barrier(self.announce)

    def announce(self) -> None:
        """Announce the messages that have become visible."""
        store = self._store
        visible = store.visible_seq
        seq = self._announced_seq
        self._announced_seq = visible
        for wake in self.followers:
            wake()
        if self.consumers.is_empty():
            return
        while seq < visible:
            seq += 1
            subject = store.subject_of(seq)
            if subject is None:  # a gap of up to 2^63 sequences, removed or left out by a jump
                seq = store.next_seq((), seq + 1, visible) if seq < visible else 0
                if seq == 0:
                    break
                subject = store.subject_of(seq)
            if subject is not None:
                self.consumers.stored(seq, subject)

    # What consumers keep.

    def check_limits(self, old: StreamConfig, config: StreamConfig) -> None:
        """Refuse a configuration whose limits consumers exceed already; raises JetStreamError."""
        before, limits = old.consumer_limits, config.consumer_limits
        threshold_ns, pending = limits.inactive_threshold_ns, limits.max_ack_pending
        is_shorter = 0 < threshold_ns != before.inactive_threshold_ns
        is_fewer = 0 < pending != before.max_ack_pending
        if not is_shorter and not is_fewer:
            return
        beyond = [
            consumer.name.decode("utf-8", "surrogateescape")
            for consumer in self.consumers
            if 0 < threshold_ns < consumer.config.inactive_threshold_ns
            or 0 < pending < consumer.config.max_ack_pending
        ]
        if beyond:
            text = f"change to limits violates consumers: {', '.join(beyond)}"
            raise errors.STREAM_UPDATE.error(err=text)


class StreamHost:
    """The interface of a stream for its parts.

    `now_ns` is the wall time of the message in progress, `skipped_ns` the time of the last message
    without an interested consumer. `siblings` are the streams of the account by name, with the
    stream itself; None without an account. `is_expiry_armed` is True while a check for expired
    messages is scheduled, or none is needed.
    """

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        surroundings: Surroundings,
        usage: Usage,
        created_ns: int,
        siblings: Mapping[str, StreamHost] | None = None,
    ) -> None:
        self.store = store
        self.surroundings = surroundings
        self.usage = usage
        self.created_ns = created_ns
        self.siblings = siblings
        self.sink = surroundings.sink
        self.clock = surroundings.clock
        self._ticks = ticks_of(self.clock)
        self.max_payload = surroundings.max_payload
        self.name = config.name.encode("utf-8", "surrogateescape")
        self.is_memory = config.storage == MEMORY
        self.answers = Answers(store, self.sink, self.is_memory)
        self.dedup = Dedup(min(config.duplicate_window_ns, LONGEST_NS), self.clock.is_exact)
        self.readers = StreamReaders(config, store, surroundings, self._remove_settled)
        self.consumers = self.readers.consumers
        self.followers = self.readers.followers
        self.contents = Contents(store, usage, self.consumers, self.is_memory)
        self.backlog = Backlog(store, *surroundings.bounds.backlog)
        self.events = StreamEvents(self.name, surroundings, self.answers)
        self.last_msg_id = b""
        self.now_ns = 0
        self.skipped_ns = 0
        self.is_closed = False
        self.is_expiry_armed = False
        self.ack_head = self._make_ack_head()

    def configure(self, config: StreamConfig) -> None:
        """Follow a configuration that has been checked."""
        self.config = config
        self.readers.follow(config)
        self.contents.follow(config)
        self.subjects = [subject.encode("utf-8", "surrogatepass") for subject in config.subjects]
        self.is_mirror = config.mirror is not None
        self.is_sealed = config.sealed
        self.allows_direct = config.allow_direct
        self.allows_rollup = config.allow_rollup and not config.deny_purge
        self.acks = not config.no_ack
        self.dedup.window_ns = min(config.duplicate_window_ns, LONGEST_NS)
        given = config.transform()
        random = self.surroundings.random
        self.transform = StreamTransform(given.source, given.destination, random) if given else None

    # What the parts have a stream do.

    def take(self, message: Incoming) -> bool:
        """Check a message, store it and answer; False when it is refused."""
        raise NotImplementedError

    def store_message(self, message: Incoming) -> int:
        """Check a message and store it; return its sequence, 0 for a duplicate.

        Raises:
            Refused: with the error to answer.
        """
        raise NotImplementedError

    def acknowledge(self, message: Incoming, seq: int, tail: bytes) -> None:
        """Answer that a message has been stored; `tail` ends the JSON behind the sequence."""
        raise NotImplementedError

    def acknowledge_batch(self, message: Incoming, seq: int) -> None:
        """Answer that an atomic batch, of which `message` was the last, has been stored."""
        raise NotImplementedError

    def refuse(self, message: Incoming, error: ApiError) -> None:
        """Answer that a message is not stored."""
        raise NotImplementedError

    def is_schedule(self, subject: bytes) -> bool | None:
        """Return whether the last message of a subject is a schedule; None without a message."""
        raise NotImplementedError

    def save_origins(self) -> None:
        """Save the positions in the origins, because messages that have them will be removed."""
        raise NotImplementedError

    def _remove_settled(self, seq: int) -> None:
        """Remove a message that all consumers have acknowledged which had to."""
        self.contents.remove_settled(seq)

    def _make_ack_head(self) -> bytes:
        """Return what every ack begins with, up to the sequence."""
        head = b'{"stream":' + quote(self.name).encode("utf-8", "surrogateescape")
        if self.surroundings.domain:
            head += b',"domain":' + quote(self.surroundings.domain.encode()).encode()
        return head + b',"seq":'

    # Many messages at once.

    def takes_lines(self) -> bool:
        """Return whether `publish_lines` may take messages of this stream."""
        raise NotImplementedError

    def publish_lines(self, lines: PublishedLines, epoch: int) -> int:
        """Take published messages of subjects that are known in `epoch`; return how many.

        They are stored as `publish_frame` would one after the other; it has to be asked for the
        first that is not taken.
        """
        count = 0
        if (
            self.is_expiry_armed
            and self.takes_lines()
            and self.store.resolve_lines(lines, epoch)
            and not self.backlog.refuses_lines(lines.count, lines.payload_bytes)
            and self.contents.has_room_for(lines)
        ):
            self.now_ns = self._ticks.wall_ns()
            count = self.store.append_lines(lines, self.now_ns)
        if count < lines.count:
            lines.keep(count)
        if count == 0:
            return 0
        self.last_msg_id = _NO_BYTES
        self.backlog.stored_lines(self.store.last_seq, count, lines.payload_bytes)
        self.contents.stored()
        if self.followers or not self.consumers.is_empty():
            self.readers.announce_soon()
        return count
