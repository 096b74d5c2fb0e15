"""Segments on disk: each is written whole or not at all, and damaged ones are skipped in reads.

Nothing here needs Spark.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from midge.pipeline.errors import PipelineError
from midge.pipeline.records.format import (
    DATA_SETS,
    DataSet,
    file_safe,
    is_hidden,
    schema_mismatch,
    segment_order,
    segment_path,
)


class RecordsError(PipelineError):
    """A place without records; the text names the place and the expected contents."""


@dataclass(frozen=True)
class BadSegment:
    """A file under a data set that is not a readable segment of it."""

    path: Path
    reason: str


def write_segment(path: Path, rows: pa.Table) -> None:
    """Write `rows` to `path` so that a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    pq.write_table(rows, scratch, compression="zstd")
    scratch.replace(path)


def write_records(
    root: Path,
    data_set: DataSet,
    server: str,
    rows: Sequence[Mapping[str, Any]],
    rows_per_segment: int = 250_000,
) -> list[Path]:
    """Write `rows`, which are in order of time, as segments of `data_set`; return the paths.

    A segment never spans two hours.
    """
    paths: list[Path] = []
    for hour in _split_hours(rows):
        for start in range(0, len(hour), rows_per_segment):
            part = hour[start : start + rows_per_segment]
            path = segment_path(root, data_set, part[0]["time"], server, len(paths))
            write_segment(path, pa.Table.from_pylist(list(part), schema=data_set.schema))
            paths.append(path)
    return paths


def list_segments(root: Path, data_set: DataSet) -> list[Path]:
    """Return every visible file of `data_set`, in order of time, server and number."""
    directory = root / data_set.name
    if not directory.is_dir():
        return []
    found = [path for path in directory.rglob("*") if path.is_file() and not is_hidden(path, root)]
    return sorted(found, key=segment_order)


def servers_and_segments(root: Path, data_set: DataSet) -> list[tuple[str, list[Path]]]:
    """Return each server's segments in the order it wrote them, by the server's file name."""
    by_server: dict[str, list[Path]] = {}
    for path in list_segments(root, data_set):
        by_server.setdefault(segment_order(path)[1], []).append(path)
    return sorted(by_server.items())


def next_number(root: Path, data_set: DataSet, server: str) -> int:
    """Return the number after the highest of a server's segments, 0 when it has none."""
    orders = (segment_order(path) for path in list_segments(root, data_set))
    numbers = [number for _, name, number, _ in orders if name == file_safe(server)]
    return max(numbers, default=-1) + 1


def read_counts(root: Path, data_set: DataSet) -> int:
    """Return the number of rows by the footers of all readable segments."""
    total = 0
    for path in list_segments(root, data_set):
        try:
            total += pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError):
            continue  # reading it reports the damage
    return total


def require_records(root: Path) -> None:
    """Check that `root` is a record directory.

    Raises:
        RecordsError: it is missing, or has none of the three data sets.
    """
    if not root.is_dir():
        raise RecordsError(f"{root}: no such directory; expected one that a server records into")
    if not any((root / name).is_dir() for name in DATA_SETS):
        names = ", ".join(f"{name}/" for name in DATA_SETS)
        raise RecordsError(f"{root}: holds no records; expected {names} in it")


def check_segment(source: Any, data_set: DataSet) -> str | None:
    """Read all of a segment; return why it is not a segment of `data_set`, or None.

    `source` is a path or an open binary file. Every page is decoded: a file may be cut or changed
    in the middle and still end in a good footer.
    """
    try:
        with pq.ParquetFile(source) as file:
            mismatch = schema_mismatch(file.schema_arrow, data_set)
            return mismatch or _missing_value(file, data_set)
    except FileNotFoundError:
        return "gone before it was read"
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        return f"not a readable Parquet file: {reason}"


def read_batches(
    root: Path,
    data_set: DataSet,
    columns: Iterable[str] | None = None,
    on_bad: Callable[[BadSegment], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `data_set`, segment by segment in order of time.

    A damaged file is passed to `on_bad` and completely skipped.
    """
    for path in list_segments(root, data_set):
        yield from read_segment(path, data_set, columns, on_bad)


def read_segment(
    path: Path,
    data_set: DataSet,
    columns: Iterable[str] | None = None,
    on_bad: Callable[[BadSegment], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment; a damaged one is passed to `on_bad` and yields nothing."""
    wanted = list(columns) if columns is not None else data_set.schema.names
    schema = pa.schema([data_set.schema.field(name) for name in wanted])
    reason = check_segment(path, data_set)
    if reason is not None:
        on_bad(BadSegment(path, reason))
        return
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=wanted):
            yield batch.select(wanted).cast(schema)


def read_table(
    root: Path,
    data_set: DataSet,
    columns: Iterable[str] | None = None,
    on_bad: Callable[[BadSegment], None] = lambda _: None,
) -> pa.Table:
    """Return all good rows of `data_set` as one table; see `read_batches`."""
    wanted = list(columns) if columns is not None else data_set.schema.names
    schema = pa.schema([data_set.schema.field(name) for name in wanted])
    return pa.Table.from_batches(read_batches(root, data_set, wanted, on_bad), schema)


def _split_hours(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or _hour(rows[i]) != _hour(rows[start]):
            yield rows[start:i]
            start = i


def _hour(row: Mapping[str, Any]) -> str:
    return f"{row['time'].astimezone(UTC):%Y-%m-%dT%H}"


def _missing_value(file: pq.ParquetFile, data_set: DataSet) -> str | None:
    """Decode all of a segment; return the column that lacks a required value, or None."""
    required = [field.name for field in data_set.schema if not field.nullable]
    for batch in file.iter_batches(columns=data_set.schema.names):
        for name in required:
            if batch.column(name).null_count:
                return f"not a segment of {data_set.name}: column {name!r} has a null"
    return None
