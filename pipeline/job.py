"""The job that fills the lake: one Spark streaming query over the files of a record directory.

Each batch is a set of new files. It goes through bronze and silver in order, interest before the
messages that depend on it; the query's checkpoint remembers which files were taken. Everything a
batch writes is keyed by its number, so a batch that is repeated after a crash adds nothing twice.
Gold is derived from silver afterwards.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from midge.pipeline import bronze, gold, silver
from midge.pipeline.errors import PipelineError
from midge.pipeline.records import CLIENTS, DATA_SETS, INTEREST, MESSAGES, require_records
from midge.pipeline.settings import PipelineSettings
from midge.pipeline.storage import as_uri
from midge.pipeline.tables import GOLD, Lake, LakeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

CHECKPOINT = "_checkpoint"
"""The checkpoint lies in the lake, so that tables and progress come and go together."""


@dataclass
class Progress:
    """What a run did so far."""

    batches: int = 0
    files: int = 0
    quarantined: int = 0
    messages: int = 0
    gold_tables: int = 0
    bad_files: list[tuple[str, str]] = field(default_factory=list)
    """Segment and reason of what went to the quarantine in this run."""


Report = Callable[[str, Progress], None]
"""Is told what happens now, and what was done so far."""


class LakeJob:
    """Fills the lake of `settings` from its records.

    Raises:
        RecordsError: there is no record directory.
        LakeError: the lake was filled with other settings, which would mix what does not belong
            together.
    """

    def __init__(
        self,
        spark: "SparkSession",
        settings: PipelineSettings,
        report: Report = lambda step, progress: None,
    ) -> None:
        if "://" not in settings.records:
            require_records(Path(settings.records))
        self.settings = settings
        self.lake = Lake(spark, settings.lake, settings.format)
        self.progress = Progress()
        self._spark = spark
        self._records = as_uri(settings.records)
        self._report = report
        self._gold_built_s = float("-inf")

    def run(self) -> Progress:
        """Take everything that is recorded and not yet in the lake, then rebuild gold."""
        self._start(available_now=True).awaitTermination()
        self.build_gold()
        return self.progress

    def stream(self) -> "StreamingQuery":
        """Follow the records as they are written; gold is rebuilt every `gold_interval_s`."""
        return self._start(available_now=False)

    def build_gold(self) -> None:
        """Derive all gold tables from silver."""
        builds = gold.build(self.lake, self.settings.window_s, self.settings.prefix_tokens)
        for table in GOLD:
            self._report(table.name, self.progress)
            self.lake.replace(table.name, builds[table.name]())
            self.progress.gold_tables += 1
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
        on_batch = self._take_batch if available_now else self._take_batch_and_gold
        writer = listing.writeStream.foreachBatch(on_batch).option(
            "checkpointLocation", self.lake.path(CHECKPOINT)
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.settings.trigger_interval_s} seconds")
        return writer.queryName("midge-lake").start()

    def _take_batch_and_gold(self, listing: "DataFrame", batch: int) -> None:
        self._take_batch(listing, batch)
        if time.monotonic() - self._gold_built_s >= self.settings.gold_interval_s:
            self.build_gold()

    def _take_batch(self, listing: "DataFrame", batch: int) -> None:
        """Bring a batch of files through bronze and silver."""
        self._report("checking segments", self.progress)
        listing = listing.localCheckpoint()
        parallelism = self._spark.sparkContext.defaultParallelism
        verdicts = bronze.inspect_segments(listing, self._records, parallelism).localCheckpoint()
        bad = bronze.quarantine(listing, verdicts)
        self.lake.append("bronze/quarantine", bad, batch)
        good = verdicts.where("reason IS NULL").select("path", "segment").collect()
        for data_set in DATA_SETS.values():
            paths = [row.path for row in good if row.segment.startswith(f"{data_set.name}/")]
            if paths:
                self._report(f"bronze/{data_set.name}", self.progress)
                rows = bronze.read_segments(self._spark, data_set, paths, self._records)
                self.lake.append(f"bronze/{data_set.name}", rows, batch)
        found_bad = verdicts.where("reason IS NOT NULL").select("segment", "reason").collect()
        self._refine(batch, len(good) + len(found_bad), len(found_bad))
        self._note(len(good) + len(found_bad), [tuple(row) for row in found_bad], batch)

    def _refine(self, batch: int, files: int, quarantined: int) -> None:
        """Derive silver from what a batch added to bronze."""
        lake, settings = self.lake, self.settings
        self._report("silver/subscriptions", self.progress)
        lake.replace("silver/sessions", silver.sessions(lake.read(f"bronze/{CLIENTS.name}")))
        intervals = silver.subscriptions(
            lake.read(f"bronze/{INTEREST.name}"), lake.read("silver/sessions")
        )
        lake.replace("silver/subscriptions", intervals)
        self._report("silver/messages", self.progress)
        raw = lake.read_batch(f"bronze/{MESSAGES.name}", batch)
        lake.append("silver/messages", silver.messages(raw, settings.prefix_tokens), batch)
        added = lake.read_batch("silver/messages", batch)
        lake.append("silver/traffic", silver.traffic(added, settings.window_s), batch)
        self._report("silver/matches", self.progress)
        subscriptions = lake.read("silver/subscriptions")
        matches = silver.matches_batch(
            added, subscriptions, settings.window_s, settings.match_strategy
        )
        lake.append("silver/matches", matches, batch)
        self._report("silver/exchanges", self.progress)
        before = lake.read_before("silver/messages", batch).drop("batch")
        exchanges = silver.exchanges_batch(added, before, settings.request_timeout_s)
        lake.append("silver/exchanges", exchanges, batch)
        newest = _newest(lake.read_before("silver/batches", batch))
        summary = silver.batch_summary(added, newest, settings.late_after_s, files, quarantined)
        lake.append("silver/batches", summary, batch)

    def _note(self, files: int, bad: list[Any], batch: int) -> None:
        self.progress.batches += 1
        self.progress.files += files
        self.progress.quarantined += len(bad)
        self.progress.bad_files += bad
        row = self.lake.read_batch("silver/batches", batch).first()
        self.progress.messages += row.messages if row else 0
        self._report("batch done", self.progress)


def open_lake(spark: "SparkSession", settings: PipelineSettings) -> Lake:
    """Return the lake of `settings` for reading.

    Raises:
        LakeError: there is none.
    """
    lake = Lake(spark, settings.lake, settings.format)
    if not lake.exists("silver/batches"):
        raise LakeError(
            f"{settings.lake}: holds no lake yet; expected the tables of `midge pipeline run`"
        )
    return lake


def wait(query: "StreamingQuery", timeout_s: float | None = None) -> bool:
    """Wait for a query to end; return False when it is still running after `timeout_s`.

    Raises:
        PipelineError: the query failed.
    """
    if timeout_s is None:
        query.awaitTermination()
        return True
    return bool(query.awaitTermination(max(1, round(timeout_s))))


def _newest(batches: "DataFrame") -> datetime | None:
    row = batches.agg(F.max("last_time")).first()
    newest: datetime | None = row[0] if row else None
    return newest
