"""The list of files that lets a run without new ones end at once."""

import pytest

from midge.pipeline.lake import taken
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.tables import GOLD

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def settings(tmp_path):
    made = PipelineSettings(
        records_directory=str(tmp_path / "records"), lake_directory=str(tmp_path / "lake")
    )
    (tmp_path / "records" / "messages").mkdir(parents=True)
    (tmp_path / "records" / "messages" / "one.parquet").write_bytes(b"1")
    for table in GOLD:
        (tmp_path / "lake" / table.name / "_delta_log").mkdir(parents=True)
    taken.note_complete(made, taken.recorded_files(made))
    return made


def changed(tmp_path, what):
    records, lake = tmp_path / "records" / "messages", tmp_path / "lake"
    match what:
        case "new":
            (records / "two.parquet").write_bytes(b"2")
        case "rewritten":
            (records / "one.parquet").write_bytes(b"12")
        case "table":
            (lake / GOLD[0].name / "_delta_log").rmdir()
        case "list":
            (lake / taken.FILE).write_text("[]")
        case "no list":
            (lake / taken.FILE).unlink()
        case "half written":
            (records / ".two.parquet").write_bytes(b"2")
        case "removed":
            (records / "one.parquet").unlink()


@pytest.mark.parametrize("what", ["new", "rewritten", "table", "list", "no list"])
def test_a_change_asks_for_a_run(settings, tmp_path, what):
    assert taken.is_complete(settings)
    assert taken.new_bytes(settings, taken.recorded_files(settings)) == 0
    changed(tmp_path, what)
    assert not taken.is_complete(settings)


@pytest.mark.parametrize("what", ["half written", "removed"])
def test_what_spark_would_not_take_asks_for_none(settings, tmp_path, what):
    changed(tmp_path, what)
    assert taken.is_complete(settings)


def test_another_midge_asks_for_a_run(settings, monkeypatch):
    monkeypatch.setattr(taken, "__version__", "99")
    assert not taken.is_complete(settings)


def test_a_lake_behind_a_uri_has_no_list(settings):
    from dataclasses import replace

    assert not taken.is_complete(replace(settings, lake_directory="s3a://bucket/lake"))
