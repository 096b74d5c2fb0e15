"""A client that has heard anything from the server finds its timers there, however quick it is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

import midge
from midge.server.config.options import Authorization, Options
from midge.server.config.security import Tls
from midge.testing import ManualClock
from midge.testing.clock import ThreadedClock
from tests.support.keys import Authority, pem

TIMES = 300
TIMEOUT_S = 60.0
LATER_S = 3600.0

LOOPS = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Make servers in threads use the loop of the test's parameter."""
    monkeypatch.setattr(uvloop, "new_event_loop", request.getfixturevalue("loop"))


@contextmanager
def connected(server: midge.ThreadedServer) -> Iterator[socket.socket]:
    """Connect, and wait until INFO has come."""
    with socket.create_connection((server.host, server.port), TIMEOUT_S) as client:
        line = b""
        while not line.endswith(b"\n"):
            line += client.recv(1 << 16)
        assert line.startswith(b"INFO ")
        yield client


def read_to_end(client: socket.socket) -> bytes:
    got = b""
    while piece := client.recv(1 << 16):
        got += piece
    return got


@pytest.mark.usefixtures("on_loop")
@LOOPS
def test_a_silent_client_is_ended(loop: object) -> None:
    with midge.run_in_thread(port=-1, clock=ManualClock()) as server:
        clock = ThreadedClock(server)
        for _ in range(TIMES):
            with connected(server) as client:
                clock.advance(LATER_S)
                assert read_to_end(client).endswith(b"-ERR 'Stale Connection'\r\n")


@pytest.mark.usefixtures("on_loop")
@LOOPS
def test_a_client_that_must_connect_and_does_not_is_ended(loop: object) -> None:
    options = Options(authorization=Authorization(token="t"))
    with midge.run_in_thread(options, port=-1, clock=ManualClock()) as server:
        clock = ThreadedClock(server)
        for _ in range(TIMES):
            with connected(server) as client:
                clock.advance(LATER_S)
                assert read_to_end(client) == b"-ERR 'Authentication Timeout'\r\n"


@pytest.mark.usefixtures("on_loop")
@LOOPS
def test_a_client_that_begins_no_handshake_is_ended(loop: object, tmp_path: Path) -> None:
    certificate, key = Authority().issue("CN=localhost")
    (tmp_path / "cert.pem").write_bytes(pem(certificate))
    (tmp_path / "key.pem").write_bytes(key)
    tls = Tls(cert_file=str(tmp_path / "cert.pem"), key_file=str(tmp_path / "key.pem"))
    with midge.run_in_thread(Options(tls=tls), port=-1, clock=ManualClock()) as server:
        clock = ThreadedClock(server)
        for _ in range(TIMES):
            with connected(server) as client:
                clock.advance(LATER_S)
                assert read_to_end(client) == b""
