"""How many workers there may be."""

from __future__ import annotations

import pytest

import midge
from midge.server.config.load import load
from midge.server.errors import ConfigError


@pytest.mark.parametrize("value", ["0", "many", "257"])
def test_a_wrong_number_says_what_may_be(value: str) -> None:
    with pytest.raises(ConfigError, match="expected int from 1 to 256 or 'auto', got"):
        load(None, {"MIDGE_SERVER_WORKERS": value})


def test_a_number_and_auto_may_be() -> None:
    assert load(None, {"MIDGE_SERVER_WORKERS": "3"}).options.server.workers == 3
    assert load(None, {"MIDGE_SERVER_WORKERS": "auto"}).options.server.workers == "auto"


def test_a_server_in_a_program_has_none() -> None:
    with pytest.raises(ConfigError, match="a server within a program is one process"):
        midge.Server(server_workers=2)
