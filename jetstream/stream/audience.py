"""The consumers of a stream: what they are told, and what they keep the stream from removing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream import errors
from midge.jetstream.config.stream import INTEREST, LIMITS, StreamConfig
from midge.sublist.subjects import matches

if TYPE_CHECKING:
    from midge.jetstream.stream.stream import Stream
    from midge.jetstream.stream.watcher import Watcher


class Audience:
    """The consumers of one stream, by name. `is_empty` tells that there is none."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._store = stream.store
        self._announced_seq = stream.store.visible_seq
        self.consumers: dict[str, Watcher] = {}
        self.is_empty = True

    def add(self, name: str, consumer: Watcher) -> None:
        """Tell `consumer` of messages from now on."""
        self._announced_seq = self._store.visible_seq
        self.consumers[name] = consumer
        self.is_empty = False

    def remove(self, name: str) -> None:
        """Tell a consumer of nothing any more, and keep no message for it."""
        if self.consumers.pop(name, None) is not None:
            self.is_empty = not self.consumers
            self.release_unneeded()

    def close(self) -> None:
        """End all consumers, for the stream is deleted."""
        for consumer in list(self.consumers.values()):
            consumer.stream_deleted()
        self.consumers.clear()
        self.is_empty = True

    def has_interest(self, subject: bytes) -> bool:
        """Tell whether any consumer is for messages of `subject`."""
        return any(takes(consumer, subject) for consumer in self.consumers.values())

    # What consumers are told.

    def announce_soon(self) -> None:
        """Tell of new messages once they are visible."""
        if self._stream.is_memory:
            self.announce()
        else:
            self._store.barrier(self.announce)

    def announce(self) -> None:
        """Tell of the messages that have become visible."""
        store = self._store
        visible = store.visible_seq
        seq = self._announced_seq
        if visible < seq:
            self._announced_seq = visible
        while seq < visible:
            seq += 1
            self._announced_seq = seq
            subject = store.subject_of(seq)
            if subject is not None:
                for consumer in list(self.consumers.values()):
                    if takes(consumer, subject):
                        consumer.stored(seq)

    def removed(self, seq: int, subject: bytes) -> None:
        """Tell that one message is gone."""
        for consumer in list(self.consumers.values()):
            if takes(consumer, subject):
                consumer.removed(seq)

    def trimmed(self) -> None:
        """Tell that the oldest messages have gone."""
        for consumer in list(self.consumers.values()):
            consumer.trimmed()

    def purged(self, subject: bytes | None) -> None:
        """Tell that messages of `subject`, None for all, have been purged."""
        for consumer in list(self.consumers.values()):
            consumer.purged(subject)

    # What consumers keep.

    def acked(self, consumer: Watcher | None, seq: int) -> None:
        """Remove a message that a consumer has settled, unless others need it."""
        retention = self._stream.config.retention
        if retention == LIMITS:
            return
        subject = self._store.subject_of(seq)
        if subject is None:
            return
        if retention == INTEREST and self._is_needed(seq, subject, consumer):
            return
        self._stream.remove(seq)

    def release_unneeded(self) -> None:
        """Remove the messages that no consumer needs, as after one was deleted."""
        if self._stream.config.retention != INTEREST:
            return
        store = self._store
        seq = store.next_seq((), store.first_seq or 1)
        while seq:
            subject = store.subject_of(seq)
            if subject is not None and not self._is_needed(seq, subject):
                self._stream.remove(seq)
            seq = store.next_seq((), seq + 1) if seq < store.last_seq else 0

    def retention_changed(self, retention: str) -> None:
        """Follow a change of the stream's retention."""
        for consumer in list(self.consumers.values()):
            consumer.retention_changed(retention)
        self.release_unneeded()

    def check_limits(self, old: StreamConfig, config: StreamConfig) -> None:
        """Refuse a configuration whose limits consumers exceed already; raises JetStreamError."""
        before, limits = old.consumer_limits, config.consumer_limits
        is_shorter = 0 < limits.inactive_threshold_ns != before.inactive_threshold_ns
        is_fewer = 0 < limits.max_ack_pending != before.max_ack_pending
        if not is_shorter and not is_fewer:
            return
        beyond = [
            name
            for name, consumer in self.consumers.items()
            if consumer.exceeds(limits.inactive_threshold_ns, limits.max_ack_pending)
        ]
        if beyond:
            text = f"change to limits violates consumers: {', '.join(beyond)}"
            raise errors.STREAM_UPDATE.error(err=text)

    def _is_needed(self, seq: int, subject: bytes, but: Watcher | None = None) -> bool:
        """Tell whether a consumer other than `but` still has to see a message."""
        return any(
            consumer is not but and takes(consumer, subject) and consumer.needs(seq)
            for consumer in self.consumers.values()
        )


def takes(consumer: Watcher, subject: bytes) -> bool:
    """Tell whether a consumer is for messages of `subject`."""
    filters = consumer.filters
    if not filters:
        return True
    for one in filters:  # noqa: SIM110 - a generator cannot be compiled here
        if matches(subject, one):
            return True
    return False
