"""The `nats` sink: batch and streaming writes of rows to subjects.

Columns: `payload` (binary or text), `subject` unless the option gives one for all rows, and where
wanted `headers` (a map of text to a list of texts, or to a text), `msg_id`, and the source's
`stream` and `sequence`. Through JetStream every row carries a `Nats-Msg-Id`, so that a row written
again after a failure is stored once, as long as both attempts are within the stream's duplicate
window.
"""

import json
import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from midge.client.client import Backoff, NatsClient
from midge.client.errors import AuthorizationError, OptionError, ServerError
from midge.client.headers import parse_headers
from midge.pipeline.errors import PublishError
from midge.pipeline.spark_source.options import SinkOptions
from midge.pipeline.spark_source.spark_worker import plain_errors
from midge.protocol.client_side import ReceivedMessage, publish_frame
from midge.sublist import subjects

MSG_ID_HEADER = "Nats-Msg-Id"
_EXPECTED_STREAM_HEADER = "Nats-Expected-Stream"
_BUCKET_PREFIX = b"$KV."
_BATCH_ID_PROPERTY = "streaming.sql.batchId"
_QUERY_ID_PROPERTY = "sql.streaming.queryId"
_SEND_BYTES = 1 << 16
SEEN_ROWS = 1 << 16
"""Different rows over which equal ones are counted: about 10 MB of digests."""
_NO_RESPONDERS = 503

_TEXT, _BINARY = StringType(), BinaryType()
COLUMNS = {
    "subject": (_TEXT,),
    "payload": (_BINARY, _TEXT),
    "headers": (MapType(_TEXT, ArrayType(_TEXT)), MapType(_TEXT, _TEXT)),
    "msg_id": (_TEXT,),
    "stream": (_TEXT,),
    "sequence": (LongType(),),
}
"""The columns that the sink takes, with their types."""

_log = logging.getLogger(__name__)


class _Identity(NamedTuple):
    """The values that name a row: its own id, those of `idColumns`, stream and sequence."""

    msg_id: str | None
    key: list[Any]
    source: tuple[str | None, int] | None


class Row(NamedTuple):
    """One row, ready for the wire. `number` counts from 0 within the partition."""

    number: int
    subject: bytes
    headers: bytes
    payload: bytes


@dataclass
class Written(WriterCommitMessage):
    """Counts of one task; `duplicates` were already in the stream."""

    rows: int
    duplicates: int


class _Sink:
    """Base of the batch and the streaming writer."""

    _write_id = ""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options

    @plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one partition, on an executor.

        Raises:
            PublishError: a row was refused; the text names it.
        """
        task = TaskContext.get()
        partition = task.partitionId() if task else 0
        scope = _id_scope(task, self._write_id)
        rows = RowReader(self._options, scope, partition).rows(iterator)
        if self._options.mode == SinkOptions.CORE:
            with CorePublisher(self._options, partition) as core:
                return core.publish(rows)
        with JetStreamPublisher(self._options, partition) as publisher:
            return publisher.publish(rows)

    def _report(self, messages: list[WriterCommitMessage | None]) -> None:
        written = [message for message in messages if isinstance(message, Written)]
        duplicates = sum(message.duplicates for message in written)
        if duplicates:
            _log.info(
                "%d rows written, %d of them were in the stream already",
                sum(message.rows for message in written),
                duplicates,
            )


class NatsWriter(_Sink, DataSourceArrowWriter):
    """A batch write. Made once, on the driver: a repeated task has the same ids as the first."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._write_id = secrets.token_hex(8)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how many rows the stream had already."""
        self._report(messages)


class NatsStreamWriter(_Sink, DataSourceStreamArrowWriter):
    """A streaming write: one call of `write` per partition and micro-batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log how many rows the stream had already."""
        self._report(messages)


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Raise `OptionError` if a column is none of the sink's columns, or one is missing."""
    names = set(schema.fieldNames())
    for name in options.id_columns:
        if name not in names:
            raise OptionError(f"idColumns: there is no column {name}")
    for column in schema.fields:
        _check_column(column, options)
    if "payload" not in names:
        raise OptionError("column payload: expected one, binary or string")
    if ("subject" in names) == bool(options.subject):
        raise OptionError("subject: expected either a column or the option, exactly one of them")
    if options.mode == SinkOptions.CORE:
        if "msg_id" in names:
            raise OptionError("column msg_id: expected only with mode jetstream")
        if options.id_columns:
            raise OptionError("idColumns: expected only with mode jetstream")


