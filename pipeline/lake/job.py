"""The job that fills the lake: one Spark streaming query over the files of a record directory.

Each batch is a set of new files. It goes through bronze and silver in order, interest before the
messages that depend on it; the query's checkpoint remembers which files were taken. Everything a
batch writes is keyed by its number, so a batch that is repeated after a crash adds nothing twice.
Gold is derived from silver afterwards.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from midge.pipeline.delta import reading
from midge.pipeline.errors import sentence_of
from midge.pipeline.lake import bronze, gold, silver
from midge.pipeline.lake.lake_table import LakeError
from midge.pipeline.lake.opening import CHECKPOINT, clear, prepare
from midge.pipeline.lake.settings import Days, PipelineSettings
from midge.pipeline.lake.storage import Storage, as_uri
from midge.pipeline.lake.tables import GOLD, SMALL_BYTES, TABLES, Lake, table_named
from midge.pipeline.records.files import require_records
from midge.pipeline.records.format import CLIENTS, DATA_SETS, INTEREST, MESSAGES, DataSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


_WORKERS = 4
_DERIVED = ("silver/traffic", "silver/matches", "silver/exchanges")
"""The tables that are derived from `silver/messages`, with dates."""
_NOT_IN_GOLD = "silver/messages"
_PAIRS_MAX = 1_000_000
"""So many pairs of a message and a subscription, at most, are matched by this process."""
_LIGHT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
"""Spark's settings for few rows, which cost less than the compilation of their queries, a broadcast
or a second task."""


@dataclass
class RunCounts:
    """Counts of what a run has done so far."""

    batches: int = 0
    files: int = 0
    quarantined: int = 0
    messages: int = 0
    gold_tables: int = 0
    bad_files: list[tuple[str, str]] = field(default_factory=list)
    """Segment and reason of what went to the quarantine in this run."""


class _SegmentBatch(NamedTuple):
    """A batch under way."""

    number: int
    summary: dict[str, Any]
    newest: datetime | None
    """The time of the newest message of all earlier batches."""
    segments: dict[str, list[bronze.SegmentCheck]]
    """The good segments of each data set."""
    is_small: bool

    @property
    def has_interest(self) -> bool:
        return bool(self.segments[INTEREST.name] or self.segments[CLIENTS.name])


_Rows: TypeAlias = "DataFrame | pa.Table"
"""Rows in Spark's hands, or in this process, which are few."""
Report = Callable[[str, RunCounts], None]
"""Called with the name of the current step and the progress so far."""


