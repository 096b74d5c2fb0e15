"""The source's driver side, called as Spark calls it but without a JVM."""

import pickle
import threading
import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    EqualTo,
    GreaterThan,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructType

from midge.client.errors import (
    AuthorizationError,
    DataLossError,
    OptionError,
    ServerError,
    StreamError,
    StreamNotFoundError,
)
from midge.pipeline import source as source_module
from midge.pipeline.source import (
    NatsDataSource,
    NatsFilteringReader,
    source_schema,
    subject_array,
)

EVERYTHING = ReadAllAvailable()


@pytest.fixture
def source(nats_server):
    def make(**options):
        given = {"servers": nats_server.url, "stream": "ORDERS", **options}
        return NatsDataSource(CaseInsensitiveDict(given))

    return make


@pytest.fixture
def streaming(source):
    """Return a function that makes stream readers, all of which are stopped in the end."""
    readers = []

    def make(**options):
        made = source(**options)
        readers.append(made.streamReader(made.schema()))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


@pytest.fixture
def batch(source):
    def make(**options):
        made = source(**options)
        return made.reader(made.schema())

    return make


def sequences(reader, partitions):
    return [
        seq
        for partition in partitions
        for arrow in pickle.loads(pickle.dumps(reader)).read(partition)
        for seq in arrow.column("sequence").to_pylist()
    ]


def test_batch_reads_between_offsets(batch, orders):
    orders.publish(100)
    reader = batch(
        startingOffsets='{"ORDERS": 11}', endingOffsets='{"ORDERS": 21}', minPartitions="3"
    )
    partitions = reader.partitions()
    assert len(partitions) == 3
    assert sequences(reader, partitions) == list(range(11, 21))


def test_batch_reads_everything_by_default(batch, orders):
    orders.publish(10)
    reader = batch()
    assert sequences(reader, reader.partitions()) == list(range(1, 11))


def test_batch_of_an_empty_stream_has_no_partitions(batch, orders):
    assert batch().partitions() == []


def test_batch_reads_between_timestamps(batch, orders):
    orders.publish(10)
    info = orders.jetstream.call("STREAM.MSG.GET.ORDERS", {"seq": 10})
    orders.publish(10)
    later = orders.jetstream.call("STREAM.MSG.GET.ORDERS", {"seq": 15})
    reader = batch(
        startingTimestamp=info["message"]["time"], endingTimestamp=later["message"]["time"]
    )
    (first, *_), last = (found := sequences(reader, reader.partitions())), found[-1]
    # Timestamp options have microseconds, the stream nanoseconds.
    assert 9 <= first <= 10
    assert 13 <= last <= 14
    future = batch(startingTimestamp="2100-01-01T00:00:00Z")
    assert future.partitions() == []


def test_offsets_outside_the_stream_mean_its_ends(batch, streaming, orders):
    orders.publish(10)
    orders.purge(seq=5)
    reader = batch(startingOffsets='{"ORDERS": 2}', endingOffsets='{"ORDERS": 99}')
    assert sequences(reader, reader.partitions()) == list(range(5, 11))
    assert batch(startingOffsets='{"ORDERS": 99}').partitions() == []
    assert streaming(startingOffsets='{"ORDERS": 2}').initialOffset()["seq"] == 5
    assert streaming(startingOffsets='{"ORDERS": 99}').initialOffset()["seq"] == 11


def test_small_batches_wait_for_more(streaming, orders, monkeypatch):
    monkeypatch.setattr(source_module, "IDLE_INTERVAL_S", 0.01)
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    reader = streaming(**options, maxTriggerDelay="1h")
    start = reader.initialOffset()
    orders.publish(4)
    first = reader.latestOffset(start, EVERYTHING)
    assert first["seq"] == 5, "the first batch waits for nothing"
    orders.publish(9)
    for _ in range(3):
        assert reader.latestOffset(first, EVERYTHING) == first
    orders.publish(1)
    assert reader.latestOffset(first, EVERYTHING)["seq"] == 15
    hasty = streaming(**options, maxTriggerDelay="1ms")
    assert hasty.latestOffset(first, EVERYTHING)["seq"] == 15
    orders.publish(1)
    end = dict(first, seq=15)
    while (later := hasty.latestOffset(end, EVERYTHING)) == end:
        pass
    assert later["seq"] == 16