def _check_column(column: StructField, options: SinkOptions) -> None:
    types = COLUMNS.get(column.name)
    if types is None:
        if options.ignores_extra_columns or column.name in options.id_columns:
            return
        raise OptionError(
            f"column {column.name}: expected only {', '.join(COLUMNS)}; select those, or set "
            "extraColumns to ignore"
        )
    if not any(_same_type(column.dataType, wanted) for wanted in types):
        raise OptionError(
            f"column {column.name}: expected {' or '.join(t.simpleString() for t in types)}, "
            f"got {column.dataType.simpleString()}"
        )


def _same_type(one: object, other: object) -> bool:
    """Compare Spark types without their nullability."""
    if isinstance(one, MapType) and isinstance(other, MapType):
        return _same_type(one.keyType, other.keyType) and _same_type(one.valueType, other.valueType)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return _same_type(one.elementType, other.elementType)
    return type(one) is type(other)


def _id_scope(task: TaskContext | None, write_id: str) -> bytes:
    """Return what the ids of one write have in common: a batch write's id, or query and batch."""
    parts = [write_id]
    if task is not None and not write_id:
        parts += [task.getLocalProperty(_QUERY_ID_PROPERTY) or ""]
        parts += [task.getLocalProperty(_BATCH_ID_PROPERTY) or ""]
    return "/".join(parts).encode()


class RowReader:
    """Turns Arrow batches into rows for the wire and gives each its message id.

    The id is the `msg_id` column or the `Nats-Msg-Id` header. Else it is a digest of the scope and

    - the values of `idColumns`, which name the row whatever it holds; or
    - the columns `stream` and `sequence` with the row's content, and how many equal rows of that
      message came just before it: the same ids however the rows are partitioned; or
    - the partition with the row's content, and how many equal rows came before it in the
      partition. The partition keeps equal rows of two partitions apart, so none of them is lost.

    Equal rows are counted over `SEEN_ROWS` different ones at most, and the count of such blocks is
    part of the id, so that memory is bounded.
    """

    def __init__(self, options: SinkOptions, scope: bytes, partition: int = 0) -> None:
        self._options = options
        self._scope = scope
        self._partition = partition
        self._source: tuple[str | None, int] | None = None
        self._seen: dict[bytes, int] = {}
        self._block = 0

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        """Yield the rows in order.

        Raises:
            PublishError: a row has no subject, no payload, or one that cannot be sent.
        """
        number = 0
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in self._wanted(batch)}
            nothing = [None] * batch.num_rows
            fixed = [self._options.subject] * batch.num_rows
            for subject, payload, headers, msg_id, stream, sequence, *key in zip(
                columns.get("subject", fixed),
                columns["payload"],
                columns.get("headers", nothing),
                columns.get("msg_id", nothing),
                columns.get("stream", nothing),
                columns.get("sequence", nothing),
                *(columns[name] for name in self._options.id_columns),
                strict=True,
            ):
                source = None if sequence is None else (stream, sequence)
                yield self._row(number, subject, payload, headers, _Identity(msg_id, key, source))
                number += 1

    def _wanted(self, batch: pa.RecordBatch) -> set[str]:
        """Return the names of the columns that rows are made of; others are not even decoded."""
        return {*COLUMNS, *self._options.id_columns}.intersection(batch.schema.names)

    def _row(
        self,
        number: int,
        subject: str | None,
        payload: bytes | str | None,
        headers: list[tuple[str, list[str | None] | str | None]] | None,
        identity: "_Identity",
    ) -> Row:
        try:
            wire_subject = _checked_subject(subject)
            lines = [line for name, value in headers or () for line in _header_lines(name, value)]
            if payload is None:
                if not wire_subject.startswith(_BUCKET_PREFIX):
                    raise ValueError("payload is null")
                # As a tombstone in Kafka: the key is deleted.
                payload = b""
                if not any(line.lower().startswith(b"kv-operation:") for line in lines):
                    lines += _header_lines("KV-Operation", "DEL")
            body = payload.encode() if isinstance(payload, str) else bytes(payload)
            if self._options.mode == SinkOptions.JETSTREAM:
                given = identity.msg_id or _take_msg_id(lines)
                chosen = given or self._derived_id(identity, wire_subject, lines, body)
                lines += _header_lines(MSG_ID_HEADER, chosen)
                if self._options.stream:
                    lines += _header_lines(_EXPECTED_STREAM_HEADER, self._options.stream)
        except ValueError as error:
            raise PublishError(f"{where(self._partition, number, subject)}: {error}") from error
        block = b"NATS/1.0\r\n%b\r\n" % b"".join(lines) if lines else b""
        return Row(number, wire_subject, block, body)

    def _derived_id(
        self, identity: "_Identity", subject: bytes, headers: list[bytes], payload: bytes
    ) -> str:
        if identity.key:
            return self._digest(b"key", repr(identity.key).encode()).hex()
        if identity.source != self._source:
            self._source, self._block = identity.source, 0
            self._seen.clear()
        elif len(self._seen) >= SEEN_ROWS:
            self._block += 1
            self._seen.clear()
        origin = repr(self._partition if self._source is None else self._source).encode()
        key = self._digest(origin, b"%d" % self._block, subject, b"".join(headers), payload)
        before = self._seen.get(key, 0)
        self._seen[key] = before + 1
        return f"{key.hex()}-{before}" if before else key.hex()

    def _digest(self, *parts: bytes) -> bytes:
        digest = blake2b(self._scope, digest_size=16)
        for part in parts:
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.digest()


