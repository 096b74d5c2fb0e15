"""Bronze: the recorded segments unchanged, and the quarantine for files that are not segments.

Every file is read whole by pyarrow in a worker before Spark reads it, so a bad one is named in the
quarantine instead of failing the job or, worse, being left out in silence.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import functions as sf

from midge.pipeline.lake.storage import as_path
from midge.pipeline.lake.tables import TABLES
from midge.pipeline.records.files import check_segment
from midge.pipeline.records.format import DATA_SETS, DataSet, data_set_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

LISTING = "path string, modificationTime timestamp, length long, content binary"
"""The columns of Spark's `binaryFile` source; `content` is never selected."""


class Verdict(NamedTuple):
    """A file, its path under the record root, and why it is not a segment; None for a valid one."""

    path: str
    segment: str
    reason: str | None


def inspect_segments(
    spark: "SparkSession", paths: Sequence[str], record_root: str
) -> list[Verdict]:
    """Read and check all files in the workers; `paths` are URIs."""

    def inspect(paths: Iterable[str]) -> Iterator[Verdict]:
        for path in paths:
            segment = segment_of(path, record_root)
            yield Verdict(path, segment, _judge(path, segment))

    context = spark.sparkContext
    slices = max(1, min(len(paths), context.defaultParallelism))
    verdicts: list[Verdict] = context.parallelize(paths, slices).mapPartitions(inspect).collect()
    return verdicts


def quarantine(
    spark: "SparkSession", listing: "Sequence[Row]", bad: Sequence[Verdict]
) -> "DataFrame":
    """Return the files that are not segments, with the reason."""
    files = {row.path: row for row in listing}
    seen = datetime.now(UTC)
    rows = [
        (
            each.segment,
            each.reason,
            files[each.path].length,
            files[each.path].modificationTime,
            seen,
        )
        for each in bad
    ]
    return spark.createDataFrame(rows, TABLES["bronze/quarantine"].columns)


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
    if path.startswith("file:"):
        return check_segment(as_path(path), data_set)
    try:
        # Hadoop and Arrow call the same store by two names.
        system, place = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
        with system.open_input_file(place) as file:
            return check_segment(file, data_set)
    except FileNotFoundError:
        return "gone before it was read"
    except (pa.ArrowException, OSError) as error:
        return f"not readable: {error}"