def test_a_query_that_ends_takes_small_batches(streaming, orders):
    reader = streaming(startingOffsets="earliest", minOffsetsPerTrigger="10")
    orders.publish(4)
    start = reader.initialOffset()
    reader.latestOffset(start, EVERYTHING)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(start, EVERYTHING)["seq"] == 5


def test_columns_of_a_message(batch, orders):
    orders.publish(1, subject=b"orders.a", payload=b"\x00\xff", headers=b"NATS/1.0\r\nK: v\r\n\r\n")
    reader = batch(includeHeaders="true")
    (arrow,) = reader.read(reader.partitions()[0])
    (row,) = arrow.to_pylist()
    time = row.pop("time")
    stored = orders.jetstream.call("STREAM.MSG.GET.ORDERS", {"seq": 1})["message"]["time"]
    assert stored.startswith(time.isoformat()[:23])
    assert row == {
        "stream": "ORDERS",
        "sequence": 1,
        "subject": "orders.a",
        "payload": b"\x00\xff",
        "headers": [("K", ["v"])],
    }


def test_subject_that_is_not_text_stays_visible():
    assert subject_array([b"a", b"\xff.b"]).to_pylist() == ["a", "\\xff.b"]


def test_a_foreign_schema_is_refused(source):
    made = source()
    for schema in (StructType().add("id", LongType()), StructType().add("time", LongType())):
        with pytest.raises(OptionError, match="schema: expected columns of the source's own"):
            made.reader(schema)


def test_a_schema_without_payload_gets_none_from_the_server(source, orders, nats_server):
    headers = b"NATS/1.0\r\nK: v\r\n\r\n"
    orders.publish(20, payload=b"x" * 50_000, headers=headers)
    schema = source_schema(include_headers=True)
    schema = StructType([schema["headers"], schema["sequence"], schema["subject"]])
    reader = source().reader(schema)
    before = nats_server.sent_bytes()
    (arrow,) = reader.read(reader.partitions()[0])
    assert nats_server.sent_bytes() - before < 50_000
    assert arrow.schema.names == ["headers", "sequence", "subject"]
    assert arrow.to_pylist()[4] == {
        "headers": [("K", ["v"])],
        "sequence": 5,
        "subject": "orders.4",
    }


@pytest.fixture
def filtering(source):
    """Return a function that makes a batch reader which was given filters."""

    def make(*filters, **options):
        made = source(**options)
        reader = NatsFilteringReader(made._source_options(made.schema()), made.schema())
        assert list(reader.pushFilters(list(filters))) == list(filters)
        return reader

    return make


@pytest.mark.parametrize(
    ("filters", "options", "sent"),
    [
        ([LessThanOrEqual(("sequence",), 10)], {}, range(1, 11)),
        ([GreaterThan(("sequence",), 95)], {"endingOffsets": '{"ORDERS": 98}'}, [96, 97]),
        ([GreaterThan(("sequence",), 5000)], {}, []),
        ([LessThan(("sequence",), 0)], {}, []),
        ([EqualTo(("subject",), "orders.3")], {}, range(4, 101, 10)),
        ([EqualTo(("subject",), "orders.3")], {"subject": "*.3,x.4"}, range(4, 101, 10)),
        ([EqualTo(("subject",), "orders.3")], {"subject": "orders.4"}, []),
        ([StringStartsWith(("subject",), "others.")], {}, []),
        ([GreaterThan(("time",), datetime(2100, 1, 1, tzinfo=UTC))], {}, []),
        ([LessThan(("time",), datetime(2020, 1, 1, tzinfo=UTC))], {}, []),
        ([GreaterThan(("time",), datetime(2020, 1, 1, tzinfo=UTC))], {}, range(1, 101)),
    ],
)
def test_filters_narrow_what_the_server_sends(filtering, orders, filters, options, sent):
    orders.publish(100)
    reader = filtering(*filters, **options)
    assert sequences(reader, reader.partitions()) == list(sent)


