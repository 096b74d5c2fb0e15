"""The streams of one account: create, change and delete them within the account's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from midge.jetstream import errors
from midge.jetstream.account.limits import NO_TIER, JetStreamAccountLimits, ServerLimits, tier_of
from midge.jetstream.archive.restored import RestoredStream
from midge.jetstream.archive.transfers import Transfers
from midge.jetstream.config import checks, names, source_checks
from midge.jetstream.config.consumer_config import Allowance
from midge.jetstream.config.stream import MEMORY, STREAM, StreamConfig
from midge.jetstream.config.versions import API_LEVEL
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.errors import ApiError, JetStreamError
from midge.jetstream.json import encode, structure
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.store import Store
from midge.jetstream.stream import admission
from midge.jetstream.stream.contents import Usage
from midge.jetstream.stream.stream import Stream
from midge.sublist.overlaps import OverlapIndex

UNFINISHED = b'{"restoring":true}'
"""The configuration of a store while a restore fills it; a start deletes such a store."""

StoreMaker = Callable[[StreamConfig], Store]
"""Makes an empty store for a new stream."""


class JetStreamAccount:
    """JetStream of one account.

    `limits` holds the account's limits by tier; `NO_TIER` alone without tiers.
    `stream_added` is called when a stream begins to accept messages and `stream_changed` when its
    configuration changes; what they return subscribes to some more of its subjects at each step,
    see `subscribe_more`. `stream_removed` is called when it ceases to accept messages. `is_enabled`
    is False where the account may not use JetStream: requests are answered with that.
    `delete_store` deletes a stream's store. `quarantined` has the unusable stores and the reasons:
    only the deletion of its stream changes such a store. `stream_quarantined` is called for each.
    `unanswered` has the requests that are answered once their changes are on the disk.
    """

    def __init__(
        self,
        name: str,
        surroundings: Surroundings,
        make_store: StoreMaker,
        server_limits: ServerLimits | None = None,
        limits: dict[str, JetStreamAccountLimits] | None = None,
        memory: Usage | None = None,
        storage: Usage | None = None,
    ) -> None:
        self.name = name
        self.surroundings = surroundings
        self.server_limits = server_limits or ServerLimits()
        self.limits = limits or {NO_TIER: JetStreamAccountLimits()}
        self.is_enabled = True
        self.is_strict = True
        self.server_name = ""
        self.streams: dict[str, Stream] = {}
        self._subjects = OverlapIndex()  # of all streams
        self.quarantined: dict[str, tuple[Store, str]] = {}
        self._with_origins: dict[Stream, None] = {}
        self._subscribing: dict[Stream, Iterator[None]] = {}
        self.memory = Usage(parent=memory)
        self.storage = Usage(parent=storage)
        self.api_total = 0
        self.api_errors = 0
        self.failure: StoreError | None = None
        self.unanswered: dict[object, Callable[[ApiError], object]] = {}
        self.delete_store: Callable[[Store], object] = _delete_store
        self.stream_added: Callable[[Stream], Iterator[None]] = lambda _: iter(())
        self.stream_changed: Callable[[Stream], Iterator[None]] = lambda _: iter(())
        self.stream_removed: Callable[[Stream], object] = _ignore
        self.stream_quarantined: Callable[[str, str], object] = _ignore
        self._make_store = make_store
        self.transfers = Transfers(
            surroundings, self.begin_restore, self.finish_restore, self.drop_restore
        )
        self.set_limits(self.limits)

    @property
    def is_closed(self) -> bool:
        """False: a request about all streams is answered even without any; see `pieces.Owner`."""
        return False

    # Used by the checks of configurations.

    @property
    def duplicate_window_max_ns(self) -> int:
        """The server's limit of duplicate windows; 0 for none."""
        return self.server_limits.duplicate_window_max_ns

    def config_of(self, name: str) -> StreamConfig | None:
        """Return the configuration of a stream, or None if it does not exist."""
        stream = self.streams.get(name)
        return stream.config if stream is not None else None

    def stream_bytes_limits(self, config: StreamConfig) -> tuple[bool, int]:
        """Return whether `max_bytes` is required, and return its upper limit, 0 for none."""
        limits, _ = self._limits_for(config.num_replicas)
        if limits is None:
            return False, 0
        is_memory = config.storage == MEMORY
        limit = limits.memory_max_stream_bytes if is_memory else limits.storage_max_stream_bytes
        return limits.max_bytes_required, max(limit, 0)

    def allowance(self) -> Allowance:
        """Return what server and account allow a consumer."""
        limits = next(iter(self.limits.values()))
        of_server = self.server_limits
        return Allowance(
            of_server.max_ack_pending,
            limits.max_ack_pending,
            of_server.max_request_batch,
            limits.max_consumers,
        )

    # Streams.

    def set_limits(self, limits: dict[str, JetStreamAccountLimits]) -> None:
        """Apply new limits."""
        self.limits = limits
        # There are no streams with more than one replica.
        shown = limits.get(NO_TIER) or limits.get(tier_of(1)) or JetStreamAccountLimits()
        self.memory.limit = shown.max_memory
        self.storage.limit = shown.max_storage

    def require_enabled(self) -> None:
        """Raise JetStreamError if the account may not use JetStream."""
        if not self.is_enabled:
            raise errors.NOT_ENABLED_FOR_ACCOUNT.error()

    def lookup(self, name: str) -> Stream:
        """Return a stream by name.

        Raises:
            JetStreamError: the stream does not exist, or the account may not use JetStream.
        """
        self.require_enabled()
        stream = self.streams.get(name)
        if stream is None:
            self._check_quarantine(name)
            raise errors.STREAM_NOT_FOUND.error()
        return stream

    def _check_quarantine(self, name: str) -> None:
        """Raise JetStreamError if the stream of that name is quarantined."""
        if name in self.quarantined:
            raise errors.STREAM_OFFLINE_REASON.error(err=self.quarantined[name][1])

    def matching(self, subject: str = "") -> list[Stream]:
        """Return the streams that take messages of `subject` (all if empty), sorted by name."""
        return [
            self.streams[name]
            for name in sorted(self.streams)
            if not subject
            or any(names.collide(subject, one) for one in self.streams[name].config.subjects)
        ]

    def create(self, asked: StreamConfig, *, pedantic: bool = False) -> Stream:
        """Return a new stream, or the existing one with the same configuration.

        Raises:
            JetStreamError: the stream is refused.
        """
        limits = self._require_limits(asked.num_replicas)
        self._check_count(limits, asked)
        self._check_room(limits, asked, asked.max_bytes)
        config, patterns = checks.check(asked, self, pedantic=pedantic)
        if config.num_replicas > 1:
            raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
        self._check_quarantine(config.name)
        existing = self.streams.get(config.name)
        if existing is not None:
            if config.is_same_as(existing.config):
                return existing
            raise errors.STREAM_NAME_EXIST.error()
        self._check_room(limits, config, config.max_bytes)
        source_checks.check_filters(config)
        checks.check_deny_delete(config)
        self._require_free(patterns)
        stream = self._make(config, patterns)
        stream.events.created()
        return stream

    def update(self, config: StreamConfig) -> Stream:
        """Change a stream to the configuration `config`, which `checks.check` has returned.

        Raises:
            JetStreamError: it does not exist, or the change is refused.
        """
        stream = self.lookup(config.name)
        old = stream.config
        checks.check_update(old, config)
        grown = max(config.max_bytes, 0) - max(old.max_bytes, 0)
        limits = self._require_limits(config.num_replicas)
        self._check_room(limits, config, max(grown, 0), max(config.max_bytes, 0) - max(grown, 0))
        stream.readers.check_limits(old, config)
        self._change_subjects(old.subjects, config.subjects)
        self._reserve(config, grown)
        stream.configure(config)
        self._note_origins(stream)
        stream.changed(old)
        self._save(stream)
        self._subscribing[stream] = self.stream_changed(stream)
        self.subscribe_more(stream)
        stream.events.updated()
        return stream

    def subscribe_more(self, stream: Stream) -> bool:
        """Subscribe to some more of a stream's subjects; return False when none are left.

        A thousand are subscribed to at once when it is added. The requester of more is answered
        when none are left.
        """
        steps = self._subscribing.get(stream)
        if steps is not None:
            for _ in steps:
                return True
            del self._subscribing[stream]
        return False

    def delete(self, stream: Stream) -> None:
        """Delete a stream with its consumers, unless that has been done.

        Raises:
            StoreError: the disk has failed, and the stream would be there again after a restart.
        """
        if stream.is_closed:
            return
        if self.failure is not None and not stream.is_memory:
            raise self.failure
        self._forget(stream)
        stream.events.deleted()
        self.delete_store(stream.store)

    def delete_all(self) -> None:
        """Delete all streams, the quarantined ones included.

        Raises:
            StoreError: the disk has failed.
        """
        for name in list(self.quarantined):
            self.delete_quarantined(name)
        for stream in list(self.streams.values()):
            self.delete(stream)

    def delete_quarantined(self, name: str) -> Store | None:
        """Delete a quarantined stream and return its store, None if `name` is not quarantined."""
        store, _ = self.quarantined.pop(name, (None, ""))
        if store is not None:
            self.delete_store(store)
        return store

    def recover(self, store: Store) -> Stream | None:
        """Restore a stream from its store at the start; quarantine an unusable one, return None."""
        problem = admission.stored_problem(store)
        if problem:
            name = admission.stored_name(store)
            self.quarantined[name] = (store, problem)
            self.stream_quarantined(name, problem)
            return None
        stored = encode.decode(store.config())
        config: StreamConfig = structure.decode_value(stored["config"], STREAM, StreamConfig())
        patterns = names.pattern_set(config.subjects)
        stream = self._add(config, store, stored["created"], patterns)
        while self.subscribe_more(stream):
            pass
        stream.start()
        return stream

    def check_restore(self, asked: StreamConfig, size: int) -> StreamConfig:
        """Return the configuration, with its defaults, of a stream to be restored.

        Raises:
            JetStreamError: the stream is refused, or there is no room for its `size` in bytes.
        """
        config, _ = checks.check(asked, self, pedantic=False)
        self._check_quarantine(config.name)
        if config.num_replicas > 1:
            raise errors.STREAM_REPLICAS_NOT_SUPPORTED.error()
        limits = self._require_limits(config.num_replicas)
        coming = self.transfers.configs()
        if 0 < limits.max_streams <= len(self._others(config)) + len(coming):
            raise errors.MAXIMUM_STREAMS_LIMIT.error()
        is_memory = config.storage == MEMORY
        alike = [one for one in coming if (one.storage == MEMORY) == is_memory]
        already = sum(max(one.max_bytes, 0) for one in alike)
        self._check_room(limits, config, max(config.max_bytes, size), already)
        if config.name in self.streams or any(one.name == config.name for one in coming):
            raise errors.STREAM_NAME_EXIST_RESTORE_FAILED.error()
        source_checks.check_filters(config)
        checks.check_deny_delete(config)
        return config

    def begin_restore(self, config: StreamConfig) -> RestoredStream:
        """Return an empty stream to be filled; it is not there before it is full.

        Its name, its place among the account's streams and `max_bytes` are reserved until
        `drop_restore` or `finish_restore`.
        """
        store = self._make_store(config)
        store.save_config(UNFINISHED)
        self._reserve(config, max(config.max_bytes, 0))
        around = self.surroundings
        now_ns = around.clock.wall_ns()
        usage = self._usage_of(config)
        return RestoredStream(config, store, now_ns, around.max_payload, self.allowance(), usage)

    def drop_restore(self, restored: RestoredStream) -> None:
        """Delete the restored messages, and release their reservation."""
        restored.release()
        self._reserve(restored.config, -max(restored.config.max_bytes, 0))
        self.delete_store(restored.store)

    def finish_restore(self, restored: RestoredStream) -> Stream:
        """Make a stream from restored data.

        Raises:
            JetStreamError: the stream has become invalid meanwhile.
        """
        config = restored.config
        if config.name in self.streams:
            raise errors.STREAM_NAME_EXIST_RESTORE_FAILED.error()
        patterns = names.pattern_set(config.subjects)
        self._require_free(patterns)
        limits = self._require_limits(config.num_replicas)  # they may have changed meanwhile
        if 0 < limits.max_streams <= len(self._others(config)):
            raise errors.MAXIMUM_STREAMS_LIMIT.error()
        if self._usage_of(config).would_exceed_account(0):
            raise errors.ACCOUNT_RESOURCES_EXCEEDED.error()
        reserved = max(config.max_bytes, 0)
        self._reserve(config, -reserved)
        try:
            self._check_room(limits, config, config.max_bytes)
        except JetStreamError:
            self._reserve(config, reserved)
            raise
        restored.release()
        restored.store.set_dedup_window(config.duplicate_window_ns)
        stream = self._add(config, restored.store, restored.created_ns, patterns)
        try:
            self._save(stream)
            stream.take_up(restored.ids, restored.ttls, restored.consumers)
        except BaseException:
            self._forget(stream)
            self._reserve(config, reserved)  # until `drop_restore`
            raise
        while self.subscribe_more(stream):
            pass
        stream.events.created()
        return stream

    def lost(self, error: StoreError) -> None:
        """Undo what a failed sync has lost of the file streams, and answer their publishers."""
        for stream in self.streams.values():
            if not stream.is_memory:
                stream.lost(error)
        self.failure = error
        unanswered, self.unanswered = self.unanswered, {}
        for fail in unanswered.values():
            fail(errors.STREAM_STORE_FAILED.fill(err=error))

    def list_again(self, stores: Iterable[Store]) -> None:
        """Keep the file streams whose stores are among `stores`, after a failed sync.

        A stream whose creation had not reached the disk is dropped. A stream whose deletion had not
        reached the disk is restored.
        """
        found = {id(store): store for store in stores}
        for stream in list(self.streams.values()):
            if not stream.is_memory and found.pop(id(stream.store), None) is None:
                self._forget(stream)
        for store in found.values():
            if store.config() != UNFINISHED:
                self.recover(store)

    def _forget(self, stream: Stream) -> None:
        """Drop a stream whose store is gone: its consumers, followers, timers and reservation."""
        self.transfers.stream_removed(stream)
        if self.streams.pop(stream.config.name, None) is not None:
            self._leave_subjects(stream.config.subjects)
        self._with_origins.pop(stream, None)
        self._subscribing.pop(stream, None)
        self.stream_removed(stream)
        self._notify_followers(stream.config.name)
        stream.readers.close()
        stream.stop()
        stream.contents.release_usage()
        stream.release()
        self._reserve(stream.config, -max(stream.config.max_bytes, 0))

    def stop(self) -> None:
        """End all timers of all streams, and all transfers."""
        self.transfers.stop()
        for stream in self.streams.values():
            stream.stop()

    def release(self) -> None:
        """Return the usage and the reservations of stopped streams to the server."""
        for stream in self.streams.values():
            reserved = max(stream.config.max_bytes, 0)
            self.server_limits.reserve(stream.is_memory, -reserved)
        self.memory.add(-self.memory.used)
        self.storage.add(-self.storage.used)

    def info(self) -> dict[str, Any]:
        """Return usage and limits as answers show them."""
        fields = self._usage(list(self.streams.values()))
        flat = self.limits.get(NO_TIER)
        no_limits = JetStreamAccountLimits(0, 0, 0, 0, 0, 0, 0)
        fields["limits"] = (flat or no_limits).fields()
        if self.surroundings.domain:
            fields["domain"] = self.surroundings.domain
        fields["api"] = {"level": API_LEVEL, "total": self.api_total, "errors": self.api_errors}
        if flat is None:
            fields["tiers"] = {tier: self._tier(tier) for tier in sorted(self.limits)}
        return fields

    def _tier(self, tier: str) -> dict[str, Any]:
        streams = [s for s in self.streams.values() if tier_of(s.config.num_replicas) == tier]
        return {**self._usage(streams), "limits": self.limits[tier].fields()}

    def _usage(self, streams: list[Stream]) -> dict[str, Any]:
        memory = [stream for stream in streams if stream.is_memory]
        files = [stream for stream in streams if not stream.is_memory]
        return {
            "memory": sum(stream.store.bytes for stream in memory),
            "storage": sum(stream.store.bytes for stream in files),
            "reserved_memory": _reserved(memory),
            "reserved_storage": _reserved(files),
            "streams": len(streams),
            # Mirrors and sources count as consumers, which they are on nats-server.
            "consumers": sum(len(one.consumers) + len(one.followers) for one in streams),
        }

    def _make(self, config: StreamConfig, patterns: OverlapIndex) -> Stream:
        store = self._make_store(config)
        if config.first_seq > 1:
            store.skip_to(config.first_seq - 1)
        store.set_dedup_window(config.duplicate_window_ns)
        stream = self._add(config, store, self.surroundings.clock.wall_ns(), patterns)
        self._save(stream)
        return stream

    def _add(
        self, config: StreamConfig, store: Store, created_ns: int, patterns: OverlapIndex
    ) -> Stream:
        """Return a new stream; `patterns` has its subjects."""
        usage = self._usage_of(config)
        stream = Stream(config, store, self.surroundings, usage, created_ns, self.streams)
        self.streams[config.name] = stream
        self._subjects.absorb(patterns)
        self._note_origins(stream)
        self._reserve(config, max(config.max_bytes, 0))
        self._subscribing[stream] = self.stream_added(stream)
        self.subscribe_more(stream)
        stream.origins.start()
        self._notify_followers(config.name)
        return stream

    def _note_origins(self, stream: Stream) -> None:
        """Note whether a stream has a mirror or sources, which other streams may be."""
        if stream.config.mirror is not None or stream.config.sources:
            self._with_origins[stream] = None
        else:
            self._with_origins.pop(stream, None)

    def _usage_of(self, config: StreamConfig) -> Usage:
        return self.memory if config.storage == MEMORY else self.storage

    def _notify_followers(self, name: str) -> None:
        """Notify mirrors and sourcing streams that a stream was added or removed."""
        for stream in self._with_origins:
            stream.origins.stream_changed(name)

    def _save(self, stream: Stream) -> None:
        fields = {"config": stream.config.fields(), "created": stream.created_ns}
        stream.store.save_config(encode.encode(fields))

    def _reserve(self, config: StreamConfig, size: int) -> None:
        self.server_limits.reserve(config.storage == MEMORY, size)

    # Limits.

    def _limits_for(self, replicas: int) -> tuple[JetStreamAccountLimits | None, str]:
        flat = self.limits.get(NO_TIER)
        if flat is not None:
            return flat, NO_TIER
        tier = tier_of(replicas)
        return self.limits.get(tier), tier

    def _others(self, config: StreamConfig) -> list[Stream]:
        """List the other streams that share the limits of a stream."""
        _, tier = self._limits_for(config.num_replicas)
        return [
            stream
            for name, stream in self.streams.items()
            if name != config.name and tier in {NO_TIER, tier_of(stream.config.num_replicas)}
        ]

    def _require_limits(self, replicas: int) -> JetStreamAccountLimits:
        limits, _ = self._limits_for(replicas)
        if limits is None:
            raise errors.NO_LIMITS.error()
        return limits

    def _check_count(self, limits: JetStreamAccountLimits, config: StreamConfig) -> None:
        """Refuse a stream beyond the limit of their number; raises JetStreamError."""
        # Below the limit with all streams, it is not exceeded by those of one tier.
        if 0 < limits.max_streams <= len(self.streams) and limits.max_streams <= len(
            self._others(config)
        ):
            raise errors.MAXIMUM_STREAMS_LIMIT.error()

    def _check_room(
        self, limits: JetStreamAccountLimits, config: StreamConfig, size: int, already: int = 0
    ) -> None:
        """Refuse a stream if account or server have no room for it; raises JetStreamError."""
        if 0 < limits.max_consumers < config.max_consumers:
            raise errors.MAXIMUM_CONSUMERS_LIMIT.error()
        if not config.storage:
            return  # the storage is known only after the defaults are filled in
        is_memory = config.storage == MEMORY
        size = 1 if size < 0 else size
        server = self.server_limits
        if is_memory:
            limit, most, used = limits.max_memory, server.max_memory, server.reserved_memory
            error = errors.MEMORY_RESOURCES_EXCEEDED
        else:
            limit, most, used = limits.max_storage, server.max_storage, server.reserved_storage
            error = errors.STORAGE_RESOURCES_EXCEEDED
        if 0 <= most < used + size:
            raise error.error()
        if limit < 0:
            return
        others = [one for one in self._others(config) if one.is_memory == is_memory]
        if _reserved(others) + already + size > limit:
            raise error.error()

    def _change_subjects(self, old: list[str], new: list[str]) -> None:
        """Take new subjects instead of old ones, which were checked among each other before.

        Raises:
            JetStreamError: another stream has one of them.
        """
        left = set(old).difference(new)
        joined = names.pattern_set(set(new).difference(old))
        self._leave_subjects(left)
        try:
            self._require_free(joined)
        except errors.JetStreamError:
            self._subjects.absorb(names.pattern_set(left))
            raise
        self._subjects.absorb(joined)

    def _require_free(self, patterns: OverlapIndex) -> None:
        """Refuse subjects of which a stream has messages already; raises JetStreamError."""
        if self._subjects.overlaps(patterns):
            raise errors.STREAM_SUBJECT_OVERLAP.error()

    def _leave_subjects(self, subjects: Iterable[str]) -> None:
        for subject in subjects:
            self._subjects.remove(names.to_bytes(subject))


def _reserved(streams: list[Stream]) -> int:
    return sum(max(stream.config.max_bytes, 0) for stream in streams)


def _delete_store(store: Store) -> None:
    store.delete()


def _ignore(*_: object) -> None:
    """Do nothing."""
