"""The record format: the three Parquet data sets that a recording server writes.

Here are their schemas, where a segment lies and what it is called, and readers that set corrupt and
foreign files aside instead of failing on them. Nothing here needs Spark.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from midge.pipeline.errors import PipelineError

TIME = pa.timestamp("us", tz="UTC")
"""Every `time` is the server's wall clock, in microseconds."""

HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
"""Header names as they were sent, each with its values in order."""


class RecordsError(PipelineError):
    """There are no records in a place; the text names it and what was expected."""


@dataclass(frozen=True)
class DataSet:
    """One of the three data sets: its directory under the record root, and its columns."""

    name: str
    schema: pa.Schema


MESSAGES = DataSet(
    "messages",
    pa.schema(
        [
            pa.field("time", TIME, nullable=False),
            pa.field("server", pa.string(), nullable=False),
            pa.field("account", pa.string(), nullable=False),
            pa.field("cid", pa.int64(), nullable=False),
            pa.field("subject", pa.string(), nullable=False),
            pa.field("reply", pa.string()),
            pa.field("headers", HEADERS),
            pa.field("payload", pa.binary()),
            pa.field("size", pa.int64(), nullable=False),
            pa.field("plain_deliveries", pa.int32(), nullable=False),
            pa.field("queue_deliveries", pa.int32(), nullable=False),
            pa.field("no_interest", pa.bool_(), nullable=False),
        ]
    ),
)
"""One row per message that the server routed; `cid` published it, `size` counts headers too."""

INTEREST = DataSet(
    "interest",
    pa.schema(
        [
            pa.field("time", TIME, nullable=False),
            pa.field("server", pa.string(), nullable=False),
            pa.field("account", pa.string(), nullable=False),
            pa.field("cid", pa.int64(), nullable=False),
            pa.field("sid", pa.string(), nullable=False),
            pa.field("event", pa.string(), nullable=False),
            pa.field("subject", pa.string(), nullable=False),
            pa.field("queue", pa.string()),
            pa.field("delivered", pa.int64(), nullable=False),
            pa.field("client_name", pa.string()),
        ]
    ),
)
"""One row per beginning and end of a subscription: `event` is `sub`, and then `unsub` for UNSUB,
`auto_unsub` when its maximum was reached, or `disconnect` when its client went with it."""

CLIENTS = DataSet(
    "clients",
    pa.schema(
        [
            pa.field("time", TIME, nullable=False),
            pa.field("server", pa.string(), nullable=False),
            pa.field("account", pa.string(), nullable=False),
            pa.field("cid", pa.int64(), nullable=False),
            pa.field("event", pa.string(), nullable=False),
            pa.field("client_name", pa.string()),
            pa.field("lang", pa.string()),
            pa.field("version", pa.string()),
            pa.field("host", pa.string()),
            pa.field("port", pa.int32()),
            pa.field("reason", pa.string()),
            pa.field("in_msgs", pa.int64(), nullable=False),
            pa.field("out_msgs", pa.int64(), nullable=False),
            pa.field("in_bytes", pa.int64(), nullable=False),
            pa.field("out_bytes", pa.int64(), nullable=False),
        ]
    ),
)
"""One row per `connect` and `disconnect`; `in_` is from the client; `reason` is null on connect."""

DATA_SETS: Mapping[str, DataSet] = {each.name: each for each in (MESSAGES, INTEREST, CLIENTS)}

SLOW_CONSUMER_REASON = "slow consumer"
"""How a disconnect reason begins, in lower case, when the client was too slow."""

_SEGMENT_NAME = re.compile(r"part-(?P<server>.+)-(?P<number>\d+)\.parquet")


@dataclass(frozen=True)
class BadSegment:
    """A file under a data set that is no readable segment of it."""

    path: Path
    reason: str


def segment_path(root: Path, data_set: DataSet, time: datetime, server: str, number: int) -> Path:
    """Return where the segment that begins at `time` lies once it is whole."""
    time = time.astimezone(UTC)
    name = f"part-{_file_safe(server)}-{number:06d}.parquet"
    return root / data_set.name / f"date={time:%Y-%m-%d}" / f"hour={time:%H}" / name


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
    """Write `rows`, which are in order of time, as segments of `data_set`; return their paths.

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
    found = [path for path in directory.rglob("*") if path.is_file() and not _is_hidden(path, root)]
    return sorted(found, key=_segment_order)


def servers_and_segments(root: Path, data_set: DataSet) -> list[tuple[str, list[Path]]]:
    """Return each server's segments in the order it wrote them, by the server's file name."""
    by_server: dict[str, list[Path]] = {}
    for path in list_segments(root, data_set):
        by_server.setdefault(_segment_order(path)[1], []).append(path)
    return sorted(by_server.items())


def next_number(root: Path, data_set: DataSet, server: str) -> int:
    """Return the number after the highest of a server's segments, 0 when it has none."""
    orders = (_segment_order(path) for path in list_segments(root, data_set))
    numbers = [number for _, name, number, _ in orders if name == _file_safe(server)]
    return max(numbers, default=-1) + 1


