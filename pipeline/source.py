"""The `nats` data source: batch and streaming reads from a JetStream stream.

    spark.dataSource.register(NatsDataSource)
    spark.read.format("nats").option("stream", "ORDERS").load()

Offsets are stream sequences with the stream's creation time and live in Spark's checkpoint alone;
nothing is acknowledged to the server. That is what makes a read repeatable, and a query exactly
once across any crash, as long as the stream still has the messages.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from midge.client.client import Backoff, NatsClient
from midge.client.errors import (
    AuthorizationError,
    OptionError,
    ServerError,
    StreamError,
    StreamNotFoundError,
)
from midge.client.jetstream import JetStreamApi, PullConsumer, StreamSummary
from midge.jetstream.json.times import parse_time
from midge.pipeline.errors import exit_on_error, sentence_of
from midge.pipeline.offsets import (
    EARLIEST,
    LATEST,
    Loss,
    Offset,
    find_loss,
    next_offset,
    resume_seq,
    starting_seq,
)
from midge.pipeline.spark_source.options import SinkOptions, SourceOptions
from midge.pipeline.spark_source.partitions import SequenceRange, split
from midge.pipeline.spark_source.pushdown import Narrowing, rfc3339
from midge.pipeline.spark_source.reader import (
    Columns,
    RangeReader,
    header_pairs,
    microseconds,
    subject_array,
)
from midge.pipeline.spark_source.sink import NatsStreamWriter, NatsWriter
from midge.pipeline.spark_source.spark_worker import handed_to_spark, plain_errors
from midge.pipeline.spark_source.store_reader import (
    StoredStream,
    stored_stream,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["exit_on_error", "latest_by_key", "register", "sentence_of"]

FORMAT = "nats"
IDLE_INTERVAL_S = 1.0
"""A streaming query without new messages asks for the stream's state once in this time."""
Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)


def register(spark: "SparkSession") -> None:
    """Make `format("nats")` known to a Spark session; again does no harm."""
    spark.dataSource.register(NatsDataSource)


def latest_by_key(messages: "DataFrame") -> "DataFrame":
    """Return the keys of a bucket as they are now: the last message of each, without deleted ones.

    `messages` is the bucket's stream, read with `includeHeaders`. The column `key` comes before the
    source's columns.
    """
    from pyspark.sql import functions as sf

    columns = [name for name in messages.columns if name != "subject"]
    last = sf.max_by(sf.struct(*columns), "sequence").alias("last")
    operation = sf.element_at(sf.col("last.headers")["KV-Operation"], 1)
    is_marker = sf.col("last.headers")["Nats-Marker-Reason"].isNotNull()
    is_deleted = sf.coalesce(operation.isin("DEL", "PURGE"), sf.lit(False)) | sf.coalesce(
        is_marker, sf.lit(False)
    )
    key = sf.regexp_replace("subject", r"^\$KV\.[^.]*\.", "").alias("key")
    rows = messages.groupBy("subject").agg(last).where(~is_deleted)
    return rows.select(key, "subject", "last.*")


