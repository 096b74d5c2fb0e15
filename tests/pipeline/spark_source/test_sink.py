"""The sink without a JVM: rows to frames, message ids, acknowledgements and errors."""

import pickle
import signal
import threading
from base64 import b64decode

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from midge.client.errors import AuthorizationError, OptionError
from midge.client.headers import parse_headers
from midge.client.jetstream import JetStreamApi
from midge.pipeline.errors import PublishError
from midge.pipeline.source import NatsDataSource
from midge.pipeline.spark_source import sink
from midge.pipeline.spark_source.options import SinkOptions, SourceOptions
from midge.pipeline.spark_source.partitions import SequenceRange
from midge.pipeline.spark_source.reader import RangeReader
from midge.pipeline.spark_source.sink import NatsWriter, RowReader, check_schema

PLAIN = StructType().add("subject", StringType()).add("payload", BinaryType())


def batches(rows, schema=None):
    """Return rows (dicts) as Arrow batches of three rows at most."""
    schema = schema or pa.schema([("subject", pa.string()), ("payload", pa.binary())])
    return iter(pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=3))


def orders_rows(count, **more):
    return [{"subject": f"orders.{n % 5}", "payload": b"%d" % n, **more} for n in range(count)]


def ids(rows, scope=b"0", partition=0, fields=(), **options):
    reader = RowReader(SinkOptions.parse(options), scope, partition)
    schema = pa.schema([("subject", pa.string()), ("payload", pa.binary()), *fields])
    found = reader.rows(batches(rows, schema))
    return [parse_headers(row.headers).fields["Nats-Msg-Id"][0] for row in found]


SOURCE_FIELDS = [("stream", pa.string()), ("sequence", pa.int64())]


@pytest.fixture
def write(nats_server):
    """Return a function that writes rows as one task of a query would."""

    def run(rows, schema=None, spark_schema=PLAIN, **options):
        parsed = SinkOptions.parse({"servers": nats_server.url, **options})
        return NatsWriter(parsed, spark_schema).write(batches(rows, schema))

    return run


def stored(stream, seq):
    return stream.jetstream.call(f"STREAM.MSG.GET.{stream.name}", {"seq": seq})["message"]


def test_same_rows_get_the_same_ids_and_equal_rows_different_ones():
    rows = [*orders_rows(10), *orders_rows(10)]
    assert ids(rows) == ids(rows)
    assert len(set(ids(rows))) == 20


def test_ids_depend_on_every_part_of_the_row_and_on_the_scope():
    row = {"subject": "a.b", "payload": b"1"}
    variants = [
        ids([row]),
        ids([{**row, "subject": "a.bc"}]),
        ids([{**row, "payload": b"2"}]),
        ids([{"subject": "a", "payload": b".b1"}]),
        ids([row], scope=b"1"),
    ]
    assert len({one for variant in variants for one in variant}) == len(variants)


def test_ids_of_rows_from_the_source_do_not_depend_on_partitions():
    rows = [{**row, "stream": "S", "sequence": n} for n, row in enumerate(orders_rows(12))]
    whole = ids(rows, fields=SOURCE_FIELDS)
    halves = [
        ids(part, partition=n, fields=SOURCE_FIELDS) for n, part in enumerate([rows[:5], rows[5:]])
    ]
    assert len(set(whole)) == 12
    assert halves[0] + halves[1] == whole


def test_rows_that_one_message_became_are_all_kept():
    row = {"subject": "a", "payload": b"1", "stream": "S"}
    rows = [{**row, "sequence": seq} for seq in (1, 1, 1, 2, 2)]
    rows.append({**row, "sequence": 2, "stream": "T"})
    assert len(set(ids(rows, fields=SOURCE_FIELDS))) == len(rows)


def test_id_columns_name_a_row_whatever_it_holds():
    rows = [{"subject": "a", "payload": b"%d" % n, "key": f"k{n % 3}"} for n in range(6)]
    fields = [("key", pa.string())]
    found = ids(rows, fields=fields, idColumns="key")
    assert found[:3] == found[3:]
    assert len(set(found)) == 3
    assert ids(rows, partition=4, fields=fields, idColumns="key") == found
    assert set(ids(rows, scope=b"other", fields=fields, idColumns="key")).isdisjoint(found)


def test_memory_of_equal_rows_is_bounded_and_none_is_lost(monkeypatch):
    monkeypatch.setattr(sink, "SEEN_ROWS", 8)
    reader = RowReader(SinkOptions.parse({}), b"0")
    rows = [*orders_rows(50), *orders_rows(50)]
    found = []
    for row in reader.rows(batches(rows)):
        found.append(parse_headers(row.headers).fields["Nats-Msg-Id"][0])
        assert len(reader._seen) <= 8
    assert len(set(found)) == 100
    assert found == ids(rows)


