"""Replay: send recorded messages to a NATS server again, at their own pace, faster or flat out.

This module uses one process without Spark; `midge.pipeline.replay.on_spark` spreads the same work
over a cluster. Messages are sent in the order in which they were recorded.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from midge.client.client import NatsClient
from midge.client.errors import OptionError
from midge.client.options import ClientOptions
from midge.pipeline.errors import PublishError
from midge.pipeline.records.files import BadSegment, read_segment, servers_and_segments
from midge.pipeline.records.format import MESSAGES
from midge.pipeline.subject_rewriting import Rewrite, rewrite_subject
from midge.protocol.client_side import publish_frame
from midge.sublist.subjects import is_valid_subject, matches

if TYPE_CHECKING:
    from midge.pipeline.records.format import DataSet

COLUMNS = ("time", "account", "subject", "reply", "headers", "payload", "size")
"""The fields of a message that replay uses."""

_FLUSH_BYTES = 64 * 1024
_MESSAGES_PER_PING = 10_000


@dataclass(frozen=True)
class ReplayOptions:
    """The source, target and pace of a replay."""

    connect: ClientOptions
    subjects: tuple[str, ...] = ()
    """Patterns: messages that match any of them are sent; without patterns, all messages are."""
    accounts: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    rewrites: tuple[Rewrite, ...] = ()
    speed: float | None = 1.0
    """1 is the original pace, 10 ten times as fast, None flat out."""
    keep_reply: bool = True
    """Whether requests are sent with their reply subjects."""

    def __post_init__(self) -> None:
        if self.speed is not None and self.speed <= 0:
            raise OptionError(f"speed: expected more than 0, got {self.speed:g}")
        for pattern in self.subjects:
            if not is_valid_subject(pattern.encode()):
                raise OptionError(f"subject: {pattern!r} is not a valid subject")


@dataclass
class Replayed:
    """Counts of a replay so far."""

    messages: int = 0
    bytes: int = 0
    skipped: int = 0
    """Messages that the filters excluded."""
    padded: int = 0
    """Messages recorded without their payload, sent with as many zero bytes."""
    bad_segments: list[BadSegment] = field(default_factory=list)

    def add(self, other: "Replayed") -> None:
        """Add the counts of `other`."""
        self.messages += other.messages
        self.bytes += other.bytes
        self.skipped += other.skipped
        self.padded += other.padded
        self.bad_segments += other.bad_segments


@dataclass(frozen=True)
class Outgoing:
    """A message ready to be sent: the time of its recording, in seconds, and its frame."""

    time_s: float
    subject: str
    frame: bytes
    size: int
    is_padded: bool


class Pacer:
    """Computes waits that keep the recorded distances between messages, divided by `speed`."""

    def __init__(
        self,
        speed: float | None,
        first_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._speed = speed
        self._first_s = first_s
        self._clock = clock
        self._begun_s = clock()

    def delay_s(self, time_s: float) -> float:
        """Return the time until a message recorded at `time_s` is due, 0 if it is due now."""
        if self._speed is None:
            return 0.0
        due_s = self._begun_s + (time_s - self._first_s) / self._speed
        return max(0.0, due_s - self._clock())


def replay(
    records: Path,
    options: ReplayOptions,
    progress: Callable[[Replayed], None] = lambda _: None,
) -> Replayed:
    """Send the recorded messages to the server; return when it has handled all of them.

    Raises:
        ServerError: the server cannot be reached or went away.
        PublishError: it refused messages.
    """
    done = Replayed()
    with NatsClient(options.connect) as client:
        outgoing = prepare(_in_order(records, done), options, done)
        publish(client, outgoing, options.speed, done, progress)
    return done


def publish(
    client: NatsClient,
    outgoing: Iterable[Outgoing],
    speed: float | None,
    done: Replayed,
    progress: Callable[[Replayed], None] = lambda _: None,
    first_s: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send messages at their pace, counted from `first_s` or else from the first of them.

    Raises:
        PublishError: the server refused messages; the text has its first error.
    """
    buffer = bytearray()
    pacer: Pacer | None = None
    for message in outgoing:
        if pacer is None:
            pacer = Pacer(speed, message.time_s if first_s is None else first_s)
        delay_s = pacer.delay_s(message.time_s)
        if delay_s > 0:
            _flush(client, buffer)
            progress(done)
            sleep(delay_s)
        buffer += message.frame
        done.messages += 1
        done.bytes += message.size
        done.padded += message.is_padded
        if len(buffer) >= _FLUSH_BYTES:
            _flush(client, buffer)
        if done.messages % _MESSAGES_PER_PING == 0:
            # This bounds the unread output, and lets the server's errors arrive.
            _settle(client, buffer)
            progress(done)
    _settle(client, buffer)
    progress(done)


