"""A lake is gone on with as it was made, or made over; nothing in between."""

import shutil
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from midge.pipeline.fleet.fleet import build_fleet
from midge.pipeline.fleet.recorded import Simulation
from midge.pipeline.lake.job import LakeJob
from midge.pipeline.lake.opening import open_lake
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.tables import LakeError
from midge.pipeline.records.files import list_segments
from midge.pipeline.records.format import MESSAGES

RATES = ("window_start", "prefix", "messages", "messages_per_s")


@pytest.fixture
def settings(tmp_path):
    """A lake of windows of ten seconds with Delta logs."""
    Simulation(build_fleet(vans=2), 60.0).run().write(tmp_path / "records", rows_per_segment=500)
    return PipelineSettings(
        records_directory=str(tmp_path / "records"),
        lake_directory=str(tmp_path / "lake"),
        window_s=10,
        format="delta",
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
    for changes, both in (
        ({"window_s": 60}, "window_s = 10, and this run says window_s = 60"),
        ({"format": "parquet"}, "format = 'delta', and this run says format = 'parquet'"),
    ):
        with pytest.raises(LakeError, match=both):
            LakeJob(spark, replace(settings, **changes))
    assert rates(job) == before
    assert DeltaTable(job.lake.path("gold/rates")).version() > 0

    lake, made_with = open_lake(spark, PipelineSettings(lake_directory=settings.lake_directory))
    assert made_with.settings["window_s"] == 10
    assert lake.read("gold/rates").count() == len(before)

    # What a rebuilt lake holds is what a new one would.
    other = replace(settings, window_s=60, format="parquet")
    rebuilt = made(spark, other, rebuild=True)
    fresh = made(spark, replace(other, lake_directory=settings.lake_directory + "2"))
    assert rates(rebuilt) == rates(fresh)
    assert rebuilt.progress.messages == fresh.progress.messages == job.progress.messages
    assert not rebuilt.lake.exists("gold/rates/_delta_log")


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


def test_a_lake_that_nothing_went_into_takes_other_settings(spark, settings):
    LakeJob(spark, settings)
    LakeJob(spark, replace(settings, window_s=60))
