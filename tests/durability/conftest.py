"""What the tests of durability share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.preloading import compile_shim


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of calls, compiled."""
    return compile_shim(tmp_path_factory.mktemp("shim"))
