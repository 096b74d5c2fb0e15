"""Bronze: the recorded segments as they are, and the files among them that are none.

Every file is read whole by pyarrow in a worker before Spark reads it, so a bad one is named in the
quarantine instead of failing the job or, worse, being left out in silence.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import functions as F

from midge.pipeline.records import DATA_SETS, DataSet, check_segment, data_set_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTING = "path string, modificationTime timestamp, length long, content binary"
"""What Spark's `binaryFile` source gives for a file; `content` is never asked for."""

_VERDICT = "path string, segment string, reason string"
_VERDICT_ARROW = pa.schema([(name, pa.string()) for name in ("path", "segment", "reason")])


def inspect_segments(listing: "DataFrame", record_root: str, parallelism: int) -> "DataFrame":
    """Return each file of a listing with its `segment`, the path under the root, and a `reason`.

    `reason` says why the file is no segment; it is null for a good one.
    """

    def inspect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            paths = batch.column("path").to_pylist()
            segments = [segment_of(path, record_root) for path in paths]
            reasons = [_verdict(*pair) for pair in zip(paths, segments, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(each, pa.string()) for each in (paths, segments, reasons)],
                schema=_VERDICT_ARROW,
            )

    return listing.select("path").repartition(parallelism).mapInArrow(inspect, _VERDICT)


def quarantine(listing: "DataFrame", verdicts: "DataFrame") -> "DataFrame":
    """Return the files that are no segments, with what is known of them."""
    bad = verdicts.where("reason IS NOT NULL")
    return bad.join(F.broadcast(listing), "path").select(
        "segment",
        "reason",
        F.col("length").alias("size_bytes"),
        F.col("modificationTime").alias("modified"),
        F.current_timestamp().alias("seen"),
    )


def read_segments(
    spark: "SparkSession", data_set: DataSet, paths: list[str], record_root: str
) -> "DataFrame":
    """Return all rows of good segments, each with the `segment` and `row` that it came from."""
    from pyspark.sql.pandas.types import from_arrow_schema

    frame = spark.read.schema(from_arrow_schema(data_set.schema)).parquet(*paths)
    prefix = _normal(record_root)
    path = F.regexp_replace(F.url_decode(F.col("_metadata.file_path")), r"^file:/+", "/")
    return frame.select(
        "*",
        F.substring(path, len(prefix) + 2, 4096).alias("segment"),
        F.col("_metadata.row_index").alias("row"),
    )


def segment_of(path: str, record_root: str) -> str:
    """Return a file's path relative to the record root."""
    return _normal(path).removeprefix(_normal(record_root)).lstrip("/")


def _verdict(path: str, segment: str) -> str | None:
    data_set = data_set_of(segment)
    if data_set is None:
        return f"not in a data set: expected {', '.join(f'{name}/' for name in DATA_SETS)}"
    if path.startswith("file:"):
        return check_segment(_normal(path), data_set)
    try:
        # Hadoop and Arrow call the same store by two names.
        system, place = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
        with system.open_input_file(place) as file:
            return check_segment(file, data_set)
    except FileNotFoundError:
        return "gone before it was read"
    except (pa.ArrowException, OSError) as error:
        return f"not readable: {error}"


def _normal(path: str) -> str:
    """Return a `file:` URI as a bare path, whichever way it is spelled, and any other as it is."""
    if path.startswith("file:"):
        return "/" + unquote(path.removeprefix("file:")).strip("/")
    return path.rstrip("/")
