"""The commands `midge pipeline run`, `stream`, `match`, `plan` and `report`."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midge.client.errors import OptionError, reason_of
from midge.pipeline.commands.terminal import (
    bars,
    counted,
    quiet_interrupts,
    say,
    show_table,
    stop_signals,
    warn,
)
from midge.pipeline.errors import PipelineError, sentence_of
from midge.pipeline.lake.settings import Days, Period, PipelineSettings, load_settings
from midge.sublist.subjects import is_valid_subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from midge.pipeline.commands.terminal import ProgressBars
    from midge.pipeline.lake.job import LakeJob, RunCounts
    from midge.pipeline.what_if.plan import PlanOutcome

_POLL_S = 1.0
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PLAIN = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""Spark asks Java six times for each operation, to know its line in the program, by default."""
_SMALL_RUN_BYTES = 16 << 20
"""A run over less ends before Java's optimizing compiler has made up for its work."""


def settings_of(args: argparse.Namespace) -> PipelineSettings:
    """Return the settings of the configuration file, overridden by the command line."""
    settings = load_settings(args.config)
    given = {
        name: getattr(args, name, None)
        for name in ("records_directory", "lake_directory", "master")
    }
    spark = dict(settings.spark) | dict(args.spark or ())
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(settings, spark=spark, **chosen)


@contextmanager
def session(
    settings: PipelineSettings, show: "ProgressBars", *, is_short: bool = False
) -> "Iterator[SparkSession]":
    """Start Spark for a command, and stop it at the end."""
    from midge.pipeline.session import spark_session

    config = _PLAIN | dict(settings.spark)
    if is_short:
        config[_JAVA_OPTIONS] = f"-XX:TieredStopAtLevel=1 {config.get(_JAVA_OPTIONS, '')}".strip()
    show.update("starting Spark", 0, 1)
    with spark_errors_reported("Spark did not start"):
        spark = spark_session("midge-pipeline", settings.master, config)
    show.update("starting Spark", 1, 1)
    try:
        with quiet_interrupts(), spark_errors_reported("Spark"):
            yield spark
    finally:
        spark.stop()


def run_job(args: argparse.Namespace) -> None:
    """Take all new records into the lake and rebuild gold."""
    from midge.pipeline.lake import taken

    settings = settings_of(args)
    _require(settings, rebuild=args.rebuild is True)
    if not args.rebuild and taken.is_complete(settings):
        say(f"nothing new since the last run: {settings.lake_directory}")
        return
    with bars() as show:
        progress = fill(settings, show, rebuild=args.rebuild)
    show_progress(progress, settings)


def fill(
    settings: PipelineSettings, show: "ProgressBars", *, rebuild: bool | Days = False
) -> "RunCounts":
    """Fill the lake of `settings` from its records, with progress bars."""
    from midge.pipeline.lake import taken

    _require(settings, rebuild=rebuild is True)
    is_local = "://" not in settings.records_directory + settings.lake_directory
    files = taken.recorded_files(settings) if is_local else {}
    is_short = is_local and not rebuild and taken.new_bytes(settings, files) < _SMALL_RUN_BYTES
    with session(settings, show, is_short=is_short) as spark:
        job = make_job(spark, settings, show, rebuild=rebuild is True)
        if isinstance(rebuild, Days):
            job.rebuild(rebuild)
        progress = job.run()
    if is_local:
        taken.note_complete(settings, files)
    return progress


def stream(args: argparse.Namespace) -> None:
    """Follow the records until interrupted, or for `--for` seconds."""
    settings = settings_of(args)
    _require(settings, rebuild=args.rebuild)
    with bars() as show, session(settings, show) as spark, stop_signals() as stop_asked:
        job = make_job(spark, settings, show, rebuild=args.rebuild)
        job.is_ending = stop_asked
        query = job.stream()
        left_s = args.for_s
        while not stop_asked() and (left_s is None or left_s > 0):
            if job.wait(query, _POLL_S):
                break
            left_s = None if left_s is None else left_s - _POLL_S
        query.stop()
        job.build_gold()
    show_progress(job.progress, settings)


