"""A stream: accepts messages, keeps them within its configuration, and answers publishers.

Decisions use the store's state of the open group; reads for clients stop at the store's
`visible_seq`. `answers` sends an answer once the changes that it confirms are durable. Consumers
are notified of messages when these become visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midge.jetstream import errors, headers
from midge.jetstream.config.stream import INTEREST, StreamConfig
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.errors import ApiError
from midge.jetstream.headers import INVALID, HeaderScan, parse_ttl
from midge.jetstream.json.encode import encode, text
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.store import Store
from midge.jetstream.stream import admission, checks, removal
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.batches import AtomicBatches
from midge.jetstream.stream.contents import Usage
from midge.jetstream.stream.direct_get import DirectGet
from midge.jetstream.stream.fast_batches import FastBatches
from midge.jetstream.stream.incoming import Incoming, Refused
from midge.jetstream.stream.origins import Origins
from midge.jetstream.stream.pieces import in_turns
from midge.jetstream.stream.removal import Expiry
from midge.jetstream.stream.republish import Republisher
from midge.jetstream.stream.schedules import Schedules
from midge.jetstream.stream.stream_host import StreamHost
from midge.protocol import digits, memory
from midge.protocol.errors import quote
from midge.protocol.frame import Frame

if TYPE_CHECKING:
    from midge.jetstream.consumer.stored_state import StoredState

_HEADERS_MAX = 65535  # nats-server notes the length of the headers in 16 bits
_OVERLOADED = b"NATS/1.0 429 Too Many Requests\r\n\r\n"
_SECOND_NS = 1_000_000_000
_NOTHING = headers.NOTHING
_OTHERS = headers.OTHERS
_NO_BYTES = b""
_BRACE = 0x7D  # which ends an ack
_LAST_OF_FAST_BATCH = 0x49  # the last byte of a reply subject that may belong to a fast batch


_LOOK_WORK = 1_000
"""The least work for a message that is not plain, in items of 10 ns; see `Store.work`."""


class Stream(StreamHost):
    """One stream of an account."""

    def __init__(
        self,
        config: StreamConfig,
        store: Store,
        surroundings: Surroundings,
        usage: Usage,
        created_ns: int,
        siblings: Mapping[str, StreamHost] | None = None,
    ) -> None:
        StreamHost.__init__(self, config, store, surroundings, usage, created_ns, siblings)
        self._scan = HeaderScan()
        self.expiry = Expiry(self)
        self.schedules = Schedules(self)
        self.atomic_batches = AtomicBatches(self)
        self.fast_batches = FastBatches(self)
        self.republisher: Republisher | None = None
        self.direct_get = DirectGet(self)
        self.origins = Origins(self)
        self.configure(config)
        self.contents.account()

    # Configuration.

    def configure(self, config: StreamConfig) -> None:
        """See `StreamHost.configure`."""
        StreamHost.configure(self, config)
        self._is_interest = config.retention == INTEREST
        self.republisher = Republisher.of(config, self.surroundings.random)
        self._is_plain = not (
            config.sealed
            or config.allow_msg_counter
            or config.mirror is not None
            or self.contents.is_discard_new
            or self.transform is not None
            or self.republisher is not None
            or config.allow_batched
            or config.allow_msg_schedules
        )

    def start(self) -> None:
        """Restore the state of stored messages: ids, TTLs, schedules, limits."""
        self.now_ns = self.clock.wall_ns()
        for msg_id, seq, time_ns in self.store.ids():
            self.dedup.add(msg_id, seq, time_ns)
            if seq == self.store.last_seq:
                self.last_msg_id = msg_id
        self.expiry.start()
        self.schedules.start()
        removal.enforce(self)
        self.consumers.restore()

    def take_up(
        self,
        ids: list[tuple[bytes, int, int]],
        ttls: list[tuple[int, int, int]],
        consumers: list[tuple[bytes, StoredState]],
    ) -> None:
        """Adopt the state of a restored archive: ids, TTLs, consumers."""
        self.now_ns = self.clock.wall_ns()
        for msg_id, seq, time_ns in ids:
            self.dedup.add(msg_id, seq, time_ns)
        for seq, time_ns, ttl_s in ttls:
            self.expiry.add(seq, time_ns, ttl_s)
        self.expiry.arm()
        self.schedules.start()
        for name, stored in consumers:
            self.consumers.take_up(name, stored)
        removal.enforce(self)

    def changed(self, old: StreamConfig) -> None:
        """Apply a change of the configuration to the parts."""
        config = self.config
        self.now_ns = self.clock.wall_ns()
        self.store.set_dedup_window(config.duplicate_window_ns)
        if not config.allow_atomic:
            self.atomic_batches.clear()
        if not config.allow_batched:
            self.fast_batches.clear()
        if config.allow_msg_ttl and not old.allow_msg_ttl:
            in_turns(self, self.expiry.read_all(), _ignore, _ignore)
        if config.allow_msg_schedules and not old.allow_msg_schedules:
            in_turns(self, self.schedules.read_all(), _ignore, _ignore)
        removal.enforce(self)
        self.expiry.arm()
        if config.mirror != old.mirror or config.sources != old.sources:
            self.origins.start()
        if config.retention != old.retention:
            self.consumers.release_unneeded()

    def stop(self) -> None:
        """End all timers; nothing is taken any more."""
        self.is_closed = True
        self.consumers.stop()
        self.origins.stop()
        self.expiry.stop()
        self.schedules.stop()
        self.atomic_batches.clear()
        self.fast_batches.clear()

    def release(self) -> None:
        """Drop the parts of a deleted stream, which refer to it.

        Otherwise its 86 objects would wait for the garbage collector, which stops the server for
        100 ms where a client has deleted 2,000 streams.
        """
        nothing: Any = None
        self.expiry = self.schedules = self.atomic_batches = self.fast_batches = nothing
        self.origins.release()
        self.direct_get.release()

    # Publishing.

    def publish_frame(self, frame: Frame, now_ns: int = 0) -> None:
        """Take a published message as it lies in its connection's buffer."""
        if self.is_closed:
            return
        if self.backlog.refuses(frame.size):
            self._overload(frame.reply_bytes() or _NO_BYTES)
            return
        self.now_ns = now_ns or self._ticks.wall_ns()
        found = self._look_at(frame)
        if found == _OTHERS:
            self._publish(
                frame.subject_bytes(),
                frame.reply_bytes() or _NO_BYTES,
                frame.header_bytes() or _NO_BYTES,
                frame.payload_bytes(),
            )
            return
        try:
            seq = self._append(frame) if found == _NOTHING else self._append_once(frame)
        except StoreError as error:
            self._refuse(frame.reply_bytes() or _NO_BYTES, _store_failed(error))
            return
        if not seq:
            return
        if self.contents.max_per_subject > 0:
            self.contents.trim_subject(frame.subject_bytes(), self.contents.max_per_subject)
        self._stored(seq, frame.size)
        reply = frame.reply_bytes() if self.acks else None
        if reply is not None:
            ack = digits.with_number(self.ack_head, seq, _BRACE)
            self.answers.send(reply, _NO_BYTES, ack, True)
        # Cython asks Python whether a set is true, and counts it by itself.
        if len(self.followers) > 0 or not self.consumers.is_empty():
            self.readers.announce_soon()

    def takes_lines(self) -> bool:
        """See `StreamHost.takes_lines`."""
        return (
            self._is_plain
            and not self._is_interest
            and not self.is_closed
            and self.contents.max_per_subject <= 0
        )

    def _look_at(self, frame: Frame) -> int:
        """Return whether a message is a plain one, has an id, or needs a closer look."""
        if not self._is_plain or not self.contents.has_room(frame.size):
            return _OTHERS
        if (
            frame.reply_end > frame.reply_start
            and frame.data[frame.base + frame.reply_end - 1] == _LAST_OF_FAST_BATCH
        ):
            return _OTHERS
        if self._is_interest and not self.consumers.has_interest(frame.subject_bytes()):
            return _OTHERS
        if frame.header_size <= 0:
            return _NOTHING
        if frame.header_size > _HEADERS_MAX:
            return _OTHERS
        start = frame.base + frame.payload
        return self._scan.scan(frame.data, start, start + frame.header_size)

    def _append(self, frame: Frame) -> int:
        """Store a message without an id; return its sequence."""
        seq = self.store.append_frame(frame, self.now_ns)
        self.last_msg_id = _NO_BYTES
        return seq

    def _append_once(self, frame: Frame) -> int:
        """Store a message with an id unless that is known; return its sequence, 0 if answered."""
        msg_id = memory.take(frame.data, self._scan.id_start, self._scan.id_end)
        known = self.dedup.find(msg_id, self.now_ns)
        if known:
            reply = frame.reply_bytes() if self.acks else None
            if reply is not None:
                body = self.ack_head + b'%d,"duplicate": true}' % known
                self.answers.send(reply, _NO_BYTES, body, True)
            return 0
        seq = self.store.append(
            frame.subject_bytes(),
            frame.header_bytes() or _NO_BYTES,
            frame.payload_bytes(),
            self.now_ns,
            0,
            0,
            msg_id or None,
        )
        self.last_msg_id = msg_id
        if msg_id:
            self.dedup.add(msg_id, seq, self.now_ns)
        return seq

    def publish(self, subject: bytes, reply: bytes, headers_of: bytes, payload: bytes) -> None:
        """Take a published message from its parts."""
        if self.is_closed:
            return
        if self.backlog.refuses(len(headers_of) + len(payload)):
            self._overload(reply)
            return
        self.now_ns = self.clock.wall_ns()
        self._publish(subject, reply, headers_of, payload)

    def _publish(self, subject: bytes, reply: bytes, headers_of: bytes, payload: bytes) -> None:
        """Take a message that needs a closer look."""
        self.store.work += _LOOK_WORK
        message = Incoming(subject, reply, headers_of, payload)
        if headers_of:
            message.headers = headers.to_store(headers_of)
            self.store.work += len(headers_of) >> 1  # they are read byte by byte, some lines twice
            values = headers.nats_headers(message.headers)
            if values is not None:
                message.values = values
                message.headers = headers.untraced(message.headers, values)
        if self.fast_batches.takes(message) or self.atomic_batches.takes(message):
            return
        self.take(message)

    def take(self, message: Incoming) -> bool:
        """See `StreamHost.take`."""
        try:
            seq = 0
            if self._check(message) and not headers.is_trace_only(message.values):
                seq = self.store_checked(message)
        except Refused as refused:
            self._refuse(message.reply, refused.api)
            return False
        if message.duplicate_of:
            self.acknowledge(message, message.duplicate_of, b',"duplicate": true}')
        elif seq:
            self.acknowledge(message, seq, self._ack_tail(message))
        return True

    def store_message(self, message: Incoming) -> int:
        """See `StreamHost.store_message`."""
        return self.store_checked(message) if self._check(message) else 0

    def _check(self, message: Incoming) -> bool:
        """Check a message; False when it is a duplicate.

        Raises:
            Refused: with the error to answer.
        """
        if self.transform is not None:
            message.subject = self.transform.apply(message.subject) or message.subject
        if message.is_sourced or self.transform is not None:
            admission.check_message(message)
        self.contents.check_record_size(message)
        if self.is_sealed and not message.is_checked:
            raise Refused(errors.STREAM_SEALED)
        if headers.REQUEST_INFO in message.values:
            message.headers = headers.without_request_info(message.headers)
        if not message.is_checked:
            self.contents.check_size(message)
        if message.values:
            checks.check_headers(self, message)
            if message.duplicate_of:
                return False
        if not message.is_checked:
            checks.apply_increment(self, message)
        if self.usage.is_exceeded(0):
            raise Refused(errors.INSUFFICIENT_RESOURCES)
        return True

    def store_checked(self, message: Incoming) -> int:
        """Store a message that has been checked, or use up a sequence; raises Refused."""
        if self._is_interest and not self.consumers.has_interest(message.subject):
            return self._skip(message)
        return self._store(message)

    def _store(self, message: Incoming) -> int:
        """Store a message that passed the checks; raises Refused."""
        subject = message.subject
        republisher = self.republisher
        republished = republisher.subject_for(subject) if republisher is not None else None
        before = self.store.last_for_subject(subject) if republished else 0
        if self.usage.would_exceed_account(self.contents.size_of(message)):
            raise Refused(errors.ACCOUNT_RESOURCES_EXCEEDED)
        self._read_ttl(message)
        if self.contents.is_discard_new and (message.is_sourced or not message.is_checked):
            self.contents.check_room(message)
        try:
            seq = self.store.append(
                subject,
                message.headers,
                message.payload,
                message.time_ns or self.now_ns,
                message.seq,
                message.ttl_s,
                message.msg_id or None,
            )
        except StoreError as error:
            raise Refused(_store_failed(error)) from None
        self._remember(message, seq)
        if self.contents.max_per_subject > 0:
            self.contents.trim_subject(subject, self.contents.max_per_subject)
        self._stored(seq, len(message.headers) + len(message.payload))
        if message.ttl_s:
            self.expiry.add(seq, self.store.last_time_ns, message.ttl_s)
        if self.config.allow_msg_schedules:
            self.schedules.stored(message, seq)
        if message.values:
            self._roll_up(message, 1)
        if republisher is not None and republished:
            republisher.send(
                self,
                republished,
                republisher.headers_for(self, message, seq, before),
                republisher.payload_for(message),
            )
        if self.followers or len(self.consumers):
            self.readers.announce_soon()
        return seq

    def _stored(self, seq: int, size: int) -> None:
        """Called after a message has been stored."""
        self.backlog.stored(seq, size)
        self.contents.stored()
        if not self.is_expiry_armed:
            self.expiry.arm()

    def _skip(self, message: Incoming) -> int:
        """Use up a sequence for a message that no consumer is interested in."""
        seq = self.store.last_seq + 1
        try:
            self.store.skip_to(seq)
        except StoreError as error:
            raise Refused(_store_failed(error)) from None
        self.skipped_ns = self.now_ns
        self._remember(message, seq)
        self._roll_up(message, 0)
        return seq

    def _remember(self, message: Incoming, seq: int) -> None:
        """Note the id of the last message."""
        self.last_msg_id = message.msg_id
        if message.msg_id:
            self.dedup.add(message.msg_id, seq, self.now_ns)

    def _read_ttl(self, message: Incoming) -> None:
        """Read the TTL; raise it to the markers' TTL, because the markers would be missed else."""
        value = message.value(names.TTL)
        if not value:
            return
        ttl_s = parse_ttl(value)
        if ttl_s == INVALID:
            raise Refused(errors.MESSAGE_TTL_INVALID)
        least_s = self.config.subject_delete_marker_ttl_ns // _SECOND_NS
        if 0 < ttl_s < least_s and self.contents.max_per_subject != 1:
            ttl_s = least_s
            message.headers = headers.add(
                headers.remove(message.headers, names.TTL), names.TTL, b"%d" % ttl_s
            )
        if self.config.allow_msg_ttl:
            message.ttl_s = ttl_s

    def _roll_up(self, message: Incoming, keep: int) -> None:
        """Remove what a roll-up replaces, and the schedule that a message ends."""
        if not self.allows_rollup:
            return
        if message.rollup == names.ROLLUP_SUBJECT:
            self.purge(message.subject, 0, keep)
        elif message.rollup == names.ROLLUP_ALL:
            self.purge(None, 0, keep)
        scheduler = message.value(names.SCHEDULER)
        if scheduler and message.value(names.SCHEDULE_NEXT) == b"purge":
            self.purge(scheduler, 0, 0)

    # What other parts keep.

    def is_schedule(self, subject: bytes) -> bool | None:
        """See `StreamHost.is_schedule`."""
        return self.schedules.is_schedule(subject)

    def save_origins(self) -> None:
        """See `StreamHost.save_origins`."""
        self.origins.save()

    # Removing.

    def purge(self, subject: bytes | None, upto_seq: int, keep: int) -> int:
        """Remove messages of a subject, below a sequence, but the newest; return how many."""
        return removal.purge_now(self, subject, upto_seq, keep)

    # Answers.

    def acknowledge_batch(self, message: Incoming, seq: int) -> None:
        """See `StreamHost.acknowledge_batch`."""
        self.acknowledge(message, seq, self._ack_tail(message))

    def acknowledge(self, message: Incoming, seq: int, tail: bytes) -> None:
        """See `StreamHost.acknowledge`."""
        if self.acks and message.reply:
            body = self.ack_head + b"%d" % seq + tail
            self.answers.send(message.reply, _NO_BYTES, body, True)

    def _ack_tail(self, message: Incoming) -> bytes:
        if message.batch_id is not None:
            return b',"batch":%b,"count":%d}' % (
                quote(message.batch_id).encode("utf-8", "surrogateescape"),
                message.batch_size,
            )
        if message.counter_value is not None:
            return b',"val":"%b"}' % message.counter_value.encode()
        return b"}"

    def _refuse(self, reply: bytes, error: ApiError) -> None:
        """Answer that a message is not stored."""
        if self.acks and reply:
            self.answers.send(reply, _NO_BYTES, self.refusal(error), False)

    def _overload(self, reply: bytes) -> None:
        """Answer at once that too much waits for the disk; the answer rests on nothing stored."""
        self.surroundings.bounds.overloaded()
        if self.acks and reply:
            self.sink.send(
                reply, _NO_BYTES, _OVERLOADED, self.refusal(errors.STREAM_TOO_MANY_REQUESTS)
            )

    def refuse(self, message: Incoming, error: ApiError) -> None:
        """See `StreamHost.refuse`."""
        self._refuse(message.reply, error)

    def refusal(self, error: ApiError) -> bytes:
        """Return the answer to a message that is refused."""
        fields: dict[str, Any] = {"error": error.fields(), "stream": text(self.name), "seq": 0}
        return encode(fields)

    def lost(self, error: StoreError) -> None:
        """Take back what a failed sync has lost, and answer the publishers."""
        self.dedup.take_back(self.store.last_seq)
        self.last_msg_id = _NO_BYTES
        self.contents.account()
        self.answers.fail(self.refusal(_store_failed(error)))
        for consumer in self.consumers:
            consumer.receivers.disk_answered()


def _ignore(_: object) -> None:
    """Take no note."""


def _store_failed(error: StoreError) -> ApiError:
    return errors.STREAM_STORE_FAILED.fill(err=error)
