"""Reading ranges of a real stream: gaps, losses, filters, broken connections."""

import threading
import time

import pytest

from midge.client import jetstream
from midge.client.errors import DataLossError, ServerError, StreamNotFoundError
from midge.pipeline.spark_source import reader
from midge.pipeline.spark_source.options import SourceOptions
from midge.pipeline.spark_source.partitions import SequenceRange
from midge.pipeline.spark_source.reader import RangeReader, header_pairs


@pytest.fixture
def read(nats_server, orders):
    """Return a function that reads a range of ORDERS and gives its columns' rows."""

    def rows(start, end, *, created=None, **options):
        options = {"servers": nats_server.url, "stream": "ORDERS", **options}
        parsed = SourceOptions.parse(options)
        wanted = SequenceRange(start, end)
        batches = RangeReader(parsed, created or orders.state().created, wanted).batches()
        return [
            row
            for batch in batches
            for row in zip(batch.seqs, batch.subjects, batch.payloads, batch.headers, strict=True)
        ]

    return rows


def seqs(rows):
    return [row[0] for row in rows]


def test_reads_exactly_the_range(read, orders):
    orders.publish(50)
    rows = read(11, 21)
    assert seqs(rows) == list(range(11, 21))
    assert rows[0] == (11, b"orders.0", b"10", b"")


def test_reads_more_than_one_pull_and_batch(read, orders):
    count = jetstream.PULL_MESSAGES * 2 + 5
    orders.publish(count)
    assert seqs(read(1, count + 1)) == list(range(1, count + 1))