def test_core_messages_carry_no_id():
    reader = RowReader(SinkOptions.parse({"mode": "core"}), b"")
    assert next(reader.rows(batches(orders_rows(1)))).headers == b""


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"subject": None, "payload": b""}, "row 1 of partition 7 .*: subject is null"),
        ({"subject": "a", "payload": None}, r"row 1 of partition 7 \(subject 'a'\): payload is"),
        ({"subject": "a.*", "payload": b""}, "subject 'a.*'.: expected a subject without wild"),
        ({"subject": "a b", "payload": b""}, "subject 'a b'.: expected a subject without wild"),
        ({"subject": "a\r\nPUB b 0", "payload": b""}, "expected a subject without wildcards"),
        ({"subject": "a..b", "payload": b""}, "expected a subject without wildcards"),
        ({"subject": "", "payload": b""}, "expected a subject without wildcards"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(row, words):
    reader = RowReader(SinkOptions.parse({}), b"", 7)
    with pytest.raises(PublishError, match=words):
        list(reader.rows(batches([{"subject": "ok", "payload": b""}, row])))


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("K", ["v\r\nX: y"])], "header K: expected one line of text"),
        ([("K: x", ["v"])], "header 'K: x': expected a name without blanks and colons"),
        ([("K\r\n", ["v"])], "expected a name without blanks and colons"),
        ([("", ["v"])], "expected a name without blanks and colons"),
        ([("K", [None])], "header K: expected one line of text, got None"),
        ([("K", None)], "header K: expected one line of text, got None"),
    ],
)
def test_a_header_that_cannot_be_sent_is_named(headers, words):
    schema = pa.schema(
        [("payload", pa.binary()), ("headers", pa.map_(pa.string(), pa.list_(pa.string())))]
    )
    reader = RowReader(SinkOptions.parse({"subject": "a"}), b"")
    with pytest.raises(PublishError, match=words):
        list(reader.rows(batches([{"payload": b"", "headers": headers}], schema)))


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        (StructType().add("subject", StringType()), {}, "column payload: expected one"),
        (StructType().add("payload", BinaryType()), {}, "either a column or the option"),
        (PLAIN, {"subject": "a"}, "either a column or the option"),
        (
            StructType().add("payload", LongType()),
            {"subject": "a"},
            "column payload: expected binary or string, got bigint",
        ),
        (
            StructType().add("payload", StringType()).add("headers", StringType()),
            {"subject": "a"},
            "column headers: expected map<string,array<string>> or map<string,string>",
        ),
        (
            StructType().add("payload", StringType()).add("number", LongType()),
            {"subject": "a"},
            "column number: expected only subject, payload, headers, msg_id, stream, sequence",
        ),
        (
            StructType().add("payload", StringType()),
            {"subject": "a", "idColumns": "number"},
            "idColumns: there is no column number",
        ),
        (
            StructType().add("payload", StringType()),
            {"subject": "a", "idColumns": "payload", "mode": "core"},
            "idColumns: expected only with mode jetstream",
        ),
        (
            StructType().add("payload", StringType()).add("msg_id", StringType()),
            {"subject": "a", "mode": "core"},
            "column msg_id: expected only with mode jetstream",
        ),
    ],
)
def test_a_wrong_column_is_named(schema, options, words):
    with pytest.raises(OptionError, match=words):
        check_schema(schema, SinkOptions.parse(options))


def test_extra_columns_are_ignored_when_asked(write, orders):
    schema = StructType().add("payload", StringType()).add("time", LongType())
    fields = pa.schema([("payload", pa.string()), ("time", pa.int64())])
    options = {"subject": "orders.x", "extraColumns": "ignore"}
    assert write([{"payload": "1", "time": 2}], fields, schema, **options).rows == 1
    assert stored(orders, 1)["subject"] == "orders.x"


def test_null_payload_deletes_a_key(write, nats_server, make_stream):
    make_stream(nats_server, "KV_b", ["$KV.b.>"], max_msgs_per_subject=5)
    rows = [{"subject": "$KV.b.k", "payload": payload} for payload in (b"1", None)]
    assert write(rows).rows == 2
    with nats_server.client() as client:
        message = JetStreamApi(client).call("STREAM.MSG.GET.KV_b", {"seq": 2})["message"]
    assert "data" not in message
    assert parse_headers(b64decode(message["hdrs"])).fields["KV-Operation"] == ["DEL"]


