"""The `[pipeline]` table is read strictly, without Spark."""

import re
import tomllib
from dataclasses import fields

import pytest

from midge.pipeline.lake.settings import PipelineSettings, SettingsError, load_settings
from midge.pipeline.lake.tables import TABLES


def write(path, text):
    path.write_text(text)
    return path


def test_without_a_file_the_defaults_count(tmp_path):
    assert load_settings(None) == PipelineSettings()
    assert load_settings(write(tmp_path / "a.toml", "[listen]\nport = 1\n")) == PipelineSettings()


def test_the_example_file_says_the_defaults(root):
    assert load_settings(root / "config.example.toml") == PipelineSettings()


def test_the_server_knows_the_same_settings(root):
    """The server refuses unknown keys, so it must know those that are not for it."""
    with (root / "config.example.toml").open("rb") as file:
        known = tomllib.load(file)["pipeline"]
    assert set(known) | {"spark"} == {each.name for each in fields(PipelineSettings)}


def test_what_is_given_counts(tmp_path):
    settings = load_settings(
        write(
            tmp_path / "a.toml",
            """
            [recorder]
            directory = "/data/records"
            [pipeline]
            lake_directory = "s3a://bucket/lake"
            match_strategy = "shuffle"
            keep_days = 30
            late_after_s = 5
            [pipeline.spark]
            "spark.executor.memory" = "4g"
            """,
        )
    )
    assert settings.records_directory == "/data/records"
    assert settings.lake_directory == "s3a://bucket/lake"
    assert (settings.match_strategy, settings.late_after_s) == ("shuffle", 5.0)
    assert settings.keep_days == 30.0
    assert settings.spark == {"spark.executor.memory": "4g"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[pipeline]\nwindow = 5", "pipeline.window: unknown setting, did you mean 'window_s'"),
        ("[pipeline]\nwindow_s = 'x'", "pipeline.window_s: expected int, got 'x'"),
        ("[pipeline]\nwindow_s = 0", "pipeline.window_s: expected more than 0, got 0"),
        ("[pipeline]\nwindow_s = true", "pipeline.window_s: expected int, got True"),
        (
            "[pipeline]\nmatch_strategy = 'orc'",
            "pipeline.match_strategy: expected one of auto, broadcast, shuffle, got 'orc'",
        ),
        ("[pipeline]\nspark = 'x'", "pipeline.spark: expected a table, got 'x'"),
        ("pipeline = 3", "pipeline: expected a table, got 3"),
        ("[pipeline", "a.toml: "),
    ],
)
def test_what_has_no_meaning_is_named_with_its_file(tmp_path, text, message):
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path / "a.toml", text))
    assert message in str(caught.value)
    assert "a.toml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.toml"):
        load_settings(tmp_path / "none.toml")


def test_every_setting_has_a_default():
    assert all(
        getattr(PipelineSettings(), each.name) is not None for each in fields(PipelineSettings)
    )


def test_the_documentation_knows_every_setting_and_table(root):
    page = (root / "docs" / "pipeline.md").read_text()
    for each in fields(PipelineSettings):
        default = getattr(PipelineSettings(), each.name)
        if isinstance(default, str | int | float):
            value = f'"{default}"' if isinstance(default, str) else str(default)
            assert re.search(rf"^{each.name} = {re.escape(value)}( |$)", page, re.MULTILINE)
    for table in TABLES.values():
        [line] = [line for line in page.splitlines() if line.startswith(f"| `{table.name}`")]
        assert table.row in line
        columns = re.sub(r"<[^ ]*>", "", table.columns).split(", ")
        assert line.rstrip(" |").endswith(", ".join(f"`{each.split()[0]}`" for each in columns))