def make_job(
    spark: "SparkSession",
    settings: PipelineSettings,
    show: "ProgressBars",
    *,
    rebuild: bool = False,
) -> "LakeJob":
    """Return the job of `settings`, which updates the bars."""
    from midge.pipeline.lake.job import LakeJob
    from midge.pipeline.lake.tables import GOLD
    from midge.pipeline.records.files import list_segments
    from midge.pipeline.records.format import DATA_SETS

    total = None
    if "://" not in settings.records_directory:
        root = Path(settings.records_directory)
        total = sum(len(list_segments(root, data_set)) for data_set in DATA_SETS.values())

    def report(step: str, progress: "RunCounts") -> None:
        if step.startswith("gold/"):
            done = progress.gold_tables % len(GOLD) or len(GOLD)
            show.update("gold tables", done, len(GOLD), step)
        else:
            show.update("segments", progress.files, total, step)

    return LakeJob(spark, settings, report, rebuild=rebuild)


def show_progress(progress: "RunCounts", settings: PipelineSettings) -> None:
    """Print what a run did, and every file that went to the quarantine."""
    segments = progress.files - progress.quarantined
    say(
        f"{counted(progress.messages, 'message')} from {counted(segments, 'segment')} in "
        f"{counted(progress.batches, 'batch', 'batches')}, "
        f"{counted(progress.gold_tables, 'gold table')}: {settings.lake_directory}"
    )
    for segment, reason in progress.bad_files:
        warn(f"quarantined {segment}: {reason}")


def match_subjects(args: argparse.Namespace) -> None:
    """Match recorded messages with patterns; write the pairs, or print the counts."""
    from midge.pipeline.lake.opening import open_lake
    from midge.pipeline.match import match, match_counts

    settings = settings_of(args)
    with bars() as show, session(settings, show) as spark:
        if args.messages:
            messages = _read_parquet(spark, "messages", args.messages)
        else:
            lake, _ = open_lake(spark, settings)
            messages = lake.read("silver/messages")
        patterns = _patterns(spark, settings, args.patterns)
        scope = [name for name in ("server", "account") if name in patterns.columns]
        strategy = args.strategy or settings.match_strategy
        most = settings.broadcast_max_patterns
        if args.output:
            pairs = match(
                messages, patterns, strategy=strategy, scope=scope, broadcast_max_patterns=most
            )
            with spark_errors_reported("output"):
                pairs.write.mode("error").parquet(args.output)
            say(f"{counted(spark.read.parquet(args.output).count(), 'pair')}: {args.output}")
            return
        counts = match_counts(
            messages, patterns, strategy=strategy, scope=scope, broadcast_max_patterns=most
        )
        top = counts.orderBy("messages", ascending=False).limit(args.limit).collect()
    show_table("Messages by pattern", counts.columns, [tuple(row) for row in top])


def what_if(args: argparse.Namespace) -> None:
    """Print the outcome of a change beside the recorded figures."""
    from midge.pipeline.lake.opening import open_lake
    from midge.pipeline.what_if.change import Change, load_change
    from midge.pipeline.what_if.plan import plan

    settings = settings_of(args)
    change = load_change(args.change)
    if args.servers is not None:
        change = replace(change, servers=args.servers)
    with bars() as show, session(settings, show) as spark:
        lake, made_with = open_lake(spark, settings)
        outcomes = []
        for done, each in enumerate((Change(), change)):
            show.update("routing", done, 2)
            outcomes.append(
                plan(
                    lake,
                    each,
                    strategy=settings.match_strategy,
                    broadcast_max_patterns=settings.broadcast_max_patterns,
                    window_s=made_with.settings["window_s"],
                    prefix_tokens=made_with.settings["prefix_tokens"],
                )
            )
        show.update("routing", 2, 2)
    if args.json:
        names = ("recorded", "proposed")
        document = dict(zip(names, (_document(each) for each in outcomes), strict=True))
        say(json.dumps(document, indent=2))
    else:
        _show_outcomes(*outcomes)


def write_html(args: argparse.Namespace) -> None:
    """Write the report of a lake that is there already; a range of time alone needs Spark."""
    from midge.pipeline.report.page import read_gold, write_csv, write_report

    settings = settings_of(args)
    if args.times is None:
        gold = read_gold(settings.lake_directory)
    else:
        gold = _gold_of(settings, args.times)
    other = None if args.compare is None else read_gold(args.compare)
    write_report(gold, args.output, args.title, other, args.compare or "")
    say(f"{args.output}")
    if args.csv is not None:
        write_csv(gold, args.csv)
        say(f"{args.csv}")


