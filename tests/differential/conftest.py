"""Server processes for the differential tests: one pair per configuration at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .pair import Arena


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    """Where both servers meet; it changes configuration when a script asks for another."""
    arena = Arena()
    yield arena
    arena.close()
