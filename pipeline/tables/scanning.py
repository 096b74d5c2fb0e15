"""Read a stream's table together with the messages that are not in it yet.

Rows up to the table's position come from its files, later ones from the stream, through the same
decoder. A reader asks for the stream's state first, then loads the table, then reads the stream
from the table's position on: so a message that a writer commits meanwhile is in one of both parts,
and a message that the stream removed because it is in the table cannot be in neither.
"""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from midge.client.errors import DataLossError
from midge.extras import install_command
from midge.pipeline.delta import files_of, load, reading
from midge.pipeline.errors import PipelineError, TableError
from midge.pipeline.spark_source.partitions import SequenceRange
from midge.pipeline.tables.landing import (
    Server,
    options_of,
    read_rows,
    same_stream,
    stream_state,
)
from midge.pipeline.tables.table_handle import TableHandle
from midge.protocol.key_value import PUT

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_SERVER = "nats://127.0.0.1:4222"
_PATTERN = re.compile(r"[*?\[{]")
"""DuckDB expands these characters in a path."""
_MEANT_BY_SPARK = re.compile(r"[*?{}]")
"""Spark expands these characters in a path; a backslash makes them literal."""


class _Parts(NamedTuple):
    """One version of the table, and the rows after its position."""

    landed: "DeltaTable"
    later: pa.Table | None


def scan(url: str, server: Server | None = _SERVER) -> ds.Dataset:
    """Return the table at `url` and the later messages of its stream as one Arrow dataset.

    Each message that was acknowledged before the call is in it once, whatever a writer of the
    table does meanwhile. Rows up to the table's position come from its files, the rest is read from
    the stream and held in memory. Without a `server`, the table alone.

    Raises:
        ServerError: the server cannot be reached.
        TableError: there is no such table, or its stream was deleted and made again.
    """
    return _dataset(*_parts(url, server))


def scan_polars(url: str, server: Server | None = _SERVER) -> "pl.LazyFrame":
    """Return the same rows as `scan`, as a Polars frame; filters and columns reach both parts.

    Raises:
        PipelineError: Polars is not installed.
        ServerError: the server cannot be reached.
        TableError: there is no such table, or its stream was deleted and made again.
    """
    try:
        import polars as pl
    except ImportError as error:
        raise PipelineError(f"this needs polars: {install_command('sql')}") from error
    landed, later = _parts(url, server)
    files = pl.scan_delta(landed)
    if later is None:
        return files
    frame = pl.DataFrame(later)
    return pl.concat([files, frame.lazy()], how="diagonal")


def scan_duckdb(
    connection: "duckdb.DuckDBPyConnection", name: str, url: str, server: Server | None = _SERVER
) -> None:
    """Register the same rows as `scan` with DuckDB under a name.

    DuckDB reads the files itself, where it can: that is twice as fast as from an Arrow dataset.

    Raises:
        ServerError: the server cannot be reached.
        TableError: there is no such table, or its stream was deleted and made again.
    """
    import duckdb

    landed, later = _parts(url, server)
    files = files_of(url, landed)
    by_arrow = "://" in url or _PATTERN.search(url) or landed.metadata().partition_columns
    if by_arrow or not files:
        connection.register(name, _dataset(landed, later))
        return
    try:
        parts = {f"_{name}_files": connection.read_parquet(files, union_by_name=True)}
    except duckdb.Error as error:
        reason, _, _ = str(error).partition("\n")
        raise TableError(f"{url}: cannot be read: {reason}") from error
    if later is not None:
        parts[f"_{name}_later"] = connection.from_arrow(later)
    for part, relation in parts.items():
        relation.create_view(part)
    # The names are quoted.
    queries = (f"SELECT * FROM {_quoted(part)}" for part in parts)  # noqa: S608  # nosec B608
    connection.execute(f"CREATE VIEW {_quoted(name)} AS {' UNION ALL BY NAME '.join(queries)}")


