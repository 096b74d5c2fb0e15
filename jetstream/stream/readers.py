"""A stream's consumers and followers: the announcement of messages, and the messages they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from midge.jetstream import errors
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.consumer.consumer_set import ConsumerSet
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.store.store import Store


class Follower(Protocol):
    """Listener that is called when a stream shows more messages than before."""

    def wake(self) -> None:
        """Called when further messages are visible."""


class StreamReaders:
    """The consumers and the followers of one stream, notified when messages become visible.

    `remove` removes a message that every consumer which needs it has acknowledged.
    """

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        shared: Surroundings,
        remove: Callable[[int], object],
    ) -> None:
        self._store = store
        self._remove = remove
        self._announced_seq = store.visible_seq
        self._asked_group = 0
        self.followers: set[Follower] = set()
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
        for follower in self.followers:
            follower.wake()
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
