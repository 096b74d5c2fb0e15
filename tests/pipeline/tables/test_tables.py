"""Streams as tables, on midge and on nats-server: every message once, also after kills."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from midge.client.client import NatsClient
from midge.client.errors import StreamNotFoundError
from midge.client.options import ClientOptions
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables import landing, table_handle
from midge.pipeline.tables.decoding import Decoded, Decoder
from midge.pipeline.tables.interest_consumer import acknowledge
from midge.pipeline.tables.table_handle import TableHandle, locked
from midge.tables import create_table, land, latest, rebuild, scan
from tests.pipeline.conftest import Stream
from tests.support.nats_server import servers_of
from tests.support.processes import Server, midge_command, nats_server_command

pytestmark = pytest.mark.timeout(120)
CONFIG = "jetstream { store_dir: '@directory@' }"


class FailPointError(Exception):
    """Ends a landing as a kill would."""


@pytest.fixture(scope="module", params=["midge", "nats-server"])
def server(request):
    command = midge_command() if request.param == "midge" else nats_server_command()
    with Server(command, CONFIG) as running:
        yield running


on_midge = pytest.mark.parametrize("server", ["midge"], indirect=True)
"""For what happens in the table's files, whatever the server."""


@pytest.fixture
def orders(server):
    with NatsClient(ClientOptions(servers=servers_of(server.url))) as client:
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
    fill(orders, 40_000)  # a batch has up to 10,500: 8,192, and the rest of a read of 256 KiB
    done = land(table, server.url, block_bytes=50_000)
    assert done.commits > 2
    assert numbers(scan(table, None)) == list(range(40_000))


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
    quarantine = (
        DeltaTable(table + table_handle.QUARANTINE_SUFFIX).to_pyarrow_table().sort_by("sequence")
    )
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


def test_work_queues_are_refused(server, tmp_path):
    with NatsClient(ClientOptions(servers=servers_of(server.url))) as client:
        stream = Stream(client, "JOBS", ["jobs.>"], retention="workqueue")
        with pytest.raises(TableError, match="JOBS has workqueue retention"):
            create_table(str(tmp_path / "jobs"), "JOBS", server.url)
        stream.delete()


@pytest.fixture
def news(server):
    with NatsClient(ClientOptions(servers=servers_of(server.url))) as client:
        stream = Stream(client, "NEWS", ["news.>"], retention="interest")
        yield stream
        stream.delete()


def test_an_interest_stream_keeps_messages_until_they_are_in_the_table(
    news, server, tmp_path, monkeypatch
):
    url = str(tmp_path / "news")
    create_table(url, "NEWS", server.url, columns={"n": "int64"})
    assert TableHandle(url).source.consumer.startswith("table-")
    for start in range(0, 10_000, 5000):
        news.publish(5000, subject=b"news.a", payload=b'{"n": %d}', start=start)
        assert news.state().messages == 5000
        assert numbers(scan(url, server.url)) == list(range(start + 5000))
        with monkeypatch.context() as patched:  # a process that ends after the commit
            patched.setattr(landing, "acknowledge", failing)
            with pytest.raises(FailPointError):
                land(url, server.url)
        assert news.state().messages == 5000
        assert land(url, server.url).commits == 0
        assert news.state().messages == 0
    done = land(url, server.url)
    assert (done.rows, done.lost, done.position) == (0, 0, 10_000)
    assert numbers(scan(url, server.url)) == list(range(10_000))


def failing(*_):
    raise FailPointError


def test_messages_after_the_position_are_kept(news, server, tmp_path):
    url = str(tmp_path / "news")
    create_table(url, "NEWS", server.url, columns={"n": "int64"}, subject="news.a", consumer="mine")
    news.publish(10, subject=b"news.a", payload=b'{"n": %d}')
    news.publish(10, subject=b"news.b", payload=b'{"n": %d}')
    assert news.state().messages == 10
    acknowledge(news.jetstream, "NEWS", "mine", ("news.a",), 7)
    assert (news.state().messages, news.state().first_seq) == (3, 8)
    assert land(url, server.url).rows == 3  # those that were acknowledged before their commit
    assert news.state().messages == 0


def test_a_deleted_consumer_is_made_again(news, server, tmp_path, caplog):
    url = str(tmp_path / "news")
    create_table(url, "NEWS", server.url, columns={"n": "int64"}, consumer="mine")
    news.jetstream.call("CONSUMER.DELETE.NEWS.mine")
    land(url, server.url)
    assert "consumer mine of stream NEWS was deleted" in caplog.text
    news.publish(10, subject=b"news.a", payload=b'{"n": %d}')
    assert land(url, server.url).rows == 10


@on_midge
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


@on_midge
def test_one_writer_at_a_time(table, orders, server):
    with locked(table), pytest.raises(TableError, match="another process is writing"):
        land(table, server.url)


@on_midge
@pytest.mark.parametrize("where", ["before the commit", "after the commit", "after the quarantine"])
def test_a_landing_that_is_cut_off_is_done_once(table, orders, server, monkeypatch, where):
    fill(orders, 100)
    orders.publish(5, payload=b"bad%d")
    fill(orders, 100, start=100)
    real = table_handle._append

    def failing(url, *arguments):
        is_quarantine = url.endswith(table_handle.QUARANTINE_SUFFIX)
        if not is_quarantine and where == "before the commit":
            raise FailPointError
        result = real(url, *arguments)
        if is_quarantine == (where == "after the quarantine"):
            raise FailPointError
        return result

    with monkeypatch.context() as patched:
        patched.setattr(table_handle, "_append", failing)
        with pytest.raises(FailPointError):
            land(table, server.url)
    orders.publish(5, payload=b"bad%d")
    land(table, server.url)
    assert numbers(scan(table, None)) == list(range(200))
    quarantine = DeltaTable(table + table_handle.QUARANTINE_SUFFIX).to_pyarrow_table()
    assert quarantine.num_rows == 10


