"""Write the files of a table of the lake, and commit them to its Delta log.

Spark needs no package for that: its Python workers write Parquet into the table's directory, with
the statistics of each file, and the driver commits the files. A reader sees a commit or none of it,
and a file that was never committed is in no version: `vacuum` deletes it.
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from midge.client.errors import reason_of
from midge.pipeline.delta import (
    KEEP_HOURS,
    PROPERTIES,
    compacted,
    delta_reason_of,
    made,
    opened,
    transaction_version,
    updated,
)
from midge.pipeline.errors import TableError
from midge.pipeline.lake.lake_table import DATE, LakeError, LakeTable
from midge.pipeline.lake.storage import arrow_file_system, as_path

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

APP_ID = "midge.pipeline"
"""The application whose transaction is the number of a table's last batch."""
WRITTEN = f"path string, size_bytes bigint, {DATE} string, stats string"
"""The columns of a `WrittenFile`, as Spark's DDL."""
FILES_MAX = 32
"""Compaction joins the files of a table that has at least this many."""
_VERSIONS_MAX = 100
"""A handle is opened again after this many versions, because it becomes slower with each."""
_PROPERTIES = PROPERTIES | {"delta.logRetentionDuration": "interval 1 hour"}
"""Each look for later versions lists the log: 1 ms of CPU time for 100 files."""
_ROW_GROUP_BYTES = 32 << 20
_TEXT_MAX = 64
"""Longer values have no statistics, because readers compare only whole ones."""


class WrittenFile(NamedTuple):
    """A file of a table, by its path in the table's directory."""

    path: str
    size_bytes: int
    date: str
    """The date of all of its rows; empty in a table that has no dates."""
    stats: str


