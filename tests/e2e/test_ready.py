"""The wait for a server of a test: on a busy machine it is longer."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.processes import Server, midge_command


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "START_TIMEOUT_S", 0.0)


def test_a_server_that_is_not_ready_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "waited_s", lambda pid: 0.0)
    with pytest.raises(RuntimeError, match="did not start"):
        Server(midge_command()).wait_ready()


def test_while_it_waits_for_a_processor_it_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "waited_s", lambda pid: 30.0)
    with Server(midge_command()) as server:
        assert server.address()[1] > 0
