"""The consumers of one stream: made, changed and deleted, and called for what concerns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from midge.jetstream import errors
from midge.jetstream.config import consumer as configuration
from midge.jetstream.config import consumer_rules, names
from midge.jetstream.config.consumer_config import Allowance, ConsumerConfig
from midge.jetstream.config.stream import FILE, INTEREST, WORKQUEUE, StreamConfig
from midge.jetstream.consumer import stored_state
from midge.jetstream.consumer.consumer import Consumer, FilterSubscription
from midge.jetstream.consumer.consumer_events import ConsumerEvents
from midge.jetstream.consumer.consumer_host import ConsumerHost
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.consumer.push import DeliverSubject
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.store import Store
from midge.sublist.bounded_cache import BoundedCache
from midge.sublist.subjects import covers, is_literal, overlaps
from midge.sublist.sublist import SubList

PIECE_MESSAGES = 2_000
"""Messages that are looked at, and perhaps removed, in one piece: some 4 ms."""

# Work, in items of 10 ns; see `Store.work`.
_CONSUMER_WORK = 8
_PURGE_WORK = 100

_MATCHES_REMEMBERED = 4096
_PIECE_CONSUMERS = 100
"""Advisories of deleted consumers that are sent in one piece: 3 ms."""

_NAME_LENGTH = 8


def _nothing(*_: object) -> None:
    """Do nothing."""


class ConsumerSet(ConsumerHost):
    """The consumers of one stream, by name.

    `remove` removes a message of the stream after all consumers that need it acknowledged it.
    `joined` is called for every consumer that is made.
    """

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        around: Surroundings,
        remove: Callable[[int], object],
        joined: Callable[[], object] = _nothing,
    ) -> None:
        super().__init__(names.to_bytes(config.name), store, around)
        self._remove_message = remove
        self._joined = joined
        self._by_name: dict[bytes, Consumer] = {}
        self._unfiltered: dict[Consumer, None] = {}
        self._work_queue = consumer_rules.WorkQueue()
        self._filters = SubList()
        self._matches = BoundedCache(_MATCHES_REMEMBERED)
        self._lowest_seq = 0
        self._trimmed_seq = 0
        self._trimming: dict[Consumer, None] = {}
        self._listed: list[Consumer] | None = None
        self._is_ended = False
        self.follow(config)

    def __len__(self) -> int:
        return len(self._by_name)

    def is_empty(self) -> bool:
        """Return whether the set is empty."""
        return not self._by_name

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._by_name.values()))

    def get(self, name: bytes) -> Consumer | None:
        """Return the consumer of this name."""
        return self._by_name.get(name)

    def listed(self) -> list[Consumer]:
        """Return the consumers that are shown, by name: all but those of mirrors and sources.

        The list is kept until a consumer comes or goes; it must not be changed.
        """
        if self._listed is None:
            shown = [one for one in self._by_name.values() if not one.config.direct]
            self._listed = sorted(shown, key=lambda one: one.name)
        return self._listed

    def direct(self) -> list[Consumer]:
        """Return the consumers of mirrors and sources on other servers, by name."""
        shown = [one for one in self._by_name.values() if one.config.direct]
        return sorted(shown, key=lambda one: one.name)

    def follow(self, config: StreamConfig) -> None:
        """Follow a change of the stream's configuration."""
        self.config = config
        self.retention = config.retention
        self.max_msgs_per_subject = config.max_msgs_per_subject
        self.max_msg_size = config.max_msg_size
        for consumer in self._by_name.values():
            consumer.follow(consumer.config)

    # What consumers ask for.

    def expired(self, name: bytes) -> None:
        """See `ConsumerHost.expired`."""
        present = self._by_name.get(name)
        if present is not None:
            self.delete(present)

    def acked(self, seq: int, others: list[int] | None) -> None:
        """Remove the messages that no consumer needs any more."""
        self._acked(seq)
        if others:
            self._acked_many(others)

    def _acked_many(self, seqs: list[int]) -> None:
        """Remove those of many messages that no consumer needs any more, in later turns."""
        rest = iter(seqs)

        def go_on() -> bool:
            piece = list(islice(rest, PIECE_MESSAGES))
            try:
                for seq in piece:
                    self._acked(seq)
            except StoreError:
                return False  # the store refuses changes until the server restarts
            return len(piece) == PIECE_MESSAGES and not self._is_ended

        if len(seqs) <= PIECE_MESSAGES:
            go_on()
        else:
            self.around.turns.add(go_on)

    def _acked(self, seq: int) -> None:
        """Remove a message if no consumer needs it any more."""
        subject = self.store.subject_of(seq)
        if subject is None:
            return
        for other in self.matching(subject):
            if other.acks.needs_ack(seq):
                return
        self._remove(seq)

    def _remove(self, seq: int) -> None:
        """Remove a message that all its consumers were delivered; no count changes."""
        before = self.store.removals
        self._remove_message(seq)
        self.known_removals += self.store.removals - before

    # Calls from the stream.

    def matching(self, subject: bytes) -> tuple[Consumer, ...]:
        """Return the consumers that are for messages of this subject."""
        found: tuple[Consumer, ...] | None = self._matches.get(subject)
        if found is None:
            found = self._match(subject)
            self._matches.put(subject, found)
        return found

    def _match(self, subject: bytes) -> tuple[Consumer, ...]:
        filtered = {one.owned_by(): None for one in self._filters.match(subject).plain}
        return (*self._unfiltered, *filtered)  # type: ignore[arg-type]

    def has_interest(self, subject: bytes) -> bool:
        """Return whether any consumer is for messages of this subject."""
        return bool(self.matching(subject))

    def stored(self, seq: int, subject: bytes) -> None:
        """Notify the matching consumers of a message that has become visible."""
        for consumer in self.matching(subject):
            consumer.stored(seq)

    def removed(self, seq: int, subject: bytes) -> None:
        """Notify the matching consumers of a removed message, unless its acks removed it."""
        self.known_removals += 1
        for consumer in self.matching(subject):
            consumer.removed(seq)

    def trimmed(self) -> None:
        """Notify the consumers that the oldest messages have been removed."""
        if not self._by_name:
            return
        first_seq = self.store.first_seq
        if first_seq > self._lowest_seq:
            before_seq = self._trimmed_seq
            self._trimmed_seq = first_seq
            self._lowest_seq = 0
            self.store.work += _CONSUMER_WORK * len(self._by_name)
            for consumer in self._by_name.values():
                if consumer.trimmed(before_seq, PIECE_MESSAGES):
                    self._trim_on(consumer)
                lowest = consumer.lowest_seq()
                if self._lowest_seq == 0 or lowest < self._lowest_seq:
                    self._lowest_seq = lowest

    def _trim_on(self, consumer: Consumer) -> None:
        """Settle the other pending messages of a consumer that were removed, in later turns."""
        if consumer in self._trimming:
            return
        self._trimming[consumer] = None

        def go_on() -> bool:
            if not consumer.is_closed and consumer.trimmed(self._trimmed_seq, PIECE_MESSAGES):
                return True
            del self._trimming[consumer]
            return False

        self.around.turns.add(go_on)

    def purged(self, subject: bytes = b"", gone_seq: int = 0) -> None:
        """Notify the consumers of a purge of one subject, or of all.

        `gone_seq` is the purged message if it was the only one.
        """
        store = self.store
        first = store.next_seq((subject,), store.first_seq) if subject else store.first_seq
        concerned = self.matching(subject) if subject and is_literal(subject) else tuple(self)
        for consumer in concerned:
            store.work += _PURGE_WORK + len(consumer.acks.pending.entries)
            filters = consumer.acks.filters
            if not subject or (filters and all(covers(subject, one) for one in filters)):
                consumer.purged(first or store.last_seq + 1, gone_seq, is_wider=False)
            elif not filters or any(overlaps(one, subject) for one in filters):
                consumer.purged(store.first_seq, gone_seq, is_wider=True)

    # Making, changing and deleting.

    def create(
        self, config: ConsumerConfig, action: str, allowed: Allowance, pedantic: bool = False
    ) -> Consumer:
        """Make a consumer, or change the one of that name.

        Raises:
            JetStreamError: it is refused.
        """
        configuration.set_defaults(config, self.config, allowed, pedantic)
        consumer_rules.check(config, self.config, allowed)
        name = names.to_bytes(config.durable_name or config.name)
        existing = self._by_name.get(name) if name else None
        if existing is not None:
            self._change(existing, config, action)
            return existing
        if action == "update":
            raise errors.CONSUMER_DOES_NOT_EXIST.error()
        self._check_new(config, allowed)
        if names.size(config.durable_name) > names.NAME_MAX_BYTES:
            raise errors.CONSUMER_NAME_TOO_LONG.error(max=names.NAME_MAX_BYTES)
        consumer = self._made(config, name or self._new_name())
        consumer.acks.created_ns = self.clock.wall_ns()
        consumer.place_at_start()
        consumer.save()
        self._insert(consumer)
        consumer.start()
        ConsumerEvents(self, consumer.acks.name).created()
        return consumer

    def _made(self, config: ConsumerConfig, name: bytes) -> Consumer:
        if not config.durable_name and config.inactive_threshold_ns <= 0:
            config.inactive_threshold_ns = configuration.DEFAULT_INACTIVE_THRESHOLD_NS
        configuration.share_parts(config)
        consumer = Consumer(self, config, name)
        consumer.receivers = (
            PullRequests(consumer) if config.is_pull() else DeliverSubject(consumer)
        )
        if self.config.storage == FILE and not config.direct and not config.mem_storage:
            consumer.keep_state()
        return consumer

    def restore(self) -> None:
        """Take up the consumers that were stored with the stream.

        No consumer can have a name that begins with a zero byte: the stream keeps
        something of its own there, such as how far it has read its sources.
        """
        for name, snapshot, operations in list(self.store.consumers()):
            if name.startswith(b"\x00"):
                continue
            self._take_up(name, stored_state.restore(snapshot, operations))

    def take_up(self, name: bytes, stored: stored_state.StoredState) -> None:
        """Make a consumer that has the state of another server's, or of a backup."""
        stored.created_ns = stored.created_ns or self.clock.wall_ns()
        consumer = self._take_up(name, stored)
        consumer.save()

    def _take_up(self, name: bytes, stored: stored_state.StoredState) -> Consumer:
        consumer = self._made(stored.config, name)
        for entry in stored_state.take_up(consumer.acks, stored):
            consumer.acks.forget(entry)
        self._insert(consumer)
        consumer.start()
        return consumer

    def _change(self, consumer: Consumer, config: ConsumerConfig, action: str) -> None:
        if action == "create" and not configuration.is_same(config, consumer.config):
            raise errors.CONSUMER_ALREADY_EXISTS.error()
        if self.retention == WORKQUEUE:
            self._leave_work_queue(consumer)
            try:
                consumer_rules.check_work_queue(config, self._work_queue, is_new=False)
            finally:
                self._join_work_queue(consumer)
        if config != consumer.config:
            deliver_subject = names.to_bytes(consumer.config.deliver_subject)
            has_interest = bool(deliver_subject) and self.sink.has_interest(deliver_subject)
            consumer_rules.check_update(consumer.config, config, has_deliver_interest=has_interest)
        acks = consumer.acks
        filters = acks.filters
        consumer.change(config)
        if acks.filters != filters:
            self._withdraw(consumer)
            self._enroll(consumer)
            acks.count_pending()
            self.release_unneeded(acks.floor_seq)
        if config.sourcing:
            self.reset(consumer, 0)  # the sourcing stream asks again for what it has not confirmed

    def reset(self, consumer: Consumer, seq: int) -> int:
        """See `Consumer.reset`; an interest stream drops what no consumer needs below."""
        seq = consumer.reset(seq)
        if self.retention == INTEREST and consumer.acks.floor_seq:
            self._drop_unneeded(0, consumer.acks.floor_seq)
        return seq

    def _check_new(self, config: ConsumerConfig, allowed: Allowance) -> None:
        most = self.config.max_consumers
        if most <= 0 or 0 < allowed.max_consumers < most:
            most = allowed.max_consumers
        if 0 < most <= len(self._by_name):  # else there is no need to look at each of them
            limitable = [one for one in self._by_name.values() if not one.config.sourcing]
            if most <= len(limitable):
                raise errors.MAXIMUM_CONSUMERS_LIMIT.error()
        if self.retention == WORKQUEUE and not (config.direct or config.sourcing):
            consumer_rules.check_work_queue(config, self._work_queue, is_new=True)

    def _new_name(self) -> bytes:
        while True:
            name = self.around.new_id()[:_NAME_LENGTH].encode()
            if name not in self._by_name:
                return name

    def delete(self, consumer: Consumer) -> None:
        """Delete a consumer, and the messages that were kept for it alone."""
        if self._by_name.get(consumer.acks.name) is not consumer:
            return
        floor_seq = consumer.acks.floor_seq
        ConsumerEvents(self, consumer.acks.name).deleted()
        consumer.end()
        self._withdraw(consumer)
        del self._by_name[consumer.acks.name]
        self._listed = None
        self.store.delete_consumer(consumer.acks.name)
        self.release_unneeded(floor_seq)

    def delete_all(self) -> None:
        """Delete all consumers with their stream, whose messages go anyway."""
        self._is_ended = True
        self._remove_message = self._joined = _nothing  # the stream's, which holds this set
        ended = self._by_name
        self._by_name = {}
        self._listed = None
        self._unfiltered = {}
        self._filters = SubList()
        self._work_queue = consumer_rules.WorkQueue()
        self._matches.entries.clear()
        for consumer in ended.values():
            consumer.enrolled = None
            consumer.end()
        rest = iter(ended)

        def announce() -> bool:
            piece = list(islice(rest, _PIECE_CONSUMERS))
            for name in piece:
                ConsumerEvents(self, name).deleted()
            return len(piece) == _PIECE_CONSUMERS

        if announce():
            self.around.turns.add(announce)

    def stop(self) -> None:
        """End all consumers; their state stays."""
        self._is_ended = True
        for consumer in self:
            consumer.stop()

    def _insert(self, consumer: Consumer) -> None:
        self._by_name[consumer.acks.name] = consumer
        self._lowest_seq = 0
        self._trimmed_seq = 0
        self._listed = None
        self._enroll(consumer)
        self._joined()

    def _enroll(self, consumer: Consumer) -> None:
        """Enter a consumer under its filters, so that it is notified of matching messages."""
        self._matches.entries.clear()
        if not consumer.acks.filters:
            self._unfiltered[consumer] = None
        for one in consumer.acks.filters:
            consumer.enrolled = FilterSubscription(one, consumer, consumer.enrolled)
            self._filters.insert(consumer.enrolled)
        self._join_work_queue(consumer)

    def _withdraw(self, consumer: Consumer) -> None:
        """Remove a consumer from its filters."""
        self._matches.entries.clear()
        self._leave_work_queue(consumer)
        self._unfiltered.pop(consumer, None)
        enrolled, consumer.enrolled = consumer.enrolled, None
        while enrolled is not None:
            self._filters.remove(enrolled)
            enrolled = enrolled.before

    def _join_work_queue(self, consumer: Consumer) -> None:
        """Reserve the filters of a consumer of a work queue for it alone."""
        if self.retention == WORKQUEUE and not (consumer.config.direct or consumer.config.sourcing):
            self._work_queue.add(_enrolled_filters(consumer))

    def _leave_work_queue(self, consumer: Consumer) -> None:
        """Give up the filters of a consumer of a work queue."""
        if self.retention == WORKQUEUE and not (consumer.config.direct or consumer.config.sourcing):
            self._work_queue.remove(_enrolled_filters(consumer))

    def release_unneeded(self, floor_seq: int = 0) -> None:
        """Remove the messages of an interest stream that no consumer needs, from a floor on.

        A large stream is checked in pieces. Messages stored meanwhile are not checked.
        """
        if self.retention != INTEREST:
            return
        if not self._by_name or self.store.messages <= PIECE_MESSAGES:
            self._drop_unneeded(floor_seq)
            return
        pieces = self._dropping(floor_seq)
        self.around.turns.add(lambda: next(pieces, False))

    def _dropping(self, floor_seq: int) -> Iterator[bool]:
        """Remove unneeded messages in pieces."""
        store = self.store
        end = store.last_seq
        seq = max(floor_seq, store.first_seq)
        while seq <= end and store.messages and not self._is_ended:
            upto = min(store.seq_after(seq, PIECE_MESSAGES) - 1, end)
            try:
                self._drop_unneeded(seq, upto)
            except StoreError:
                return  # the store refuses changes until the server is restarted
            seq = upto + 1
            yield True

    def _drop_unneeded(self, floor_seq: int, upto_seq: int = 0) -> None:
        """Remove the messages above a floor that no consumer needs any more; 0 is to the end."""
        store = self.store
        if not self._by_name:
            store.purge()
            self._remove_message(0)  # removes no message, but updates the account's usage
            return
        end = upto_seq or store.last_seq
        seq = store.next_seq((), max(floor_seq, store.first_seq), end)
        while seq:
            subject = store.subject_of(seq)
            matching = self.matching(subject) if subject is not None else ()
            if not any(one.acks.needs_ack(seq) for one in matching):
                self._remove(seq)
            seq = store.next_seq((), seq + 1, end) if seq < end else 0


def _enrolled_filters(consumer: Consumer) -> list[bytes]:
    """Return the filters that a consumer was enrolled with; its configuration may be newer."""
    found = []
    enrolled = consumer.enrolled
    while enrolled is not None:
        found.append(enrolled.subject)
        enrolled = enrolled.before
    return found