def test_right_columns_pass():
    headers = MapType(StringType(), ArrayType(StringType(), containsNull=False))
    schema = StructType().add("payload", StringType()).add("headers", headers)
    check_schema(schema.add("msg_id", StringType()), SinkOptions.parse({"subject": "a"}))


def test_overwriting_is_refused():
    with pytest.raises(OptionError, match="messages cannot be overwritten"):
        NatsDataSource(CaseInsensitiveDict({})).writer(PLAIN, overwrite=True)


def test_jetstream_stores_every_row_in_order(write, orders):
    written = write(orders_rows(2500), ackWindow="100")
    assert (written.rows, written.duplicates) == (2500, 0)
    assert orders.state().messages == 2500
    assert stored(orders, 8)["subject"] == "orders.2"


@pytest.fixture
def two_tasks(nats_server):
    """Return a function that writes rows twice with one writer: a task and its repetition."""

    def run(rows):
        writer = NatsWriter(SinkOptions.parse({"servers": nats_server.url}), PLAIN)
        return [pickle.loads(pickle.dumps(writer)).write(batches(rows)) for _ in range(2)]

    return run


def test_a_repeated_task_of_a_batch_write_stores_its_rows_once(two_tasks, orders):
    _, again = two_tasks(orders_rows(500))
    assert (again.rows, again.duplicates) == (500, 500)
    assert orders.state().messages == 500


def test_the_same_rows_written_by_two_batch_writes_are_stored_twice(write, orders):
    for _ in range(2):
        assert write(orders_rows(500)).duplicates == 0
    assert orders.state().messages == 1000


def test_ids_of_the_users_own(write, orders):
    fields = [("payload", pa.string()), ("msg_id", pa.string())]
    schema = StructType().add("payload", StringType()).add("msg_id", StringType())
    rows = [{"payload": str(n), "msg_id": f"id-{n % 3}"} for n in range(9)]
    written = write(rows, pa.schema(fields), schema, subject="orders.x")
    assert (written.rows, written.duplicates) == (9, 6)


def test_mirrored_message_keeps_the_id_in_its_headers(write, orders):
    fields = [("payload", pa.string()), ("headers", pa.map_(pa.string(), pa.string()))]
    schema = StructType().add("payload", StringType())
    schema = schema.add("headers", MapType(StringType(), StringType()))
    rows = [{"payload": str(n), "headers": [("Nats-Msg-Id", "one"), ("K", "v")]} for n in range(2)]
    written = write(rows, pa.schema(fields), schema, subject="orders.x")
    assert (written.rows, written.duplicates) == (2, 1)


def test_headers_arrive(write, orders):
    fields = [("payload", pa.string()), ("headers", pa.map_(pa.string(), pa.list_(pa.string())))]
    schema = StructType().add("payload", StringType())
    schema = schema.add("headers", MapType(StringType(), ArrayType(StringType())))
    rows = [{"payload": "x", "headers": [("K", ["1", "2"])]}]
    write(rows, pa.schema(fields), schema, subject="orders.x", stream="ORDERS")
    headers = parse_headers(b64decode(stored(orders, 1)["hdrs"])).fields
    assert headers["K"] == ["1", "2"]
    assert headers["Nats-Expected-Stream"] == ["ORDERS"]


def test_subject_without_a_stream_names_the_row(write, orders):
    rows = [*orders_rows(5), {"subject": "nobody.here", "payload": b""}]
    with pytest.raises(PublishError, match=r"row 5 .*'nobody\.here'.: no stream takes this"):
        write(rows)


def test_other_stream_than_expected_names_the_row(write, orders):
    with pytest.raises(PublishError, match=r"row 0 .*'orders\.0'.: expected stream does not match"):
        write(orders_rows(1), stream="OTHER")


def test_full_stream_names_the_row(write, nats_server, make_stream):
    make_stream(nats_server, max_msgs=3, discard="new")
    with pytest.raises(PublishError, match=r"row 3 .*'orders\.3'.: maximum messages exceeded"):
        write(orders_rows(5))


def test_row_above_the_servers_limit_is_named(make_nats_server, make_stream):
    server = make_nats_server("max_payload: 1000")
    make_stream(server)
    writer = NatsWriter(SinkOptions.parse({"servers": server.url}), PLAIN)
    rows = [*orders_rows(2), {"subject": "orders.big", "payload": b"x" * 1000}]
    with pytest.raises(PublishError, match=r"row 2 .*'orders\.big'.: 10\d\d bytes .* at most 1000"):
        writer.write(batches(rows))


