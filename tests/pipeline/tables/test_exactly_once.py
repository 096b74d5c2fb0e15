"""Kills of a table's writer: each message is in the table once, whatever ends the writer and where.

The contents are compared with the messages that were published, by readers meanwhile and at the
end. `pytest --full` has more kills.
"""

import json
import random
import re
import threading
import time
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from midge.client.client import NatsClient
from midge.client.jetstream import JetStreamApi
from midge.client.options import ClientOptions
from midge.pipeline.errors import TableError
from midge.pipeline.tables.table_handle import QUARANTINE_SUFFIX, TableHandle
from midge.tables import create_table, land, rebuild, scan, scan_duckdb, scan_polars
from tests.pipeline.conftest import Stream
from tests.pipeline.tables.workers import FAIL_POINTS, Workers, compile_kill_points
from tests.support.nats_server import servers_of
from tests.support.processes import Server, midge_command

pytestmark = pytest.mark.timeout(3600)
COLUMNS = {"n": "int64"}
BATCH = 25


def payload(n):
    """Return the payload of a message; some are bad, and new keys come now and then."""
    if n % 11 == 7:
        return b"" if n % 2 else b"bad %d" % n
    return b'{"n":%d,"k%d":"v%d"}' % (n, n // 400, n)


def is_good(n):
    return n % 11 != 7


def client_of(url):
    return NatsClient(ClientOptions(servers=servers_of(url)))


class Rig:
    """A stream that gets messages, its table, a writer of it and readers."""

    def __init__(self, server, workers, url):
        self.url = url
        self.server = server.url
        self.removed = set()
        self.acked = 0
        self.errors = []
        self.reads = 0
        self.retries = 0
        self._workers = workers
        self._client = client_of(server.url)
        self.stream = Stream(self._client, "ORDERS", ["orders.>"])
        self._stopped = threading.Event()
        self._threads = []
        create_table(url, "ORDERS", server.url, columns=COLUMNS, infer=True)

    def __enter__(self):
        for work in (self._publish, self._read):
            thread = threading.Thread(target=self._run, args=(work,))
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_):
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        for worker in self._workers:
            worker.kill()
        self._client.close()
        with client_of(self.server) as client:  # the other may have been idle for too long
            JetStreamApi(client).call("STREAM.DELETE.ORDERS")

    def start(self, fail="", at=0, number=0, **job):
        """Start a writer."""
        job = {"every_s": 0.02, "compact_commits": 4, "keep_hours": 0, **job}
        job |= {"url": self.url, "server": self.server}
        if fail == "rebuild":
            job["columns"] = {"columns": COLUMNS, "infer": True}
        self._workers[number].start(job=job, fail=fail, at=at)

    def wait(self, number=0):
        """Return the signal that ended the writer."""
        assert not self.errors, self.errors
        return self._workers[number].wait()

    def kill(self, number=0):
        """Kill the writer."""
        code = self._workers[number].kill()
        assert not self.errors, self.errors
        return code

    def check(self):
        """End the publishers and compare the contents of the table and of the quarantine."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors, self.errors
        land(self.url, self.server)
        TableHandle(self.url).compact(0)
        handle = DeltaTable(self.url)
        names = {path.name for path in Path(self.url).glob("*.parquet*")}
        assert names == {uri.rpartition("/")[2] for uri in handle.file_uris()}
        self._compare(scan(self.url, None).to_table().to_pylist(), self.acked)
        table = DeltaTable(self.url + QUARANTINE_SUFFIX).to_pyarrow_table()
        found = table.select(["sequence", "payload"]).sort_by("sequence").to_pylist()
        held = {row["sequence"] for row in found}
        assert found == [
            {"sequence": n + 1, "payload": payload(n)}
            for n in range(self.acked)
            if not is_good(n) and (n + 1 in held or n + 1 not in self.removed)
        ]

    def _run(self, work):
        try:
            while not self._stopped.is_set():
                work()
        except Exception as error:  # noqa: BLE001 - of a thread; the test shows it
            self.errors.append(error)

    def _publish(self):
        numbers = range(self.acked, self.acked + BATCH)
        with client_of(self.server) as client:
            stream = JetStreamApi(client)
            for n in numbers:
                stream.publish(b"orders.%d" % (n % 10), payload(n))
        self.acked = numbers.stop
        self._stopped.wait(0.05)

    def _read(self):
        acked, way = self.acked, self.reads % 3
        try:
            if way == 0:
                rows = scan(self.url, self.server).to_table().to_pylist()
            elif way == 1:
                rows = scan_polars(self.url, self.server).collect().to_dicts()
            else:
                with duckdb.connect() as connection:
                    scan_duckdb(connection, "t", self.url, self.server)
                    rows = connection.sql("FROM t").to_arrow_table().to_pylist()
        except (OSError, duckdb.IOException, TableError) as error:
            # Its files were deleted, since nothing is kept here.
            if not re.search("[Nn]o such file|not found|No files found", str(error)):
                raise
            self.retries += 1
            return
        self._compare(rows, acked)
        self.reads += 1

    def _compare(self, rows, least):
        """Check that every message up to one that is not before `least` has its row."""
        found = {row["n"] for row in rows}
        last = max([least, *(row["sequence"] for row in rows)])
        wanted = {n for n in range(last) if is_good(n)}
        assert len(found) == len(rows)
        assert found <= wanted
        assert wanted - found <= {seq - 1 for seq in self.removed}
        for row in rows:
            n = row["n"]
            key = f"k{n // 400}"
            value = row.get(key) or json.loads(row.get("_other") or "{}").get(key)
            assert (row["sequence"], row["subject"], value) == (n + 1, f"orders.{n % 10}", f"v{n}")


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    library = compile_kill_points(tmp_path_factory.mktemp("kill_points"))
    two = [Workers(library) for _ in range(2)]
    yield two
    for one in two:
        one.close()


@pytest.fixture(scope="module")
def server():
    with Server(midge_command(), "jetstream { store_dir: '@directory@' }") as running:
        yield running


@pytest.fixture
def rig(server, workers, tmp_path):
    with Rig(server, workers, str(tmp_path / "orders")) as rig:
        yield rig
        print(f"{rig.acked} messages, {rig.reads} reads, {rig.retries} retries")


def kill_at_random(rig, kills, number=0):
    chosen = random.Random(kills)
    for _ in range(kills):
        position = TableHandle(rig.url).position
        rig.start(number=number)
        if chosen.random() < 0.5:
            until(lambda before=position: TableHandle(rig.url).position > before)
        time.sleep(chosen.random())
        assert rig.kill(number) == -9


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for 60 s"
        time.sleep(0.005)


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.full)])
def test_kills_at_random_moments(rig, kills):
    kill_at_random(rig, kills)
    rig.check()
    assert rig.reads > 3


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
@pytest.mark.parametrize("fail", FAIL_POINTS)
def test_kills_at_a_named_point(rig, fail, kills):
    if fail == "checkpoint":
        properties = {"delta.checkpointInterval": "3"}
        DeltaTable(rig.url).alter.set_table_properties(properties)
    for place in range(kills):
        if fail == "schema change":  # its commits come with new keys alone
            until(lambda before=rig.acked: rig.acked // 400 > before // 400)
        rig.start(fail, at=1 + place * 20 // kills)
        assert rig.wait() == -9
    if fail == "rebuild":
        rebuild(rig.url, COLUMNS, infer=True)
    rig.check()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_two_writers(rig, kills):
    rig.start(number=1)
    kill_at_random(rig, kills)
    rig.kill(1)
    rig.check()


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_a_disk_that_is_full_now_and_then(rig, kills):
    chosen = random.Random(kills)
    for _ in range(kills):
        rig.start("full disk")
        time.sleep(2 * chosen.random())
        rig.kill()
    rig.check()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.full)])
def test_messages_that_are_removed_before_and_after_they_were_read(rig, kills):
    chosen = random.Random(kills)
    for _ in range(kills):
        rig.start()
        time.sleep(chosen.random())
        if chosen.random() < 0.5:  # all that is in the table
            rig.stream.purge(seq=TableHandle(rig.url).position + 1)
        else:
            position, end = TableHandle(rig.url).position, rig.stream.state().end_seq
            rig.removed.update(range(position + 1, end))
            rig.stream.purge(seq=end)
        time.sleep(chosen.random())
        rig.kill()
    rig.check()


def test_a_stream_that_is_made_again_changes_nothing(server, workers, tmp_path):
    with Rig(server, workers, str(tmp_path / "orders")) as rig:
        rig.start()
        until(lambda: TableHandle(rig.url).position > 50)
        rig.kill()
        rig.check()
        rig.start()
        before = scan(rig.url, None).to_table().sort_by("sequence")
        rig.stream.delete()
        rig.stream.create()
        rig.stream.publish(2 * len(before), payload=b'{"n": 0}')
        time.sleep(0.5)
        rig.kill()
        with pytest.raises(TableError, match="make another table"):
            land(rig.url, server.url)
        assert scan(rig.url, None).to_table().sort_by("sequence") == before
