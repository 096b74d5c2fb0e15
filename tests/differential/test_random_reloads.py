"""Programs made at random with reloads between their phases; `--full` plays new ones."""

from __future__ import annotations

import time

import pytest

from .random_reloads import play

COUNT = 12


async def test_programs() -> None:
    assert await play(1, 0, COUNT) == 0


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_new_programs() -> None:
    assert await play(int(time.time()), 0, 500) == 0
