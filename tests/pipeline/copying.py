"""The program that the kill tests kill: it copies ORDERS into COPIES and into Parquet files.

Arguments: master, the NATS server's URL, a directory, partitions, and `all` to end once everything
is copied; the rows of the files are then in `rows.txt`.
"""

import sys
import time
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from midge.pipeline.session import spark_session
from midge.pipeline.source import register

TOO_BUSY = "Python worker failed to connect back"
"""Spark gives a new Python process 10 s, which no setting changes; users start the query again."""
PAUSE_S = 30
"""Processes that were late are still starting, and would make new ones late as well."""


def started(writer):
    """Start a query; return it once it is under way, or over."""
    query = writer.start()
    while query.isActive and query.lastProgress is None:
        time.sleep(0.2)
    return query


def retried(action):
    """Return what an action on a query returns, and None if the machine was too busy for it."""
    try:
        return action()
    except PySparkException as error:
        if TOO_BUSY not in str(error):
            raise
        print(TOO_BUSY, file=sys.stderr, flush=True)
        time.sleep(PAUSE_S)
        return None


def main(master, url, directory, partitions, last=""):
    spark = spark_session(
        "copying",
        master,
        {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.task.maxFailures": "100",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    register(spark)
    orders = (
        spark.readStream.format("nats")
        .options(servers=url, stream="ORDERS", startingOffsets="earliest")
        .options(minPartitions=partitions, maxOffsetsPerTrigger="4000" if last else "200")
        .load()
    )
    copies = orders.select(
        F.regexp_replace("subject", "^orders", "copies").alias("subject"),
        *("stream", "sequence", "payload"),
    )
    sink = copies.writeStream.format("nats").options(servers=url, ackWindow="20")
    files = orders.writeStream.format("parquet").option("path", f"{directory}/rows")
    trigger = {"availableNow": True} if last else {"processingTime": "0 seconds"}
    writers = [
        writer.option("checkpointLocation", f"{directory}/checkpoint-{name}").trigger(**trigger)
        for name, writer in (("sink", sink), ("files", files))
    ]
    queries = [(writer, None) for writer in writers]
    while queries:
        writer, query = queries.pop(0)
        query = query or retried(partial(started, writer))
        is_over = query and retried(partial(query.awaitTermination, 1))
        if not is_over:
            queries.append((writer, query if is_over is False else None))
    if last:
        rows = spark.read.parquet(f"{directory}/rows").select("sequence", "subject", "payload")
        lines = [f"{seq} {subject} {payload.decode()}" for seq, subject, payload in rows.collect()]
        Path(directory, "rows.txt").write_text("\n".join(lines))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
