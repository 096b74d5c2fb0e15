"""Tables in an object store: moto's S3 server, behind a proxy that plays a store's bad days.

moto and what it needs are in an environment of their own: `make test-object-stores`.
"""

import http.client
import os
import random
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from midge.client.client import NatsClient
from midge.client.options import ClientOptions
from midge.pipeline import delta
from midge.pipeline.errors import TableError
from midge.pipeline.tables.table_handle import TableHandle
from midge.tables import create_table, land, rebuild, scan, scan_duckdb, scan_polars
from tests.pipeline.conftest import Stream
from tests.pipeline.tables.test_exactly_once import is_good, payload
from tests.support.nats_server import servers_of
from tests.support.processes import Server, midge_command

pytestmark = [pytest.mark.object_store, pytest.mark.timeout(1800)]
SECRET = "verySecret0123456789"
FAULTS = ("503", "refused", "lost answer", "answer cut short")
POINTS = 50


class Proxy(ThreadingHTTPServer):
    """Passes requests on; the next fault comes with the request that matches it.

    It answers in threads of the test's own process, so it never answers a table that holds up all
    threads of the process while it waits for its store.
    """

    daemon_threads = True

    def __init__(self, store):
        super().__init__(("127.0.0.1", 0), _Request)
        self.store = store
        self.fault = ""
        self.at = 0
        self.is_of_commit = False
        self.faults = 0
        self.conditional_puts = 0
        self.hang_s = 0.0
        self._lock = threading.Lock()

    def plan(self, fault, at, *, of_commit=False):
        """Plan a fault of the request number `at` from now on, counting commits alone if asked."""
        with self._lock:
            self.fault, self.at, self.is_of_commit = fault, at, of_commit

    def fault_of(self, request):
        is_commit = request.command == "PUT" and re.search(r"_delta_log/\d+\.json", request.path)
        with self._lock:
            self.conditional_puts += request.headers.get("if-none-match") == "*"
            if not self.fault or (self.is_of_commit and not is_commit):
                return ""
            self.at -= 1
            if self.at > 0:
                return ""
            fault = self.fault
            if fault != "gone":  # which stays
                self.fault = ""
            self.faults += 1
            return fault

    def handle_error(self, request, client_address):
        """Ignore clients that went away."""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        fault = self.server.fault_of(self)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if fault == "503":
            self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        if fault in ("refused", "gone"):
            self._hang_up()
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.server.store)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content, headers = answer.read(), dict(answer.getheaders())
        connection.close()
        if fault == "hang":
            time.sleep(self.server.hang_s)
        if fault in ("lost answer", "hang"):
            self._hang_up()
            return
        self._answer(answer.status, headers, content, cut=fault == "answer cut short")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - of the library

    def _answer(self, status, headers, content, *, cut=False):
        self.send_response_only(status)
        length = headers.get("Content-Length", str(len(content)))
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if cut:
            self.wfile.write(content[: len(content) // 2])
            self._hang_up()
        elif self.command != "HEAD":
            self.wfile.write(content)

    def _hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture(scope="module")
def moto(tmp_path_factory):
    """The port of moto's server."""
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [os.environ["MOTO_PYTHON"], "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            stdout=file,
            stderr=file,
        )
    deadline = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "moto does not start"
        time.sleep(0.1)
    yield int(found[1])
    process.kill()
    process.wait()


@pytest.fixture
def store(moto, monkeypatch):
    """A proxy before an empty bucket; the environment leads to it."""
    proxy = Proxy(moto)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{proxy.server_address[1]}"
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    proxy.bucket = f"lake{time.time_ns()}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/{proxy.bucket}", method="PUT"))
    yield proxy
    proxy.shutdown()
    proxy.server_close()


@pytest.fixture(scope="module")
def server():
    with Server(midge_command(), "jetstream { store_dir: '@directory@' }") as running:
        yield running


@pytest.fixture
def orders(server):
    with NatsClient(ClientOptions(servers=servers_of(server.url))) as client:
        stream = Stream(client, "ORDERS", ["orders.>"])
        yield stream
        stream.delete()


@pytest.fixture
def table(store, server, orders, monkeypatch):
    monkeypatch.setitem(delta.PROPERTIES, "delta.checkpointInterval", "5")  # moto is slow
    url = f"s3://{store.bucket}/orders"
    create_table(url, "ORDERS", server.url, columns={"n": "int64"}, infer=True)
    return url


def publish(orders, first, count):
    for n in range(first, first + count):
        orders.jetstream.publish(b"orders.%d" % (n % 10), payload(n))