def where(partition: int, number: int, subject: bytes | str | None) -> str:
    """Name a row for an error text."""
    name = subject.decode(errors="backslashreplace") if isinstance(subject, bytes) else subject
    return f"row {number} of partition {partition} (subject {name!r})"


@lru_cache(maxsize=4096)
def _checked_subject(subject: str | None) -> bytes:
    if subject is None:
        raise ValueError("subject is null")
    wire = subject.encode()
    if not subjects.is_valid_publish_subject(wire):
        raise ValueError("expected a subject without wildcards, blanks and empty tokens")
    return wire


def _take_msg_id(lines: list[bytes]) -> str:
    """Take the id that came as a header out of `lines`: a mirrored message keeps its own."""
    prefix = f"{MSG_ID_HEADER}: ".encode().lower()
    found = [line for line in lines if line.lower().startswith(prefix)]
    lines[:] = [line for line in lines if line not in found]
    return found[0][len(prefix) :].decode().strip() if found else ""


def _header_lines(name: str, value: Sequence[str | None] | str | None) -> list[bytes]:
    """Return one line per value, refusing what would end the line or the name early."""
    values = [value] if value is None or isinstance(value, str) else value
    lines = []
    for text in values:
        if not name or any(byte <= " " or byte in ":\x7f" for byte in name):
            raise ValueError(f"header {name!r}: expected a name without blanks and colons")
        if text is None or "\r" in text or "\n" in text:
            raise ValueError(f"header {name}: expected one line of text, got {text!r}")
        lines.append(f"{name}: {text}\r\n".encode())
    return lines


