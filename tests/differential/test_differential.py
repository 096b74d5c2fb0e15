"""Every script of the corpus has the same outcome on midge as on a real nats-server 2.15.1.

Each script is sent to midge whole and byte by byte. `README.md` says how to write one.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from . import corpus
from .pair import NAMES, Arena
from .report import mismatch
from .runner import Outcome, byte_by_byte, whole
from .script import Script

SCRIPTS = sorted(corpus.load(), key=lambda each: each.config.name)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.name)
async def test_same_outcome(arena: Arena, script: Script) -> None:
    servers = arena.pair(script.config)
    async with asyncio.TaskGroup() as group:
        plays = [group.create_task(servers.play(name, script, whole)) for name in NAMES]
    expected, at_once = (play.result() for play in plays)
    assert "no answer in time" not in str(expected), f"{script.name} left nats-server waiting"
    assert_same(script, expected, at_once, "sent whole")
    in_pieces = await servers.play(NAMES[1], script, byte_by_byte)
    assert_same(script, expected, in_pieces, "sent byte by byte")


def assert_same(script: Script, expected: Outcome, actual: Outcome, replay: str) -> None:
    report = mismatch(script, expected, actual, NAMES, replay)
    if report is not None:
        pytest.fail(report, pytrace=False)


def test_names_are_unique() -> None:
    names = Counter(each.name for each in SCRIPTS)
    assert [name for name, count in names.items() if count > 1] == []


def test_corpus_is_complete() -> None:
    assert len(SCRIPTS) >= 300
