"""Lines for a syslog daemon: their headers and priorities, and a daemon that is away."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from midge.server.config.options import Logging
from midge.server.log import logger as logging
from midge.server.log.syslog import RETRY_AFTER_S, SyslogHandler, daemon_at
from tests.support.processes import Server, midge_command, nats_server_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 60.0
COMMANDS = {"midge-server": midge_command, "nats-server": nats_server_command}
STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
HEADER = re.compile(rb"<(\d+)>" + STAMP + rb" (\S+) [\w.-]+\[\d+\]: (.*)\n", re.DOTALL)


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(TIMEOUT_S)
        yield bound


@pytest.fixture(autouse=True)
def journal() -> Iterator[None]:
    yield
    logging.JOURNAL.reset()


@pytest.mark.parametrize("program", COMMANDS)
def test_lines_are_those_of_nats_server(program: str, daemon: socket.socket) -> None:
    url = f"udp://127.0.0.1:{daemon.getsockname()[1]}"
    seen = {}
    with Server(COMMANDS[program](), f'remote_syslog: "{url}"\ndebug: true\n') as server:
        server.wait_ready()
        with socket.create_connection(server.address(), TIMEOUT_S) as client:
            client.sendall(b"FOO\r\n")
            while b"Protocol Violation" not in (line := daemon.recv(4096)):
                found = HEADER.fullmatch(line)
                assert found, line
                assert found[2].decode() == socket.gethostname()
                seen[re.sub(rb".* - cid:\d+ - |[,:].*", b"", found[3])] = int(found[1])
    assert seen[b"Server is ready"] == 5
    assert seen[b"Client connection created"] == 7
    assert seen[b"Client parser ERROR"] == 3


def test_a_daemon_of_this_machine_by_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(path))
        bound.settimeout(TIMEOUT_S)
        logging.configure(Logging(remote_syslog=f"unix://{path}"))
        assert logging.JOURNAL.form_name == "plain"
        logging.get_logger().warning("second_event", number=5)
        assert re.fullmatch(rb"<4>.* .*\[\d+\]: Second event: number=5\n", bound.recv(4096))


def test_a_daemon_that_goes_loses_lines_and_is_called_again() -> None:
    now = [0.0]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        handler = SyslogHandler(f"tcp://127.0.0.1:{listening.getsockname()[1]}", lambda: now[0])
        taken, _ = listening.accept()
        handler.send("first", "info")
        assert b": first\n" in taken.recv(4096)
        taken.close()
        while not handler.lost:  # the first write after the end may still succeed
            handler.send("lost", "info")
        now[0] += RETRY_AFTER_S
        handler.send("back", "info")
        taken, _ = listening.accept()
        assert b": back\n" in taken.recv(4096)
        taken.close()
        handler.close()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("bogus", 'invalid network type: ""'),
        ("udp://", "expected host and port of a syslog daemon, got 'udp://'"),
        ("tcp://h", "expected host and port of a syslog daemon, got 'tcp://h'"),
    ],
)
def test_a_url_of_no_daemon_is_refused(url: str, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        daemon_at(url)


def test_a_daemon_out_of_reach_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(ConnectionRefusedError):
        logging.check_file(Logging(remote_syslog=url))
