"""A lake's description is kept and compared, without Spark."""

import json
from dataclasses import fields, replace

import pytest

from midge.pipeline.lake.description import (
    SHAPING_SETTINGS,
    Description,
    read_description,
    require_readable,
    require_same,
)
from midge.pipeline.lake.opening import require_same_here
from midge.pipeline.lake.settings import PipelineSettings
from midge.pipeline.lake.tables import LakeError

SETTINGS = PipelineSettings()

HOW_AND_WHEN = {
    *("lake_directory", "master", "spark", "max_files_per_batch", "trigger_interval_s"),
    *("gold_interval_s", "keep_days", "match_strategy", "broadcast_max_patterns"),
}
"""Settings that change no row."""


def test_every_setting_is_kept_or_known_to_change_no_row():
    names = {each.name for each in fields(PipelineSettings)}
    assert names == set(SHAPING_SETTINGS) | HOW_AND_WHEN
    assert not set(SHAPING_SETTINGS) & HOW_AND_WHEN


def test_a_description_comes_back_as_it_was_written():
    kept = Description.of(SETTINGS)
    assert Description.from_json(kept.to_json()) == kept
    require_same("lake", kept, Description.of(SETTINGS))


@pytest.mark.parametrize(
    ("changes", "was", "now"),
    [
        ({"window_s": 1}, "window_s = 60", "window_s = 1"),
        ({"prefix_tokens": 3}, "prefix_tokens = 2", "prefix_tokens = 3"),
        ({"late_after_s": 5.0}, "late_after_s = 60.0", "late_after_s = 5.0"),
        ({"request_timeout_s": 1.0}, "request_timeout_s = 30.0", "request_timeout_s = 1.0"),
        ({"records_directory": "/r"}, "/records'", "records_directory = 'file:///r'"),
        (
            {"window_s": 1, "prefix_tokens": 3},
            "prefix_tokens = 2, window_s = 60",
            "prefix_tokens = 3, window_s = 1",
        ),
    ],
)
def test_another_setting_is_an_error_that_names_both(changes, was, now):
    wanted = Description.of(replace(SETTINGS, **changes))
    with pytest.raises(LakeError) as caught:
        require_same("lake", Description.of(SETTINGS), wanted)
    before, _, after = str(caught.value).partition(", and this run says ")
    assert before.endswith(was)
    assert after.startswith(now)
    assert "--rebuild" in after


def test_other_versions_and_tables_are_errors_that_name_both():
    now = Description.of(SETTINGS)
    old = replace(
        now,
        versions={"lake": 0, "midge": "0.0.9", "spark": "3.5.1"},
        tables=dict(now.tables) | {"gold/rates": "a string"},
    )
    with pytest.raises(LakeError) as caught:
        require_same("lake", old, now)
    for text in ("0 (midge 0.0.9)", "2 (midge ", "Spark = 3.5.1", "columns of gold/rates = (a st"):
        assert text in str(caught.value)
    assert f"({now.tables['gold/rates']})" in str(caught.value)
    with pytest.raises(LakeError, match="columns of gold/rates"):
        require_readable("lake", old)


def test_a_reader_takes_any_settings():
    require_readable("lake", Description.of(replace(SETTINGS, window_s=1)))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"settings": 1}'])
def test_a_damaged_description_is_named(text):
    with pytest.raises(LakeError, match=r"lake: _lake\.json cannot be read .*--rebuild"):
        read_description("lake", text)


def test_a_lake_on_this_machine_is_compared_before_spark_starts(tmp_path):
    here = replace(SETTINGS, lake_directory=str(tmp_path))
    require_same_here(here)
    (tmp_path / "_lake.json").write_text(Description.of(here).to_json())
    require_same_here(here)
    with pytest.raises(LakeError, match="window_s = 60, and this run says window_s = 5"):
        require_same_here(replace(here, window_s=5))
    document = json.loads((tmp_path / "_lake.json").read_text())
    assert document["settings"]["window_s"] == 60
