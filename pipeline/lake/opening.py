"""Opening a lake: for reading, for adding to what it holds, or emptied to be made over."""

from pathlib import Path
from typing import TYPE_CHECKING

from midge.pipeline.lake import taken
from midge.pipeline.lake.description import (
    FILE,
    Description,
    read_description,
    require_readable,
    require_same,
)
from midge.pipeline.lake.lake_table import LakeError
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.storage import Storage, as_path
from midge.pipeline.lake.tables import TABLES, Lake
from midge.pipeline.records.format import DATA_SETS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT = "_checkpoint"
"""The checkpoint lies in the lake, so that tables and progress come and go together."""


def open_lake(spark: "SparkSession", settings: PipelineSettings) -> tuple[Lake, Description]:
    """Return the lake of `settings` for reading, and what it was made with.

    Raises:
        LakeError: the directory holds no lake, or its tables differ from this midge's.
    """
    lake = Lake(spark, settings.lake_directory)
    description = description_of(lake) if lake.storage.exists("silver/batches") else None
    if description is None:
        raise LakeError(
            f"{settings.lake_directory}: holds no lake yet; "
            "expected the tables of `midge pipeline run`"
        )
    require_readable(settings.lake_directory, description)
    return lake, description


def prepare(lake: Lake, settings: PipelineSettings) -> None:
    """Write the description of a new lake; compare an old lake's description with `settings`.

    A lake of format 1 is converted.

    Raises:
        LakeError: the lake was made with other settings, or lacks its description or checkpoint.
    """
    wanted = Description.of(settings)
    kept = description_of(lake)
    has_tables = any(lake.storage.exists(name) for name in TABLES)
    has_checkpoint = lake.storage.exists(CHECKPOINT)
    if not has_tables and not has_checkpoint:
        lake.storage.write_text(FILE, wanted.to_json())
        return
    missing = FILE if kept is None else CHECKPOINT
    if kept is None or not has_checkpoint:
        raise LakeError(
            f"{settings.lake_directory}: was filled before, but has no {missing}; "
            "make it over with --rebuild"
        )
    require_same(settings.lake_directory, kept, wanted)
    if kept.is_old:
        _convert(lake)
        lake.storage.write_text(FILE, wanted.to_json())


def _convert(lake: Lake) -> None:
    """Make Delta tables of a lake of format 1; an interruption does no harm.

    There, a growing table was a directory `batch=N` of Parquet files for each batch, with or
    without a Delta log that had the batch as its partition. Derived tables are derived again.
    """
    for table in TABLES.values():
        if not table.is_growing:
            lake.delete(table.name)
            continue
        if not lake.storage.exists(table.name):
            continue
        parts = (file.place.split("/")[2] for file in lake.storage.files(table.name))
        batches = {part for part in parts if part.startswith("batch=")}
        handle = lake.log(table.name).handle
        if batches and (handle is None or "batch" in handle.metadata().partition_columns):
            lake.delete(f"{table.name}/_delta_log")
            root = lake.path(table.name)
            rows = lake.spark.read.schema(table.stored_columns).option("basePath", root)
            last = max(int(each.removeprefix("batch=")) for each in batches)
            lake.append_all(table.name, rows.parquet(*(f"{root}/{each}" for each in batches)), last)
        for each in batches:
            lake.storage.delete(f"{table.name}/{each}")


def require_same_here(settings: PipelineSettings) -> None:
    """Compare a lake on this machine with `settings`, without Spark. A new lake passes.

    Raises:
        LakeError: it was made with something else.
    """
    path = Path(as_path(settings.lake_directory)).expanduser() / FILE
    if path.exists():
        kept = read_description(settings.lake_directory, path.read_text(encoding="utf-8"))
        require_same(settings.lake_directory, kept, Description.of(settings))


def description_of(lake: Lake) -> Description | None:
    """Return what a lake was made with, or None when it has no description."""
    if not lake.storage.exists(FILE):
        return None
    return read_description(lake.storage.root, lake.storage.read_text(FILE))


def clear(lake: Lake, records: Storage) -> None:
    """Delete the tables, checkpoint and description of a lake that the records can restore.

    Raises:
        LakeError: segments that are in the lake are missing among the records.
    """
    here = {file.place for file in records.files("")}
    known = {segment for name in DATA_SETS for segment in _segments(lake, f"bronze/{name}")}
    lost = sorted(known - here)
    if lost:
        raise LakeError(
            f"{as_path(lake.storage.root)}: {len(lost):,} of the {len(known):,} segments in it are "
            f"no longer recorded, such as {lost[0]}; making it over would lose them, so name "
            "another --lake"
        )
    # The description goes first: what an interruption leaves is not taken for a whole lake.
    for place in (FILE, taken.FILE, CHECKPOINT, *TABLES):
        lake.delete(place)


def _segments(lake: Lake, name: str) -> set[str]:
    """Return the segments that a table of bronze has rows of."""
    if not lake.exists(name):
        return set()
    rows = lake.read(name).select("segment").distinct().collect()
    return {row.segment for row in rows}