@pytest.mark.parametrize("mode", ["core", "jetstream"])
def test_denied_subject_names_the_row(make_nats_server, mode):
    server = make_nats_server(
        "authorization { users: [{ user: ann, password: pass, "
        "permissions: { publish: { deny: 'orders.3' } } }] }"
    )
    url = server.url.replace("://", "://ann:pass@")
    writer = NatsWriter(SinkOptions.parse({"servers": url, "mode": mode}), PLAIN)
    denied = [{"subject": "orders.3", "payload": b""}]
    with pytest.raises(
        PublishError, match=r"row 0 .*'orders\.3'.: the server answers: Permissions"
    ):
        writer.write(batches(denied))


def test_wrong_credentials(make_nats_server):
    server = make_nats_server("authorization { token: s3cret }")
    writer = NatsWriter(SinkOptions.parse({"servers": server.url, "token": "wrong"}), PLAIN)
    with pytest.raises(AuthorizationError, match="refused the credentials"):
        writer.write(batches(orders_rows(1)))


def test_server_that_stays_away_names_the_first_row_without_an_answer(nats_server, orders):
    def rows():
        yield from batches(orders_rows(300))
        nats_server.kill()
        yield from batches(orders_rows(300))

    given = {"servers": nats_server.url, "ackWindow": "10", "requestTimeout": "0.5"}
    with pytest.raises(PublishError, match=r"row \d+ .* were not acknowledged"):
        NatsWriter(SinkOptions.parse(given), PLAIN).write(rows())


@pytest.mark.parametrize("mode", ["jetstream", "core"])
@pytest.mark.parametrize("away", ["before the first row", "between two rows"])
def test_restart_of_the_server_loses_and_doubles_nothing(write, nats_server, orders, mode, away):
    # A listener of core messages ends with its server: the stream stores them for the test. Those
    # that the server has read are stored once a later one is acknowledged, and survive the kill.
    count = 3000
    marker = b"all before it is stored"

    def restart():
        with nats_server.client() as client:
            JetStreamApi(client).publish(b"orders.0", marker)
        nats_server.kill()
        timer = threading.Timer(0.5, nats_server.restart)
        timer.start()
        return timer

    timers = []

    def rows():
        for number, batch in enumerate(batches(orders_rows(count))):
            if number == (0 if away == "before the first row" else count // 6):
                timers.append(restart())
            yield batch

    parsed = SinkOptions.parse({"servers": nats_server.url, "mode": mode, "ackWindow": "100"})
    written = NatsWriter(parsed, PLAIN).write(rows())
    timers[0].join()
    assert written.rows == count
    with nats_server.client() as client:
        jetstream = JetStreamApi(client)
        state = jetstream.stream_state("ORDERS")
        got = [
            payload
            for columns in RangeReader(
                SourceOptions.parse({"servers": nats_server.url, "stream": "ORDERS"}),
                state.created,
                SequenceRange(1, state.end_seq),
            ).batches()
            for payload in columns.payloads
            if payload != marker
        ]
    wanted = [b"%d" % n for n in range(count)]
    # Core rows whose fate is unknown are sent again: none is missing, some may be there twice.
    assert (got if mode == "jetstream" else sorted(set(got), key=int)) == wanted


def test_no_answer_within_ack_timeout_sends_the_rows_again(nats_server, orders):
    # The server stands still, and no connection breaks.
    def rows():
        yield from batches(orders_rows(30))
        nats_server.process.send_signal(signal.SIGSTOP)
        threading.Timer(1, nats_server.process.send_signal, [signal.SIGCONT]).start()
        yield from batches(orders_rows(30))

    given = {"servers": nats_server.url, "ackWindow": "10", "ackTimeout": "0.2"}
    assert NatsWriter(SinkOptions.parse(given), PLAIN).write(rows()).rows == 60
    assert orders.state().messages == 60


def test_core_publishes_to_whoever_listens(write, nats_server):
    with nats_server.client() as listener:
        listener.subscribe(b"orders.>")
        listener.ping()
        assert write(orders_rows(2000), mode="core", ackWindow="300").rows == 2000
        got = []
        while len(got) < 2000:
            messages = listener.receive(5)
            assert messages, f"only {len(got)} came"
            got += messages
    assert [int(message.payload) for message in got] == list(range(2000))
    assert all(not message.headers for message in got)


def test_commit_reports_duplicates(two_tasks, orders, caplog):
    caplog.set_level("INFO")
    messages = [*two_tasks(orders_rows(5)), None]
    NatsWriter(SinkOptions.parse({}), PLAIN).commit(messages)
    assert "10 rows written, 5 of them were in the stream already" in caplog.text
