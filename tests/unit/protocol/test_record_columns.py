"""The record format is described once: by the columns, and for people by a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from midge.protocol.record_columns import DATA_SETS, Column

TYPES = {
    "time": "timestamp(us, UTC)",
    "headers": "map<string, list<string>>",
}


def documented(root: Path, data_set: str) -> list[tuple[str, str]]:
    """Return name and type of each column in the table of a data set."""
    page = (root / "docs" / "record-format.md").read_text(encoding="utf-8")
    section = page.partition(f"## `{data_set}`")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return [(name, kind.strip()) for names, kind in rows for name in re.findall(r"`(\w+)`", names)]


def shown(column: Column) -> str:
    kind = TYPES.get(column.kind, column.kind)
    return kind if column.is_required else f"{kind} or null"


@pytest.mark.parametrize("data_set", DATA_SETS)
def test_the_page_has_every_column_and_its_type(root: Path, data_set: str) -> None:
    as_above = {name for name, kind in documented(root, data_set) if not kind}
    wanted = {
        column.name: "" if column.name in as_above else shown(column)
        for column in DATA_SETS[data_set]
    }
    assert dict(documented(root, data_set)) == wanted
