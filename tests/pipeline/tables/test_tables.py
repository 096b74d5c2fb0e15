"""Streams as tables, on midge and on nats-server: every message once, also after kills."""

import random
import subprocess
import sys
import threading
import time

import duckdb
import pytest
from deltalake import DeltaTable

from midge.client.client import Client
from midge.client.errors import StreamNotFoundError
from midge.client.options import ConnectOptions
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables import delta
from midge.pipeline.tables.decoding import Decoded, Decoder
from midge.pipeline.tables.delta import StreamTable, locked
from midge.tables import create_table, land, scan
from tests.pipeline.conftest import Stream
from tests.support.nats_server import servers_of
from tests.support.processes import Server, midge_command, nats_server_command

pytestmark = pytest.mark.timeout(120)
CONFIG = "jetstream { store_dir: '@directory@' }"


@pytest.fixture(scope="module", params=["midge", "nats-server"])
def server(request):
    command = midge_command() if request.param == "midge" else nats_server_command()
    with Server(command, CONFIG) as running:
        yield running


@pytest.fixture
def orders(server):
    with Client(ConnectOptions(servers=servers_of(server.url))) as client:
        stream = Stream(client, "ORDERS", ["orders.>"])
        yield stream
        stream.delete()


@pytest.fixture
def table(server, orders, tmp_path):
    """An empty table of ORDERS with one column."""
    url = str(tmp_path / "orders")
    create_table(url, "ORDERS", server.url, columns={"n": "int64"})
    return url


def fill(stream, count, start=0):
    stream.publish(count, payload=b'{"n": %d}', start=start)


def numbers(dataset):
    return dataset.to_table().sort_by("sequence").column("n").to_pylist()


def test_lands_what_is_new_and_nothing_twice(table, orders, server):
    assert land(table, server.url).rows == 0
    fill(orders, 1000)
    done = land(table, server.url)
    assert (done.rows, done.position, done.commits) == (1000, 1000, 1)
    assert land(table, server.url).commits == 0
    fill(orders, 50, start=1000)
    assert land(table, server.url).rows == 50
    assert numbers(scan(table, None)) == list(range(1050))


def test_blocks_are_commits_of_their_own(table, orders, server):
    fill(orders, 20_000)
    done = land(table, server.url, block_bytes=50_000)
    assert done.commits > 2
    assert numbers(scan(table, None)) == list(range(20_000))


def test_deleted_messages_at_the_end_still_move_the_position(table, orders, server):
    fill(orders, 10)
    for seq in (4, 9, 10):
        orders.delete_message(seq)
    done = land(table, server.url)
    assert (done.rows, done.position, done.lost) == (7, 10, 0)
    assert land(table, server.url).commits == 0


def test_bad_messages_go_to_the_quarantine_and_move_the_position(table, orders, server):
    orders.publish(3, payload=b"x%d")
    done = land(table, server.url)
    assert (done.rows, done.quarantined, done.position) == (0, 3, 3)
    fill(orders, 2)
    orders.publish(1, payload=b"")
    assert land(table, server.url).rows == 2
    quarantine = DeltaTable(table + delta.QUARANTINE_SUFFIX).to_pyarrow_table().sort_by("sequence")
    assert quarantine.column("payload").to_pylist() == [b"x0", b"x1", b"x2", b""]
    assert quarantine.column("sequence").to_pylist() == [1, 2, 3, 6]


def test_removed_messages_are_a_counted_gap(table, orders, server, caplog):
    fill(orders, 10)
    land(table, server.url)
    fill(orders, 20, start=10)
    orders.purge(seq=21)
    done = land(table, server.url)
    assert (done.rows, done.lost, done.position) == (10, 10, 30)
    assert "10 messages of stream ORDERS before sequence 21 were removed" in caplog.text
    orders.purge()
    assert land(table, server.url).lost == 0
    fill(orders, 5, start=30)
    orders.purge()
    done = land(table, server.url)
    assert (done.rows, done.lost, done.position) == (0, 5, 35)


def test_a_stream_that_was_made_again_is_another_source(table, orders, server):
    fill(orders, 10)
    land(table, server.url)
    orders.delete()
    orders.create()
    fill(orders, 20)
    for action in (land, scan):
        with pytest.raises(TableError, match=r"ORDERS was made at .* make another table"):
            action(table, server.url)
    assert numbers(scan(table, None)) == list(range(10))


@pytest.mark.parametrize("retention", ["interest", "workqueue"])
def test_streams_that_remove_on_acknowledgement_are_refused(server, tmp_path, retention):
    with Client(ConnectOptions(servers=servers_of(server.url))) as client:
        stream = Stream(client, "JOBS", ["jobs.>"], retention=retention)
        with pytest.raises(TableError, match=f"JOBS has {retention} retention"):
            create_table(str(tmp_path / "jobs"), "JOBS", server.url)
        stream.delete()


