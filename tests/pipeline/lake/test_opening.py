"""A lake is gone on with as it was made, or made over; nothing in between."""

import errno
import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from itertools import count

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from midge.pipeline.errors import PipelineError
from midge.pipeline.fleet.fleet import build_fleet
from midge.pipeline.fleet.recorded import Simulation
from midge.pipeline.lake.job import LakeJob
from midge.pipeline.lake.opening import open_lake
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.tables import TABLES, LakeError
from midge.pipeline.records.files import list_segments, read_counts
from midge.pipeline.records.format import MESSAGES

RATES = ("window_start", "prefix", "messages", "messages_per_s")


@pytest.fixture
def settings(tmp_path):
    """A lake of windows of ten seconds."""
    Simulation(build_fleet(vans=2), 60.0).run().write(tmp_path / "records", rows_per_segment=500)
    return PipelineSettings(
        records_directory=str(tmp_path / "records"),
        lake_directory=str(tmp_path / "lake"),
        window_s=10,
    )


def rates(job):
    return sorted(map(tuple, job.lake.read("gold/rates").select(*RATES).collect()))


def made(spark, settings, **options):
    job = LakeJob(spark, settings, **options)
    job.take()
    job.build_gold(["gold/rates"])
    return job


def test_other_settings_are_refused_until_the_lake_is_made_over(spark, settings):
    job = made(spark, settings)
    before = rates(job)
    with pytest.raises(LakeError, match="window_s = 10, and this run says window_s = 60"):
        LakeJob(spark, replace(settings, window_s=60))
    assert rates(job) == before
    assert DeltaTable(job.lake.path("gold/rates")).version() > 0

    lake, made_with = open_lake(spark, PipelineSettings(lake_directory=settings.lake_directory))
    assert made_with.settings["window_s"] == 10
    assert lake.read("gold/rates").count() == len(before)

    # What a rebuilt lake holds is what a new one would.
    other = replace(settings, window_s=60)
    rebuilt = made(spark, other, rebuild=True)
    fresh = made(spark, replace(other, lake_directory=settings.lake_directory + "2"))
    assert rates(rebuilt) == rates(fresh)
    assert rebuilt.progress.messages == fresh.progress.messages == job.progress.messages


def test_a_rebuild_that_would_lose_records_is_refused(spark, settings, tmp_path):
    job = made(spark, settings)
    gone = list_segments(tmp_path / "records", MESSAGES)[0]
    gone.unlink()
    with pytest.raises(LakeError, match=f"1 of the .* no longer recorded, .*{gone.name}"):
        LakeJob(spark, settings, rebuild=True)
    assert LakeJob(spark, settings).take().messages == 0
    assert job.lake.read("bronze/messages").count() == job.progress.messages


def test_tables_that_lack_their_description_or_checkpoint_are_refused(spark, settings, tmp_path):
    made(spark, settings)
    lake = tmp_path / "lake"
    shutil.move(lake / "_checkpoint", tmp_path / "aside")
    with pytest.raises(LakeError, match="filled before, but has no _checkpoint; make it over"):
        LakeJob(spark, settings)
    shutil.move(tmp_path / "aside", lake / "_checkpoint")
    (lake / "_lake.json").unlink()
    with pytest.raises(LakeError, match=r"filled before, but has no _lake\.json; make it over"):
        LakeJob(spark, settings)
    with pytest.raises(LakeError, match="holds no lake"):
        open_lake(spark, settings)


def test_a_damaged_checkpoint_is_one_line_and_changes_nothing(spark, settings, tmp_path):
    job = made(spark, settings)
    before = rates(job), files_of(tmp_path / "lake")
    last = max((tmp_path / "lake" / "_checkpoint" / "offsets").glob("[0-9]*"))
    for damaged in (last, last.parent.parent / "commits" / last.name):
        damaged.write_text("v1")
    said = r"/lake: Spark cannot go on from _checkpoint: [^\n]+; if that is damaged, make the lake"
    with pytest.raises(LakeError, match=said):
        LakeJob(spark, settings).run()
    assert (rates(job), files_of(tmp_path / "lake")) == before


def files_of(lake):
    """Return the files of the tables."""
    return sorted(str(path) for path in lake.glob("[!_]*/**/*") if path.is_file())


