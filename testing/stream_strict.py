"""Strict mode for streams: find missing, repeated and late acks, and wrong publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from midge.jetstream import headers as header_block
from midge.jetstream.consumer import acks
from midge.jetstream.json.encode import text
from midge.jetstream.json.times import format_duration
from midge.jetstream.stream import incoming as names
from midge.server.jetstream.ingest import StreamSubscription

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.jetstream.consumer.consumer import Consumer
    from midge.jetstream.stream.stream import Stream
    from midge.protocol.frame import Frame
    from midge.server.jetstream.account import AccountEngine
    from midge.server.jetstream.engine import Engine
    from midge.server.routing.account import Account

_ACK_PREFIX = b"$JS.ACK."
_OWN_PREFIX = b"$JS."
_TOKENS = 9  # of $JS.ACK.<stream>.<consumer>.<5 numbers>; the second form has two more
_SHOWN_MAX = 5  # most sequences that a line names
_KEPT_MAX = 100_000

_DIGITS_MAX = 20  # of a 64-bit number
_SEQUENCES = (names.EXPECTED_LAST_SEQ, names.EXPECTED_LAST_SUBJECT_SEQ)


class _Ack(NamedTuple):
    """The fields of an ack's subject."""

    stream: str
    consumer: bytes
    deliveries: int
    seq: int

    @classmethod
    def read(cls, subject: bytes) -> _Ack | None:
        tokens = subject.split(b".")
        if len(tokens) != _TOKENS:
            tokens = [*tokens[:2], *tokens[4 : _TOKENS + 2]]
        if len(tokens) < _TOKENS or not (tokens[4].isdigit() and tokens[5].isdigit()):
            return None
        return cls(text(tokens[2]), tokens[3], int(tokens[4]), int(tokens[5]))


class StreamStrict:
    """Finds the mistakes of clients with the streams of one server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._acked: dict[tuple[str, bytes], None] = {}
        self._answered: dict[tuple[Consumer, int], int] = {}
        self._reported: set[tuple[Consumer, int, int]] = set()

    def check_publish(self, account: Account, frame: Frame) -> Iterator[str]:
        """Yield the faults of a message that a client has sent."""
        subject = frame.subject_bytes()
        if subject.startswith(_ACK_PREFIX):
            yield from self._check_ack(account.name, subject, frame.payload_bytes())
        elif not subject.startswith(_OWN_PREFIX):
            streams = _streams_for(account, subject)
            values = header_block.nats_headers(frame.header_bytes() or b"") or {}
            yield from _check_confirmation(account, frame, streams, values)
            yield from _check_expectations(subject, streams, values)

    def unacknowledged(self) -> list[str]:
        """Return a line per consumer about its unanswered messages; report each message once."""
        found = []
        for account in self._engine.accounts.values():
            for stream in account.streams.streams.values():
                for consumer in stream.consumers:
                    waiting = list(self._unanswered(consumer))
                    if waiting:
                        found.append(_describe(stream, consumer, waiting))
        return found

    def is_owed_acks(self) -> bool:
        """Return whether a message has been delivered and not answered, reported or not."""
        return any(
            self._answered.get((consumer, seq), 0) < _deliveries(consumer, seq)
            for account in self._engine.accounts.values()
            for stream in account.streams.streams.values()
            for consumer in stream.consumers
            if consumer.acks.takes_acks()
            for seq in consumer.acks.pending.entries
        )

    def _unanswered(self, consumer: Consumer) -> Iterator[tuple[int, int]]:
        """Yield sequence and number of deliveries of each unacknowledged message."""
        if not consumer.acks.takes_acks():
            return
        for seq in sorted(consumer.acks.pending.entries):
            deliveries = _deliveries(consumer, seq)
            delivery = (consumer, seq, deliveries)
            if (
                self._answered.get((consumer, seq), 0) < deliveries
                and delivery not in self._reported
            ):
                self._reported.add(delivery)
                yield seq, deliveries

    # Acks.

    def _check_ack(self, account: str, subject: bytes, body: bytes) -> Iterator[str]:
        ack = _Ack.read(subject)
        if ack is None:
            yield f"ack on {text(subject)!r}, which no message asks for"
            return
        name = f"message {ack.seq} of consumer {text(ack.consumer)!r} (stream {ack.stream})"
        jetstream = self._engine.accounts.get(account)
        consumer = None if jetstream is None else _consumer(jetstream, ack)
        if consumer is None:
            yield f"ack of {name}, which is not there"
        elif not consumer.acks.takes_acks():
            yield f"ack of {name}, whose ack policy is none"
        elif ack.seq > consumer.host.store.last_seq:
            yield f"ack of {name}, which the stream has not got"
        else:
            yield from self._check_known(consumer, ack, name, (account, subject), body)

    def _check_known(
        self, consumer: Consumer, ack: _Ack, name: str, key: tuple[str, bytes], body: bytes
    ) -> Iterator[str]:
        kind = acks.kind_of(body)
        if kind == acks.OTHER:
            yield f"ack of {name} with the payload {body[:20]!r}, which means nothing"
            return
        if key in self._acked:
            yield f"{name} is acknowledged a second time"
            return
        if _is_late(consumer, ack):
            wait = format_duration(consumer.config.ack_wait_ns)
            yield f"ack of {name} after its ack wait ({wait}): it comes, or has come, again"
        if kind != acks.PROGRESS:
            _keep(self._acked, key, None)
            _keep(self._answered, (consumer, ack.seq), ack.deliveries)
            self._answer_before(consumer, ack)

    def _answer_before(self, consumer: Consumer, ack: _Ack) -> None:
        """Record the earlier messages that an ack answers as well under the policy `all`."""
        if consumer.config.ack_policy == "all":
            for seq in consumer.acks.pending.entries:
                if seq < ack.seq:
                    _keep(self._answered, (consumer, seq), _deliveries(consumer, seq))


# Publishes.


def _check_confirmation(
    account: Account, frame: Frame, streams: list[Stream], values: dict[bytes, bytes]
) -> Iterator[str]:
    """Yield a fault if the client does not read the PubAck of a message."""
    if not any(stream.acks for stream in streams) or names.BATCH_ID in values:
        return
    subject, reply = text(frame.subject_bytes()), frame.reply_bytes()
    taker = f"stream {streams[0].config.name} takes"
    if reply is None:
        yield f"publish to {subject!r}, which {taker}, asks for no confirmation (PubAck)"
    elif not account.sublist.match(reply):
        yield f"publish to {subject!r}, which {taker}: nobody reads its confirmation (PubAck)"


def _check_expectations(
    subject: bytes, streams: list[Stream], values: dict[bytes, bytes]
) -> Iterator[str]:
    """Yield the faults in a publisher's expectations; losing a race to another is no fault."""
    expected = [name for name in values if name.startswith(b"Nats-Expected-")]
    if not expected:
        return
    where = f"publish to {text(subject)!r}"
    if not streams:
        yield f"{where} with {text(expected[0])}: no stream takes it"
        return
    wanted = values.get(names.EXPECTED_STREAM)
    if wanted is not None and wanted not in [stream.name for stream in streams]:
        yield f"{where} expects stream {text(wanted)}, and {streams[0].config.name} takes it"
    last_seq = max(stream.store.last_seq for stream in streams)
    for name in _SEQUENCES:
        value = values.get(name)
        if value is None:
            continue
        if not value.isdigit() or len(value) > _DIGITS_MAX:
            yield f"{where} with {text(name)}: expected a number, got {text(value)!r}"
        elif int(value) > last_seq:
            yield f"{where} with {text(name)} {int(value)}, and the stream has come to {last_seq}"
    if (
        names.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT in values
        and names.EXPECTED_LAST_SUBJECT_SEQ not in values
    ):
        yield f"{where} names the subject of an expected sequence, and no sequence"


