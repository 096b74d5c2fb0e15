"""The streaming source on a cluster: both executors read, every message arrives once."""

from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.types import StringType, StructField, StructType

from midge.pipeline.source import register

MESSAGES = 60_000


def test_both_executors_read_the_stream(cluster_spark, nats_server, orders, tmp_path):
    register(cluster_spark)
    orders.publish(MESSAGES)
    source = (
        cluster_spark.readStream.format("nats")
        .options(servers=nats_server.url, stream="ORDERS", startingOffsets="earliest")
        .options(minPartitions="4", maxOffsetsPerTrigger="30000")
        .load()
    )

    def name_the_executor(batches):
        from pathlib import Path

        import pyarrow as pa

        # A standalone executor runs in <work-dir>/<application>/<executor id>.
        here = str(Path.cwd())
        for batch in batches:
            yield batch.append_column("executor", pa.repeat(pa.scalar(here), batch.num_rows))

    schema = StructType([*source.schema.fields, StructField("executor", StringType())])
    query = (
        source.mapInArrow(name_the_executor, schema)
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{tmp_path}/data")
    )
    assert query.awaitTermination(1700)
    rows = cluster_spark.read.parquet(f"{tmp_path}/data")
    total, distinct = rows.agg(F.count("sequence"), F.countDistinct("sequence")).first()
    assert (total, distinct) == (MESSAGES, MESSAGES)
    by_executor = {row.executor: row["count"] for row in rows.groupBy("executor").count().collect()}
    assert len(by_executor) == 2, by_executor
    assert min(by_executor.values()) >= MESSAGES // 8
