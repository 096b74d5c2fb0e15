"""Measure the ways to match messages with subscriptions on Spark, side by side.

    python bench/pipeline_match.py [--messages 1000000] [--patterns 10000] [--rounds 3]

The workload has Zipf-like traffic on about 48,000 distinct subjects and patterns of which a fifth
has wildcards. Every method writes its pairs nowhere (Spark's `noop` sink), the best of the rounds
counts. The cross join with `rlike` would take hours, so it runs on a sample and is extrapolated.
"""

import argparse
import json
import os
import platform
import random
import re
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from midge.pipeline.match import match_broadcast, match_shuffle
from midge.pipeline.session import spark_session
from midge.pipeline.shapes import Shape, candidates_column, key_column, mask_column
from midge.sublist import SubList, Subscription

PAIR = ("id", "pattern_id")
REGIONS = ("eu", "us", "ap", "sa", "af")
KINDS = ("van", "truck", "bike", "depot", "locker")
METRICS = ("pos", "speed", "battery", "door", "temp", "fuel", "load", "tyre", "engine", "alarm")
WILD = (
    "fleet.{r}.{k}.*.{m}",
    "fleet.{r}.{k}.{n}.*",
    "fleet.{r}.{k}.{n}.>",
    "fleet.*.{k}.{n}.{m}",
    "fleet.{r}.*.{n}.>",
    "*.{r}.{k}.{n}.*",
)


