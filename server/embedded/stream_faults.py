"""Faults of JetStream: acks and confirmations lost, streams purged or deleted, disks full or slow.

They are methods of `midge.server.embedded.faults.Faults`. Changes to a stream go through the
stream's own code, and the server's simulated disk makes the faults of the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream.config.names import to_bytes
from midge.jetstream.consumer import statuses
from midge.jetstream.consumer.pull import PullRequests
from midge.jetstream.environment.sink import Sink
from midge.jetstream.json.encode import encode
from midge.jetstream.json.times import format_time
from midge.protocol.errors import MidgeError
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.config.type_check import nearest
from midge.server.embedded.fault_kinds import ActiveFaults, Drop, Fault, MessageFault, Undoable
from midge.sublist.subjects import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.store.disk import SuppliedDisk
    from midge.jetstream.stream.stream import Stream
    from midge.protocol.frame import Frame
    from midge.server.jetstream.account import AccountEngine
    from midge.server.jetstream.engine import Engine
    from midge.server.server import Server

_ACK_PREFIX = "$JS.ACK."
_SECOND_ACK_PREFIX = "$JS.ACK.*.*."
_ADVISORY = b"$JS.EVENT.ADVISORY."
_NO_CLIENT = 0  # not a cid: it matches no publish and no delivery
_NO_ROOM = 1 << 62  # bytes, more than any limit


class StreamFaults(ActiveFaults):
    """The faults of one server's streams; `account` is the streams' account."""

    _server: Server

    def lose_ack(
        self,
        stream: str = "*",
        consumer: str = "*",
        *,
        nth: int | Iterable[int] | None = None,
        probability: float = 1.0,
    ) -> Fault:
        """Drop acks before the server gets them: messages are redelivered after the ack wait."""
        has_second = self._engine().context.options.ack_format == "v2"
        prefix = _SECOND_ACK_PREFIX if has_second else _ACK_PREFIX
        return self._begin(Drop(self, f"{prefix}{stream}.{consumer}.>", nth, probability, None))

    def lose_confirmation(
        self,
        stream: str,
        *,
        nth: int | Iterable[int] | None = None,
        probability: float = 1.0,
        account: str = GLOBAL_ACCOUNT,
    ) -> Fault:
        """Drop PubAcks: messages are stored, but their publishers get no confirmation."""
        found = self._stream(stream, account)
        return self._begin(_LosingSink.put_before(self, found, nth, probability))

    def redeliver(
        self, stream: str, consumer: str, *, seq: int = 0, account: str = GLOBAL_ACCOUNT
    ) -> Fault:
        """Redeliver messages that await their ack at once, as if the ack wait were over.

        `seq` selects one message; `hits` counts the redelivered messages.
        """
        found = self._consumer(stream, consumer, account)
        pending = found.acks.pending
        entries = [pending.get(seq)] if seq else list(pending.entries.values())
        waiting = [one for one in entries if one is not None and not pending.is_queued(one)]
        for entry in waiting:
            pending.enqueue(entry)
        if waiting:
            found.signal()
        return self._done(len(waiting))

    def purge_stream(
        self, stream: str, *, after_deliveries: int = 0, account: str = GLOBAL_ACCOUNT
    ) -> Fault:
        """Purge a stream, now or after a number of further deliveries to its consumers' clients."""

        def purge() -> None:
            self._stream(stream, account).purge(None, 0, 0)

        return self._do_after(stream, after_deliveries, purge)

    def delete_stream(
        self, stream: str, *, after_deliveries: int = 0, account: str = GLOBAL_ACCOUNT
    ) -> Fault:
        """Delete a stream with its consumers, now or after a number of further deliveries."""

        def delete() -> None:
            self._jetstream(account).streams.delete(self._stream(stream, account))

        return self._do_after(stream, after_deliveries, delete)

    def delete_consumer(
        self,
        stream: str,
        consumer: str,
        *,
        after_deliveries: int = 0,
        account: str = GLOBAL_ACCOUNT,
    ) -> Fault:
        """Delete a consumer, now or after a number of further deliveries of its stream."""

        def delete() -> None:
            found = self._consumer(stream, consumer, account)
            self._stream(stream, account).consumers.delete(found)

        return self._do_after(stream, after_deliveries, delete)

    def leader_change(self, stream: str, *, account: str = GLOBAL_ACCOUNT) -> Fault:
        """Report a new leader of the stream and its consumers to clients.

        Waiting pull requests end with `409 Leadership Change`, and advisories name the leader;
        `hits` counts the requests. A single server has no other leader, so otherwise nothing
        changes.
        """
        found = self._stream(stream, account)
        self._advise(found, b"STREAM.LEADER_ELECTED." + found.name, "stream", {})
        ended = 0
        for consumer in found.consumers:
            if isinstance(consumer.receivers, PullRequests):
                ended += consumer.receivers.end_all(statuses.LEADERSHIP_CHANGE)
            subject = b"CONSUMER.LEADER_ELECTED." + found.name + b"." + consumer.name
            self._advise(found, subject, "consumer", {"consumer": consumer.name.decode()})
        return self._done(ended)

    def store_full(self) -> Fault:
        """Refuse every message, as if JetStream's storage were used up (10023)."""
        context = self._engine().context
        usages = (context.memory, context.storage)
        limits = [usage.limit for usage in usages]
        for usage in usages:
            usage.limit = max(usage.limit, 0)
            usage.used += _NO_ROOM

        def undo() -> None:
            for usage, limit in zip(usages, limits, strict=True):
                usage.limit = limit
                usage.used -= _NO_ROOM

        return self._begin(Undoable(self, undo))

    # Faults of the disk; they need `Server(disk=SimulatedDisk())`.

    def slow_disk(self, latency_s: float) -> Fault:
        """Delay each write with its sync, by the server's clock."""
        disk = self._disk()
        before_s, disk.latency_s = disk.latency_s, latency_s

        def undo() -> None:
            disk.latency_s = before_s

        return self._begin(Undoable(self, undo))

    def failing_disk(self, *, after_syncs: int = 0) -> Fault:
        """Fail a sync after a number of successful ones, like a dying disk.

        The messages of that sync and all later ones are refused (10077) until the server restarts;
        no acknowledged message is lost.
        """
        disk = self._disk()
        fault = _FailingDisk(self, disk)
        disk.fail_sync_at = after_syncs
        return self._begin(fault)

    def full_disk(self, *, free_bytes: int = 0) -> Fault:
        """Leave the disk no room beyond the store's preallocation of 64 KiB or more.

        The store refuses messages (10077) once that is used; acks and removals still work. When the
        fault ends, there is room again, and the store accepts messages within a second.
        """
        disk = self._disk()
        before, disk.free = disk.free, free_bytes

        def undo() -> None:
            disk.free += before - free_bytes

        return self._begin(Undoable(self, undo))

    # Internals.

    def _done(self, hits: int) -> Fault:
        """Return a fault that has already struck and ended."""
        fault = Undoable(self, lambda: None)
        fault.hits = hits
        return fault

    def _do_after(self, stream: str, deliveries: int, do: Callable[[], None]) -> Fault:
        if deliveries <= 0:
            do()
            return self._done(1)
        return self._begin(AfterDeliveries(self, stream, deliveries, do))

    def _engine(self) -> Engine:
        engine = self._server.jetstream
        if engine is None:
            raise MidgeError("JetStream is not on: start the server with jetstream=True")
        return engine

    def _jetstream(self, account: str) -> AccountEngine:
        accounts = self._engine().accounts
        if account not in accounts:
            known = ", ".join(sorted(accounts))
            raise ValueError(f"account: expected one of {known}, got {account!r}")
        return accounts[account]

    def _stream(self, name: str, account: str) -> Stream:
        """Find a stream. Raises: ValueError if none has this name."""
        streams = self._jetstream(account).streams.streams
        if name not in streams:
            known = ", ".join(sorted(streams))
            expected = f"expected one of {known}" if known else "there is no stream"
            hint = nearest(name, sorted(streams))
            raise ValueError(f"stream: {expected}, got {name!r}{hint}")
        return streams[name]

    def _consumer(self, stream: str, name: str, account: str) -> Consumer:
        """Find a consumer. Raises: ValueError if none has this name."""
        consumers = self._stream(stream, account).consumers
        found = consumers.get(to_bytes(name))
        if found is None:
            names = [one.name.decode() for one in consumers]
            expected = f"expected one of {', '.join(names)}" if names else "it has no consumer"
            hint = nearest(name, names)
            raise ValueError(f"consumer of {stream}: {expected}, got {name!r}{hint}")
        return found

    def _disk(self) -> SuppliedDisk:
        disk = self._engine().disk
        if disk is None:
            raise MidgeError(
                "faults of the disk need a simulated one: "
                "midge.Server(jetstream=True, disk=midge.testing.SimulatedDisk())"
            )
        return disk

    def _advise(self, stream: Stream, subject: bytes, what: str, more: dict[str, Any]) -> None:
        name = self._engine().context.server_name
        event = {
            "type": f"io.nats.jetstream.advisory.v1.{what}_leader_elected",
            "id": stream.surroundings.new_id(),
            "timestamp": format_time(stream.clock.wall_ns()),
            "stream": stream.config.name,
            **more,
            "leader": name,
            "replicas": [{"name": name, "current": True, "active": 0}],
        }
        stream.sink.send(_ADVISORY + subject, b"", b"", encode(event))


