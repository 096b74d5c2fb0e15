"""The lake's tables: their columns, and how they are stored so that no batch counts twice.

A table is a Delta table under `bronze/`, `silver/` or `gold/`. Each batch of the job that fills the
lake is one commit of each growing table, with the number of the batch as its transaction: a batch
that is repeated after a crash finds its number and leaves the table. A derived table is replaced as
a whole, in one commit. No package for Java takes part.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from midge.client.errors import reason_of
from midge.pipeline.lake.delta_log import WRITTEN, DeltaLog, WrittenFile, read_files, write_files
from midge.pipeline.lake.lake_table import DATE, LakeError, LakeTable
from midge.pipeline.lake.storage import Storage, as_path
from midge.protocol import record_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

INBOX = "_INBOX."
"""First token of reply subjects; the other tokens are unique to one client and one request."""


SMALL_BYTES = 1 << 20
"""Below this size this process reads and writes, while larger tables are left to Spark's tasks."""


def require_writable(lake: str) -> None:
    """Make the directory of a lake on this machine, if need be.

    Raises:
        LakeError: it cannot be made, or not be written to.
    """
    path = Path(as_path(lake)).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"{lake}: cannot be made: {reason_of(error)}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise LakeError(f"{lake}: cannot be written to: permission denied")


_SPARK_TYPES = {
    "time": "timestamp",
    "headers": "map<string,array<string>>",
    "int32": "int",
    "int64": "bigint",
    "bool": "boolean",
}


def _recorded(data_set: str) -> str:
    """Return the columns of the record format as Spark's DDL."""
    columns = record_columns.DATA_SETS[data_set]
    return ", ".join(f"{each.name} {_SPARK_TYPES.get(each.kind, each.kind)}" for each in columns)


_WHO = "server string, account string, cid bigint"
_ORIGIN = "segment string, row bigint"
_USE = "messages bigint, bytes bigint"
_SUBSCRIPTION = "server string, account string, cid bigint, sid string, client_name string"

