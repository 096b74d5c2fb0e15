"""The sink inside Spark: batch and streaming writes into a real nats-server."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from midge.pipeline.source import register


@pytest.fixture
def nats(spark, nats_server):
    """Return a function that points a reader or writer at the server."""
    register(spark)

    def point(there, **options):
        return there.format("nats").options(servers=nats_server.url, **options)

    return point


def test_batch_write_and_read_back(spark, nats, orders):
    rows = spark.range(1000).select(
        F.concat(F.lit("orders."), F.col("id") % 7).alias("subject"),
        F.col("id").cast("string").alias("payload"),
    )
    nats(rows.write).mode("append").save()
    back = nats(spark.read, stream="ORDERS").load().select(F.col("payload").cast("string"))
    assert sorted(int(row.payload) for row in back.collect()) == list(range(1000))


def test_an_error_names_the_row_to_the_user(spark, nats, orders):
    rows = spark.createDataFrame(
        [("orders.a", "x"), ("nobody.b", "y")], "subject string, payload string"
    )
    with pytest.raises(Exception, match=r"row 1 of partition 0 .*'nobody\.b'.: no stream takes"):
        nats(rows.coalesce(1).write).mode("append").save()


def test_repeats_after_an_injected_failure_are_suppressed(
    spark, nats, orders, make_stream, nats_server, tmp_path
):
    count = 4000
    orders.publish(count)
    copies = make_stream(nats_server, "COPIES", ["copies.>"])
    flag = str(tmp_path / "failed")

    def copy(until_failure):
        """Copy ORDERS to COPIES; break down once, when half of the only batch has gone through."""

        def break_down_once(batches):
            from pathlib import Path

            seen = 0
            for batch in batches:
                for start in range(0, batch.num_rows, 100):
                    if seen == count // 2 and until_failure and not Path(flag).exists():
                        Path(flag).touch()
                        raise RuntimeError("injected failure")
                    seen += min(100, batch.num_rows - start)
                    yield batch.slice(start, 100)

        source = nats(
            spark.readStream, stream="ORDERS", startingOffsets="earliest", minPartitions="1"
        ).load()
        rows = source.select(
            F.regexp_replace("subject", "^orders", "copies").alias("subject"), "payload"
        )
        broken = rows.mapInArrow(break_down_once, rows.schema)
        query = (
            nats(broken.writeStream, ackWindow="50")
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    with pytest.raises(StreamingQueryException, match="injected failure"):
        copy(until_failure=True)
    before = copies.state().messages
    assert 0 < before < count
    copy(until_failure=False)
    payloads = nats(spark.read, stream="COPIES").load().select("payload").collect()
    assert sorted(int(row.payload) for row in payloads) == list(range(count))
