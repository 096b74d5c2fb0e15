"""docs/architecture.md names files that are there, and forgets no room."""

from __future__ import annotations

import re

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(
    r"`((?:protocol|sublist|jetstream|server|pipeline|testing|tests)/[\w/]+\.py)`", PAGE
)


def test_every_file_named_is_there() -> None:
    assert [path for path in NAMED if not (ROOT / path).is_file()] == []


def test_every_room_of_the_server_is_named() -> None:
    rooms = {path.name for path in (ROOT / "server").iterdir() if (path / "__init__.py").exists()}
    assert rooms - {path.split("/")[1] for path in NAMED if path.startswith("server/")} == set()