def check(url, count):
    rows = scan(url, None).to_table().sort_by("sequence").to_pylist()
    assert [row["n"] for row in rows] == [n for n in range(count) if is_good(n)]
    assert [row["sequence"] - 1 for row in rows] == [row["n"] for row in rows]
    bad = TableHandle(url).quarantined().sort_by("sequence").to_pylist()
    assert [row["payload"] for row in bad] == [payload(n) for n in range(count) if not is_good(n)]


def land_or_fail(url, server):
    """Land; return why that failed."""
    return reason_why(lambda: land(url, server.url))


def reason_why(action):
    """Return the line with which an action on a table fails, or nothing."""
    reason = ""
    try:
        action()
    except TableError as error:
        reason = str(error)
    assert SECRET not in reason
    assert "\n" not in reason
    return reason


def test_every_way_of_reading(table, store, orders, server):
    import duckdb

    publish(orders, 0, 60)
    land(table, server.url)
    publish(orders, 60, 20)
    wanted = [n for n in range(80) if is_good(n)]
    assert sorted(scan(table, server.url).to_table().column("n").to_pylist()) == wanted
    assert sorted(scan_polars(table, server.url).collect()["n"]) == wanted
    with duckdb.connect() as connection:
        scan_duckdb(connection, "t", table, server.url)
        assert connection.sql("SELECT n FROM t ORDER BY n").fetchall() == [(n,) for n in wanted]
    assert store.conditional_puts > 0
    rebuild(table, {"n": "double"}, infer=True)
    land(table, server.url)
    assert TableHandle(table).compact(0)[0] >= 1
    check(table, 80)


@pytest.mark.parametrize("of_commit", [False, True])
def test_faults_at_random_points(table, store, orders, server, of_commit):
    chosen = random.Random(of_commit)
    failed = 0
    for point in range(POINTS):
        publish(orders, point * 12, 12)
        fault = "lost answer" if of_commit else chosen.choice(FAULTS)
        store.plan(fault, 1 if of_commit else chosen.randint(1, 14), of_commit=of_commit)
        failed += bool(land_or_fail(table, server))
        if point % 10 == 9:
            TableHandle(table).compact()
    store.plan("", 0)
    land(table, server.url)
    check(table, POINTS * 12)
    assert store.faults >= POINTS // 2
    print(f"{store.faults} faults, {failed} landings failed")


def test_writers_at_once_in_a_store_without_locks(table, store, orders, server):
    publish(orders, 0, 60)

    def write():
        for _ in range(10):
            land_or_fail(table, server)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    publish(orders, 60, 300)
    for writer in writers:
        writer.join()
    land(table, server.url)
    check(table, 360)


def test_a_store_that_does_not_answer(table, store, orders, server):
    publish(orders, 0, 12)
    store.hang_s = 35.0  # longer than a request may take
    store.plan("hang", 1, of_commit=True)
    land_or_fail(table, server)
    land(table, server.url)
    check(table, 12)


@pytest.mark.parametrize("operation", ["land", "rebuild", "compact"])
def test_a_store_that_is_lost_in_mid_operation(table, store, orders, server, operation):
    """Ever later, until nothing is lost; the rows are right, and the next try succeeds."""
    count = 0
    reasons = []
    for at in (1, 3, 6, 10, 15, 25, 40, 60, 100, 1000):
        for _ in range(2):
            publish(orders, count, 12)
            count += 12
            if operation != "land":
                land(table, server.url)
        kind = "double" if at % 2 else "int64"
        action = {
            "land": lambda: land(table, server.url),
            "rebuild": lambda kind=kind: rebuild(table, {"n": kind}, infer=True),
            "compact": lambda: TableHandle(table).compact(0),
        }[operation]
        store.plan("gone", at)
        reasons.append(reason_why(action))
        store.plan("", 0)
        if operation == "land":
            land(table, server.url)
        check(table, count)
        if not reasons[-1]:
            break
    assert len(reasons) > 2
    assert reasons[-1] == ""


def test_a_store_that_refuses_is_named_in_one_line(table, store, orders, server, monkeypatch):
    publish(orders, 0, 12)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(TableError) as caught:
        land(f"s3://{store.bucket}/none", server.url)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_credentials_from_a_file(table, store, orders, server, monkeypatch, tmp_path):
    keys = tmp_path / "credentials"
    keys.write_text(f"[default]\naws_access_key_id = A\naws_secret_access_key = {SECRET}\n")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    publish(orders, 0, 12)
    land(table, server.url)
    check(table, 12)
    assert len(scan_polars(table, server.url).collect()) == scan(table, None).count_rows()
    keys.write_text(f"aws_secret_access_key = {SECRET}\n")
    with pytest.raises(TableError, match="expected sections with aws_access_key_id") as caught:
        land(table, server.url)
    assert SECRET not in str(caught.value)