def test_filters_beyond_removed_messages_are_no_loss(filtering, orders):
    orders.publish(100)
    orders.purge(seq=51)
    reader = filtering(GreaterThan(("sequence",), 90))
    assert sequences(reader, reader.partitions()) == list(range(91, 101))


def test_streaming_starts_at_the_latest_unless_told(streaming, orders):
    orders.publish(10)
    assert streaming().initialOffset()["seq"] == 11
    assert streaming(startingOffsets="earliest").initialOffset()["seq"] == 1
    assert streaming(startingOffsets='{"ORDERS": 4}').initialOffset()["seq"] == 4


def test_streaming_goes_on_in_portions(streaming, orders):
    orders.publish(10)
    reader = streaming(startingOffsets="earliest", maxOffsetsPerTrigger="4")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(4)
    start, seen = reader.initialOffset(), []
    while (end := reader.latestOffset(start, limit)) != start:
        seen.append(sequences(reader, reader.partitions(start, end)))
        start = end
    assert seen == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert reader.partitions(start, end) == []
    assert reader.latestOffset(start, EVERYTHING) == start


def test_available_now_ends_where_the_stream_ended_at_the_start(streaming, orders):
    orders.publish(10)
    reader = streaming(startingOffsets="earliest")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    orders.publish(10)
    end = reader.latestOffset(start, EVERYTHING)
    assert end["seq"] == 11
    assert reader.latestOffset(end, EVERYTHING) == end
    assert reader.reportLatestOffset()["seq"] == 21


def test_purged_between_batches(streaming, orders, caplog):
    orders.publish(10)
    reader = streaming(startingOffsets="earliest", maxOffsetsPerTrigger="4")
    start = reader.latestOffset(reader.initialOffset(), ReadMaxRows(4))
    orders.purge(seq=9)
    with pytest.raises(DataLossError, match="messages 5 to 8 of stream ORDERS were removed"):
        reader.latestOffset(start, EVERYTHING)
    tolerant = streaming(failOnDataLoss="false")
    end = tolerant.latestOffset(start, EVERYTHING)
    assert sequences(tolerant, tolerant.partitions(start, end)) == [9, 10]
    assert "messages 5 to 8" in caplog.text


def test_recreated_between_batches(streaming, orders, caplog):
    orders.publish(10)
    start = streaming(startingOffsets="latest").initialOffset()
    orders.delete()
    orders.create()
    orders.publish(3)
    with pytest.raises(DataLossError, match="stream ORDERS was recreated"):
        streaming().latestOffset(start, EVERYTHING)
    tolerant = streaming(failOnDataLoss="false")
    end = tolerant.latestOffset(start, EVERYTHING)
    assert sequences(tolerant, tolerant.partitions(start, end)) == [1, 2, 3]
    assert "was recreated" in caplog.text