def build_workload(directory: Path, messages: int, patterns: int) -> tuple[Path, Path]:
    """Write the messages and patterns as Parquet; the same arguments give the same rows."""
    rng = random.Random(7)
    subjects = [
        f"fleet.{r}.{k}.{n}.{m}"
        for r in REGIONS
        for k in KINDS
        for n in range(200)
        for m in METRICS
    ]
    rng.shuffle(subjects)
    weights = 1.0 / np.arange(1, len(subjects) + 1) ** 1.0
    codes = np.random.default_rng(7).choice(len(subjects), messages, p=weights / weights.sum())
    table = pa.table(
        {"id": pa.array(range(messages), pa.int64()), "subject": pa.array(subjects).take(codes)}
    )
    chosen = dict.fromkeys(rng.sample(subjects[: patterns * 3], patterns * 8 // 10))
    broad = [f"fleet.{r}.>" for r in REGIONS] + [f"fleet.*.{k}.>" for k in KINDS]
    chosen |= dict.fromkeys([*broad, ">", "*.*.*.*.alarm"])
    while len(chosen) < patterns:
        r, k, m = rng.choice(REGIONS), rng.choice(KINDS), rng.choice(METRICS)
        form = WILD[min(int(rng.expovariate(0.5)) + 1, len(WILD) - 1)]
        chosen[form.format(r=r, k=k, n=rng.randrange(200), m=m)] = None
    listed = pa.table(
        {"pattern_id": pa.array(range(len(chosen)), pa.int64()), "pattern": list(chosen)}
    )
    pq.write_table(table, directory / "messages.parquet", row_group_size=messages // 4)
    pq.write_table(listed, directory / "patterns.parquet")
    return directory / "messages.parquet", directory / "patterns.parquet"


def distinct_trie_join(messages: DataFrame, patterns: DataFrame) -> DataFrame:
    """Match each distinct subject once in a SubList, then join back."""
    pairs = match_broadcast(
        messages.select("subject").distinct(), patterns, columns=("subject", "pattern_id")
    )
    return messages.join(pairs, "subject").select(*PAIR)


def trie_per_message(messages: DataFrame, patterns: DataFrame) -> DataFrame:
    """Ask the broadcast SubList for every single message, with no dictionary and no memo."""
    rows = [(row.pattern.encode(), row.pattern_id) for row in patterns.collect()]
    shared = messages.sparkSession.sparkContext.broadcast(rows)

    def match_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sublist = SubList(cache_max=0, cache_sweep_to=0)
        for pattern, pattern_id in shared.value:
            sublist.insert(Subscription(pattern, owner=pattern_id))
        for batch in batches:
            ids, found = [], []
            for message, subject in zip(
                batch.column("id").to_pylist(), batch.column("subject").to_pylist(), strict=True
            ):
                for subscription in sublist.match(subject.encode()).plain:
                    ids.append(message)
                    found.append(subscription.owner)
            columns = [pa.array(ids, pa.int64()), pa.array(found, pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=["id", "pattern_id"])

    return messages.mapInArrow(match_partition, "id long, pattern_id long")


def shapes_broadcast(messages: DataFrame, patterns: DataFrame) -> DataFrame:
    """Join by shape in SQL with the patterns broadcast, once per message."""
    keyed = patterns.select(
        "pattern_id",
        mask_column(sf.col("pattern")).alias("mask"),
        key_column(sf.col("pattern")).alias("key"),
    )
    shapes = [Shape(row[0]) for row in keyed.select("mask").distinct().collect()]
    candidates = messages.select(
        "id", sf.explode(candidates_column(sf.col("subject"), shapes)).alias("c")
    ).select("id", sf.col("c.mask").alias("mask"), sf.col("c.key").alias("key"))
    return candidates.join(sf.broadcast(keyed), ["mask", "key"]).select("id", "pattern_id")


def rlike_cross_join(messages: DataFrame, patterns: DataFrame) -> DataFrame:
    """Turn every pattern into a regular expression and try each against each message."""
    regex = sf.udf(lambda pattern: "^" + _regex(pattern) + "$")
    tried = patterns.select("pattern_id", regex("pattern").alias("regex")).localCheckpoint()
    return messages.crossJoin(sf.broadcast(tried)).where("subject rlike regex")


def _regex(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", r"[^.]+").replace(">", ".+")


def broadcast(messages: DataFrame, patterns: DataFrame) -> DataFrame:
    """The strategy `broadcast`."""
    return match_broadcast(messages, patterns, columns=PAIR)


def shuffle(messages: DataFrame, patterns: DataFrame) -> DataFrame:
    """The strategy `shuffle`."""
    return match_shuffle(messages, patterns, columns=PAIR)


METHODS: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "broadcast (midge.pipeline.match)": broadcast,
    "distinct subjects, SubList, join back": distinct_trie_join,
    "shapes in SQL, broadcast": shapes_broadcast,
    "shuffle (midge.pipeline.match)": shuffle,
    "SubList per message, no dictionary": trie_per_message,
}


def seconds(run: Callable[[], Any]) -> float:
    """Return how long `run` takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(
    spark: SparkSession, files: tuple[Path, Path], rounds: int, sample: int
) -> tuple[dict[str, float], dict[str, int]]:
    """Return seconds and pairs by method; the cross join's seconds are extrapolated."""
    messages, patterns = (spark.read.parquet(str(path)) for path in files)
    ids = patterns.select("pattern_id", "pattern")
    best: dict[str, float] = {}
    pairs: dict[str, int] = {}
    for _ in range(rounds):
        for name, method in METHODS.items():

            def run(method: Callable[[DataFrame, DataFrame], DataFrame] = method) -> None:
                method(messages, ids).write.format("noop").mode("overwrite").save()

            best[name] = min(best.get(name, float("inf")), seconds(run))
    for name, method in METHODS.items():
        pairs[name] = method(messages, ids).count()
    some = messages.limit(sample).localCheckpoint()
    total = pq.read_metadata(files[0]).num_rows

    def cross() -> None:
        rlike_cross_join(some, ids).write.format("noop").mode("overwrite").save()

    best["cross join with rlike (extrapolated)"] = seconds(cross) * total / sample
    return best, pairs


def main() -> None:
    """Build the workload, measure and print a table; `--json` writes the figures too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--patterns", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=1_000, help="messages for the cross join")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        files = build_workload(Path(scratch), args.messages, args.patterns)
        subjects = pq.read_table(files[0], columns=["subject"]).column(0)
        distinct = len(subjects.unique())
        spark = spark_session(f"midge-bench-{uuid.uuid4().hex[:6]}", args.master)
        best, pairs = measure(spark, files, args.rounds, args.sample)
        spark.stop()
    print(f"{args.messages:,} messages, {distinct:,} distinct subjects, {args.patterns:,} patterns")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| method | seconds | ratio | pairs |\n|---|---|---|---|")
    fastest = min(best.values())
    for name, took in sorted(best.items(), key=lambda item: item[1]):
        count = f"{pairs[name]:,}" if name in pairs else f"{args.sample:,} messages measured"
        print(f"| {name} | {took:,.2f} | {took / fastest:,.1f} | {count} |")
    if args.json:
        args.json.write_text(json.dumps({"seconds": best, "pairs": pairs}, indent=2) + "\n")


if __name__ == "__main__":
    main()
