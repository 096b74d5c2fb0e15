"""The attempts to reach another server: their order, and which failures are logged."""

from __future__ import annotations

import socket

import pytest

from midge.server.config.options import LeafNodes, LeafRemote, Listen, Logging, Options
from midge.server.peers import dialler
from midge.server.peers.dialler import Attempts
from tests.support.leafnodes import until
from tests.support.served import serving


async def test_a_remote_is_tried_at_its_urls_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    async def refuse(_loop: object, _host: str, port: int, _limit_s: float) -> socket.socket:
        tried.append(port)
        raise ConnectionRefusedError

    monkeypatch.setattr(dialler, "dial", refuse)
    remote = LeafRemote(urls=("h:1", "h:2"), no_randomize=True)
    leafnodes = LeafNodes(remotes=(remote,), reconnect_s=0.01)
    async with serving(Options(listen=Listen(port=-1), leafnodes=leafnodes)):
        await until(lambda: len(tried) >= 3)
    assert tried[:3] == [1, 2, 1]


def test_a_failure_is_reported_by_its_cause_and_then_every_so_often() -> None:
    options = Options(logging=Logging(connect_error_reports=3, reconnect_error_reports=2))
    attempts = Attempts(lambda: options)
    causes = "aabaaabab"
    reported = [attempts.is_reported(cause) for cause in causes]
    assert [i + 1 for i, is_reported in enumerate(reported) if is_reported] == [1, 3, 6, 9]
    attempts.succeeded()
    reported = [attempts.is_reported(cause) for cause in "aaaba"]
    assert [i + 1 for i, is_reported in enumerate(reported) if is_reported] == [1, 2, 4]


def test_causes_that_are_always_new_do_not_fill_the_log() -> None:
    attempts = Attempts(Options)
    reported = [attempts.is_reported(str(number)) for number in range(100)]
    assert sum(reported) == 16