def test_batch_planned_before_a_recreation_is_never_read_from_the_new_stream(streaming, orders):
    orders.publish(10)
    reader = streaming(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    orders.delete()
    orders.create()
    orders.publish(10)
    with pytest.raises(DataLossError, match="stream ORDERS was recreated"):
        streaming().partitions(start, end)
    assert streaming(failOnDataLoss="false").partitions(start, end) == []


@pytest.mark.parametrize("method", ["latestOffset", "partitions"])
def test_driver_rides_out_a_restart_of_the_server(streaming, orders, nats_server, method):
    orders.publish(10)
    reader = streaming(startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    nats_server.kill()
    timer = threading.Timer(0.7, nats_server.restart)
    timer.start()
    if method == "partitions":
        assert sequences(reader, reader.partitions(start, end)) == list(range(1, 11))
    else:
        arguments = (start, EVERYTHING) if method == "latestOffset" else ()
        assert getattr(reader, method)(*arguments)["seq"] == 11
    timer.join()


def test_driver_gives_up_on_a_server_that_stays_away(streaming, orders, nats_server):
    reader = streaming(requestTimeout="0.5")
    start = reader.initialOffset()
    nats_server.kill()
    with pytest.raises(ServerError, match="cannot connect to NATS"):
        reader.latestOffset(start, EVERYTHING)


def test_restarted_query_waits_for_a_server_that_is_not_there_yet(streaming, orders, nats_server):
    orders.publish(10)
    start = streaming(startingOffsets="earliest").initialOffset()
    nats_server.kill()
    timer = threading.Timer(0.7, nats_server.restart)
    timer.start()
    assert streaming().latestOffset(start, EVERYTHING)["seq"] == 11
    timer.join()


def test_stream_away_between_batches(streaming, orders, caplog):
    orders.publish(10)
    reader, strict = streaming(failOnDataLoss="false", startingOffsets="earliest"), streaming()
    start = reader.initialOffset()
    orders.delete()
    with pytest.raises(StreamNotFoundError):
        strict.latestOffset(start, EVERYTHING)
    assert reader.latestOffset(start, EVERYTHING) == start
    assert reader.latestOffset(start, EVERYTHING) == start
    assert reader.reportLatestOffset() is None
    assert caplog.text.count("waiting for the stream to come back") == 1
    orders.create()
    orders.publish(3)
    end = reader.latestOffset(start, EVERYTHING)
    assert sequences(reader, reader.partitions(start, end)) == [1, 2, 3]


def test_stream_away_between_planning_and_reading(streaming, orders, caplog):
    orders.publish(10)
    reader = streaming(failOnDataLoss="false", startingOffsets="earliest", requestTimeout="0.5")
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    orders.delete()
    assert reader.partitions(start, end) == []
    assert "was deleted before messages from 1 to 10 were read" in caplog.text


def test_available_now_ends_on_a_stream_that_was_made_again(streaming, orders):
    orders.publish(10)
    reader = streaming(startingOffsets="earliest", failOnDataLoss="false")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    orders.delete()
    orders.create()
    orders.publish(5)
    end = reader.latestOffset(start, EVERYTHING)
    orders.publish(5)
    assert reader.latestOffset(end, EVERYTHING) == end
    assert end["seq"] == 6


@pytest.fixture
def api_requests(nats_server):
    """Return a function that lists the JetStream API requests since its last call."""
    with nats_server.client() as listener:
        listener.subscribe(b"$JS.API.>")
        listener.ping()

        def since():
            listener.ping()
            return [m.subject.decode().split(".")[2:4] for m in listener.receive(0.1)]

        yield since


def test_an_idle_query_asks_once_in_an_interval(streaming, orders, api_requests, monkeypatch):
    monkeypatch.setattr(source_module, "IDLE_INTERVAL_S", 0.2)
    orders.publish(10)
    reader = streaming()
    start = reader.initialOffset()
    api_requests()
    begin = time.monotonic()
    for _ in range(10):
        assert reader.latestOffset(start, EVERYTHING) == start
        assert reader.reportLatestOffset()["seq"] == 11
    assert time.monotonic() - begin >= 9 * 0.2
    made = Counter(map(tuple, api_requests()))
    assert made == {("STREAM", "INFO"): 10, ("CONSUMER", "CREATE"): 1, ("CONSUMER", "MSG"): 1}


@pytest.mark.parametrize("retention", ["limits", "interest"])
def test_a_message_ends_the_wait_of_an_idle_query(
    streaming, nats_server, make_stream, monkeypatch, retention
):
    orders = make_stream(nats_server, retention=retention)
    receiver = {"durable_name": "receiver", "ack_policy": "explicit"}
    orders.jetstream.call(
        "CONSUMER.DURABLE.CREATE.ORDERS.receiver", {"stream_name": "ORDERS", "config": receiver}
    )
    monkeypatch.setattr(source_module, "IDLE_INTERVAL_S", 60 if retention == "limits" else 0.2)
    reader = streaming(subject="orders.*")
    start = reader.initialOffset()
    for count, end in ((1, 2), (500, 502), (1, 503)):
        assert reader.latestOffset(start, EVERYTHING) == start
        timer = threading.Timer(0.3, orders.publish, [count])
        timer.start()
        while start["seq"] < end:
            start = reader.latestOffset(start, EVERYTHING)
        timer.join()
        reader._idle_at = None


def test_an_idle_query_notices_that_its_stream_was_made_again(streaming, orders, monkeypatch):
    monkeypatch.setattr(source_module, "IDLE_INTERVAL_S", 0.3)
    orders.publish(10)
    reader = streaming()
    start = reader.initialOffset()
    for _ in range(2):
        assert reader.latestOffset(start, EVERYTHING) == start
    orders.delete()
    orders.create()
    with pytest.raises(DataLossError, match="was recreated"):
        reader.latestOffset(start, EVERYTHING)


def test_missing_stream_is_named(streaming, nats_server):
    with pytest.raises(StreamNotFoundError, match="stream ORDERS: not found"):
        streaming().initialOffset()


def test_jetstream_off(make_nats_server):
    server = make_nats_server("jetstream: false")
    options = CaseInsensitiveDict({"servers": server.url, "stream": "ORDERS"})
    with pytest.raises(StreamNotFoundError, match="JetStream is off for this server or account"):
        NatsDataSource(options).reader(NatsDataSource(options).schema()).partitions()


def test_work_queue_stream_says_why_it_cannot_be_read(batch, nats_server, make_stream):
    stream = make_stream(nats_server, retention="workqueue")
    stream.publish(3)
    with pytest.raises(StreamError, match="ORDERS has work-queue retention"):
        batch().partitions()


def test_nobody_listens(source):
    made = source(servers="nats://127.0.0.1:1")
    with pytest.raises(ServerError, match=r"cannot connect to NATS .127\.0\.0\.1:1: "):
        made.reader(made.schema()).partitions()


def test_server_that_is_no_nats_server(source, tmp_path):
    import http.server
    import threading

    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as web:
        thread = threading.Thread(target=web.handle_request)
        thread.start()
        made = source(servers=f"nats://127.0.0.1:{web.server_port}", connectTimeout="0.5")
        with pytest.raises(ServerError, match="did not send INFO in time"):
            made.reader(made.schema()).partitions()
        thread.join()


@pytest.mark.parametrize("login", ["", "ann:wrong@", "bob:pass@"])
def test_wrong_credentials(make_nats_server, login):
    server = make_nats_server("authorization { user: ann, password: pass }")
    url = server.url.replace("://", f"://{login}")
    made = NatsDataSource(CaseInsensitiveDict({"servers": url, "stream": "ORDERS"}))
    with pytest.raises(
        AuthorizationError, match="refused the credentials: Authorization Violation"
    ):
        made.reader(made.schema()).partitions()


def test_right_credentials_and_token(make_nats_server, make_stream):
    server = make_nats_server("authorization { token: s3cret }")
    made = NatsDataSource(
        CaseInsensitiveDict({"servers": server.url, "stream": "ORDERS", "token": "s3cret"})
    )
    with pytest.raises(StreamNotFoundError):
        made.reader(made.schema()).partitions()


def test_missing_permission_is_named_at_once(make_nats_server):
    server = make_nats_server(
        "authorization { users: [{ user: ann, password: pass, "
        "permissions: { publish: { deny: '$JS.API.STREAM.INFO.>' } } }] }"
    )
    url = server.url.replace("://", "://ann:pass@")
    made = NatsDataSource(CaseInsensitiveDict({"servers": url, "stream": "ORDERS"}))
    with pytest.raises(
        AuthorizationError, match=r'Permissions Violation for Publish to "\$JS\.API'
    ):
        made.reader(made.schema()).partitions()