def test_a_full_disk_is_one_line_and_the_next_run_adds_the_rest(spark, settings, monkeypatch):
    writes = count()

    class FullDisk(pq.ParquetWriter):
        def write_table(self, *arguments, **named):
            if next(writes) >= 4:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().write_table(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(pq, "ParquetWriter", FullDisk)
        with pytest.raises(PipelineError, match=r"/lake/.*: cannot be written to: no space left"):
            LakeJob(spark, settings).run()
    again = made(spark, settings)
    fresh = made(spark, replace(settings, lake_directory=settings.lake_directory + "2"))
    assert rates(again) == rates(fresh)
    for name in ("bronze/messages", "silver/messages", "silver/matches"):
        assert again.lake.read(name).count() == fresh.lake.read(name).count()


def test_a_lake_that_nothing_went_into_takes_other_settings(spark, settings):
    LakeJob(spark, settings)
    LakeJob(spark, replace(settings, window_s=60))


def as_format_1(lake, kind):
    """Write the tables of a lake as format 1 had them: a directory of Parquet files a batch."""
    for table in TABLES.values():
        place = lake / table.name
        if not place.exists():
            continue
        rows = DeltaTable(str(place)).to_pyarrow_table()
        rows = rows.drop_columns(["date"]) if table.dated_by else rows
        shutil.rmtree(place)
        if not table.is_growing:
            place.mkdir()
            pq.write_table(rows, place / "part-0.parquet")
            continue
        for number in sorted(set(rows["batch"].to_pylist())):
            part = rows.filter(pc.equal(rows["batch"], number))
            if kind == "delta":
                commit = CommitProperties(app_transactions=[Transaction("midge.pipeline", number)])
                write_deltalake(
                    place, part, mode="append", partition_by=["batch"], commit_properties=commit
                )
            else:
                (place / f"batch={number}").mkdir(parents=True)
                pq.write_table(
                    part.drop_columns(["batch"]), place / f"batch={number}" / "part-0.parquet"
                )
    mark_as_format_1(lake, kind)


def mark_as_format_1(lake, kind):
    """Write the description of format 1."""
    document = json.loads((lake / "_lake.json").read_text())
    document["settings"]["format"] = kind
    document["versions"]["lake"] = 1
    (lake / "._lake.json.crc").unlink()
    (lake / "_lake.json").write_text(json.dumps(document))


def contents(lake, names):
    """Return the rows of each table, in any order."""
    return {name: Counter(map(str, lake.read(name).collect())) for name in names}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_lake_of_format_1_is_converted_and_goes_on(spark, settings, tmp_path, kind):
    records, lake = tmp_path / "records", tmp_path / "lake"
    newest = list_segments(records, MESSAGES)[-1]
    newest.rename(tmp_path / newest.name)
    names = ("bronze/messages", "silver/messages", "silver/traffic", "silver/matches")
    before = made(spark, settings)
    batches = before.lake.read("silver/batches").count()
    subscriptions = contents(before.lake, ["silver/sessions", "silver/subscriptions"])
    rows = contents(before.lake, names)
    as_format_1(lake, kind)
    with pytest.raises(LakeError, match="older midge; midge pipeline run converts it"):
        open_lake(spark, settings)
    if kind == "parquet":  # as after an interruption, with one table converted and not tidied up
        shutil.copytree(lake / names[2], tmp_path / "aside")
        LakeJob(spark, settings)
        as_it_was = {path.name for path in (lake / names[2]).glob("batch=*")}
        assert not as_it_was
        shutil.copytree(tmp_path / "aside", lake / names[2], dirs_exist_ok=True)
        mark_as_format_1(lake, kind)
    job = LakeJob(spark, settings)
    assert contents(job.lake, names) == rows
    assert contents(job.lake, subscriptions) == subscriptions
    assert not list(lake.glob("*/*/batch=*"))
    (tmp_path / newest.name).rename(newest)
    job.take()
    job.build_gold(["gold/rates"])
    recorded = read_counts(records, MESSAGES)
    assert sum(row.messages for row in job.lake.read("gold/rates").collect()) == recorded
    at_once = made(spark, replace(settings, lake_directory=str(tmp_path / "at-once")))
    assert contents(job.lake, ["gold/rates"]) == contents(at_once.lake, ["gold/rates"])
    assert job.lake.read("silver/batches").count() == batches + 1
