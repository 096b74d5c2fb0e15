"""The job that fills the lake: one Spark streaming query over the files of a record directory.

Each batch is a set of new files. It goes through bronze and silver in order, interest before the
messages that depend on it; the query's checkpoint remembers which files were taken. Everything a
batch writes is keyed by its number, so a batch that is repeated after a crash adds nothing twice.
Gold is derived from silver afterwards.
"""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from midge.pipeline.lake import bronze, gold, silver
from midge.pipeline.lake.opening import CHECKPOINT, clear, prepare
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.storage import Storage, as_uri
from midge.pipeline.lake.tables import GOLD, Lake
from midge.pipeline.records.files import require_records
from midge.pipeline.records.format import CLIENTS, DATA_SETS, INTEREST, MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_WORKERS = 4


@dataclass
class Progress:
    """Counts of what a run has done so far."""

    batches: int = 0
    files: int = 0
    quarantined: int = 0
    messages: int = 0
    gold_tables: int = 0
    bad_files: list[tuple[str, str]] = field(default_factory=list)
    """Segment and reason of what went to the quarantine in this run."""


Report = Callable[[str, Progress], None]
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
        self.lake = Lake(spark, settings.lake_directory, settings.format)
        self.progress = Progress()
        self._spark = spark
        self._records = as_uri(settings.records_directory)
        self._report = report
        self._gold_built_s = float("-inf")
        self._failure: Exception | None = None
        if rebuild:
            clear(self.lake, Storage(spark, settings.records_directory))
        prepare(self.lake, settings)

    def run(self) -> Progress:
        """Take everything that is recorded and not yet in the lake, then rebuild gold."""
        self.take()
        self.build_gold()
        return self.progress

    def take(self) -> Progress:
        """Take everything that is recorded and not yet in the lake into bronze and silver."""
        self.wait(self._start(available_now=True))
        return self.progress

    def wait(self, query: "StreamingQuery", timeout_s: float | None = None) -> bool:
        """Wait for a query to end; return False when it is still running after `timeout_s`.

        The original exception of a failed batch is raised, without Spark's wrapper.
        """
        try:
            if timeout_s is None:
                query.awaitTermination()
                return True
            return bool(query.awaitTermination(max(1, round(timeout_s))))
        except StreamingQueryException:
            if self._failure is not None:
                raise self._failure from None
            raise

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
        _all_at_once(*(partial(build, name) for name in wanted))
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

    def _take_batch(self, listing: "DataFrame", batch: int) -> None:
        """Bring a batch of files through bronze and silver."""
        self._report("checking segments", self.progress)
        files = listing.collect()
        verdicts = bronze.inspect_segments(self._spark, [f.path for f in files], self._records)
        bad = [each for each in verdicts if each.reason is not None]
        good = [each for each in verdicts if each.reason is None]
        if bad:
            self.lake.append("bronze/quarantine", bronze.quarantine(self._spark, files, bad), batch)
        paths = {
            name: [each.path for each in good if each.segment.startswith(f"{name}/")]
            for name in DATA_SETS
        }
        self._report("bronze", self.progress)
        _all_at_once(
            *(
                partial(self._append_bronze, name, paths[name], batch)
                for name in DATA_SETS
                if paths[name]
            )
        )
        is_interest_new = bool(paths[INTEREST.name] or paths[CLIENTS.name])
        if is_interest_new:
            self._derive_subscriptions()
        self._refine(batch, len(files), len(bad), is_interest_new=is_interest_new)
        self._note(len(files), [(each.segment, str(each.reason)) for each in bad], batch)

    def _append_bronze(self, name: str, paths: list[str], batch: int) -> None:
        rows = bronze.read_segments(self._spark, DATA_SETS[name], paths, self._records)
        self.lake.append(f"bronze/{name}", rows, batch)

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
        """Return the subscriptions as they were known before a batch, also when it is repeated."""
        clients = self.lake.read_before(f"bronze/{CLIENTS.name}", batch)
        interest = self.lake.read_before(f"bronze/{INTEREST.name}", batch)
        return silver.subscriptions(interest, silver.sessions(clients))

    def _refine(self, batch: int, files: int, quarantined: int, *, is_interest_new: bool) -> None:
        """Derive silver from the messages that a batch added to bronze."""
        lake, settings = self.lake, self.settings
        self._report("silver/messages", self.progress)
        raw = lake.read_batch(f"bronze/{MESSAGES.name}", batch)
        lake.append("silver/messages", silver.messages(raw, settings.prefix_tokens), batch)
        added = lake.read_batch("silver/messages", batch)
        before = lake.read_before("silver/messages", batch).drop("batch")

        def append(name: str, make: Callable[[], "DataFrame"]) -> None:
            lake.append(f"silver/{name}", make(), batch)
            self._report(f"silver/{name}", self.progress)

        _all_at_once(
            lambda: append("traffic", lambda: silver.traffic(added, settings.window_s)),
            lambda: append(
                "matches", lambda: self._matches(added, batch, is_interest_new=is_interest_new)
            ),
            lambda: append(
                "exchanges",
                lambda: silver.exchanges_batch(added, before, settings.request_timeout_s),
            ),
        )
        # Last, since a batch that has its row here is known to be complete.
        newest = _newest(lake.read_before("silver/batches", batch))
        summary = silver.batch_summary(added, newest, settings.late_after_s, files, quarantined)
        lake.append("silver/batches", summary, batch)

    def _matches(self, added: "DataFrame", batch: int, *, is_interest_new: bool) -> "DataFrame":
        """Match the new messages; correct earlier matches by the new subscriptions."""
        now = self.lake.read("silver/subscriptions")
        found = self._match(added, silver.intervals(now))
        newest = _newest(self.lake.read_before("silver/batches", batch))
        if newest is None or not is_interest_new:
            return found
        changes = silver.interval_changes(self._subscriptions_before(batch), now).where(
            sf.col("begin") <= sf.lit(newest)
        )
        changes = changes.localCheckpoint()
        first = changes.agg(sf.min("begin")).first()
        if first is None or first[0] is None:
            return found
        concerned = self.lake.read_before("silver/messages", batch).where(
            sf.col("time") >= sf.lit(first[0])
        )
        return found.unionByName(self._match(concerned, changes))

    def _match(self, messages: "DataFrame", intervals: "DataFrame") -> "DataFrame":
        settings = self.settings
        return silver.matches(
            messages,
            intervals,
            settings.window_s,
            settings.match_strategy,
            settings.broadcast_max_patterns,
        )

    def _note(self, files: int, bad: list[tuple[str, str]], batch: int) -> None:
        self.progress.batches += 1
        self.progress.files += files
        self.progress.quarantined += len(bad)
        self.progress.bad_files += bad
        row = self.lake.read_batch("silver/batches", batch).first()
        self.progress.messages += row.messages if row else 0
        self._report("batch done", self.progress)


def _all_at_once(*works: Callable[[], None]) -> None:
    """Run independent functions in threads: small Spark jobs mostly wait for planning.

    The first exception is raised after all have ended.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        for done in [pool.submit(work) for work in works]:
            done.result()


def _newest(batches: "DataFrame") -> datetime | None:
    row = batches.agg(sf.max("last_time")).first()
    newest: datetime | None = row[0] if row else None
    return newest