def test_carries_headers_and_every_byte_of_the_payload(read, orders):
    payload = bytes(range(256))
    orders.publish(1, payload=payload, headers=b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n")
    ((_, _, got, headers),) = read(1, 2)
    assert got == payload
    assert header_pairs(headers) == [("A", ["1", "2"])]


def test_large_messages_come_one_request_after_the_other(read, orders, monkeypatch):
    monkeypatch.setattr(jetstream, "PULL_BYTES", 3000)
    for size in (1000, 2000, 5000, 10, 20_000, 900, 900, 900):
        orders.publish(1, payload=b"x" * size)
    sizes = [len(row[2]) for row in read(1, 9)]
    assert sizes == [1000, 2000, 5000, 10, 20_000, 900, 900, 900]


def test_messages_deleted_one_by_one_are_no_loss(read, orders):
    orders.publish(10)
    for seq in (4, 5, 10):
        orders.delete_message(seq)
    assert seqs(read(1, 11)) == [1, 2, 3, 6, 7, 8, 9]


def test_subject_filter(read, orders):
    orders.publish(30)
    assert seqs(read(1, 31, subject="orders.3,orders.7")) == [4, 8, 14, 18, 24, 28]
    assert read(1, 31, subject="orders.none") == []


def test_purged_before_reading_fails_and_names_what_is_gone(read, orders):
    orders.publish(20)
    orders.purge(seq=11)
    with pytest.raises(DataLossError, match="messages 1 to 10 of stream ORDERS were removed"):
        read(1, 21)


def test_purged_entirely_fails(read, orders):
    orders.publish(20)
    orders.purge()
    with pytest.raises(DataLossError, match="messages 1 to 20 of stream ORDERS"):
        read(1, 21)


def test_purged_while_reading_fails(nats_server, orders, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_ROWS", 10)
    monkeypatch.setattr(jetstream, "PULL_MESSAGES", 20)
    monkeypatch.setattr(jetstream, "_HEARTBEAT_S", 0.2)
    orders.publish(1000)
    options = SourceOptions.parse({"servers": nats_server.url, "stream": "ORDERS"})
    batches = RangeReader(options, orders.state().created, SequenceRange(1, 1001)).batches()
    assert next(batches).seqs[0] == 1
    orders.purge()
    with pytest.raises(DataLossError, match="to 1000 of stream ORDERS were removed"):
        list(batches)


def test_loss_is_accepted_with_a_warning(read, orders, caplog):
    orders.publish(20)
    orders.purge(seq=11)
    assert seqs(read(1, 21, failOnDataLoss="false")) == list(range(11, 21))
    assert "messages 1 to 10 of stream ORDERS were removed" in caplog.text


def test_recreated_stream_is_never_mistaken_for_the_old_one(read, orders, caplog):
    orders.publish(20)
    old = orders.state().created
    orders.delete()
    orders.create()
    orders.publish(20)
    with pytest.raises(DataLossError, match="stream ORDERS was recreated"):
        read(1, 21, created=old)
    assert read(1, 21, created=old, failOnDataLoss="false") == []
    assert "was recreated" in caplog.text


def test_leaves_no_consumer_behind(read, orders):
    orders.publish(20)
    read(1, 21)
    deadline = time.monotonic() + 10  # the reader's connection ends without waiting for the answer
    while orders.jetstream.call("CONSUMER.NAMES.ORDERS")["total"]:
        assert time.monotonic() < deadline, "the consumer is still there"


def test_reads_on_after_the_server_was_killed(nats_server, orders, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_ROWS", 100)
    monkeypatch.setattr(jetstream, "PULL_MESSAGES", 200)
    orders.publish(20_000, payload=b"x" * 100)
    options = SourceOptions.parse({"servers": nats_server.url, "stream": "ORDERS"})
    created = orders.state().created
    batches = RangeReader(options, created, SequenceRange(1, 20_001)).batches()
    got = next(batches).seqs
    nats_server.kill()
    restart = threading.Timer(0.3, nats_server.restart)
    restart.start()
    for batch in batches:
        got += batch.seqs
    restart.join()
    assert got == list(range(1, 20_001))


def test_stream_away_for_a_moment_is_waited_for_or_fails(read, orders, caplog):
    orders.publish(20)
    created = orders.state().created
    orders.delete()
    with pytest.raises(StreamNotFoundError, match="stream ORDERS: not found"):
        read(1, 21, created=created)
    # It comes back as another stream, and so the old one's messages are lost.
    timer = threading.Timer(0.5, orders.create)
    timer.start()
    assert read(1, 21, created=created, failOnDataLoss="false") == []
    timer.join()
    assert "was recreated" in caplog.text


def test_stream_that_stays_away_is_a_loss(read, orders, caplog):
    orders.publish(20)
    created = orders.state().created
    orders.delete()
    options = {"failOnDataLoss": "false", "requestTimeout": "0.5"}
    assert read(1, 21, created=created, **options) == []
    assert "was deleted before messages from 1 to 20 were read" in caplog.text


def test_reads_on_after_its_consumer_was_deleted(nats_server, orders, monkeypatch):
    # A server deletes a consumer that was left idle, when what reads the batches is slow.
    monkeypatch.setattr(reader, "BATCH_ROWS", 100)
    monkeypatch.setattr(jetstream, "PULL_MESSAGES", 200)
    monkeypatch.setattr(jetstream, "_HEARTBEAT_S", 0.2)
    orders.publish(2000)
    options = SourceOptions.parse({"servers": nats_server.url, "stream": "ORDERS"})
    batches = RangeReader(options, orders.state().created, SequenceRange(1, 2001)).batches()
    got = next(batches).seqs
    for name in orders.jetstream.call("CONSUMER.NAMES.ORDERS")["consumers"]:
        orders.jetstream.call(f"CONSUMER.DELETE.ORDERS.{name}")
    for batch in batches:
        got += batch.seqs
    assert got == list(range(1, 2001))


def test_gives_up_on_a_server_that_stays_away(nats_server, orders):
    orders.publish(20)
    created = orders.state().created
    options = {"servers": nats_server.url, "stream": "ORDERS", "requestTimeout": "0.5"}
    nats_server.kill()
    batches = RangeReader(SourceOptions.parse(options), created, SequenceRange(1, 21)).batches()
    with pytest.raises(ServerError, match="cannot connect to NATS"):
        list(batches)