def _gold_of(settings: PipelineSettings, times: Period) -> dict[str, list[dict[str, Any]]]:
    """Return the gold tables of a range of time, which are not kept."""
    from midge.pipeline.lake.gold import build
    from midge.pipeline.lake.opening import open_lake
    from midge.pipeline.lake.tables import GOLD

    gold = {}
    with bars() as show, session(settings, show, is_short=True) as spark:
        lake, made_with = open_lake(spark, settings)
        made = made_with.settings
        builds = build(lake, made["window_s"], made["prefix_tokens"], times)
        for done, table in enumerate(GOLD, 1):
            rows = builds[table.name]().select(*lake.empty(table.name).columns).toArrow()
            gold[table.name.removeprefix("gold/")] = rows.to_pylist()
            show.update("gold tables", done, len(GOLD), table.name)
    return gold


def _require(settings: PipelineSettings, *, rebuild: bool) -> None:
    """Check records and lake before Spark is started, which takes seconds."""
    from midge.pipeline.lake.opening import require_same_here
    from midge.pipeline.lake.tables import require_writable
    from midge.pipeline.records.files import require_records

    if "://" not in settings.records_directory:
        require_records(Path(settings.records_directory))
    if "://" not in settings.lake_directory:
        require_writable(settings.lake_directory)
        if not rebuild:
            require_same_here(settings)


def _patterns(spark: "SparkSession", settings: PipelineSettings, path: Path | None) -> "DataFrame":
    """Return the patterns of a text file or a Parquet file, or of the recorded subscriptions."""
    from midge.pipeline.lake.opening import open_lake

    if path is None:
        lake, _ = open_lake(spark, settings)
        return lake.read("silver/subscriptions").select("server", "account", "pattern").distinct()
    if path.suffix == ".parquet":
        return _read_parquet(spark, "patterns", str(path))
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"patterns: {path}: {reason_of(error)}") from error
    patterns = []
    for number, line in enumerate(lines, 1):
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            if not is_valid_subject(pattern.encode()):
                raise OptionError(f"patterns: {pattern!r} is not a valid subject ({path}:{number})")
            patterns.append((pattern,))
    return spark.createDataFrame(patterns, "pattern string")


def _read_parquet(spark: "SparkSession", option: str, path: str) -> "DataFrame":
    with spark_errors_reported(option):
        return spark.read.parquet(path)


@contextmanager
def spark_errors_reported(what: str) -> Iterator[None]:
    """Convert Spark's exceptions to an error of one line that starts with `what`."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(f"{what}: {sentence_of(error)}") from error


def _document(outcome: "PlanOutcome") -> dict[str, Any]:
    document = asdict(outcome)
    document["totals"]["fan_out"] = outcome.totals.fan_out
    return document


def _show_outcomes(recorded: "PlanOutcome", proposed: "PlanOutcome") -> None:
    def change_of(before: float, after: float) -> str:
        return f"{(after - before) / before:+.1%}" if before else "\N{EN DASH}"

    names = [*asdict(recorded.totals), "fan_out"]
    rows = [
        (
            name.replace("_", " "),
            getattr(recorded.totals, name),
            getattr(proposed.totals, name),
            change_of(getattr(recorded.totals, name), getattr(proposed.totals, name)),
        )
        for name in names
    ]
    show_table("Totals", ("", "recorded", "proposed", "change"), rows)
    columns = list(asdict(proposed.servers[0]))
    loads = [tuple(asdict(each).values()) for each in proposed.servers]
    show_table("Load per server", [name.replace("_", " ") for name in columns], loads)
    before = {each.prefix: each for each in recorded.prefixes}
    prefixes = []
    for each in proposed.prefixes[:20]:
        old = before.get(each.prefix)
        was = old.deliveries / max(1, old.messages) if old else 0.0
        fan_out = each.deliveries / max(1, each.messages)
        prefixes.append((each.prefix, each.messages, was, fan_out))
    show_table("Fan-out by prefix", ("prefix", "messages", "recorded", "proposed"), prefixes)
