"""The source inside Spark: batch and streaming queries against a real nats-server."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from midge.pipeline.errors import exit_on_error
from midge.pipeline.offsets import lag
from midge.pipeline.source import register


@pytest.fixture
def read(spark, nats_server):
    """Return a function that points `spark.read` or `spark.readStream` at stream ORDERS."""
    register(spark)

    def load(reader, **options):
        given = {"servers": nats_server.url, "stream": "ORDERS", **options}
        return reader.format("nats").options(**given).load()

    return load


def drain(frame, folder, **options):
    """Run an `availableNow` query into Parquet to its end and return its progress reports."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .options(**options)
        .trigger(availableNow=True)
        .start(f"{folder}/data")
    )
    query.awaitTermination(90)
    return query.recentProgress


def test_batch_reads_every_message_once_in_several_partitions(spark, read, orders):
    orders.publish(25_000)
    frame = read(spark.read, minPartitions="3")
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.orderBy("sequence").collect()
    assert [row.sequence for row in rows] == list(range(1, 25_001))
    assert [bytes(row.payload) for row in rows[:2]] == [b"0", b"1"]
    assert (rows[13].subject, rows[13].stream) == ("orders.3", "ORDERS")


def test_batch_with_headers_and_a_filter(spark, read, orders):
    orders.publish(20, headers=b"NATS/1.0\r\nTrace: t1\r\nTrace: t2\r\n\r\n")
    frame = read(spark.read, subject="orders.7", includeHeaders="true")
    rows = frame.select("sequence", "headers").orderBy("sequence").collect()
    assert [row.sequence for row in rows] == [8, 18]
    assert rows[0].headers == {"Trace": ["t1", "t2"]}


@pytest.fixture
def pushing(spark):
    """Enable the push-down of filters in the session for one test."""
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    yield
    spark.conf.unset(setting)


def test_filters_and_limits_reach_the_server(spark, read, orders, nats_server, pushing):
    orders.publish(25_000)

    def answer(where):
        """Return a query's rows and how many messages the server sent for them."""
        before = nats_server.sent_messages()
        rows = read(spark.read, pushFilters="true").where(where).select("sequence").collect()
        return sorted(row.sequence for row in rows), nats_server.sent_messages() - before

    rows, sent = answer("sequence <= 10")
    # Besides the ten, the server sends answers of its API.
    assert (rows, sent <= 20) == (list(range(1, 11)), True)
    rows, sent = answer("subject = 'orders.3' AND sequence > 24900")
    assert (len(rows), sent <= 20) == (10, True)
    for none in ("subject like 'orders.3.%'", "time < '2020-01-01'", "time > '2100-01-01'"):
        rows, sent = answer(none)
        assert (rows, sent <= 20) == ([], True)
    rows, sent = answer("sequence <= 10 OR sequence = 24000")
    assert (len(rows), sent >= 25_000) == (11, True)
    before = nats_server.sent_messages()
    assert len(read(spark.read).limit(10).collect()) == 10
    assert nats_server.sent_messages() - before < 25_000


def test_all_queries_of_a_frame_are_right_unless_it_pushes_filters(spark, read, orders, pushing):
    orders.publish(100)
    frame = read(spark.read)
    first, last = frame.where("sequence <= 10"), frame.where("sequence > 95")
    assert [first.count(), frame.count(), first.union(last).count()] == [10, 100, 15]


def test_a_users_schema_prunes_columns(spark, read, orders):
    orders.publish(50)
    frame = read(spark.read.schema("sequence long, subject string"))
    assert frame.columns == ["sequence", "subject"]
    assert frame.orderBy("sequence").collect()[12] == (13, "orders.2")


def test_stream_reads_in_portions_resumes_and_reports_its_lag(spark, read, orders, tmp_path):
    orders.publish(1000)
    frame = read(spark.readStream, startingOffsets="earliest", maxOffsetsPerTrigger="400")
    progress = drain(frame, tmp_path)
    assert [report["numInputRows"] for report in progress] == [400, 400, 200]
    assert [lag(report["sources"][0]) for report in progress] == [600, 200, 0]
    orders.publish(100, start=1000)
    drain(frame, tmp_path)
    rows = spark.read.parquet(f"{tmp_path}/data").orderBy("sequence").collect()
    assert [int(row.payload) for row in rows] == list(range(1100))


