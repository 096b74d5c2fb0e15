"""Bronze: the recorded segments unchanged, and the quarantine for files that are not segments.

Every file is read whole by pyarrow in a worker before Spark reads it, so a bad one is named in the
quarantine instead of failing the job or, worse, being left out in silence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from midge.pipeline.lake.storage import arrow_file_system, as_path
from midge.pipeline.records.files import check_segment
from midge.pipeline.records.format import DATA_SETS, MESSAGES, DataSet, data_set_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

LISTING = "path string, modificationTime timestamp, length long, content binary"
"""The columns of Spark's `binaryFile` source; `content` is never selected."""


@dataclass(frozen=True)
class MessageTimes:
    """Counts and times of messages, and how many came after the watermark, and how long after."""

    messages: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    late_messages: int = 0
    max_lateness_s: float = 0.0


class SegmentCheck(NamedTuple):
    """A file, its path under the record root, and why it is not a segment; None for a valid one."""

    path: str
    segment: str
    reason: str | None
    times: MessageTimes = MessageTimes()


def inspect_segments(
    spark: "SparkSession | None",
    paths: Sequence[str],
    record_root: str,
    watermark: datetime | None = None,
) -> list[SegmentCheck]:
    """Read and check all files, in Spark's workers unless there is no `spark`; `paths` are URIs."""

    def inspect(paths: Iterable[str]) -> Iterator[SegmentCheck]:
        for path in paths:
            segment = segment_of(path, record_root)
            reason = _judge(path, segment)
            is_timed = reason is None and segment.startswith(f"{MESSAGES.name}/")
            times = _times(path, watermark) if is_timed else MessageTimes()
            yield SegmentCheck(path, segment, reason, times)

    if spark is None:
        return list(inspect(paths))
    context = spark.sparkContext
    slices = max(1, min(len(paths), context.defaultParallelism))
    checks: list[SegmentCheck] = context.parallelize(paths, slices).mapPartitions(inspect).collect()
    return checks


def quarantine(listing: "Sequence[Row]", bad: Sequence[SegmentCheck]) -> pa.Table:
    """Return the files that are not segments, with the reason."""
    files = {row.path: row for row in listing}
    seen = datetime.now(UTC)
    return pa.Table.from_pylist(
        [
            {
                "segment": each.segment,
                "reason": each.reason,
                "size_bytes": files[each.path].length,
                "modified": files[each.path].modificationTime.astimezone(UTC),
                "seen": seen,
            }
            for each in bad
        ]
    )


def read_small(data_set: DataSet, segments: Iterable[SegmentCheck]) -> pa.Table:
    """Return what `read_segments` returns, read by this process."""
    tables = []
    for each in segments:
        with _opened(each.path) as file:
            rows = pq.read_table(file).select(data_set.schema.names).cast(data_set.schema)
        rows = rows.append_column("segment", pa.repeat(each.segment, len(rows)))
        tables.append(rows.append_column("row", pa.array(range(len(rows)), pa.int64())))
    return pa.concat_tables(tables)


def read_segments(
    spark: "SparkSession", data_set: DataSet, paths: list[str], record_root: str
) -> "DataFrame":
    """Return all rows of good segments, each with the `segment` and `row` that it came from."""
    from pyspark.sql.pandas.types import from_arrow_schema

    frame = spark.read.schema(from_arrow_schema(data_set.schema)).parquet(*paths)
    prefix = as_path(record_root)
    path = sf.regexp_replace(sf.url_decode(sf.col("_metadata.file_path")), r"^file:/+", "/")
    return frame.select(
        "*",
        sf.substring(path, len(prefix) + 2, 4096).alias("segment"),
        sf.col("_metadata.row_index").alias("row"),
    )


def segment_of(path: str, record_root: str) -> str:
    """Return a file's path relative to the record root."""
    return as_path(path).removeprefix(as_path(record_root)).lstrip("/")


def _judge(path: str, segment: str) -> str | None:
    data_set = data_set_of(segment)
    if data_set is None:
        return f"not in a data set: expected {', '.join(f'{name}/' for name in DATA_SETS)}"
    try:
        with _opened(path) as file:
            return check_segment(file, data_set)
    except FileNotFoundError:
        return "gone before it was read"
    except (pa.ArrowException, OSError) as error:
        return f"not readable: {error}"


def _times(path: str, watermark: datetime | None) -> MessageTimes:
    with _opened(path) as file:
        column = pq.read_table(file, columns=["time"]).column("time")
    if not len(column):
        return MessageTimes()
    bounds = pc.min_max(column).as_py()
    times = MessageTimes(len(column), bounds["min"], bounds["max"])
    if watermark is None or bounds["min"] >= watermark:
        return times
    late = pc.sum(pc.less(column, pa.scalar(watermark, column.type))).as_py()
    return replace(
        times, late_messages=late, max_lateness_s=(watermark - bounds["min"]).total_seconds()
    )


def _opened(path: str) -> pa.NativeFile:
    system, place = arrow_file_system(path)
    return system.open_input_file(place)
