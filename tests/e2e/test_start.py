"""The start: its cost before the first client, the order of listeners, and interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midge.server.config.options import Listen, Monitoring, Options, WebSocket
from midge.server.listeners.tcp import Listener
from midge.server.server import Server

START = """
import asyncio, json, sys
import midge

async def main():
    async with midge.Server(port=-1, {keywords}):
        print(json.dumps(sorted(sys.modules)))

asyncio.run(main())
"""

HEAVY = {
    "aiohttp",
    "bcrypt",
    "copy",
    "cryptography",
    "difflib",
    "nats",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "pytest",
    "rich",
    "structlog",
    "uvloop",
    "websockets",
}
"""Packages that only some servers need, or none."""

LATER = {
    "midge.server.auth.certificates",
    "midge.server.auth.operator",
    "midge.server.embedded.faults",
    "midge.server.interceptors.interception",
    "midge.server.interceptors",
    "midge.server.log.formats",
    "midge.server.monitoring.connz",
    "midge.server.monitoring.http",
    "midge.server.recorder",
    "midge.server.config.reload_rules",
    "midge.server.embedded.threaded",
    "midge.server.embedded.snapshots",
    "midge.server.listeners.websocket",
    "midge.testing",
}
"""Modules of ours that are imported when they are first used."""


def modules_after_a_start(keywords: str = "") -> set[str]:
    """Start a server in a fresh process; return the names of all that was imported."""
    done = subprocess.run(
        [sys.executable, "-c", START.format(keywords=keywords)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return set(json.loads(done.stdout))


def test_a_plain_start_imports_only_what_it_needs() -> None:
    imported = modules_after_a_start()
    assert imported & {"midge.server.embedded.server", "midge.server.broker.broker"}, (
        "the server did start"
    )
    assert imported & (HEAVY | LATER) == set()


@pytest.mark.parametrize(
    "keywords",
    ["user='u', password='p'", "max_payload=2048, ping_interval=60", "token='t', host='127.0.0.1'"],
)
def test_common_settings_import_nothing_more(keywords: str) -> None:
    assert modules_after_a_start(keywords) & (HEAVY | LATER) == set()


DAEMON = """
import sys
before = set(sys.modules)  # an editable install imports some for itself
from midge.server.process import cli
from midge.server.process import daemon

def report(self, options):
    names = sorted(set(sys.modules) - before)
    import json
    print(json.dumps(names))
    self._stopping.set()

daemon.Daemon._report_ready = report
sys.exit(cli.server_main(["-a", "127.0.0.1", "-p", "-1"]))
"""

OWN_MODULES_MAX = 128
"""Modules of ours that a plain `midge-server` may import; each takes a quarter of a millisecond."""

LATER_IN_A_DAEMON = LATER - {"midge.server.log.formats"} | {
    "hmac",
    "json",
    "midge.protocol.parser",
    "midge.server.auth.claims",
    "midge.server.broker.message_trace",
    "midge.server.clients.connection",
    "midge.server.config.from_toml",
    "midge.server.config.to_toml",
    "midge.server.listeners.tls",
    "midge.server.monitoring.monitoring_service",
    "midge.server.process.send_signal",
    "midge.sublist.transform",
    "pathlib",
    "secrets",
    "tomllib",
    "urllib.parse",
    "zoneinfo",
}


def test_a_plain_daemon_imports_only_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DAEMON], capture_output=True, text=True, timeout=50, check=True
    )
    imported = set(json.loads(done.stdout))
    assert imported & ((HEAVY - {"uvloop"}) | LATER_IN_A_DAEMON) == set()
    own = [name for name in imported if name.startswith("midge")]
    assert len(own) <= OWN_MODULES_MAX


AFTER_THE_START = """
import asyncio, sys
from midge.server.process import cli
from midge.server.process import daemon

def report(self, options, before=daemon.Daemon._report_ready):
    before(self, options)
    asyncio.get_running_loop().call_soon(look, self)

def look(self):
    print(sys.modules.keys() >= {"midge.server.clients.connection", "midge.protocol.parser"})
    self._stopping.set()

daemon.Daemon._report_ready = report
sys.exit(cli.server_main(["-a", "127.0.0.1", "-p", "-1"]))
"""


def test_what_the_first_client_needs_is_imported_once_the_server_listens() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_START],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stdout == "True\n"


READINGS = """
import json, sys
from midge.server.process import cli
from midge.server.config import load
from midge.server.process import daemon

def report(self, options):
    print(readings, json.dumps(sorted(sys.modules)))
    self._stopping.set()

def read(file, before=load.read_file):
    global readings
    readings += 1
    return before(file)

readings = 0
load.read_file = read
daemon.Daemon._report_ready = report
sys.exit(cli.server_main(["-c", sys.argv[1]]))
"""


def test_a_configuration_file_is_read_once_and_imports_little(
    tmp_path: Path,
) -> None:
    file = tmp_path / "small.conf"
    file.write_text("host: 127.0.0.1\nport: -1\nauthorization { user: a, password: b }\n")
    done = subprocess.run(
        [sys.executable, "-c", READINGS, str(file)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    readings, _, modules = done.stdout.partition(" ")
    assert readings == "1"
    imported = set(json.loads(modules))
    assert imported & (HEAVY | LATER) - {"uvloop"} <= {"midge.server.log.formats"}
    assert "midge.server.clients.connection" not in imported


INTERRUPTED = """
import os, signal
from midge.server.process import cli, commands
commands.midge_server = lambda arguments: os.kill(os.getpid(), signal.SIGINT)
cli.server_main([])
"""


def test_an_interrupt_while_loading_ends_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


async def test_clients_can_connect_when_all_else_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[set[str]] = []
    open_listener = Listener.open

    def opened(listener: Listener, *address: Any) -> tuple[str, int]:
        others.append(set(server.urls()) - {"nats"})
        return open_listener(listener, *address)

    monkeypatch.setattr(Listener, "open", opened)
    server = Server(
        Options(
            listen=Listen(port=-1),
            websocket=WebSocket(port=-1, no_tls=True),
            monitoring=Monitoring(http_port=-1),
        )
    )
    await server.start()
    await server.stop()
    assert others[-1] == {"monitoring", "websocket"}
