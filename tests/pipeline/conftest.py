"""Shared by the pipeline's tests: one Spark session, and NATS servers with JetStream."""

import time

import pytest

from midge.client.jetstream import JetStreamApi
from midge.pipeline.session import spark_session
from midge.protocol.client_side import publish_frame
from tests.support.nats_server import make_nats_server, nats_server

__all__ = ["make_nats_server", "nats_server"]

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


class Stream:
    """A JetStream stream that tests fill and inspect."""

    def __init__(self, client, name, subjects, **config):
        self.client = client
        self.name = name
        self.jetstream = JetStreamApi(client)
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