def prepare(
    batches: Iterable[pa.RecordBatch], options: ReplayOptions, done: Replayed
) -> Iterator[Outgoing]:
    """Yield the messages that pass the filters, rewritten and framed, in the given order."""
    targets: dict[str, str | None] = {}
    for whole in batches:
        batch = _in_range(whole, options)
        done.skipped += len(whole) - len(batch)
        for row in batch.to_pylist():
            subject = row["subject"]
            if subject not in targets:
                targets[subject] = target_of(subject, options)
            target = targets[subject]
            if target is None:
                done.skipped += 1
            else:
                yield _outgoing(row, target, keep_reply=options.keep_reply)


def target_of(subject: str, options: ReplayOptions) -> str | None:
    """Return the target of a recorded subject, or None if the filters exclude it."""
    literal = subject.encode()
    if options.subjects and not any(matches(literal, p.encode()) for p in options.subjects):
        return None
    return rewrite_subject(subject, options.rewrites)


def header_block(headers: Sequence[tuple[str, Sequence[str]]] | None) -> bytes:
    """Return the wire form of recorded headers, or b"" without headers."""
    if not headers:
        return b""
    lines = [f"{name}: {value}\r\n" for name, values in headers for value in values]
    return ("NATS/1.0\r\n" + "".join(lines) + "\r\n").encode()


def _outgoing(row: dict[str, Any], target: str, *, keep_reply: bool) -> Outgoing:
    headers = header_block(row["headers"])
    payload = row["payload"]
    is_padded = payload is None and row["size"] > 0
    if payload is None:
        payload = bytes(max(0, row["size"] - len(headers)))
    reply = row["reply"].encode() if keep_reply and row["reply"] else b""
    data = publish_frame(target.encode(), reply, headers, payload)
    time_s = row["time"].timestamp()
    return Outgoing(time_s, target, data, len(headers) + len(payload), is_padded)


def _in_range(batch: pa.RecordBatch, options: ReplayOptions) -> pa.RecordBatch:
    """Keep the rows of the wanted accounts and times."""
    if options.accounts:
        batch = batch.filter(pc.is_in(batch["account"], pa.array(options.accounts)))
    for bound, keeps in ((options.since, pc.greater_equal), (options.until, pc.less)):
        if bound is not None:
            limit = pa.scalar(bound, MESSAGES.schema.field("time").type)
            batch = batch.filter(keeps(batch["time"], limit))
    return batch


def _in_order(root: Path, done: Replayed) -> Iterator[pa.RecordBatch]:
    """Yield the recorded messages in order of time.

    One server's segments are already in order; the segments of several servers are merged row by
    row.
    """
    sequences = [
        _read_all(paths, MESSAGES, done) for _, paths in servers_and_segments(root, MESSAGES)
    ]
    if len(sequences) == 1:
        return sequences[0]
    rows = (_single_rows(sequence) for sequence in sequences)
    return (row for _, row in heapq.merge(*rows, key=lambda pair: pair[0]))


def _read_all(
    paths: Iterable[Path], data_set: "DataSet", done: Replayed
) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield from read_segment(path, data_set, COLUMNS, done.bad_segments.append)


def _single_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        times = batch["time"].cast(pa.int64()).to_pylist()
        for index, microseconds in enumerate(times):
            yield microseconds, batch.slice(index, 1)


def _settle(client: NatsClient, buffer: bytearray) -> None:
    """Send the rest, wait until the server has handled everything, and raise its errors."""
    _flush(client, buffer)
    client.ping()
    if client.errors:
        raise PublishError(f"the server refused messages: {client.errors[0]}")


def _flush(client: NatsClient, buffer: bytearray) -> None:
    if buffer:
        client.send(bytes(buffer))
        buffer.clear()
