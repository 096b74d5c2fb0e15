"""Replay to a real server: order, pace, filters, rewriting, and what the records lack."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from midge.client.client import NatsClient
from midge.client.errors import OptionError, ServerError
from midge.client.options import ClientOptions, ServerAddress
from midge.pipeline.errors import PublishError
from midge.pipeline.records.files import read_batches, write_records
from midge.pipeline.records.format import MESSAGES
from midge.pipeline.replay.on_spark import replay_from_spark
from midge.pipeline.replay.replay import Pacer, Replayed, ReplayOptions, prepare, publish, replay
from midge.pipeline.subject_rewriting import Rewrite

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SUBJECTS = ("orders.eu.new", "orders.us.new", "stock.eu", "debug.x")


def row(number, *, server="s1", every_s=0.01, account="$G"):
    return {
        "time": START + timedelta(seconds=number * every_s),
        "server": server,
        "account": account,
        "cid": 1,
        "subject": SUBJECTS[number % 4],
        "reply": "inbox.1" if number % 8 == 0 else None,
        "headers": [("n", [str(number), "x"])] if number % 3 == 0 else None,
        "payload": b"%06d" % number,
        "size": 6,
        "plain_deliveries": 0,
        "queue_deliveries": 0,
        "no_interest": True,
    }


@pytest.fixture
def records(tmp_path):
    """Two servers whose messages alternate in time, in several segments each."""
    for server, remainder in (("s1", 0), ("s2", 1)):
        rows = [row(n, server=server) for n in range(400) if n % 2 == remainder]
        write_records(tmp_path / "records", MESSAGES, server, rows, rows_per_segment=60)
    return tmp_path / "records"


@pytest.fixture
def listener(nats_server):
    listener = Listener(nats_server)
    yield listener
    listener.close()


class Listener:
    """Collects what one client receives until nothing new is owed."""

    def __init__(self, server, subject=b">"):
        self.client = server.client()
        self.client.subscribe(subject)
        self.client.ping()
        self.messages = []

    def close(self):
        self.client.close()

    def drain(self, count):
        while len(self.messages) < count:
            found = self.client.receive(timeout_s=10)
            assert found, f"only {len(self.messages)} of {count} came"
            self.messages += found
        self.client.ping()
        self.messages += self.client.receive(timeout_s=0.001)
        self.close()
        assert len(self.messages) == count
        return self.messages


def options(server, **more):
    connect = ClientOptions(servers=(ServerAddress("127.0.0.1", server.port, tls=False),))
    return ReplayOptions(connect, **{"speed": None, **more})


def test_everything_arrives_in_the_order_it_was_recorded(records, nats_server, listener):
    done = replay(records, options(nats_server))
    got = listener.drain(400)
    assert [bytes(m.payload) for m in got] == [b"%06d" % n for n in range(400)]
    assert (done.messages, done.skipped, done.bad_segments) == (400, 0, [])
    assert got[0].headers == b"NATS/1.0\r\nn: 0\r\nn: x\r\n\r\n"
    assert [bytes(m.reply or b"") for m in got[:2]] == [b"inbox.1", b""]


def test_filters_and_rewriting(records, nats_server, listener):
    done = replay(
        records,
        options(
            nats_server,
            subjects=("orders.>", "stock.*"),
            since=START + timedelta(seconds=1),
            until=START + timedelta(seconds=2),
            rewrites=(Rewrite.parse("orders.*.new:replay.$1"),),
            keep_reply=False,
        ),
    )
    got = listener.drain(done.messages)
    expected = [n for n in range(100, 200) if n % 4 != 3]
    assert [int(m.payload) for m in got] == expected
    assert {bytes(m.subject) for m in got} == {b"replay.eu", b"replay.us", b"stock.eu"}
    assert not any(m.reply for m in got)
    assert done.skipped == 400 - len(expected)


def test_accounts_are_a_filter(tmp_path, nats_server):
    rows = [row(n, account="A" if n < 3 else "B") for n in range(10)]
    write_records(tmp_path, MESSAGES, "s1", rows)
    assert replay(tmp_path, options(nats_server, accounts=("A",))).messages == 3


def test_the_pace_is_kept_and_scaled():
    now = [100.0]
    pacer = Pacer(2.0, 50.0, clock=lambda: now[0])
    assert [pacer.delay_s(t) for t in (50.0, 51.0, 60.0)] == [0.0, 0.5, 5.0]
    now[0] += 3
    assert pacer.delay_s(51.0) == 0.0
    assert Pacer(None, 50.0, clock=lambda: now[0]).delay_s(1e9) == 0.0


def test_messages_wait_for_their_time(tmp_path, nats_server):
    rows = [row(n, every_s=0.02) for n in range(11)]
    write_records(tmp_path, MESSAGES, "s1", rows)
    waited = []
    chosen = options(nats_server, speed=4.0)
    done = Replayed()
    with NatsClient(chosen.connect) as client:
        outgoing = prepare(read_batches(tmp_path, MESSAGES), chosen, done)
        publish(client, outgoing, 4.0, done, sleep=waited.append)
    # Nothing sleeps here, so every delay is complete: n times 20 ms over 4, minus the passed time.
    assert len(waited) == 10
    assert max(waited) == pytest.approx(0.05, abs=0.02)


def test_a_message_recorded_without_payload_is_padded_and_counted(tmp_path, nats_server, listener):
    rows = [row(1) | {"payload": None, "size": 500}, row(2) | {"payload": None, "size": 0}]
    write_records(tmp_path, MESSAGES, "s1", rows)
    done = replay(tmp_path, options(nats_server))
    assert [len(m.payload) for m in listener.drain(2)] == [500, 0]
    assert done.padded == 1


def test_bad_segments_are_named_and_the_rest_is_sent(records, nats_server):
    bad = next((records / "messages").rglob("*.parquet"))
    bad.write_bytes(b"PAR1 no")
    done = replay(records, options(nats_server))
    assert [each.path for each in done.bad_segments] == [bad]
    assert done.messages == 340


def test_a_refusal_of_the_server_is_an_error(records, make_nats_server):
    server = make_nats_server(
        "authorization { users = [ {user: u, password: p, permissions: {publish: 'stock.>'}} ] }"
    )
    refused = options(server)
    connect = ClientOptions(refused.connect.servers, user="u", password="p")
    with pytest.raises(PublishError, match="Permissions Violation for Publish"):
        replay(records, ReplayOptions(connect, speed=None))


def test_no_server_is_an_error(records):
    connect = ClientOptions(servers=(ServerAddress("127.0.0.1", 9, tls=False),))
    with pytest.raises(ServerError, match="cannot connect"):
        replay(records, ReplayOptions(connect))


@pytest.mark.parametrize(
    ("more", "message"),
    [({"speed": 0.0}, "expected more than 0, got 0"), ({"subjects": ("a..b",)}, "'a..b' is not")],
)
def test_options_without_meaning_are_refused(nats_server, more, message):
    with pytest.raises(OptionError, match=message):
        options(nats_server, **more)


def test_spark_keeps_the_order_of_every_subject(spark, records, nats_server, listener):
    chosen = options(
        nats_server,
        subjects=("orders.>", "stock.>"),
        rewrites=(Rewrite.parse("orders.*.new:replay.new"),),
    )
    done = replay_from_spark(spark, str(records), chosen)
    assert (done.messages, done.skipped) == (300, 100)
    by_subject = defaultdict(list)
    for message in listener.drain(300):
        by_subject[bytes(message.subject)].append(int(message.payload))
    # Both kinds of orders went to one subject, and even there the order holds.
    assert set(by_subject) == {b"replay.new", b"stock.eu"}
    assert by_subject[b"replay.new"] == [n for n in range(400) if n % 4 < 2]
    assert by_subject[b"stock.eu"] == [n for n in range(400) if n % 4 == 2]


def test_spark_names_a_server_that_is_not_there(spark, records):
    connect = ClientOptions(servers=(ServerAddress("127.0.0.1", 9, tls=False),))
    with pytest.raises(ServerError, match="cannot connect"):
        replay_from_spark(spark, str(records), ReplayOptions(connect))