def test_purged_stream_fails_the_query_or_is_accepted(spark, read, orders, tmp_path):
    orders.publish(10)
    drain(read(spark.readStream, startingOffsets="earliest"), tmp_path)
    orders.publish(10, start=10)
    orders.purge(seq=16)
    with pytest.raises(StreamingQueryException, match="messages 11 to 15 of stream ORDERS"):
        drain(read(spark.readStream), tmp_path)
    drain(read(spark.readStream, failOnDataLoss="false"), tmp_path)
    seqs = spark.read.parquet(f"{tmp_path}/data").select("sequence").toPandas()["sequence"]
    assert sorted(seqs) == [*range(1, 11), *range(16, 21)]


def test_errors_begin_with_the_sentence(spark, read, orders, nats_server, tmp_path, capsys):
    def copy():
        """Stream into a subject that no stream takes."""
        rows = read(spark.readStream, startingOffsets="earliest").select("payload")
        query = rows.writeStream.format("nats").options(servers=nats_server.url, subject="no.x")
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        query.start().awaitTermination(60)

    orders.publish(1)
    cases = [
        (lambda: read(spark.read, stream="X").count(), "stream X: not found"),
        (lambda: read(spark.read, straem="x"), "straem: there is no such option; did you mean"),
        (lambda: read(spark.read, subject="a.>,a.b"), "subject: expected filters that do not"),
        (copy, "row 0 of partition 0 (subject 'no.x'): no stream takes this subject"),
    ]
    for action, words in cases:
        with pytest.raises(SystemExit) as ended, exit_on_error("orders"):
            action()
        assert ended.value.code == 1
        told = capsys.readouterr().err
        assert told.startswith(f"orders: {words}")
        assert told.count("\n") == 1
        assert "Traceback" not in str(ended.value.__cause__)
        assert words in "\n".join(str(ended.value.__cause__).splitlines()[:2])


def test_a_limit_ends_the_reader_without_a_trace(spark, read, orders, capfd):
    orders.publish(60_000, payload=b"x" * 200)
    assert len(read(spark.read).limit(10).collect()) == 10
    assert read(spark.read).count() == 60_000
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.timeout(240)
def test_every_message_is_there_once_after_kill_9(spark, read, orders, tmp_path, nats_server):
    count = 40_000
    orders.publish(count, payload=b"%d")
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, nats_server.url, str(tmp_path)],
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    try:
        commits = tmp_path / "checkpoint" / "commits"
        deadline = time.monotonic() + 150
        while not (commits.is_dir() and len(list(commits.glob("[0-9]*"))) >= 3):
            assert writer.poll() is None, writer.stderr.read().decode()
            assert time.monotonic() < deadline, "the query to kill never got going"
            time.sleep(0.02)
    finally:
        kill_group(writer)
    written = spark.read.parquet(f"{tmp_path}/data").count()
    assert 0 < written < count
    drain(read(spark.readStream, startingOffsets="earliest"), tmp_path)
    expected = [(n + 1, b"%d" % n) for n in range(count)]
    rows = spark.read.parquet(f"{tmp_path}/data").select("sequence", "payload").collect()
    assert sorted((row.sequence, bytes(row.payload)) for row in rows) == expected
    # The files that the killed query left outside its log are not among those that the docs read.
    files = pq.ParquetDataset(committed_by_docs(tmp_path / "data"))
    columns = files.read(["sequence", "payload"]).to_pydict()
    assert sorted(zip(columns["sequence"], columns["payload"], strict=True)) == expected


def committed_by_docs(directory):
    """Return the committed files by the function that docs/pipeline-source.md gives."""
    text = (Path(__file__).parents[2] / "docs" / "pipeline-source.md").read_text()
    program = next(part for part in text.split("```python\n") if "def committed(" in part)
    names = {}
    exec(program.partition("```")[0], names)
    return names["committed"](directory)


def kill_group(process):
    """Kill the driver and, with it, its JVM: both at once, as a power cut would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stderr.close()


_WRITER = """
import sys
from midge.pipeline.session import spark_session
from midge.pipeline.source import register

url, folder = sys.argv[1:]
spark = spark_session("victim", "local[1]", {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
})
register(spark)
frame = spark.readStream.format("nats").options(
    servers=url, stream="ORDERS", startingOffsets="earliest", maxOffsetsPerTrigger="500"
).load()
query = (
    frame.writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .start(f"{folder}/data")
)
query.awaitTermination()
"""