class AfterDeliveries(Fault):
    """An action after a number of deliveries of a stream to clients."""

    def __init__(
        self, faults: ActiveFaults, stream: str, count: int, do: Callable[[], object]
    ) -> None:
        super().__init__(faults)
        self._pattern = f"{_ACK_PREFIX}{stream}.>".encode()
        self._second_pattern = f"{_SECOND_ACK_PREFIX}{stream}.>".encode()
        self._left = count
        self._do = do

    def delivered(self, frame: Frame) -> None:
        """Count a delivery to a client; the action follows the last one."""
        reply = frame.reply_bytes()
        if not self._left or reply is None:
            return
        if matches(reply, self._pattern) or matches(reply, self._second_pattern):
            self._left -= 1
            if not self._left:
                self.hits += 1
                self._faults.broker.clock.call_later(0, self._do)


class _FailingDisk(Fault):
    """A disk whose sync will fail, or has failed."""

    def __init__(self, faults: ActiveFaults, disk: SuppliedDisk) -> None:
        super().__init__(faults)
        self._disk = disk
        disk.sync_failed = self._failed

    def _failed(self) -> None:
        self.hits += 1

    def undo(self) -> None:
        self._disk.fail_sync_at = -1


class _LosingSink(Sink, MessageFault):
    """Wraps a stream's sink of answers, and drops confirmations of messages."""

    _stream: Stream
    _behind: Sink

    @classmethod
    def put_before(
        cls,
        faults: ActiveFaults,
        stream: Stream,
        nth: int | Iterable[int] | None,
        probability: float,
    ) -> _LosingSink:
        """Return the fault, in force for `stream`."""
        fault = cls(faults, ">", nth, probability, _NO_CLIENT)
        fault._stream, fault._behind = stream, stream.answers.sink
        stream.answers.sink = fault
        return fault

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        """Pass an answer on, unless it is a confirmation to drop."""
        is_confirmation = payload.startswith(self._stream.ack_head)
        if is_confirmation and self.strikes(subject):
            return 0
        return self._behind.send(subject, reply, headers, payload)

    def undo(self) -> None:
        """Restore the stream's own sink."""
        self._stream.answers.sink = self._behind
