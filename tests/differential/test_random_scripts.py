"""Scripts, tokens, files and handshakes made at random; `--full` plays hundreds of new ones."""

from __future__ import annotations

import dataclasses
import time
from random import Random

import pytest

from . import random_outcomes
from .pair import Arena
from .random_play import difference
from .random_scripts import KINDS, SCRIPTS_PER_CONFIG, make

SEED = 1
COUNT = SCRIPTS_PER_CONFIG
OUTCOMES = {"tokens": 20, "files": 10, "tls": 8}


@pytest.fixture
def arena_of_its_own() -> Arena:
    return Arena()


async def _play(kind: str, seed: int, count: int, arena: Arena) -> None:
    config = make(kind, seed, 0).config
    try:
        for number in range(count):
            script = make(kind, seed, number)
            if script.config == config:
                script = dataclasses.replace(script, config=config)  # by it the servers go on
            config = script.config
            report = await difference(arena, script)
            assert report is None, report
    finally:
        arena.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_scripts(arena_of_its_own: Arena, kind: str) -> None:
    await _play(kind, SEED, COUNT, arena_of_its_own)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
async def test_new_scripts(arena_of_its_own: Arena, kind: str) -> None:
    seed = int(time.time())
    print(f"{kind}: seed {seed}")
    await _play(kind, seed, 20 * COUNT, arena_of_its_own)


@pytest.mark.parametrize("kind", OUTCOMES)
def test_outcomes(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    servers = random_outcomes.MAKERS[kind](Random(SEED))
    try:
        for number in range(OUTCOMES[kind]):
            outcomes, what = servers.play(Random(f"{kind} {SEED} {number}"))
            capsys.readouterr()
            assert outcomes[0] == outcomes[1], what
    finally:
        servers.close()