class LakeJob:
    """Fills the lake of `settings` from its records; with `rebuild`, from nothing.

    Raises:
        RecordsError: the record directory does not exist.
        LakeError: the lake was made with other settings, tables or versions, or rebuilding it would
            lose data that the records do not hold any more.
    """

    def __init__(
        self,
        spark: "SparkSession",
        settings: PipelineSettings,
        report: Report = lambda *_: None,
        *,
        rebuild: bool = False,
    ) -> None:
        if "://" not in settings.records_directory:
            require_records(Path(settings.records_directory))
        self.settings = settings
        self.is_ending: Callable[[], bool] = lambda: False
        """Whether `stream` is about to be stopped: then batches leave gold to the caller."""
        self.lake = Lake(spark, settings.lake_directory)
        self.progress = RunCounts()
        self._spark = spark
        self._records = as_uri(settings.records_directory)
        self._report = report
        self._gold_built_s = float("-inf")
        self._newest: tuple[int, datetime | None] | None = None
        """The last complete batch, and the time of the newest message up to its end."""
        self._failure: Exception | None = None
        if rebuild:
            clear(self.lake, Storage(spark, settings.records_directory))
        prepare(self.lake, settings)
        has_interest = any(self.lake.exists(f"bronze/{each.name}") for each in (CLIENTS, INTEREST))
        if has_interest and not self.lake.exists("silver/subscriptions"):
            self._derive_subscriptions()

    def run(self) -> RunCounts:
        """Take everything that is recorded and not yet in the lake, then rebuild gold."""
        self.take()
        self.build_gold()
        return self.progress

    def take(self) -> RunCounts:
        """Take everything that is recorded and not yet in the lake into bronze and silver."""
        self.wait(self._start(available_now=True))
        return self.progress

    def rebuild(self, days: Days) -> None:
        """Derive silver of some days again from bronze, each table in one commit."""
        lake, settings = self.lake, self.settings
        present = {
            day
            for name in ("bronze/messages", *_DERIVED)
            for day in lake.log(name).dates()
            if days.first <= date.fromisoformat(day) <= days.last
        }
        number = lake.log("silver/messages").batch
        if not present:
            return
        dates = sorted(present)
        low, high = (datetime.combine(day, datetime.min.time(), UTC) for day in days)
        raw = lake.read("bronze/messages", low, high + timedelta(days=1)).where(
            sf.to_date("time").cast("string").isin(dates)
        )
        self._report("silver/messages", self.progress)
        lake.replace("silver/messages", silver.messages(raw, settings.prefix_tokens), dates)
        reach = timedelta(days=2, seconds=settings.request_timeout_s)
        messages = lake.read("silver/messages", low - reach, high + reach).drop("batch")
        intervals = silver.intervals(lake.read("silver/subscriptions"))
        derived = (
            silver.traffic(messages, settings.window_s),
            self._match(messages, intervals),
            silver.exchanges(messages.withColumn("_new", sf.lit(True)), settings.request_timeout_s),
        )
        for name, rows in zip(_DERIVED, derived, strict=True):
            self._report(name, self.progress)
            day = sf.to_date(table_named(name).dated_by).cast("string")
            found = rows.where(day.isin(dates)).withColumn("batch", sf.lit(number))
            lake.replace(name, found, dates)

    def wait(self, query: "StreamingQuery", timeout_s: float | None = None) -> bool:
        """Wait for a query to end; return False when it is still running after `timeout_s`.

        The original exception of a failed batch is raised, without Spark's wrapper.

        Raises:
            LakeError: Spark failed between batches, as from a damaged checkpoint.
        """
        try:
            if timeout_s is None:
                query.awaitTermination()
                return True
            return bool(query.awaitTermination(max(1, round(timeout_s))))
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from None
            _, _, reason = sentence_of(error).rpartition("terminated with exception: ")
            raise LakeError(
                f"{self.settings.lake_directory}: Spark cannot go on from {CHECKPOINT}: {reason}; "
                "if that is damaged, make the lake over with --rebuild"
            ) from error

    def stream(self) -> "StreamingQuery":
        """Follow the records as they are written; gold is rebuilt every `gold_interval_s`."""
        return self._start(available_now=False)

    def build_gold(self, names: Iterable[str] | None = None) -> None:
        """Derive all gold tables from silver, or only those called `names`."""
        builds = gold.build(self.lake, self.settings.window_s, self.settings.prefix_tokens)

        def build(name: str) -> None:
            self.lake.replace(name, builds[name]())
            self.progress.gold_tables += 1
            self._report(name, self.progress)

        wanted = [table.name for table in GOLD] if names is None else list(names)
        sources = (name for name in TABLES if name.startswith("silver/") and name != _NOT_IN_GOLD)
        size = sum(sum(self.lake.log(name).files("").values()) for name in sources)
        with self._light() if size < SMALL_BYTES else nullcontext():
            _all_at_once(*(partial(build, name) for name in wanted))
        for table in TABLES.values():
            self.lake.log(table.name).tidy(self.settings.keep_days)
        self._gold_built_s = time.monotonic()

    def _start(self, *, available_now: bool) -> "StreamingQuery":
        listing = (
            self._spark.readStream.format("binaryFile")
            .schema(bronze.LISTING)
            .option("recursiveFileLookup", "true")
            .option("maxFilesPerTrigger", str(self.settings.max_files_per_batch))
            .load(self._records)
            .select("path", "modificationTime", "length")
        )

        def on_batch(files: "DataFrame", batch: int) -> None:
            try:
                self._take_batch(files, batch)
                if not available_now:
                    self._refresh_gold()
            except Exception as error:
                self._failure = error
                raise

        writer = listing.writeStream.foreachBatch(on_batch).option(
            "checkpointLocation", self.lake.path(CHECKPOINT)
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.settings.trigger_interval_s} seconds")
        return writer.queryName("midge-lake").start()

    def _refresh_gold(self) -> None:
        is_due = time.monotonic() - self._gold_built_s >= self.settings.gold_interval_s
        if is_due and not self.is_ending():
            self.build_gold()

    def _take_batch(self, listing: "DataFrame", number: int) -> None:
        """Bring a batch of files through bronze and silver."""
        self._report("checking segments", self.progress)
        files = listing.collect()
        is_small = sum(file.length for file in files) < SMALL_BYTES
        newest = self._newest_before(number)
        watermark = newest and newest - timedelta(seconds=self.settings.late_after_s)
        checks = bronze.inspect_segments(
            None if is_small else self._spark, [f.path for f in files], self._records, watermark
        )
        bad = [each for each in checks if each.reason is not None]
        good = [each for each in checks if each.reason is None]
        if bad:
            self.lake.append("bronze/quarantine", bronze.quarantine(files, bad), number)
        summary = _summary(checks, watermark, quarantined=len(bad))
        segments = {
            name: [each for each in good if each.segment.startswith(f"{name}/")]
            for name in DATA_SETS
        }
        with self._light() if is_small else nullcontext():
            self._refine(_SegmentBatch(number, summary, newest, segments, is_small))
        # Last, since a batch that has its row here is known to be complete.
        self.lake.append("silver/batches", pa.Table.from_pylist([summary]), number)
        times = (time for time in (newest, summary["last_time"]) if time is not None)
        self._newest = number, max(times, default=None)
        self._note(summary, [(each.segment, str(each.reason)) for each in bad])

    @contextmanager
    def _light(self) -> Iterator[None]:
        """Make Spark interpret its queries meanwhile."""
        conf = self._spark.conf
        before = {name: conf.get(name, None) for name in _LIGHT}
        for name, value in _LIGHT.items():
            conf.set(name, value)
        self.lake.is_light = True
        try:
            yield
        finally:
            self.lake.is_light = False
            for name, old in before.items():
                if old is None:
                    conf.unset(name)
                else:
                    conf.set(name, old)

    def _append(self, name: str, rows: _Rows, batch: _SegmentBatch) -> _Rows:
        """Add rows to a growing table; return those that the table has of the batch."""
        if batch.is_small and not isinstance(rows, pa.Table):
            rows = rows.toArrow()
        is_new = self.lake.append(name, rows, batch.number)
        self._report(name, self.progress)
        is_known = is_new and isinstance(rows, pa.Table)
        return rows if is_known else self.lake.read_batch(name, batch.number)

    def _frame(self, rows: _Rows) -> "DataFrame":
        return self._spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows

    def _append_bronze(self, batch: _SegmentBatch, data_set: DataSet) -> _Rows:
        good = batch.segments[data_set.name]
        rows = (
            bronze.read_small(data_set, good)
            if batch.is_small
            else bronze.read_segments(
                self._spark, data_set, [each.path for each in good], self._records
            )
        )
        return self._append(f"bronze/{data_set.name}", rows, batch)

    def _derive_subscriptions(self) -> None:
        """Derive sessions and intervals from all that is known of clients and interest."""
        self._report("silver/subscriptions", self.progress)
        clients = self.lake.read(f"bronze/{CLIENTS.name}")
        self.lake.replace("silver/sessions", silver.sessions(clients))
        subscriptions = silver.subscriptions(
            self.lake.read(f"bronze/{INTEREST.name}"), self.lake.read("silver/sessions")
        )
        self.lake.replace("silver/subscriptions", subscriptions)

    def _subscriptions_before(self, batch: int) -> "DataFrame":
        """Return the subscriptions as they were known before a batch, also when it is repeated.

        Called before the batch is in bronze, which then has it only as a repeated one.
        """
        names = [f"bronze/{each.name}" for each in (CLIENTS, INTEREST)]
        if all(self.lake.log(name).batch < batch for name in names):
            return self.lake.read("silver/subscriptions")
        clients, interest = (self.lake.read_before(name, batch) for name in names)
        return silver.subscriptions(interest, silver.sessions(clients))

    def _refine(self, batch: _SegmentBatch) -> None:
        """Bring the segments of a batch into bronze, and derive silver from them."""
        settings = self.settings
        known = None
        if batch.newest is not None and batch.has_interest:
            known = self._subscriptions_before(batch.number)
        present = [each for each in DATA_SETS.values() if batch.segments[each.name]]
        rows = dict(
            zip(
                (each.name for each in present),
                _all_at_once(*(partial(self._append_bronze, batch, each) for each in present)),
                strict=True,
            )
        )
        if batch.has_interest:
            self._derive_subscriptions()
        first, last = batch.summary["first_time"], batch.summary["last_time"]
        if first is None and not batch.has_interest:
            return
        if MESSAGES.name in rows:
            raw = self._frame(rows[MESSAGES.name])
        else:
            raw = self.lake.empty("bronze/messages").drop("batch")
        new = self._append("silver/messages", silver.messages(raw, settings.prefix_tokens), batch)
        added = self._frame(new)
        derived: dict[str, Callable[[], _Rows]] = {
            "matches": partial(self._matches, new, known, batch)
        }
        if first is not None:
            timeout_s = settings.request_timeout_s
            since = first - timedelta(seconds=timeout_s)
            before = self.lake.read_before("silver/messages", batch.number, since).drop("batch")
            derived["traffic"] = partial(silver.traffic, added, settings.window_s)
            derived["exchanges"] = partial(
                silver.exchanges_batch, added, before, (first, last), timeout_s
            )
        _all_at_once(
            *(
                partial(lambda name, make: self._append(f"silver/{name}", make(), batch), *each)
                for each in derived.items()
            )
        )

    def _matches(self, new: _Rows, known: "DataFrame | None", batch: _SegmentBatch) -> _Rows:
        """Match the new messages; correct earlier matches where not all interest was `known`."""
        name = "silver/subscriptions"
        is_auto = self.settings.match_strategy == "auto"
        is_few = isinstance(new, pa.Table) and len(new) * self.lake.log(name).rows <= _PAIRS_MAX
        if is_auto and is_few:
            found = silver.matches_here(new, self.lake.read_here(name), self.settings.window_s)
        else:
            found = self._match(self._frame(new), silver.intervals(self.lake.read(name)))
        if known is None:
            return found
        now = self.lake.read(name)
        changes = silver.interval_changes(known, now).where(sf.col("begin") <= sf.lit(batch.newest))
        if batch.is_small:
            table = changes.toArrow()
            first = pc.min(table.column("begin")).as_py()
            changes = self._spark.createDataFrame(table, changes.schema)
        else:
            changes = changes.localCheckpoint()
            first = changes.agg(sf.min("begin")).collect()[0][0]
        if first is None:
            return found
        concerned = self.lake.read_before("silver/messages", batch.number).where(
            sf.col("time") >= sf.lit(first)
        )
        again = self._match(concerned, changes)
        if isinstance(found, pa.Table):
            again = again.select(found.column_names).toArrow()
            return pa.concat_tables([found, again.cast(found.schema)])
        return found.unionByName(again)

    def _newest_before(self, batch: int) -> datetime | None:
        """Return the time of the newest message of all batches before one."""
        if self._newest is not None and self._newest[0] == batch - 1:
            return self._newest[1]
        handle = self.lake.log("silver/batches").handle
        if handle is None:
            return None
        with reading(self.lake.path("silver/batches")):
            rows = handle.to_pyarrow_table(columns=["batch", "last_time"])
        earlier = rows.filter(pc.less(rows.column("batch"), batch))
        newest: datetime | None = pc.max(earlier.column("last_time")).as_py()
        return newest

    def _match(self, messages: "DataFrame", intervals: "DataFrame") -> "DataFrame":
        settings = self.settings
        most = settings.broadcast_max_patterns
        return silver.matches(messages, intervals, settings.window_s, settings.match_strategy, most)

    def _note(self, summary: dict[str, Any], bad: list[tuple[str, str]]) -> None:
        self.progress.batches += 1
        self.progress.files += summary["files"]
        self.progress.quarantined += len(bad)
        self.progress.bad_files += bad
        self.progress.messages += summary["messages"]
        self._report("batch done", self.progress)


def _all_at_once(*works: Callable[[], Any]) -> list[Any]:
    """Run independent functions in threads: small Spark jobs mostly wait for planning.

    The first exception is raised after all have ended.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        return [done.result() for done in [pool.submit(work) for work in works]]


def _summary(
    checks: list[bronze.SegmentCheck], watermark: datetime | None, quarantined: int
) -> dict[str, Any]:
    """Return the row that a batch adds to `silver/batches`.

    The watermark is the newest time of all earlier batches less `late_after_s`; older messages are
    late. The first batch has no watermark.
    """
    times = [each.times for each in checks if each.times.messages]
    return {
        "files": len(checks),
        "quarantined": quarantined,
        "messages": sum(each.messages for each in times),
        "first_time": min((each.first_time for each in times if each.first_time), default=None),
        "last_time": max((each.last_time for each in times if each.last_time), default=None),
        "watermark": watermark if times else None,
        "late_messages": sum(each.late_messages for each in times),
        "max_lateness_s": max((each.max_lateness_s for each in times), default=0.0),
    }
