"""Measure the ways to match messages with subscriptions on Spark, side by side.

    python bench/pipeline_match.py [--messages 1000000] [--patterns 10000] [--rounds 3]

The workload has Zipf-like traffic on about 48,000 distinct subjects and patterns of which a fifth
has wildcards. Every method writes its pairs nowhere (Spark's `noop` sink), the best of the rounds
counts, for the time and for the CPU time of all processes together, which hardly suffers from what
else runs on the machine. The cross join with `rlike` would take hours, so it runs on a sample and
is extrapolated. Prints a verdict on every target; ends with 1 when one is missed.
"""

import argparse
import json
import os
import platform
import random
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a script: the checkout is not on the path yet
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench import procfs
from midge.pipeline.matching.match import match_broadcast, match_shuffle
from midge.pipeline.matching.pattern_shapes import Shape, candidates_column, key_column, mask_column
from midge.pipeline.spark_session import spark_session
from midge.sublist import OwnedSubscription, SubList

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
    """Match every single message in the broadcast SubList, without dictionary or memo."""
    rows = [(row.pattern.encode(), row.pattern_id) for row in patterns.collect()]
    shared = messages.sparkSession.sparkContext.broadcast(rows)

    def match_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sublist = SubList(cache_max=0, cache_sweep_to=0)
        for pattern, pattern_id in shared.value:
            sublist.insert(OwnedSubscription(pattern, owner=pattern_id))
        for batch in batches:
            ids, found = [], []
            for message, subject in zip(
                batch.column("id").to_pylist(), batch.column("subject").to_pylist(), strict=True
            ):
                for subscription in sublist.match(subject.encode()).plain:
                    ids.append(message)
                    found.append(subscription.owned_by())
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


BROADCAST = "`broadcast`"
SHUFFLE = "`shuffle`"
CROSS_JOIN = "cross join with `rlike`, extrapolated"
METHODS: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    BROADCAST: broadcast,
    "distinct subjects, SubList, join back": distinct_trie_join,
    "shapes in SQL, broadcast": shapes_broadcast,
    SHUFFLE: shuffle,
    "SubList per message, no dictionary": trie_per_message,
}

BROADCAST_MAX = 1.2
"""Longest time of `broadcast`, relative to the best of all methods."""
SHUFFLE_MAX = 4.0
"""Longest time of `shuffle`, relative to `broadcast`."""
CROSS_JOIN_MIN = 100.0
"""Least time of the cross join, relative to each strategy."""


@dataclass
class Cost:
    """The cost of a method: seconds of wall time, and of CPU time in all processes."""

    wall_s: float = float("inf")
    cpu_s: float = float("inf")
    pairs: int | None = None

    def add(self, run: Callable[[], Any]) -> None:
        """Run once more and keep the best cost."""
        started_s, cpu_s = time.perf_counter(), procfs.cpu_s(os.getpid())
        run()
        self.wall_s = min(self.wall_s, time.perf_counter() - started_s)
        self.cpu_s = min(self.cpu_s, procfs.cpu_s(os.getpid()) - cpu_s)

    def scaled(self, factor: float) -> "Cost":
        """Return the cost of `factor` times as many messages."""
        return Cost(self.wall_s * factor, self.cpu_s * factor)


def measure(
    spark: SparkSession, files: tuple[Path, Path], rounds: int, sample: int
) -> dict[str, Cost]:
    """Return the cost of each method; the cross join's cost is extrapolated."""
    messages, patterns = (spark.read.parquet(str(path)) for path in files)
    ids = patterns.select("pattern_id", "pattern")
    costs = {name: Cost() for name in METHODS}
    for _ in range(rounds):
        for name, method in METHODS.items():

            def run(method: Callable[[DataFrame, DataFrame], DataFrame] = method) -> None:
                method(messages, ids).write.format("noop").mode("overwrite").save()

            costs[name].add(run)
            print(f"{name}: {costs[name].wall_s:.1f} s at best", file=sys.stderr, flush=True)
    for name, method in METHODS.items():
        costs[name].pairs = method(messages, ids).count()
    some = messages.limit(sample).localCheckpoint()
    total = pq.read_metadata(files[0]).num_rows

    def cross() -> None:
        rlike_cross_join(some, ids).write.format("noop").mode("overwrite").save()

    sampled = Cost()
    sampled.add(cross)
    costs[CROSS_JOIN] = sampled.scaled(total / sample)
    return costs


def verdicts(costs: dict[str, Cost]) -> list[bool]:
    """Print how the strategies compare with their targets."""
    fastest_s = min(cost.wall_s for cost in costs.values())
    cross_s = costs[CROSS_JOIN].wall_s
    broadcast_s, shuffle_s = costs[BROADCAST].wall_s, costs[SHUFFLE].wall_s
    pairs = {costs[name].pairs for name in METHODS}
    checks = [
        ("all methods found the same number of pairs", len(pairs) == 1),
        _at_most("broadcast / best", broadcast_s / fastest_s, BROADCAST_MAX),
        _at_most("shuffle / broadcast", shuffle_s / broadcast_s, SHUFFLE_MAX),
    ]
    for name, took_s in (("broadcast", broadcast_s), ("shuffle", shuffle_s)):
        ratio = cross_s / took_s
        words = f"cross join / {name}: {ratio:,.0f}, target at least {CROSS_JOIN_MIN:g}"
        checks.append((words, ratio >= CROSS_JOIN_MIN))
    for words, met in checks:
        print(f"{words}: {'met' if met else 'MISSED'}")
    return [met for _, met in checks]


def _at_most(name: str, ratio: float, target: float) -> tuple[str, bool]:
    return f"{name}: {ratio:.2f}, target at most {target:g}", ratio <= target


def main() -> None:
    """Build the workload, measure, print a table and verdicts; `--json` writes the figures too."""
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
        costs = measure(spark, files, args.rounds, args.sample)
        spark.stop()
    print(f"{args.messages:,} messages, {distinct:,} distinct subjects, {args.patterns:,} patterns")
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| method | seconds | ratio | CPU seconds | pairs |\n|---|---|---|---|---|")
    fastest_s = min(cost.wall_s for cost in costs.values())
    for name, cost in sorted(costs.items(), key=lambda item: item[1].wall_s):
        count = f"{args.sample:,} messages measured" if cost.pairs is None else f"{cost.pairs:,}"
        ratio = cost.wall_s / fastest_s
        print(f"| {name} | {cost.wall_s:,.1f} | {ratio:,.1f} | {cost.cpu_s:,.1f} | {count} |")
    print()
    met = verdicts(costs)
    if args.json:
        document = {name: asdict(cost) for name, cost in costs.items()}
        args.json.write_text(json.dumps(document, indent=2) + "\n")
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
