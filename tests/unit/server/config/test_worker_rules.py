"""What several workers cannot do is said at once."""

from __future__ import annotations

from typing import Any

import pytest

import midge
from midge.server.config.load import load
from midge.server.config.options import (
    Console,
    Monitoring,
    Options,
    ServerProcesses,
)
from midge.server.config.worker_rules import SINGLE, find_worker_problems
from midge.server.errors import ConfigError

CONSOLE = Monitoring(console=Console(enabled=True))
TWO = ServerProcesses(workers=2)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (("monitoring", "console", "enabled"), {"monitoring": CONSOLE}),
    ],
)
def test_each_names_its_setting(path: tuple[str | int, ...], options: dict[str, Any]) -> None:
    (problem,) = find_worker_problems(Options(server=TWO, **options))
    assert problem.path == path
    assert problem.text == f"several workers do not support this; {SINGLE}"
    assert not list(find_worker_problems(Options(**options)))


def test_the_rest_may_be() -> None:
    assert not list(find_worker_problems(Options(server=TWO)))


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
