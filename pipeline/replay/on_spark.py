"""Replay from Spark: the same messages, spread over one connection per task.

Subjects are distributed by hash, each with all its messages, so the order per subject is kept. All
tasks begin together at a barrier, and keep a common pace.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from midge.client.client import NatsClient
from midge.pipeline.lake import bronze
from midge.pipeline.lake.storage import as_uri
from midge.pipeline.records.files import BadSegment, list_segments, require_records
from midge.pipeline.records.format import MESSAGES
from midge.pipeline.replay.replay import (
    COLUMNS,
    Replayed,
    ReplayOptions,
    prepare,
    publish,
    target_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DONE = "messages long, bytes long, padded long"


def replay_from_spark(
    spark: "SparkSession", records: str, options: ReplayOptions, connections: int | None = None
) -> Replayed:
    """Send the recorded messages to the server from `connections` tasks at once.

    There cannot be more connections than the cluster has slots, which is the default.

    Raises:
        RecordsError: records are missing.
        ServerError: the server cannot be reached.
    """
    root = Path(records)
    require_records(root)
    paths = [as_uri(path) for path in list_segments(root, MESSAGES)]
    verdicts = bronze.inspect_segments(spark, paths, as_uri(root))
    done = Replayed()
    done.bad_segments += [
        BadSegment(Path(each.segment), each.reason) for each in verdicts if each.reason is not None
    ]
    good = [each.path for each in verdicts if each.reason is None]
    if good:
        messages = bronze.read_segments(spark, MESSAGES, good, as_uri(root))
        done.add(replay_frame(messages, options, connections))
    return done


def replay_frame(
    messages: "DataFrame", options: ReplayOptions, connections: int | None = None
) -> Replayed:
    """Send the rows of a table such as `bronze/messages`; see `replay_from_spark`."""
    spark = messages.sparkSession
    with NatsClient(options.connect):
        # Report an unreachable server here, once, and not in every task.
        pass
    wanted = _wanted(messages, options)
    first = wanted.agg(sf.min("time")).first()
    if first is None or first[0] is None:
        return Replayed(skipped=messages.count())
    first_s = first[0].timestamp()
    number = sf.regexp_extract("segment", r"-(\d+)\.parquet$", 1).cast("long")
    spread = (
        wanted.withColumn("_number", number)
        .repartition(connections or spark.sparkContext.defaultParallelism, "_target")
        .sortWithinPartitions("time", "_number", "row")
        .select(*COLUMNS)
    )

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = Replayed()
        with NatsClient(options.connect) as client:
            BarrierTaskContext.get().barrier()
            outgoing = prepare(batches, options, part)
            publish(client, outgoing, options.speed, part, first_s=first_s)
        counts = (part.messages, part.bytes, part.padded)
        names = ["messages", "bytes", "padded"]
        yield pa.RecordBatch.from_arrays([pa.array([n]) for n in counts], names=names)

    done = Replayed(skipped=messages.count())
    for row in spread.mapInArrow(send, _DONE, barrier=True).collect():
        done.add(Replayed(row.messages, row.bytes, -row.messages, row.padded))
    return done


def _wanted(messages: "DataFrame", options: ReplayOptions) -> "DataFrame":
    """Keep the messages that pass the filters, with their target subject as `_target`."""
    if options.accounts:
        messages = messages.where(sf.col("account").isin(*options.accounts))
    if options.since is not None:
        messages = messages.where(sf.col("time") >= sf.lit(options.since))
    if options.until is not None:
        messages = messages.where(sf.col("time") < sf.lit(options.until))
    schema = StructType([*messages.schema.fields, StructField("_target", StringType())])

    def add_target(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        targets: dict[str, str | None] = {}
        for batch in batches:
            column = []
            for subject in batch.column("subject").to_pylist():
                if subject not in targets:
                    targets[subject] = target_of(subject, options)
                column.append(targets[subject])
            arrays = [*batch.columns, pa.array(column, pa.string())]
            yield pa.RecordBatch.from_arrays(arrays, names=schema.names)

    return messages.mapInArrow(add_target, schema).where("_target IS NOT NULL")
