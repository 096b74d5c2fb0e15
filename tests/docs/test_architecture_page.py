"""docs/architecture.md names files and functions that are there, and draws the rooms in order."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.conftest import ROOT
from tests.unit.test_imports import FLOORS

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE = r"`((?:protocol|sublist|jetstream|server|client|pipeline|testing|tests)/[\w/]+\.py)`"
NAMED = re.findall(FILE, PAGE)
STEPS = re.findall(rf"^\| {FILE} \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
ROOMS = {
    folder: {path.name for path in (ROOT / folder).iterdir() if (path / "__init__.py").exists()}
    for folder in FLOORS
}
DRAWINGS = [("server", 15), ("jetstream", 8), ("client", 3), ("pipeline", 3)]
NODE = r'(\w+)(?:\["([^"]*)"\])?'


def drawn(folder: str) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the rooms in each node of a folder's drawing, and its arrows."""
    drawing = PAGE.partition(f'subgraph {folder}["{folder}/"]\n')[2]
    drawing = re.split(r"\n +end\n", drawing, maxsplit=1)[0]
    nodes: dict[str, list[str]] = {}
    arrows = []
    for line in drawing.strip().splitlines():
        chain = re.findall(NODE, line.replace(" --> ", "\n"))
        for name, label in chain:
            if label or name not in nodes:
                nodes[name] = label.split("<br/>") if label else [name]
        arrows += [(one[0], two[0]) for one, two in itertools.pairwise(chain)]
    return nodes, arrows


def test_every_file_named_is_there() -> None:
    assert [path for path in NAMED if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("folder", sorted(FLOORS))
def test_every_room_is_named(folder: str) -> None:
    named = {path.split("/")[1] for path in NAMED if path.startswith(f"{folder}/")}
    assert ROOMS[folder] - named == set()


@pytest.mark.parametrize("folder", sorted(FLOORS))
def test_the_drawing_has_every_room(folder: str) -> None:
    nodes, _ = drawn(folder)
    assert ROOMS[folder] - {room for rooms in nodes.values() for room in rooms} == set()


@pytest.mark.parametrize(("folder", "least"), DRAWINGS)
def test_the_drawing_has_the_order_of_the_imports(folder: str, least: int) -> None:
    nodes, arrows = drawn(folder)
    floors = {
        name: {FLOORS[folder][room.removesuffix(".py")] for room in rooms}
        for name, rooms in nodes.items()
    }
    assert len(arrows) >= least
    assert [(low, high) for low, high in arrows if max(floors[low]) >= min(floors[high])] == []


def test_the_ways_are_there() -> None:
    assert len(STEPS) >= 30


@pytest.mark.parametrize(("path", "functions"), STEPS)
def test_every_step_of_a_way_is_in_its_file(path: str, functions: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    missing = [
        name
        for name in re.findall(r"`(\w+)`", functions)
        if not re.search(rf"^\s*(?:async )?(?:def|class) {name}\b", source, re.MULTILINE)
    ]
    assert missing == []