def test_create_again_is_the_same_table_or_an_error(table, orders, server, tmp_path):
    fill(orders, 3)
    land(table, server.url)
    create_table(table, "ORDERS", server.url, columns={"n": "int64"})
    assert numbers(scan(table, None)) == [0, 1, 2]
    with pytest.raises(TableError, match="has other columns or partitions"):
        create_table(table, "ORDERS", server.url)
    with pytest.raises(StreamNotFoundError):
        create_table(str(tmp_path / "x"), "NOPE", server.url)
    with pytest.raises(TableError, match="is no Delta table"):
        land(str(tmp_path / "y"), server.url)
    DeltaTable.create(str(tmp_path / "z"), schema=Decoder(None).schema)
    with pytest.raises(TableError, match="is a Delta table, but not one of a stream"):
        land(str(tmp_path / "z"), server.url)


def test_one_writer_at_a_time(table, orders, server):
    with locked(table), pytest.raises(TableError, match="another process is writing"):
        land(table, server.url)


class FailPointError(Exception):
    """Ends a landing as a kill would."""


@pytest.mark.parametrize("where", ["before the commit", "after the commit", "after the quarantine"])
def test_a_landing_that_is_cut_off_is_done_once(table, orders, server, monkeypatch, where):
    fill(orders, 100)
    orders.publish(5, payload=b"bad%d")
    fill(orders, 100, start=100)
    real = delta._append

    def failing(url, *arguments):
        is_quarantine = url.endswith(delta.QUARANTINE_SUFFIX)
        if not is_quarantine and where == "before the commit":
            raise FailPointError
        result = real(url, *arguments)
        if is_quarantine == (where == "after the quarantine"):
            raise FailPointError
        return result

    with monkeypatch.context() as patched:
        patched.setattr(delta, "_append", failing)
        with pytest.raises(FailPointError):
            land(table, server.url)
    orders.publish(5, payload=b"bad%d")
    land(table, server.url)
    assert numbers(scan(table, None)) == list(range(200))
    quarantine = DeltaTable(table + delta.QUARANTINE_SUFFIX).to_pyarrow_table()
    assert quarantine.num_rows == 10


def decoded(first, last):
    """Return the rows of messages `first` to `last`."""
    seqs = list(range(first, last + 1))
    nothing = [b""] * len(seqs)
    payloads = [b'{"n": %d}' % seq for seq in seqs]
    columns = Columns(seqs, [0] * len(seqs), [b"a"] * len(seqs), payloads, nothing)
    return Decoder({"n": "int64"}).decode(columns)


def test_writers_with_old_handles_and_overlapping_rows_add_each_message_once(table):
    handles = [StreamTable(table) for _ in range(4)]
    chosen = random.Random(7)
    for _ in range(60):
        handle, last = chosen.choice(handles), chosen.randint(1, 300)
        handle.append(decoded(max(1, handle.position - 5), last), last)
        if chosen.random() < 0.2:
            handle.reload()
    position = StreamTable(table).position
    handles[0].append(decoded(1, 301), 301)
    assert position <= 301
    assert numbers(scan(table, None)) == list(range(1, 302))


def test_writers_at_once_add_each_message_once(table):
    def write():
        handle = StreamTable(table)
        for last in range(10, 110, 10):
            handle.append(decoded(1, last), last)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(scan(table, None)) == list(range(1, 101))


def test_no_rows_at_all_move_the_position(table):
    handle = StreamTable(table)
    nothing = Decoded(Decoder({"n": "int64"}).schema.empty_table(), decoded(1, 1).bad)
    handle.append(nothing, 7)
    assert StreamTable(table).position == 7


def test_scan_joins_the_table_and_the_messages_after_it(table, orders, server):
    fill(orders, 100)
    land(table, server.url)
    fill(orders, 50, start=100)
    orders.publish(1, payload=b"bad")
    dataset = scan(table, server.url)
    assert numbers(dataset) == list(range(150))
    assert duckdb.sql("SELECT count(*), max(n) FROM dataset WHERE n >= 90").fetchall() == [
        (60, 149)
    ]
    assert numbers(scan(table, None)) == list(range(100))


def test_scans_beside_a_writer_see_each_acknowledged_message_once(table, orders, server):
    stopped = threading.Event()

    def keep_landing():
        while not stopped.is_set():
            land(table, server.url)

    writer = threading.Thread(target=keep_landing)
    writer.start()
    try:
        for start in range(0, 1500, 100):
            fill(orders, 100, start=start)
            if start % 300 == 0:
                # The table may be behind, so remove only the messages that are in it.
                position = StreamTable(table).position
                orders.purge(seq=position + 1)
            assert numbers(scan(table, server.url)) == list(range(start + 100))
    finally:
        stopped.set()
        writer.join()


_LANDING = """
import sys
from midge.tables import land

while True:
    land(*sys.argv[1:], block_bytes=2000)
"""


def test_every_message_is_there_once_after_kill_9(table, orders, server):
    chosen, count = random.Random(3), 0
    for _ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", _LANDING, table, server.url])
        before = StreamTable(table).position
        deadline = time.monotonic() + 60
        while StreamTable(table).position == before:
            assert time.monotonic() < deadline, "the writer never committed"
            fill(orders, 40, start=count)
            count += 40
        for _ in range(chosen.randint(0, 10)):
            fill(orders, 40, start=count)
            count += 40
        writer.kill()
        writer.wait()
    assert numbers(scan(table, server.url)) == list(range(count))
    land(table, server.url)
    assert numbers(scan(table, None)) == list(range(count))