class DeltaLog:
    """The Delta log of the table at `uri`; one that was never written has no `handle`."""

    def __init__(self, uri: str, table: LakeTable) -> None:
        """Load the newest version.

        Raises:
            LakeError: it cannot be read.
            PipelineError: `deltalake` is not installed.
        """
        self.url = delta_url(uri)
        self.handle: DeltaTable | None = None
        self._uri = uri
        self._table = table
        self._opened_at = 0
        self.refresh()

    def refresh(self) -> None:
        """Load the newest version.

        Raises:
            LakeError: it cannot be read.
            PipelineError: `deltalake` is not installed.
        """
        try:
            if self.handle is None or self.handle.version() >= self._opened_at + _VERSIONS_MAX:
                self.handle = opened(self.url)
                self._opened_at = 0 if self.handle is None else self.handle.version()
            else:
                updated(self.url, self.handle)
        except TableError as error:
            raise LakeError(str(error)) from error

    @property
    def batch(self) -> int:
        """The number of the last batch in the table, -1 without one.

        Raises:
            LakeError: another process has removed the log of this version.
        """
        if self.handle is None:
            return -1
        try:
            number = transaction_version(self.url, self.handle, APP_ID)
        except TableError as error:
            raise LakeError(str(error)) from error
        return -1 if number is None else number

    @property
    def rows(self) -> int:
        """The number of rows."""
        if self.handle is None:
            return 0
        actions = pa.table(self.handle.get_add_actions(flatten=True))
        return pc.sum(actions.column("num_records")).as_py() or 0

    def files(self, column: str, low: Any = None, high: Any = None) -> dict[str, int]:
        """Return the files that may have values of `column` from `low` to `high`.

        Each has its size in bytes by its URI.
        """
        if self.handle is None:
            return {}
        actions = pa.table(self.handle.get_add_actions(flatten=True))
        names = ["path", "size_bytes", f"min.{column}", f"max.{column}"]
        has_bounds = names[2] in actions.column_names
        return {
            f"{self._uri}/{path}": size
            for path, size, *bounds in zip(
                *(actions.column(name).to_pylist() for name in names[: 4 if has_bounds else 2]),
                strict=True,
            )
            if not bounds or _overlap(bounds[0], bounds[1], low, high)
        }

    def commit(
        self,
        files: Iterable[WrittenFile],
        schema: pa.Schema,
        batch: int | None = None,
        dates: Sequence[str] = (),
    ) -> None:
        """Commit files as those of `batch`, or in place of those of `dates`, or of all.

        `refresh` loads the new version.

        Raises:
            LakeError: the store refused the commit.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import DeltaError

        partitions = [DATE] if self._table.dated_by else []
        text = f"{self._table.name}: {self._table.row}"
        try:
            handle = self.handle or made(self.url, schema, text, partitions, _PROPERTIES)
            transactions = None if batch is None else [Transaction(APP_ID, batch)]
            handle.create_write_transaction(
                [_action(each) for each in files],
                "append" if batch is not None else "overwrite",
                handle.schema(),
                partition_by=partitions or None,
                partition_filters=[(DATE, "in", list(dates))] if dates else None,
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except (DeltaError, TableError, OSError) as error:
            raise LakeError(
                f"{self.url}: cannot be written to: {delta_reason_of(error)}"
            ) from error

    def tidy(self, keep_days: float = 0) -> None:
        """Remove days that are older than `keep_days`, and join files once there are many.

        The files of earlier versions stay for a week, for their readers.

        Raises:
            LakeError: another writer was first, or the store refused the commit.
        """
        from deltalake.exceptions import DeltaError

        if self.handle is None:
            return
        try:
            dates = self.dates()
            if keep_days and dates:
                first = date.fromisoformat(dates[-1]) - timedelta(days=keep_days)
                if date.fromisoformat(dates[0]) < first:
                    self.handle.delete(f"{DATE} < '{first}'")
            if len(self.handle.file_uris()) >= FILES_MAX + len(dates) or (
                not self._table.is_growing and self.handle.version() % FILES_MAX == 0
            ):
                compacted(self.url, self.handle, KEEP_HOURS)
        except (DeltaError, TableError, OSError) as error:
            raise LakeError(f"{self.url}: cannot be compacted: {delta_reason_of(error)}") from error
        self.refresh()

    def dates(self) -> list[str]:
        """Return the dates of the rows."""
        if self.handle is None or not self._table.dated_by:
            return []
        return sorted({str(each[DATE]) for each in self.handle.partitions()})


def read_files(uris: Iterable[str]) -> pa.Table:
    """Return the rows of files of a table, without the column of their dates.

    Raises:
        TableError: a file cannot be read.
    """
    tables = []
    for uri in uris:
        try:
            system, place = arrow_file_system(uri)
            with system.open_input_file(place) as file:
                tables.append(pq.ParquetFile(file).read())
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(f"{uri}: cannot be read: {reason_of(error)}") from error
    return pa.concat_tables(tables)


def delta_url(uri: str) -> str:
    """Return a URI of Hadoop as `deltalake` spells it."""
    return as_path(uri).replace("s3a://", "s3://", 1)


def write_files(
    batches: Iterable[pa.RecordBatch], uri: str, schema: pa.Schema, dated_by: str
) -> Iterator[WrittenFile]:
    """Write rows into new files below `uri`, one for each date if the table is `dated_by` one.

    Runs in Spark's workers as well as in the driver.

    Raises:
        TableError: a file cannot be written.
    """
    open_files: dict[str, _File] = {}
    try:
        system, root = arrow_file_system(uri)
        for batch in batches:
            for day, rows in _by_date(pa.table(batch), dated_by):
                if day not in open_files:
                    open_files[day] = _File(system, root, day, schema)
                open_files[day].add(rows)
        for file in open_files.values():
            yield file.close()
    except OSError as error:
        raise TableError(f"{uri}: cannot be written to: {reason_of(error)}") from error


class _File:
    """A file under way, with the statistics of its columns."""

    def __init__(self, system: fs.FileSystem, root: str, day: str, schema: pa.Schema) -> None:
        directory = f"{DATE}={day}/" if day else ""
        self._day = day
        self._path = f"{directory}part-{uuid.uuid4().hex}.zstd.parquet"
        self._place = f"{root}/{self._path}"
        self._system = system
        system.create_dir(f"{root}/{directory}", recursive=True)
        self._schema = schema
        self._output = system.open_output_stream(self._place)
        self._writer = pq.ParquetWriter(self._output, schema, compression="zstd")
        self._waiting: list[pa.Table] = []
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self._nulls = dict.fromkeys(schema.names, 0)
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take rows, which have at least the columns of the file."""
        rows = rows.select(self._schema.names).cast(self._schema)
        self._rows += len(rows)
        for field in self._schema:
            column = rows.column(field.name)
            self._nulls[field.name] += column.null_count
            if _has_bounds(field.type) and column.null_count < len(column):
                found = pc.min_max(column).as_py()
                known = self._bounds.get(field.name, (found["min"], found["max"]))
                self._bounds[field.name] = min(known[0], found["min"]), max(known[1], found["max"])
        self._waiting.append(rows)
        if sum(table.nbytes for table in self._waiting) >= _ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> WrittenFile:
        """Write the rest; return the file."""
        self._flush()
        self._writer.close()
        self._output.close()
        size: int = self._system.get_file_info(self._place).size
        bounds = {
            name: pair
            for name, pair in self._bounds.items()
            if not any(isinstance(value, str) and len(value) > _TEXT_MAX for value in pair)
        }
        stats = {
            "numRecords": self._rows,
            "minValues": {name: _stat(pair[0]) for name, pair in bounds.items()},
            "maxValues": {name: _stat(pair[1]) for name, pair in bounds.items()},
            "nullCount": {
                name: nulls for name, nulls in self._nulls.items() if not self._is_nested(name)
            },
        }
        return WrittenFile(self._path, size, self._day, json.dumps(stats))

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting.clear()

    def _is_nested(self, name: str) -> bool:
        return bool(pa.types.is_nested(self._schema.field(name).type))


def _by_date(rows: pa.Table, dated_by: str) -> Iterator[tuple[str, pa.Table]]:
    if not len(rows):
        return
    if not dated_by:
        yield "", rows
        return
    days = rows.column(dated_by).cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    for day in pc.unique(days).to_pylist():
        yield str(day), rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))


def _overlap(least: Any, most: Any, low: Any, high: Any) -> bool:
    """Return whether two ranges meet; None is an open end."""
    return (high is None or least is None or least <= high) and (
        low is None or most is None or most >= low
    )


def _has_bounds(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_string(kind)
    )


def _stat(value: Any) -> Any:
    return f"{value:%Y-%m-%dT%H:%M:%S.%f}Z" if isinstance(value, datetime) else value


def _action(file: WrittenFile) -> "AddAction":
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={DATE: file.date} if file.date else {},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=file.stats,
    )
