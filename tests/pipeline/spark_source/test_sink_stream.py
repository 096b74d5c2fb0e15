"""The sink inside Spark: batch and streaming writes into a real nats-server."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from midge.pipeline.source import latest_by_key, register


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


def test_the_same_rows_written_twice_are_stored_twice(spark, nats, orders):
    rows = spark.range(50).selectExpr("'orders.x' AS subject", "string(id) AS payload")
    for _ in range(2):
        nats(rows.write).mode("append").save()
    assert orders.state().messages == 100


def test_a_micro_batch_repeated_in_other_partitions_is_stored_once(
    spark, nats, orders, make_stream, nats_server, tmp_path
):
    orders.publish(100)
    copies = make_stream(nats_server, "COPIES", ["copies.>"])
    for partitions in ("4", "3"):
        source = nats(
            spark.readStream, stream="ORDERS", startingOffsets="earliest", minPartitions=partitions
        ).load()
        rows = source.selectExpr("stream", "sequence", "payload")
        query = (
            nats(rows.writeStream, subject="copies.x")
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        # The driver ends after the rows are written and before it has noted that.
        for note in (tmp_path / "checkpoint" / "commits").glob("*0*"):
            note.unlink()
    assert copies.state().messages == 100


def test_an_error_names_the_row_to_the_user(spark, nats, orders):
    rows = spark.createDataFrame(
        [("orders.a", "x"), ("nobody.b", "y")], "subject string, payload string"
    )
    with pytest.raises(Exception, match=r"row 1 of partition 0 .*'nobody\.b'.: no stream takes"):
        nats(rows.coalesce(1).write).mode("append").save()


def test_repeats_after_a_failure_in_mid_batch_are_suppressed(
    spark, nats, orders, make_stream, nats_server, tmp_path
):
    count, broken = 4000, 2000
    orders.publish(count)
    copies = make_stream(nats_server, "COPIES", ["copies.>"])

    def copy():
        """Copy ORDERS to COPIES; the message in the middle wants a stream that is not there yet."""
        source = nats(
            spark.readStream, stream="ORDERS", startingOffsets="earliest", minPartitions="2"
        ).load()
        subject = F.regexp_replace("subject", "^orders", "copies")
        late = F.when(F.col("sequence") == broken, "late.x").otherwise(subject)
        query = (
            nats(source.select(late.alias("subject"), "payload").writeStream, ackWindow="50")
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    with pytest.raises(StreamingQueryException, match=r"'late\.x'.: no stream takes this subject"):
        copy()
    assert 0 < copies.state().messages < count
    make_stream(nats_server, "LATE", ["late.>"])
    copy()
    payloads = nats(spark.read, stream="COPIES").load().select("payload").collect()
    numbers = [n for n in range(count) if n != broken - 1]
    assert sorted(int(row.payload) for row in payloads) == numbers


@pytest.mark.timeout(300)
def test_a_query_rides_out_restarts_of_its_server(
    spark, nats, orders, make_stream, nats_server, tmp_path
):
    count = 6000
    orders.publish(count)
    make_stream(nats_server, "COPIES", ["copies.>"])
    source = nats(
        spark.readStream, stream="ORDERS", startingOffsets="earliest", maxOffsetsPerTrigger="500"
    ).load()
    rows = source.select(
        F.regexp_replace("subject", "^orders", "copies").alias("subject"), "payload"
    )
    query = (
        nats(rows.writeStream, ackWindow="50")
        .option("checkpointLocation", f"{tmp_path}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive:
        # Between these the query takes one or two of its twelve micro-batches.
        if query.awaitTermination(1.5):
            break
        nats_server.kill()
        nats_server.restart()
    assert query.exception() is None
    payloads = nats(spark.read, stream="COPIES").load().select("payload").collect()
    assert sorted(int(row.payload) for row in payloads) == list(range(count))


def test_a_buckets_latest_state(spark, nats, nats_server, make_stream):
    make_stream(nats_server, "KV_b", ["$KV.b.>"], max_msgs_per_subject=5)
    rows = [("k.1", "a"), ("k.2", "b"), ("k.1", "c"), ("k.2", None), ("k.3", None), ("k.3", "d")]
    for key, value in rows:
        frame = spark.createDataFrame([(f"$KV.b.{key}", value)], "subject string, payload string")
        nats(frame.write).mode("append").save()
    bucket = nats(spark.read, stream="KV_b", includeHeaders="true").load()
    found = {row.key: (bytes(row.payload), row.sequence) for row in latest_by_key(bucket).collect()}
    assert found == {"k.1": (b"c", 3), "k.3": (b"d", 6)}


def test_several_streams_in_one_query(spark, nats, nats_server, make_stream, tmp_path):
    frames = []
    for name in ("A", "B"):
        make_stream(nats_server, name, [f"{name}.>"]).publish(50, subject=name.encode() + b".x")
        frames.append(nats(spark.readStream, stream=name, startingOffsets="earliest").load())
    everything = make_stream(nats_server, "ALL", ["all.>"])
    rows = frames[0].unionByName(frames[1])
    for _ in range(2):
        query = nats(rows.drop("subject").writeStream, subject="all.x", extraColumns="ignore")
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert query.start().awaitTermination(60)
    assert everything.state().messages == 100