_TABLES = (
    LakeTable(
        "bronze/messages",
        "a recorded message, as it is, and the segment and row it came from",
        f"{_recorded('messages')}, {_ORIGIN}",
        is_growing=True,
        dated_by="time",
    ),
    LakeTable(
        "bronze/interest",
        "a recorded beginning or end of a subscription",
        f"{_recorded('interest')}, {_ORIGIN}",
        is_growing=True,
    ),
    LakeTable(
        "bronze/clients",
        "a recorded connect or disconnect",
        f"{_recorded('clients')}, {_ORIGIN}",
        is_growing=True,
    ),
    LakeTable(
        "bronze/quarantine",
        "a file among the records that is no readable segment, and why",
        "segment string, reason string, size_bytes bigint, modified timestamp, seen timestamp",
        is_growing=True,
    ),
    LakeTable(
        "silver/messages",
        "a message with its subject taken apart; payload and headers stay in bronze",
        f"time timestamp, {_WHO}, subject string, tokens array<string>, token_count int, "
        "prefix string, reply string, has_headers boolean, size bigint, plain_deliveries int, "
        f"queue_deliveries int, deliveries int, no_interest boolean, {_ORIGIN}",
        is_growing=True,
        dated_by="time",
    ),
    LakeTable(
        "silver/traffic",
        "the messages of one client to one subject in one window with one fan-out, summed up",
        f"window_start timestamp, {_WHO}, subject string, prefix string, plain_deliveries int, "
        f"queue_deliveries int, {_USE}, no_interest bigint, first_time timestamp, "
        "last_time timestamp",
        is_growing=True,
        dated_by="window_start",
    ),
    LakeTable(
        "silver/matches",
        "the messages of one window that one subscription matches, by subject; less than nothing "
        "where a later batch takes back",
        f"window_start timestamp, {_SUBSCRIPTION}, since timestamp, pattern string, queue string, "
        f"subject string, {_USE}",
        is_growing=True,
        dated_by="window_start",
    ),
    LakeTable(
        "silver/exchanges",
        "a request and one reply to it",
        "account string, subject string, reply string, requester bigint, responder bigint, "
        "asked timestamp, answered timestamp, latency_us bigint",
        is_growing=True,
        dated_by="asked",
    ),
    LakeTable(
        "silver/batches",
        "one batch of the job: what it read, and how late its messages were",
        "files bigint, quarantined bigint, messages bigint, first_time timestamp, "
        "last_time timestamp, watermark timestamp, late_messages bigint, max_lateness_s double",
        is_growing=True,
    ),
    LakeTable(
        "silver/subscriptions",
        "a subscription and the interval of its interest; `until` is null while it lasts",
        f"{_SUBSCRIPTION}, pattern string, queue string, since timestamp, until timestamp, "
        "ended_by string, delivered bigint",
    ),
    LakeTable(
        "silver/sessions",
        "a client's connection from its connect to its disconnect",
        f"{_WHO}, client_name string, lang string, version string, host string, port int, "
        "connected timestamp, disconnected timestamp, reason string, in_msgs bigint, "
        "out_msgs bigint, in_bytes bigint, out_bytes bigint",
    ),
    LakeTable(
        "gold/rates",
        "traffic by subject prefix and window",
        f"window_start timestamp, account string, prefix string, {_USE}, deliveries bigint, "
        "messages_per_s double, bytes_per_s double",
    ),
    LakeTable(
        "gold/subjects",
        "a subject and its traffic, the busiest first",
        f"account string, subject string, prefix string, {_USE}, deliveries bigint, "
        "publishers bigint, first_time timestamp, last_time timestamp, place int",
    ),
    LakeTable(
        "gold/talkers",
        "a client and its published messages, the busiest first",
        f"{_WHO}, client_name string, subjects bigint, {_USE}, deliveries bigint, place int",
    ),
    LakeTable(
        "gold/fan_out",
        "the number of messages for each number of deliveries; "
        "null where deliveries were not recorded",
        f"account string, deliveries int, {_USE}, share double",
    ),
    LakeTable(
        "gold/no_interest",
        "a subject with messages without a receiver",
        f"account string, subject string, {_USE}, share double, last_time timestamp",
    ),
    LakeTable(
        "gold/dead_subscriptions",
        "a subscription that no recorded message matched",
        f"{_SUBSCRIPTION}, pattern string, queue string, since timestamp, until timestamp, "
        "age_s double",
    ),
    LakeTable(
        "gold/duplicate_subscriptions",
        "a client's pattern whose messages it receives for other subscriptions as well",
        "server string, account string, cid bigint, client_name string, pattern string, "
        "overlaps string, copies bigint, wasted_deliveries bigint",
    ),
    LakeTable(
        "gold/queue_balance",
        "a member of a queue group and its share of the deliveries",
        "server string, account string, pattern string, queue string, cid bigint, sid string, "
        "client_name string, members bigint, delivered bigint, share double, "
        "fair_share double, skew double",
    ),
    LakeTable(
        "gold/disconnects",
        "how often connections ended for one reason",
        "server string, account string, reason string, disconnects bigint, clients bigint, "
        "slow_consumers bigint, mean_duration_s double",
    ),
    LakeTable(
        "gold/slow_consumers",
        "a client that was disconnected because it was too slow",
        "server string, account string, client_name string, disconnects bigint, "
        "last_time timestamp, reason string, out_msgs bigint, out_bytes bigint",
    ),
    LakeTable(
        "gold/latency",
        "the time to the reply for requests to one subject",
        "account string, subject string, reply_prefix string, requests bigint, replies bigint, "
        "p50_us bigint, p90_us bigint, p99_us bigint, max_us bigint",
    ),
    LakeTable(
        "gold/consumers",
        "a consumer of a stream, by its clients' replies to its deliveries; "
        "`lag` counts the messages undelivered after the last",
        "account string, stream string, consumer string, messages bigint, replies bigint, "
        "redelivered bigint, max_deliveries bigint, lag bigint, max_lag bigint, last_seq bigint, "
        "last_time timestamp",
    ),
    LakeTable(
        "gold/late_data",
        "messages of one batch that came after the watermark had passed them",
        "batch bigint, watermark timestamp, messages bigint, late_messages bigint, share double, "
        "max_lateness_s double",
    ),
    LakeTable(
        "gold/reconciliation",
        "the plain deliveries that the server counted, and those that matching finds",
        "server string, account string, recorded bigint, matched bigint, difference bigint",
    ),
    LakeTable(
        "gold/coverage",
        "the recorded numbers of a server: all messages, messages with counted deliveries, "
        "subscriptions and connections",
        "server string, account string, messages bigint, counted bigint, subscriptions bigint, "
        "sessions bigint",
    ),
)

TABLES: Mapping[str, LakeTable] = {table.name: table for table in _TABLES}
GOLD = tuple(table for table in _TABLES if table.layer == "gold")


