"""`option("store", DIR)`: a store's directory gives the rows that its server gives."""

from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from midge.client.client import NatsClient
from midge.client.errors import OptionError, StreamNotFoundError
from midge.client.options import ClientOptions
from midge.pipeline.errors import TableError
from midge.pipeline.source import NatsDataSource, register
from tests.pipeline.conftest import Stream
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
        stream = Stream(client, "ORDERS", ["orders.>"])
        stream.publish(25_000)
        stream.publish(5, headers=b"NATS/1.0\r\nTrace: 7\r\n\r\n")
        for seq in (3, 20_000):
            stream.delete_message(seq)
        yield stream


@pytest.fixture
def rows(server, store):
    """Return a function that reads a batch from the server, or from the store."""

    def read(*, of_store, **options):
        place = {"store": str(store)} if of_store else {"servers": server.url}
        given = {"stream": "ORDERS", "includeHeaders": "true", **place, **options}
        made = NatsDataSource(CaseInsensitiveDict(given))
        reader = made.reader(made.schema())
        partitions = reader.partitions()
        return [
            row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()
        ]

    return read


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subject": "orders.3, orders.5"},
        {"startingOffsets": '{"ORDERS": 19990}', "endingOffsets": '{"ORDERS": 20010}'},
        {"minPartitions": "7"},
        {"startingTimestamp": "2100-01-01T00:00:00Z"},
        {"endingTimestamp": "2020-01-01T00:00:00Z"},
        {"startingTimestamp": "2020-01-01T00:00:00Z"},
    ],
)
def test_the_rows_of_the_server(rows, orders, options):
    expected = rows(of_store=False, **options)
    assert rows(of_store=True, **options) == expected
    assert bool(expected) == ("2100" not in str(options) and "endingTimestamp" not in options)


def test_a_range_of_time(rows, orders):
    moment = rows(of_store=True)[12_345]["time"].isoformat()
    expected = rows(of_store=False, startingTimestamp=moment)
    assert rows(of_store=True, startingTimestamp=moment) == expected
    assert 0 < len(expected) < 25_000


def test_damaged_records_are_skipped_and_counted(rows, orders, server, store, caplog):
    server.stop()
    expected = rows(of_store=True)
    (segment,) = Path(store).rglob("*1.log")
    data = segment.read_bytes()
    at = data.index(b"12345")
    segment.write_bytes(data[:at] + b"12344" + data[at + 5 :])
    assert rows(of_store=True) == [row for row in expected if row["payload"] != b"12345"]
    assert "messages cannot be read: 12346" in caplog.text
    assert segment.read_bytes() != data  # nothing was repaired


def test_a_stream_that_was_made_again_fails(orders, server, store):
    made = NatsDataSource(CaseInsensitiveDict({"stream": "ORDERS", "store": str(store)}))
    reader = made.reader(made.schema())
    partitions = reader.partitions()
    orders.delete()
    orders.create()
    orders.publish(10)
    with pytest.raises(Exception, match="was made again"):
        list(reader.read(partitions[0]))


def test_errors(rows, orders, store, tmp_path):
    with pytest.raises(StreamNotFoundError, match="there is no stream NOPE of account"):
        rows(of_store=True, stream="NOPE")
    with pytest.raises(StreamNotFoundError, match="of account B"):
        rows(of_store=True, account="B")
    with pytest.raises(TableError, match="there is no store of midge's"):
        rows(of_store=True, store=str(tmp_path))
    made = NatsDataSource(CaseInsensitiveDict({"stream": "ORDERS", "store": str(store)}))
    with pytest.raises(OptionError, match="store: expected none in a streaming query"):
        made.streamReader(made.schema())


def test_in_spark(spark, orders, server, store):
    register(spark)
    read = spark.read.format("nats").option("stream", "ORDERS")
    expected = read.option("servers", server.url).load()
    found = read.option("store", str(store)).load()
    assert found.count() == 25_003
    assert found.exceptAll(expected).count() == 0