class _Publisher:
    """Sends rows in large writes, keeps those that are not done, and sends them again.

    A lost connection is made again until `requestTimeout` has passed without a row being done.
    """

    def __init__(self, options: SinkOptions, partition: int) -> None:
        self._options = options
        self._partition = partition
        self._buffer = bytearray()
        self._waiting: dict[bytes, Row] = {}
        """The rows that are not known to be done, in order, by the text of their number."""
        self._backoff = Backoff(options.connect.request_timeout_s, f"writing partition {partition}")
        self._client: NatsClient | None = None

    def __enter__(self) -> Self:
        """Return the publisher itself; it connects for the first row."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    @property
    def _connection(self) -> NatsClient:
        """The connection; the first use opens it and sends the waiting rows."""
        while self._client is None:
            try:
                self._client = NatsClient(self._options.connect)
                self._opened(self._client)
            except AuthorizationError:
                raise
            except ServerError as error:
                self._lost(error)
            else:
                self._buffer.clear()
                for row in self._waiting.values():
                    self._buffer += self._frame(row)
        return self._client

    def _opened(self, client: NatsClient) -> None:
        """Prepare a new connection."""

    def _lost(self, error: ServerError) -> None:
        """Give the connection up and wait before the next attempt.

        Raises:
            PublishError: the time for attempts is over; the text names the first waiting row.
        """
        if self._client is not None:
            self._client.close()
        self._client = None
        try:
            self._backoff.wait(error)
        except ServerError:
            if not self._waiting:
                raise
            first = next(iter(self._waiting.values()))
            raise PublishError(
                f"{self._where(first)} and {len(self._waiting) - 1} after it were not "
                f"acknowledged: {error}"
            ) from error

    def _append(self, row: Row) -> None:
        """Add a row to the waiting ones, and send when enough has come together."""
        client = self._connection
        size, limit = len(row.headers) + len(row.payload), client.max_payload_bytes
        if size > limit:
            raise PublishError(
                f"{self._where(row)}: {size} bytes with headers, the server takes at most {limit}"
            )
        self._waiting[b"%d" % row.number] = row
        self._buffer += self._frame(row)
        if len(self._buffer) >= _SEND_BYTES:
            try:
                self._send(client)
            except ServerError as error:
                self._lost(error)

    def _frame(self, row: Row) -> bytes:
        return publish_frame(row.subject, b"", row.headers, row.payload)

    def _send(self, client: NatsClient) -> None:
        if self._buffer:
            client.send(bytes(self._buffer))
            self._buffer.clear()

    def _where(self, row: Row) -> str:
        return where(self._partition, row.number, row.subject)


class CorePublisher(_Publisher):
    """Publishes without JetStream: done when the server has read it, subscribers or not."""

    def publish(self, rows: Iterator[Row]) -> Written:
        """Publish all rows, asking the server after each window whether all is well.

        Raises:
            PublishError: the server refused a row; the text names it.
        """
        total = 0
        for row in rows:
            self._append(row)
            total += 1
            if len(self._waiting) >= self._options.ack_window:
                self._confirm()
        self._confirm()
        return Written(total, 0)

    def _confirm(self) -> None:
        while self._waiting:
            client = self._connection
            try:
                self._send(client)
                client.ping()
            except ServerError as error:
                self._lost(error)
            else:
                self._raise_refusal(client)
                self._backoff.succeeded()
                self._waiting.clear()

    def _raise_refusal(self, client: NatsClient) -> None:
        rows = list(self._waiting.values())
        for text in client.errors:
            for row in rows:
                if f'"{row.subject.decode()}"' in text:
                    raise PublishError(f"{self._where(row)}: the server answers: {text}")
            raise PublishError(f"{self._where(rows[0])} or after it: the server answers: {text}")


class JetStreamPublisher(_Publisher):
    """Publishes to streams: done when every row's acknowledgement is there."""

    def __init__(self, options: SinkOptions, partition: int) -> None:
        super().__init__(options, partition)
        self._inbox = b""
        self._duplicates = 0

    def publish(self, rows: Iterator[Row]) -> Written:
        """Publish all rows, with at most a window of them not yet acknowledged.

        Raises:
            PublishError: a row was refused, or not acknowledged in time; the text names it.
        """
        total = 0
        for row in rows:
            self._append(row)
            total += 1
            if len(self._waiting) >= self._options.ack_window:
                self._collect(self._options.ack_window // 2)
        self._collect(0)
        return Written(total, self._duplicates)

    def _opened(self, client: NatsClient) -> None:
        self._inbox = client.new_inbox().replace(b"_INBOX.", b"_INBOX.ack.")
        client.subscribe(self._inbox + b".*")

    def _frame(self, row: Row) -> bytes:
        reply = b"%b.%d" % (self._inbox, row.number)
        return publish_frame(row.subject, reply, row.headers, row.payload)

    def _collect(self, most: int) -> None:
        """Take acknowledgements until at most `most` rows wait for theirs."""
        while len(self._waiting) > most:
            client = self._connection
            try:
                self._send(client)
                self._receive(client)
            except ServerError as error:
                self._lost(error)

    def _receive(self, client: NatsClient) -> None:
        """Take the acknowledgements of one read."""
        deadline = time.monotonic() + self._options.ack_timeout_s
        while not (acks := client.receive(max(0.0, deadline - time.monotonic()))):
            self._raise_refusal(client)
            if time.monotonic() >= deadline:
                raise ServerError(f"no answer within {self._options.ack_timeout_s:g} s")
        for ack in acks:
            self._take(ack)
        self._raise_refusal(client)

    def _take(self, ack: ReceivedMessage) -> None:
        number = ack.subject.rpartition(b".")[2]
        row = self._waiting.get(number)
        if row is None:
            return
        if ack.headers and parse_headers(ack.headers).status == _NO_RESPONDERS:
            if self._backoff.is_failing:
                # A server that came back may still look for the leaders of its streams.
                raise ServerError("no stream takes the subject yet")
            raise PublishError(f"{self._where(row)}: no stream takes this subject")
        try:
            answer = json.loads(ack.payload)
            refusal, duplicate = answer.get("error"), answer.get("duplicate", False)
        except (ValueError, AttributeError) as error:
            raise PublishError(
                f"{self._where(row)}: not an acknowledgement: {ack.payload[:80]!r}"
            ) from error
        if refusal:
            raise PublishError(f"{self._where(row)}: {refusal.get('description', refusal)}")
        del self._waiting[number]
        self._backoff.succeeded()
        self._duplicates += bool(duplicate)

    def _raise_refusal(self, client: NatsClient) -> None:
        """Raise for the row that a permission error names: it will never be acknowledged."""
        for text in client.errors:
            for row in self._waiting.values():
                if f'"{row.subject.decode()}"' in text:
                    raise PublishError(f"{self._where(row)}: the server answers: {text}")