def decoded(first, last):
    """Return the rows of messages `first` to `last`."""
    seqs = list(range(first, last + 1))
    nothing = [b""] * len(seqs)
    payloads = [b'{"n": %d}' % seq for seq in seqs]
    columns = Columns(seqs, [0] * len(seqs), [b"a"] * len(seqs), payloads, nothing)
    return Decoder({"n": "int64"}).decode(columns)


@on_midge
def test_writers_with_old_handles_and_overlapping_rows_add_each_message_once(table):
    handles = [TableHandle(table) for _ in range(4)]
    chosen = random.Random(7)
    for _ in range(60):
        handle, last = chosen.choice(handles), chosen.randint(1, 300)
        handle.append(decoded(max(1, handle.position - 5), last), last)
        if chosen.random() < 0.2:
            handle.reload()
    position = TableHandle(table).position
    handles[0].append(decoded(1, 301), 301)
    assert position <= 301
    assert numbers(scan(table, None)) == list(range(1, 302))


@on_midge
def test_writers_at_once_add_each_message_once(table):
    def write():
        handle = TableHandle(table)
        for last in range(10, 110, 10):
            handle.append(decoded(1, last), last)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(scan(table, None)) == list(range(1, 101))


@on_midge
def test_no_rows_at_all_move_the_position(table):
    handle = TableHandle(table)
    nothing = Decoded(Decoder({"n": "int64"}).schema.empty_table(), decoded(1, 1).bad)
    handle.append(nothing, 7)
    assert TableHandle(table).position == 7


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
                position = TableHandle(table).position
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
        before = TableHandle(table).position
        deadline = time.monotonic() + 60
        while TableHandle(table).position == before:
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


@on_midge
def test_partitions_of_a_commit_are_bounded(server, orders, tmp_path, monkeypatch):
    monkeypatch.setattr(table_handle, "PARTITIONS_MAX", 4)
    url = str(tmp_path / "t")
    columns = {"n": "int64", "place": "token(2)", "day": "date"}
    create_table(url, "ORDERS", server.url, columns=columns, partition_by=["place", "day"])
    fill(orders, 100)  # of 10 places, one after the other
    land(url, server.url)
    assert numbers(scan(url, None)) == list(range(100))
    metrics = [entry.get("operationMetrics", {}) for entry in DeltaTable(url).history()]
    adds = [one.get("num_added_files") for one in metrics]
    assert max(count for count in adds if count) <= 4
    assert sum(count for count in adds if count) == 100
    paths = {path.parent.parent.name for path in (tmp_path / "t").rglob("*.parquet")}
    assert "place=3" in paths
    assert scan(url, None).count_rows(filter=ds.field("place") == "3") == 10
    land(url, server.url)
    fill(orders, 10, start=100)
    assert numbers(scan(url, server.url)) == list(range(110))


@on_midge
def test_the_log_has_checkpoints_and_the_position_outlives_it(table, orders, server):
    DeltaTable(table).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 1 second"}
    )
    handle = TableHandle(table)
    for last in range(1, 205):
        if last % 5:
            handle.append(decoded(last, last), last)
        else:
            handle.append(Decoder({"n": "int64"}).empty(), last)
    log = Path(table) / "_delta_log"
    assert len(list(log.glob("*.checkpoint.parquet"))) >= 1
    assert len(list(log.glob("*.json"))) < 150
    assert TableHandle(table).position == 204
    handle.compact(0)
    assert (TableHandle(table).size()[:2], TableHandle(table).position) == ((164, 1), 204)
    assert len(list(Path(table).glob("*.parquet"))) == 1


def test_the_latest_state_of_a_bucket(server, tmp_path):
    url = str(tmp_path / "t")
    columns = {"n": "int64", "what": "operation"}
    with NatsClient(ClientOptions(servers=servers_of(server.url))) as client:
        bucket = Stream(client, "KV_B", ["$KV.B.>"], max_msgs_per_subject=1, allow_rollup_hdrs=True)
        create_table(url, "KV_B", server.url, columns=columns)
        for n in range(3):
            for key in (b"a", b"b.c", b"d", b"e"):
                bucket.publish(1, subject=b"$KV.B." + key, payload=b'{"n": %d}' % n)
            land(url, server.url)
        mark = b"NATS/1.0\r\n%s\r\n\r\n"
        bucket.publish(1, subject=b"$KV.B.a", payload=b"", headers=mark % b"KV-Operation: DEL")
        bucket.publish(1, subject=b"$KV.B.d", payload=b"", headers=mark % b"KV-Operation: PURGE")
        land(url, server.url)
        bucket.publish(
            1, subject=b"$KV.B.e", payload=b"", headers=mark % b"Nats-Marker-Reason: MaxAge"
        )
        bucket.publish(1, subject=b"$KV.B.d", payload=b'{"n": 7}')
        found = latest(url, server.url)
        assert found.select(["key", "n"]).to_pylist() == [
            {"key": "b.c", "n": 2},
            {"key": "d", "n": 7},
        ]
        land(url, server.url)
        assert latest(url, None) == found.cast(latest(url, None).schema)
        assert scan(url, None).count_rows() == 16
        rebuild(url, {**columns, "m": "json"})
        assert latest(url, None).column("key").to_pylist() == ["b.c", "d"]
        bucket.delete()