def source_schema(*, include_headers: bool) -> StructType:
    """Return the columns of the source."""
    columns = [
        StructField("stream", StringType(), nullable=False),
        StructField("sequence", LongType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),
        StructField("subject", StringType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
    ]
    if include_headers:
        columns.append(StructField("headers", MapType(StringType(), ArrayType(StringType()))))
    return StructType(columns)


class NatsDataSource(DataSource):
    """The data source of `format("nats")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    @plain_errors
    def schema(self) -> StructType:
        """Return the columns; `includeHeaders` adds one."""
        options = SourceOptions.parse(_plain(self.options))
        return source_schema(include_headers=options.include_headers)

    @plain_errors
    def reader(self, schema: StructType) -> "NatsReader":
        """Return the batch reader."""
        options = self._source_options(schema)
        if options.store:
            return NatsStoreReader(options, schema)
        return (NatsFilteringReader if options.push_filters else NatsReader)(options, schema)

    @plain_errors
    def streamReader(self, schema: StructType) -> "NatsStreamReader":  # noqa: N802 - Spark's name
        """Return the streaming reader."""
        options = self._source_options(schema)
        if options.store:
            raise OptionError("store: expected none in a streaming query, which reads a server")
        return NatsStreamReader(options, schema)

    @plain_errors
    def writer(self, schema: StructType, overwrite: bool) -> NatsWriter:
        """Return the batch writer."""
        return NatsWriter(_sink_options(self.options, overwrite=overwrite), schema)

    @plain_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> NatsStreamWriter:  # noqa: N802
        """Return the streaming writer."""
        return NatsStreamWriter(_sink_options(self.options, overwrite=overwrite), schema)

    def _source_options(self, schema: StructType) -> SourceOptions:
        options = SourceOptions.parse(_plain(self.options))
        expected = source_schema(include_headers=True)
        types = {column.name: column.dataType for column in expected.fields}
        if not schema.fields or any(
            types.get(column.name) != column.dataType for column in schema.fields
        ):
            raise OptionError(
                f"schema: expected columns of the source's own, {expected.simpleString()}; "
                f"got {schema.simpleString()}"
            )
        return options


def _sink_options(options: Mapping[str, str], *, overwrite: bool) -> SinkOptions:
    if overwrite:
        raise OptionError("mode: expected append, messages cannot be overwritten")
    return SinkOptions.parse(_plain(options))


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    return {key: options[key] for key in options}


@dataclass
class NatsPartition(InputPartition):
    """One task's share: a range of sequences of the stream created at `created`."""

    created: str
    start: int
    end: int


class _Planner:
    """The driver's part of both readers: query the stream and split ranges into partitions."""

    _is_patient = False
    """Whether the first question waits for a server that cannot be reached."""
    _has_answered = False

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connection behind when the reader travels to a worker."""
        return {"_options": self._options, "_schema": self._schema}

    @cached_property
    def _jetstream(self) -> JetStreamApi:
        return JetStreamApi(NatsClient(self._options.connect), self._options.connect.domain)

    def _state(self) -> StreamSummary:
        """Return the stream's state.

        Raises:
            StreamError: its messages can only be read by taking them out.
        """
        state = self._ask(lambda jetstream: jetstream.stream_state(self._options.stream))
        if state.retention == "workqueue":
            raise StreamError(
                f"stream {state.name} has work-queue retention: whoever reads a message takes it "
                "out, so a query cannot read it twice. Read a mirror of it"
            )
        return state

    def _ask(self, question: Callable[[JetStreamApi], Answer]) -> Answer:
        """Return the answer to a question, over a new connection when the old one broke.

        The first question of a batch read fails at once: the address may be wrong. All others are
        asked again until `requestTimeout`, and so is JetStream when it is off after it was on.
        """
        backoff = Backoff(self._options.connect.request_timeout_s, f"stream {self._options.stream}")
        while True:
            try:
                answer = question(self._jetstream)
            except AuthorizationError:
                raise
            except (ServerError, StreamNotFoundError) as error:
                self._disconnect()
                if isinstance(error, StreamNotFoundError):
                    waits = self._has_answered and error.code == 0
                else:
                    waits = self._has_answered or self._is_patient
                if not waits:
                    raise
                backoff.wait(error)
            else:
                self._has_answered = True
                return answer

    def _disconnect(self) -> None:
        """Close the connection; the next question opens another."""
        jetstream = self.__dict__.pop("_jetstream", None)
        if jetstream is not None:
            jetstream.client.close()

    def _starting_offset(self, state: StreamSummary, default: str) -> Offset:
        options = self._options
        if options.starting_timestamp:
            seq = self._seq_at_time(state, options.starting_timestamp)
        else:
            seq = starting_seq(options.starting_offsets or default, state)
            # As with a time outside the stream: begin at its nearest end.
            seq = min(max(seq, state.first_seq), state.end_seq)
        return Offset(state.name, state.created, seq)

    def _seq_at_time(self, state: StreamSummary, moment: str) -> int:
        return self._ask(lambda jetstream: jetstream.seq_at_time(state, moment))

    def _plan(self, start: Offset, end: Offset, state: StreamSummary) -> list[NatsPartition]:
        """Return the partitions from `start` up to `end`; losses fail or are warned about."""
        loss = find_loss(start, state)
        if loss is None and end.created != state.created:
            loss = Loss(f"stream {state.name} was recreated at {state.created}")
        if loss is not None:
            self._lose(loss)
        if end.created != state.created:
            return []
        ranges = split(
            resume_seq(start, state),
            min(end.seq, state.end_seq),
            os.cpu_count() or 1,
            self._options.min_partitions,
        )
        return [NatsPartition(end.created, part.start, part.end) for part in ranges]

    def _lose(self, loss: Loss) -> None:
        loss.raise_or_warn(fail=self._options.fail_on_data_loss, warn=_log.warning)

    def _read(self, partition: NatsPartition) -> Iterator[pa.RecordBatch]:
        wanted = SequenceRange(partition.start, partition.end)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        with_payloads = "payload" in schema.names
        reader = RangeReader(self._options, partition.created, wanted, with_payloads=with_payloads)
        for columns in reader.batches():
            yield to_arrow(columns, self._options.stream, schema)


class NatsReader(_Planner, DataSourceReader):
    """A batch read: everything between two offsets as they are when the query is planned."""

    _narrowing: Narrowing | None = None
    """What the query's filters leave of the stream; None before there were any."""

    @plain_errors
    def partitions(self) -> list[InputPartition]:
        """Return one range of sequences per task."""
        try:
            state = self._state()
            start = self._starting_offset(state, EARLIEST)
            end = self._ending_offset(state)
            if self._narrowing is not None:
                start, end = self._narrow(self._narrowing, start, end, state)
            return list(self._plan(start, end, state))
        finally:
            self._disconnect()

    def _narrow(
        self, by: Narrowing, start: Offset, end: Offset, state: StreamSummary
    ) -> tuple[Offset, Offset]:
        first, last = max(start.seq, by.first_seq), end.seq
        if by.end_seq is not None:
            last = min(last, by.end_seq)
        if by.since is not None:
            first = max(first, self._seq_at_time(state, rfc3339(by.since)))
        if by.until is not None:
            last = min(last, self._seq_at_time(state, rfc3339(by.until)))
        if by.subjects == ():
            last = first
        # Beyond the stream's end there is nothing to read, and nothing lost.
        return replace(start, seq=min(first, state.end_seq)), replace(end, seq=last)

    def _ending_offset(self, state: StreamSummary) -> Offset:
        options = self._options
        if options.ending_timestamp:
            seq = self._seq_at_time(state, options.ending_timestamp)
        else:
            seq = starting_seq(options.ending_offsets, state, "endingOffsets")
        return Offset(state.name, state.created, min(seq, state.end_seq))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        rows = self._read(partition) if isinstance(partition, NatsPartition) else iter(())
        return handed_to_spark(rows)


class NatsStoreReader(NatsReader):
    """A batch read of a store's directory: the rows that the server would give."""

    def _stored(self) -> AbstractContextManager[StoredStream]:
        options = self._options
        key = options.store_key.encode()
        return stored_stream(Path(options.store), options.stream, options.account, key)

    def _state(self) -> StreamSummary:
        with self._stored() as stored:
            return stored.state

    def _seq_at_time(self, _state: StreamSummary, moment: str) -> int:
        with self._stored() as stored:
            return stored.store.seq_at_time(parse_time(moment).ns)

    def _read(self, partition: NatsPartition) -> Iterator[pa.RecordBatch]:
        options, skipped = self._options, list[int]()
        schema = to_arrow_schema(self._schema, timezone="UTC")
        subjects = tuple(subject.encode() for subject in options.subjects)
        with self._stored() as stored:
            if stored.state.created != partition.created:
                self._lose(Loss(f"stream {options.stream} was made again meanwhile"))
                return
            for columns in stored.batches(partition.start, partition.end, subjects, skipped):
                yield to_arrow(columns, options.stream, schema)
        warn_of_skipped(f"stream {options.stream} in {options.store}", skipped)


class NatsFilteringReader(NatsReader):
    """A batch read that takes the query's filters, when `pushFilters` asks for it.

    Spark 4.3 keeps the partitions of a frame's last filtered query in the frame, and takes them for
    every later query of the frame that has no filters of its own, and for all its occurrences in
    one query. So this is nothing to do unasked. Spark refuses every query of a reader with
    `pushFilters` unless the session allows filters to be pushed down.
    """

    @plain_errors
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the read by the filters; return all of them, for Spark to apply to the rows."""
        before = Narrowing(subjects=self._options.subjects or None)
        self._narrowing = before.narrowed(filters)
        self._options = replace(self._options, subjects=self._narrowing.subjects or ())
        return filters


class NatsStreamReader(_Planner, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. All but `read` runs in one process on the driver."""

    _is_patient = True
    _available: Offset | None = None
    _is_away = False
    _state_time = -IDLE_INTERVAL_S
    """When the stream's state was asked for last."""
    _latest: StreamSummary | None = None
    _idle_at: dict[str, Any] | None = None
    """The offset after which there was nothing at the last look."""
    _arrivals: PullConsumer | None = None
    _batch_time = float("-inf")
    """When the last batch was handed out; the first waits for nothing."""

    @plain_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint starts: `startingOffsets`, else latest."""
        state = self._state()
        start = self._starting_offset(state, LATEST)
        loss = find_loss(start, state)
        if loss is not None:
            self._lose(loss)
            start = Offset(state.name, state.created, resume_seq(start, state))
        return start.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return `maxOffsetsPerTrigger`."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    @plain_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch; wait a while before looking again for one."""
        begin = Offset.from_dict(start)
        if self._idle_at == start:
            self._wait_for_arrival(begin)
        state, self._idle_at = self._state_or_none(), start
        if state is None:
            return start
        loss = find_loss(begin, state)
        if loss is not None and self._options.fail_on_data_loss:
            self._lose(loss)  # else `partitions` warns, once per batch
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        end = next_offset(begin, state, most)
        if self._available is not None:
            if self._available.created != state.created:
                # Made again since: what the new stream has now is the last that the query reads.
                self._available = Offset(state.name, state.created, state.end_seq)
            end = Offset(end.stream, end.created, min(end.seq, self._available.seq))
        if loss is None and (end.seq <= begin.seq or self._waits_for_more(begin, end)):
            return start
        self._idle_at, self._batch_time = None, time.monotonic()
        return end.to_dict()

    def _waits_for_more(self, begin: Offset, end: Offset) -> bool:
        """Return whether the next batch is still too small; a query that ends waits for nothing."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._available is not None or end.seq - begin.seq >= least:
            return False
        return time.monotonic() - self._batch_time < self._options.max_trigger_delay_s

    @plain_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember what there is now: an `availableNow` query reads that and ends."""
        state = self._state_or_none()
        if state is not None:
            self._available = Offset(state.name, state.created, state.end_seq)

    @plain_errors
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the end of the stream; against the batch's end it shows the lag."""
        is_fresh = time.monotonic() - self._state_time < IDLE_INTERVAL_S
        state = self._latest if is_fresh else self._state_or_none()
        if state is None:
            return None
        return Offset(state.name, state.created, state.end_seq).to_dict()

    @plain_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return one range of sequences per task."""
        begin, until = Offset.from_dict(start), Offset.from_dict(end)
        if begin == until:
            return []
        backoff = Backoff(self._options.connect.request_timeout_s, f"stream {until.stream}")
        while (state := self._state_or_none()) is None:
            away = Loss(
                f"stream {until.stream} was deleted before messages from {begin.seq} to "
                f"{until.seq - 1} were read"
            )
            try:
                backoff.wait(StreamNotFoundError(away.text))
            except StreamNotFoundError:
                self._lose(away)
                return []
        return list(self._plan(begin, until, state))

    def _state_or_none(self) -> StreamSummary | None:
        """Return the stream's state, or None without `failOnDataLoss` while it is not there."""
        self._latest = None
        try:
            self._latest = self._state()
            self._is_away = False
        except StreamNotFoundError as error:
            if self._options.fail_on_data_loss:
                raise
            if not self._is_away:
                _log.warning("waiting for the stream to come back: %s", error)
            self._is_away = True
        self._state_time = time.monotonic()
        return self._latest

    def _wait_for_arrival(self, begin: Offset) -> None:
        """Return when the stream has a message from `begin` on, or it is time to look again.

        Spark asks for the latest offset a hundred times a second. A pull that waits at the server
        costs one request in half a minute. A stream that deletes messages on acknowledgement gets
        no consumer that it may take for a receiver.
        """
        left_s = self._state_time + IDLE_INTERVAL_S - time.monotonic()
        if left_s <= 0:
            return
        state = self._latest
        has_some = state is not None and state.end_seq > begin.seq
        if state is None or has_some or state.retention != "limits":
            time.sleep(left_s)
            return
        try:
            if self._arrivals is None:
                start = {
                    "deliver_policy": "by_start_sequence",
                    "opt_start_seq": begin.seq,
                    "headers_only": True,
                }
                self._arrivals = PullConsumer(
                    self._jetstream, state.name, start, self._options.subjects
                )
            if self._arrivals.arrives_within(left_s):
                # Its position means nothing after the batch that comes now.
                self._arrivals.__exit__()
                self._arrivals = None
        except (ServerError, StreamError) as error:
            _log.info("cannot wait for messages of stream %s: %s", state.name, error)
            self._disconnect()
            time.sleep(max(0.0, self._state_time + IDLE_INTERVAL_S - time.monotonic()))

    def _disconnect(self) -> None:
        self._arrivals = None
        super()._disconnect()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        rows = self._read(partition) if isinstance(partition, NatsPartition) else iter(())
        return handed_to_spark(rows)

    def stop(self) -> None:
        """Close the driver's connection."""
        self._disconnect()


def to_arrow(columns: Columns, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return columns as the record batch that Spark expects, with the columns of `schema` alone."""
    made: dict[str, Callable[[pa.DataType], pa.Array]] = {
        "stream": lambda _: pa.repeat(pa.scalar(stream), len(columns)),
        "sequence": lambda _: pa.array(columns.seqs, pa.int64()),
        "time": microseconds(columns.times_ns).cast,
        "subject": lambda _: subject_array(columns.subjects),
        "payload": lambda _: pa.array(columns.payloads, pa.binary()),
        "headers": lambda kind: pa.array([header_pairs(raw) for raw in columns.headers], kind),
    }
    arrays = [made[field.name](field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