def _streams_for(account: Account, subject: bytes) -> list[Stream]:
    found = account.sublist.match(subject).plain
    return [one.stream for one in found if isinstance(one, StreamSubscription)]


# Consumers.


def _consumer(jetstream: AccountEngine, ack: _Ack) -> Consumer | None:
    stream = jetstream.streams.streams.get(ack.stream)
    return None if stream is None else stream.consumers.get(ack.consumer)


def _deliveries(consumer: Consumer, seq: int) -> int:
    """Return the number of deliveries of a message that awaits its ack."""
    return 1 + max(consumer.acks.redelivered.get(seq, 0), 0)


def _is_late(consumer: Consumer, ack: _Ack) -> bool:
    """Return whether a message was redelivered, is due for redelivery, or was given up."""
    entry = consumer.acks.pending.get(ack.seq)
    if entry is None:
        is_last = 0 < consumer.config.max_deliver <= ack.deliveries
        return is_last and ack.seq in consumer.acks.redelivered
    if _deliveries(consumer, ack.seq) > ack.deliveries or consumer.acks.pending.is_queued(entry):
        return True
    return 0 < entry.due_ns <= consumer.host.clock.monotonic_ns()


def _describe(stream: Stream, consumer: Consumer, waiting: list[tuple[int, int]]) -> str:
    shown = [
        f"{seq} (delivered {deliveries} times)" if deliveries > 1 else str(seq)
        for seq, deliveries in waiting[:_SHOWN_MAX]
    ]
    more = f" and {len(waiting) - _SHOWN_MAX} more" if len(waiting) > _SHOWN_MAX else ""
    counted = "1 message is" if len(waiting) == 1 else f"{len(waiting)} messages are"
    return (
        f"consumer {text(consumer.name)!r} of stream {stream.config.name}: {counted} not "
        f"acknowledged: {', '.join(shown)}{more}"
    )


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    """Add an entry, and drop the oldest of too many."""
    kept[key] = value
    if len(kept) > _KEPT_MAX:
        del kept[next(iter(kept))]
