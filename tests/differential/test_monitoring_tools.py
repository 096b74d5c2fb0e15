"""nats-top, prometheus-nats-exporter and programs in Go can read the monitoring pages.

What they read is listed in `tools.py`; that nats-server itself offers all of it shows that the
lists are right.
"""

from __future__ import annotations

import pytest

from tests.support.processes import midge_command, nats_server_command

from .pages import PATHS, Answer, numbers, visit
from .pair import NAMES
from .tools import FRACTIONS, READ, WALKED, fractions, labels, unread

READS = [(tool, path) for tool, pages in READ.items() for path in pages]
EVERYTHING = tuple(dict.fromkeys((*PATHS, *(path for _, path in READS))))

Pages = dict[str, Answer]


@pytest.fixture(scope="module")
def both() -> dict[str, Pages]:
    """What each server answered."""
    commands = zip(NAMES, (nats_server_command(), midge_command()), strict=True)
    return {name: visit(command, EVERYTHING) for name, command in commands}


@pytest.mark.parametrize("server", NAMES)
@pytest.mark.parametrize(("tool", "path"), READS)
def test_a_tool_finds_what_it_reads(
    both: dict[str, Pages], server: str, tool: str, path: str
) -> None:
    assert list(unread(READ[tool][path], both[server][path].page)) == []


@pytest.mark.parametrize("path", WALKED)
def test_an_exporter_makes_the_same_metrics(both: dict[str, Pages], path: str) -> None:
    real, ours = (both[name][path].page for name in NAMES)
    assert numbers(real).keys() <= numbers(ours).keys()
    assert labels(real) <= labels(ours)


@pytest.mark.parametrize("server", NAMES)
@pytest.mark.parametrize("path", EVERYTHING)
def test_whole_numbers_have_no_point(both: dict[str, Pages], server: str, path: str) -> None:
    """Go reads `1.0` as a floating number only."""
    assert fractions(both[server][path].page) <= FRACTIONS
