"""A table from a store's directory: the same rows and position as from the server."""

from pathlib import Path

import pytest

from midge import cli
from midge.client.client import NatsClient
from midge.client.options import ClientOptions
from midge.pipeline.tables.table_handle import TableHandle
from midge.tables import build, create_table, land, scan
from tests.pipeline.conftest import Stream
from tests.pipeline.tables.test_tables import numbers
from tests.support.nats_server import servers_of
from tests.support.processes import Server, midge_command

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def server(store):
    with Server(midge_command(), f'jetstream {{ store_dir: "{store}" }}') as running:
        yield running


@pytest.fixture
def orders(server):
    with NatsClient(ClientOptions(servers=servers_of(server.url))) as client:
        yield Stream(client, "ORDERS", ["orders.>"])


def contents(url):
    return scan(url, None).to_table().sort_by("sequence")


def test_beside_the_server_and_without_it(orders, server, store, tmp_path):
    orders.publish(20_000, payload=b'{"n": %d}')
    orders.publish(3, payload=b"bad", headers=b"NATS/1.0\r\nTrace: 7\r\n\r\n")
    orders.delete_message(17)
    columns = {"n": "int64", "trace": "header(Trace)"}
    by_server, by_store = str(tmp_path / "server"), str(tmp_path / "direct")
    create_table(by_server, "ORDERS", server.url, columns=columns)
    land(by_server, server.url)
    done = build(by_store, store, "ORDERS", columns=columns)
    assert (done.rows, done.quarantined, done.lost, done.position) == (19_999, 3, 0, 20_003)
    assert contents(by_store) == contents(by_server)
    assert TableHandle(by_store).quarantined() == TableHandle(by_server).quarantined()
    assert TableHandle(by_store).source == TableHandle(by_server).source
    assert build(by_store, store, "ORDERS").commits == 0
    orders.publish(10, payload=b'{"n": %d}', start=20_000)
    assert land(by_store, server.url).rows == 10
    orders.publish(10, payload=b'{"n": %d}', start=20_010)
    server.stop()
    assert build(by_store, store, "ORDERS").rows == 10
    assert numbers(scan(by_store, None)) == [n for n in range(20_020) if n != 16]


def test_damaged_records_are_passed_over_and_counted(orders, server, store, tmp_path, caplog):
    orders.publish(100, payload=b'{"n": %d}')
    server.stop()
    (segment,) = Path(store).rglob("*1.log")
    data = segment.read_bytes()
    at = data.index(b'{"n": 50}')
    segment.write_bytes(data[:at] + b'{"n": 51}' + data[at + 9 :])
    url = str(tmp_path / "t")
    done = build(url, store, "ORDERS", columns={"n": "int64"})
    assert (done.rows, done.lost, done.position) == (99, 1, 100)
    assert "1 messages cannot be read: 51" in caplog.text
    assert numbers(scan(url, None)) == [n for n in range(100) if n != 50]
    assert segment.read_bytes() != data  # nothing was repaired


def test_the_command(orders, server, store, tmp_path, capsys):
    orders.publish(10, payload=b'{"n": %d}')
    url = str(tmp_path / "t")
    asked = ["table", "build", url, "ORDERS", "--store", str(store), "--infer"]
    assert cli.main([*asked, "--subject", "orders.3, orders.4"]) == 0
    assert capsys.readouterr().out == f"{url}: 2 rows up to sequence 10\n"
    assert numbers(scan(url, None)) == [3, 4]
    assert cli.main(["table", "build", url, "NOPE", "--store", str(store)]) == 1
    assert cli.main(["table", "build", url, "ORDERS", "--store", str(tmp_path)]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "there is no stream NOPE of account $G" in first
    assert "there is no store of midge's" in second