class Lake:
    """A directory of Delta tables, which Spark fills and any reader of Delta reads.

    `root` is a path, or a URI of an object store that both Spark and `deltalake` know.
    """

    def __init__(self, spark: "SparkSession", root: str) -> None:
        self.spark = spark
        self.storage = Storage(spark, root)
        self.is_light = False
        """Whether this process reads and writes the tables that are below `SMALL_BYTES`."""
        self._known_columns: dict[str, StructType] = {}
        self._logs: dict[str, DeltaLog] = {}

    def path(self, name: str) -> str:
        """Return the URI of a table, or of anything else in the lake."""
        return self.storage.uri(name)

    def log(self, name: str) -> DeltaLog:
        """Return the Delta log of a table.

        Raises:
            LakeError: no table has this name, or its log cannot be read.
        """
        log = self._logs.get(name)
        if log is None:
            log = self._logs[name] = DeltaLog(self.path(name), table_named(name))
        else:
            log.refresh()
        return log

    def delete(self, place: str) -> None:
        """Delete a table, a part of one or anything else in the lake."""
        self.storage.delete(place)
        for name in [name for name in self._logs if f"{place}/".startswith(f"{name}/")]:
            del self._logs[name]

    def exists(self, name: str) -> bool:
        """Return whether a table has ever been written."""
        return self.storage.exists(f"{name}/_delta_log")

    def read(
        self, name: str, low: datetime | None = None, high: datetime | None = None
    ) -> "DataFrame":
        """Return a table; one that was never written is empty. Growing ones have a column `batch`.

        With `low` and `high`, leave out the files whose rows all have another `time`.

        Raises:
            LakeError: no table has this name.
        """
        return self._read_files(name, self.log(name).files("time", low, high))

    def read_before(self, name: str, batch: int, low: datetime | None = None) -> "DataFrame":
        """Return the rows of a growing table from batches before `batch`."""
        log = self.log(name)
        recent = log.files("time", low)
        files = {
            file: size
            for file, size in log.files("batch", high=batch - 1).items()
            if file in recent
        }
        rows = self._read_files(name, files)
        return rows if log.batch < batch else rows.where(f"batch < {batch}")

    def read_batch(self, name: str, batch: int) -> "DataFrame":
        """Return the rows that `batch` added to a growing table."""
        files = self.log(name).files("batch", batch, batch)
        return self._read_files(name, files).where(f"batch = {batch}").drop("batch")

    def read_here(self, name: str) -> pa.Table:
        """Return a table that this process reads, without the dates."""
        files = self.log(name).files("")
        return read_files(files) if files else self._stored(name).empty_table()

    def append(self, name: str, rows: "DataFrame | pa.Table", batch: int) -> bool:
        """Add one batch to a growing table; return False when it was already there."""
        log = self.log(name)
        if log.batch >= batch:
            return False
        if isinstance(rows, pa.Table):
            rows = rows.append_column("batch", pa.repeat(pa.scalar(batch, pa.int64()), len(rows)))
        else:
            rows = rows.selectExpr("*", f"{batch}L AS batch")
        log.commit(self._write(name, rows), self._schema(name), batch)
        return True

    def append_all(self, name: str, rows: "DataFrame", last: int) -> None:
        """Add rows that have their batches, up to `last`, to a growing table."""
        self.log(name).commit(self._write(name, rows), self._schema(name), last)

    def replace(self, name: str, frame: "DataFrame", dates: Sequence[str] = ()) -> None:
        """Replace a table, or the rows of its `dates`, in one commit; `frame` may read from it."""
        self.log(name).commit(self._write(name, frame), self._schema(name), None, dates)

    def empty(self, name: str) -> "DataFrame":
        """Return a table's columns without rows."""
        # A Python worker of Spark would make the rows of an empty list.
        return self.spark.createDataFrame(self._stored(name).empty_table(), self._columns(name))

    def _columns(self, name: str) -> "StructType":
        """Return the stored columns as Spark knows them."""
        from pyspark.sql.types import StructType

        if name not in self._known_columns:
            columns = StructType.fromDDL(table_named(name).stored_columns)
            self._known_columns[name] = columns
        return self._known_columns[name]

    def _stored(self, name: str) -> pa.Schema:
        """Return the columns in a table's files."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema: pa.Schema = to_arrow_schema(self._columns(name), timezone="UTC")
        return schema

    def _schema(self, name: str) -> pa.Schema:
        """Return the stored columns, with the date, as Delta knows them."""
        dated = table_named(name).dated_by
        schema = self._stored(name)
        return schema.append(pa.field(DATE, pa.date32())) if dated else schema

    def _write(self, name: str, rows: "DataFrame | pa.Table") -> list[WrittenFile]:
        """Write rows with exactly the table's columns to files that no version has yet.

        Rows of a DataFrame are written by Spark's workers, those of Arrow here.
        """
        uri, dated_by, stored = self.path(name), table_named(name).dated_by, self._stored(name)
        if self.is_light and not isinstance(rows, pa.Table):
            is_small = sum(self._logs[name].files("").values()) < SMALL_BYTES
            rows = rows.toArrow() if is_small else rows
        if isinstance(rows, pa.Table):
            return list(write_files(rows.to_batches(), uri, stored, dated_by))
        chosen = rows.select(
            *(
                rows[field.name].cast(field.dataType).alias(field.name)
                for field in self._columns(name)
            )
        )

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for file in write_files(batches, uri, stored, dated_by):
                yield pa.RecordBatch.from_pylist([file._asdict()])

        return [WrittenFile(*row) for row in chosen.mapInArrow(write, WRITTEN).collect()]

    def _read_files(self, name: str, files: Mapping[str, int]) -> "DataFrame":
        columns = self._columns(name)
        if not files:
            return self.empty(name)
        if self.is_light and sum(files.values()) < SMALL_BYTES:
            return self.spark.createDataFrame(read_files(files).select(columns.names), columns)
        return self.spark.read.schema(columns).parquet(*files)


def table_named(name: str) -> LakeTable:
    """Return the table called `name`, such as `gold/rates`.

    Raises:
        LakeError: no table has this name.
    """
    table = TABLES.get(name)
    if table is None:
        raise LakeError(f"table: expected one of {', '.join(TABLES)}, got {name!r}")
    return table