def scan_rows(url: str, server: Server | None = _SERVER) -> Iterator[dict[str, Any]]:
    """Yield the same rows as `scan`, as dictionaries, in no order.

    Raises:
        ServerError: the server cannot be reached.
        TableError: there is no such table, its stream was deleted and made again, or its rows
            cannot be read.
    """
    with reading(url):
        for batch in scan(url, server).to_batches():
            yield from batch.to_pylist()


def latest(url: str, server: Server | None = _SERVER) -> pa.Table:
    """Return the keys of a bucket as they are now: the last message of each, in order of the keys.

    The table is of a bucket's stream and has a column of the kind `operation`; keys that were
    deleted, purged or have expired are not in the result.

    Raises:
        ServerError: the server cannot be reached.
        TableError: there is no such table, its stream was deleted and made again, its rows cannot
            be read, or it has no column of the kind `operation`.
    """
    kinds = TableHandle(url).layout.columns
    operation = next((name for name, kind in kinds.items() if kind == "operation"), "")
    if not operation:
        raise TableError(f"{url}: has no column of the kind operation")
    rows = scan(url, server)
    with reading(url):
        # The sequences first, so that of most rows nothing else is read.
        found = rows.to_table(["subject", "sequence", operation])
        table = rows.to_table(filter=_is_last_put(found, operation)).sort_by("subject")
    keys = pc.replace_substring_regex(table.column("subject"), r"^\$KV\.[^.]*\.", "")
    return table.add_column(0, "key", keys)


def read_table(spark: "SparkSession", url: str, version: int | None = None) -> "DataFrame":
    """Return a version of the table at `url`, the newest by default, as Spark reads its files.

    Raises:
        TableError: there is no such table or version, or it is not one of a stream.
    """
    from pyspark.sql.types import StructType

    handle = TableHandle(url, version).handle
    # Delta's log has the columns in Spark's own form.
    schema = StructType.fromJson(json.loads(handle.schema().to_json()))
    files = files_of(url, handle)
    if not files:
        return spark.createDataFrame([], schema)
    paths = (_MEANT_BY_SPARK.sub(r"\\\g<0>", file) for file in files)
    return spark.read.schema(schema).option("basePath", url).parquet(*paths)


def _is_last_put(found: pa.Table, operation: str) -> pc.Expression:
    """Return the filter of the rows that are the last of their subject and put a value."""
    last = found.group_by("subject").aggregate([("sequence", "max")]).column("sequence_max")
    is_last = pc.is_in(found.column("sequence"), last)
    is_there = pc.equal(found.column(operation), PUT)
    kept = found.filter(pc.and_(is_last, is_there)).column("sequence")
    return pc.field("sequence").isin(kept)


def _dataset(landed: "DeltaTable", later: pa.Table | None) -> ds.Dataset:
    files = landed.to_pyarrow_dataset()
    return files if later is None else ds.dataset([files, ds.dataset(later)])


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _parts(url: str, server: Server | None) -> _Parts:
    if server is None:
        return _Parts(load(url), None)
    table = TableHandle(url)
    options = options_of(table, server)
    state = stream_state(options)
    end = state.end_seq
    while True:
        table.reload()
        same_stream(table, state)
        wanted = SequenceRange(max(table.position + 1, state.first_seq), end)
        decoder = table.decoder()
        try:
            later = read_rows(options, state.created, wanted, decoder)
            break
        except DataLossError:  # removed under our hands, so look where the stream begins now
            state = stream_state(options)
    return _Parts(table.handle, later.cast(_as_landed(table, later.schema)) if later else None)


def _as_landed(table: TableHandle, schema: pa.Schema) -> pa.Schema:
    """Return the schema with the types that the table's files have."""
    landed = table.handle.to_pyarrow_dataset().schema
    names = set(landed.names)
    return pa.schema([landed.field(f.name) if f.name in names else f for f in schema])