def read_counts(root: Path, data_set: DataSet) -> int:
    """Return how many rows the footers of all readable segments promise."""
    total = 0
    for path in list_segments(root, data_set):
        try:
            total += pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError):
            continue  # named when it is read
    return total


def require_records(root: Path) -> None:
    """Check that `root` is a record directory.

    Raises:
        RecordsError: it is missing, or holds none of the three data sets.
    """
    if not root.is_dir():
        raise RecordsError(f"{root}: no such directory; expected one that a server records into")
    if not any((root / name).is_dir() for name in DATA_SETS):
        names = ", ".join(f"{name}/" for name in DATA_SETS)
        raise RecordsError(f"{root}: holds no records; expected {names} in it")


def check_segment(source: Any, data_set: DataSet) -> str | None:
    """Read all of a segment; return why it is not one of `data_set`, or None when it is.

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
        return f"not a readable Parquet file: {_first_line(error)}"


def schema_mismatch(schema: pa.Schema, data_set: DataSet) -> str | None:
    """Return what `schema` lacks to be one of `data_set`, or None; more columns are welcome."""
    for field in data_set.schema:
        if field.name not in schema.names:
            return f"not a segment of {data_set.name}: column {field.name!r} is missing"
        found = schema.field(field.name).type
        if _plain_type(found) != _plain_type(field.type):
            return (
                f"not a segment of {data_set.name}: column {field.name!r} is {found}, "
                f"expected {field.type}"
            )
    return None


def read_batches(
    root: Path,
    data_set: DataSet,
    columns: Iterable[str] | None = None,
    on_bad: Callable[[BadSegment], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `data_set`, segment by segment in order of time.

    A file that is no good segment is given to `on_bad` and left out as a whole.
    """
    for path in list_segments(root, data_set):
        yield from read_segment(path, data_set, columns, on_bad)


def read_segment(
    path: Path,
    data_set: DataSet,
    columns: Iterable[str] | None = None,
    on_bad: Callable[[BadSegment], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one segment; a bad one is given to `on_bad` and yields nothing."""
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


def data_set_of(relative_path: str) -> DataSet | None:
    """Return the data set that a path relative to the record root belongs to."""
    return DATA_SETS.get(relative_path.split("/", 1)[0])


def _split_hours(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    start = 0
    for i in range(1, len(rows) + 1):
        if i == len(rows) or _hour(rows[i]) != _hour(rows[start]):
            yield rows[start:i]
            start = i


def _hour(row: Mapping[str, Any]) -> str:
    return f"{row['time'].astimezone(UTC):%Y-%m-%dT%H}"


def _file_safe(server: str) -> str:
    """Return a server's name as part of a file name; what a path cannot hold becomes `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", server) or "_"


def _is_hidden(path: Path, root: Path) -> bool:
    """Tell whether Spark would pass over this file too: half-written ones begin with a dot."""
    return any(part.startswith((".", "_")) for part in path.relative_to(root).parts)


def _segment_order(path: Path) -> tuple[str, str, int, str]:
    found = _SEGMENT_NAME.fullmatch(path.name)
    server, number = (found["server"], int(found["number"])) if found else ("", 0)
    return str(path.parent), server, number, path.name


def _plain_type(kind: pa.DataType) -> str:
    """Name a type by what it holds, whichever of Arrow's layouts it is in."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_map(kind):
        return f"map<{_plain_type(kind.key_type)}, {_plain_type(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_plain_type(kind.value_type)}>"
    return str(kind).replace("large_", "").replace("_view", "")


def _missing_value(file: pq.ParquetFile, data_set: DataSet) -> str | None:
    """Decode all of a segment; return which column lacks a value that it must have, or None."""
    required = [field.name for field in data_set.schema if not field.nullable]
    for batch in file.iter_batches(columns=data_set.schema.names):
        for name in required:
            if batch.column(name).null_count:
                return f"not a segment of {data_set.name}: column {name!r} has a null"
    return None


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
