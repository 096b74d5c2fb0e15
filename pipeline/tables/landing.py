"""Bring a stream's messages into its table, from the table's position up to the stream's end."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midge.client.client import NatsClient
from midge.client.errors import DataLossError, OptionError
from midge.client.jetstream import JetStreamApi, StreamSummary
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.options import SourceOptions
from midge.pipeline.spark_source.partitions import SequenceRange
from midge.pipeline.spark_source.reader import Columns, RangeReader
from midge.pipeline.tables.decoding import Decoded, Decoder, can_partition
from midge.pipeline.tables.interest_consumer import acknowledge, make_consumer
from midge.pipeline.tables.table_handle import (
    LOCK_WAIT_S,
    Source,
    TableHandle,
    check_stream,
    create,
    locked,
)

BLOCK_BYTES = 128 << 20
"""A commit comes when its rows have as many bytes in memory."""

_log = logging.getLogger(__name__)

Server = str | Mapping[str, str]
"""A server's URL, or the options of a connection as the `nats` source of Spark names them."""


@dataclass
class Landed:
    """Counts of one call of `land`, and the position that the table has now."""

    rows: int = 0
    quarantined: int = 0
    lost: int = 0
    """Sequences that were removed from the stream before they were read."""
    commits: int = 0
    position: int = 0


def create_table(
    url: str,
    stream: str,
    server: Server = "nats://127.0.0.1:4222",
    *,
    columns: Mapping[str, str] | None = None,
    infer: bool = False,
    subject: str = "",
    partition_by: Sequence[str] = (),
    consumer: str = "",
) -> None:
    """Make an empty table of `stream` at `url`, a directory or an object store's URL.

    With `columns`, the kind of each by its name, payloads are JSON objects; without, they stay as
    they are. With `infer`, further keys of the payloads become columns as they come. `subject`
    filters, as the source's option does. `partition_by` names columns of the kinds `date` and
    `token(N)`. A table that is there already and is the same passes. On an interest stream the
    table has a durable consumer, `consumer`, whose name has a default.

    Raises:
        OptionError: a column, an option or the subject cannot be.
        ServerError: the server cannot be reached.
        StreamNotFoundError: there is no such stream.
        TableError: the stream cannot be a table, or there is another table.
    """
    decoder = Decoder(columns, infers=infer)
    check_partitions(decoder, partition_by)
    options = _options(server, stream, subject)
    with NatsClient(options.connect) as client:
        jetstream = JetStreamApi(client, options.connect.domain)
        state = _checked(jetstream.stream_state(stream))
        if state.retention == "interest":
            consumer = consumer or _consumer_of(url)
            make_consumer(jetstream, stream, consumer, options.subjects)
    is_kept = state.retention == "interest"
    source = Source(stream, state.created, subject, infer, consumer if is_kept else "")
    # A server whose settings have the table already tries it, and holds the lock meanwhile.
    with locked(url, LOCK_WAIT_S, makes=True):
        create(url, decoder, source, partition_by)


def check_partitions(decoder: Decoder, partition_by: Sequence[str]) -> None:
    """Check the columns that partition a table.

    Raises:
        OptionError: one is not of a kind that has few values.
    """
    for name in partition_by:
        if not can_partition(decoder.columns.get(name, "")):
            raise OptionError(
                f"partition_by: {name}: expected a column of the kind date or token(N)"
            )


def land(
    url: str, server: Server = "nats://127.0.0.1:4222", *, block_bytes: int = BLOCK_BYTES
) -> Landed:
    """Bring the table at `url` up to the stream's present end; again does no harm.

    Raises:
        ServerError: the server cannot be reached, or not again within the request time-out.
        TableError: the stream was deleted and made again, another process is writing to the table,
            or the table cannot be written to.
    """
    with locked(url):
        table = TableHandle(url)
        decoder = table.decoder()
        options = options_of(table, server)
        state = same_stream(table, stream_state(options))
        end = state.end_seq
        done = Landed(position=table.position)
        while done.position + 1 < end:
            gap = max(0, min(state.first_seq, end) - done.position - 1)
            start = done.position + 1 + gap
            reader = RangeReader(options, state.created, SequenceRange(start, end))
            try:
                blocks = decoded_blocks(reader.batches(), decoder, end - 1, block_bytes)
                for decoded, upto in blocks:
                    done.rows += table.append(decoded, upto)
                    done.quarantined += decoded.bad.num_rows
                    done.commits += 1
            except DataLossError:
                # Removed under our hands: look again at where the stream begins now.
                state = same_stream(table, stream_state(options))
            if gap and table.position > done.position:
                done.lost += gap
                _log.warning(
                    "%s: %d messages of stream %s before sequence %d were removed before they "
                    "were read",
                    url,
                    gap,
                    state.name,
                    start,
                )
            done.position = table.position
        if table.source.consumer:
            with NatsClient(options.connect) as client:
                jetstream = JetStreamApi(client, options.connect.domain)
                consumer = table.source.consumer
                acknowledge(jetstream, state.name, consumer, options.subjects, done.position)
        return done


def read_rows(
    options: SourceOptions, created: str, wanted: SequenceRange, decoder: Decoder
) -> pa.Table:
    """Return the rows of the messages of a range."""
    reader = RangeReader(options, created, wanted)
    return _joined([decoder.decode(columns) for columns in reader.batches()], decoder).rows


def stream_state(options: SourceOptions) -> StreamSummary:
    """Return the state of a stream that can be a table.

    Raises:
        TableError: the stream is a work queue.
    """
    with NatsClient(options.connect) as client:
        return _checked(JetStreamApi(client, options.connect.domain).stream_state(options.stream))


def _checked(state: StreamSummary) -> StreamSummary:
    if state.retention == "workqueue":
        raise TableError(
            f"stream {state.name} has workqueue retention and removes a message when its consumer "
            "acknowledges it: make a table of a mirror of it"
        )
    return state


def _consumer_of(url: str) -> str:
    """Return the name of the consumer of a table."""
    return f"table-{hashlib.sha256(url.encode()).hexdigest()[:12]}"


def same_stream(table: TableHandle, state: StreamSummary) -> StreamSummary:
    """Return the state when it is of the stream that the table was made of.

    Raises:
        TableError: it is of another one, or the stream was deleted and made again.
    """
    check_stream(table, state.name, state.created)
    return state


def options_of(table: TableHandle, server: Server) -> SourceOptions:
    """Return how to read the stream of a table."""
    return _options(server, table.source.stream, table.source.subject)


def _options(server: Server, stream: str, subject: str) -> SourceOptions:
    given = {"servers": server} if isinstance(server, str) else dict(server)
    return SourceOptions.parse({**given, "stream": stream, "subject": subject})


def decoded_blocks(
    batches: Iterator[Columns], decoder: Decoder, last: int, block_bytes: int
) -> Iterator[tuple[Decoded, int]]:
    """Yield the rows of each commit with the position that it makes; the last one makes `last`."""
    parts: list[Decoded] = []
    size = 0
    for columns in batches:
        parts.append(decoder.decode(columns))
        size += columns.size_bytes + len(columns)
        if size >= block_bytes and columns.seqs[-1] < last:
            yield _joined(parts, decoder), columns.seqs[-1]
            parts, size = [], 0
    yield _joined(parts, decoder), last


def _joined(parts: list[Decoded], decoder: Decoder) -> Decoded:
    columns = zip(decoder.empty(), *parts, strict=True)
    return Decoded(*(pa.concat_tables(tables, promote_options="default") for tables in columns))
