"""The example file and the documentation's tables are what the option tables say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midge.server import preflight as config
from midge.server.config import reference, schema
from midge.server.config.options import Options

ROOT = Path(__file__).parents[4]
EXAMPLE = ROOT / "config.example.toml"
PAGE = ROOT / "docs" / "configuration.md"


def test_the_example_file_is_current() -> None:
    again = "python -m midge.server.config.reference example > config.example.toml"
    assert EXAMPLE.read_text(encoding="utf-8") == reference.example(), f"run: {again}"


def test_the_keywords_of_a_server_are_typed() -> None:
    again = "python -m midge.server.config.reference keywords > server/config/keywords.pyi"
    there = (ROOT / "midge" / "server" / "config" / "keywords.pyi").read_text(encoding="utf-8")
    assert there == reference.keywords(), f"run: {again}"


def test_the_example_file_has_the_defaults() -> None:
    loaded = config.load(EXAMPLE)
    assert loaded.options == Options()
    written = {setting.path for setting in schema.settings() if setting.path in loaded.origins}
    shown = {setting.path for setting in schema.settings() if setting.key in reference.EXAMPLES}
    assert written | shown == {setting.path for setting in schema.settings()}


def test_the_example_files_examples_load(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    for example in reference.EXAMPLES.values():
        assert example in text
        text = text.replace(example, re.sub(r"^# ", "", example, flags=re.MULTILINE))
    file = tmp_path / "all.toml"
    file.write_text(text, encoding="utf-8")
    options = config.load(file).options
    assert [account.name for account in options.accounts] == ["SHOP", "WAREHOUSE"]
    assert options.mappings
    assert options.authorization.users
    assert options.authorization.default_permissions


def test_the_page_is_current() -> None:
    _, _, tables = PAGE.read_text(encoding="utf-8").partition("## Every setting\n\n")
    again = "python -m midge.server.config.reference markdown, below 'Every setting'"
    assert tables == reference.markdown(), f"replace by the output of: {again}"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("ping_interval_s", "seconds"),
        ("max_payload_bytes", "bytes"),
        ("weight_percent", "per cent"),
        ("max_lines_per_offender_per_s", "per second"),
        ("port", ""),
    ],
)
def test_units(name: str, unit: str) -> None:
    assert reference.unit_of(name) == unit


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["example"]) == 0
    assert capsys.readouterr().out == reference.example()
