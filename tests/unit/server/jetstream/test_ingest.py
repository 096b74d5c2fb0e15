"""Storing many messages at once gives the same stream as storing them one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from midge.jetstream.stream.stream import Stream
from midge.protocol.frame import Frame
from midge.server.broker.broker import Broker
from midge.server.channels.gate import SLIGHT_BYTES, SLIGHT_TOTAL_BYTES, Gate
from midge.server.config.options import Options
from midge.server.jetstream.ingest import StreamSubscription
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.subscription import RoutedSubscription
from midge.testing import ManualClock
from tests.support.jetstream_account import AccountRig, FileAccountRig
from tests.support.transports import Transport

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
HEADERS = b"NATS/1.0\r\nA: b\r\n\r\n"
CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"max_msgs": 7},
    {"max_msgs": 40, "discard": "new"},
    {"max_bytes": 600},
    {"max_msgs_per_subject": 2},
    {"max_msg_size": 20},
    {"retention": "workqueue"},
    {"retention": "interest"},
    {"subject_transform": {"src": "a.>", "dest": "moved.>"}},
    {"no_ack": True},
]


class OneByOne(RoutedSubscription):
    """Stores each message apart."""

    def __init__(self, subject: bytes, stream: Stream) -> None:
        RoutedSubscription.__init__(self, subject)
        self.stream = stream

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        self.stream.publish_frame(frame)
        return True


class Side:
    """A broker with a stream, two publishers and a subscriber."""

    def __init__(self, rig: AccountRig, config: dict[str, Any], *, at_once: bool) -> None:
        self.rig = rig
        self.stream = rig.create(**config)
        self.clock = ManualClock()
        self.broker = Broker(Options(), self.clock, Random(1))
        kind = StreamSubscription if at_once else OneByOne
        self.subscription = kind(b"a.>", self.stream)
        self.broker.global_account.add(self.subscription)
        self.rig.outbox.sent = []
        self.transports = [Transport() for _ in range(3)]
        self.connections = []
        for transport in self.transports:
            connection = self.broker.make_connection(("127.0.0.1", 1))
            connection.channel.connection_made(transport)
            connection.channel.feed(CONNECT)
            transport.take()
            self.connections.append(connection)

    def feed(self, which: int, data: bytes) -> None:
        self.connections[which].channel.feed(data)
        self.clock.advance(0)  # the rest, if a turn was not enough

    def stored(self) -> list[tuple[int, bytes, bytes, bytes] | None]:
        store = self.stream.store
        found = [store.load(seq) for seq in range(max(store.first_seq, 1), store.last_seq + 1)]
        return [one and (one.seq, one.subject, one.headers, one.payload) for one in found]

    def outcome(self) -> list[Any]:
        store = self.stream.store
        return [
            self.stored(),
            (store.first_seq, store.last_seq, store.messages, store.bytes, store.subject_count),
            [(one.in_messages, one.in_bytes, one.out_messages) for one in self.connections],
            (self.subscription.delivered, self.stream.usage.used),
            [bytes(transport.written) for transport in self.transports],
            self.rig.outbox.sent,
        ]


def random_lines(random: Random, known: int) -> bytes:
    """Make what a publisher sends: mostly plain lines of a few subjects."""
    lines = []
    for _ in range(random.choice([1, 5, 40])):
        payload = b"x" * random.choice([0, 1, 5, 16, 30])
        subject = b"a.%d" % random.randrange(known)
        dice = random.random()
        if dice < 0.80:
            line = b"PUB %b %d\r\n" % (subject, len(payload))
        elif dice < 0.84:
            line = b"PUB b.%d %d\r\n" % (random.randrange(3), len(payload))
        elif dice < 0.88:
            line = b"PUB %b r.1 %d\r\n" % (subject, len(payload))
        elif dice < 0.92:
            sizes = (subject, len(HEADERS), len(HEADERS) + len(payload))
            line = b"HPUB %b %d %d\r\n%b" % (*sizes, HEADERS)
        elif dice < 0.96:
            line = b"pub  %b\t%d\r\n" % (subject, len(payload))
        else:
            lines.append(b"PING\r\n")
            continue
        lines += [line + payload + b"\r\n"] * random.choice([1, 1, 1, 4])
    return b"".join(lines)


def run_program(seed: int, config: dict[str, Any], rigs: tuple[AccountRig, AccountRig]) -> None:
    random = Random(seed)
    sides = [Side(rigs[0], config, at_once=True), Side(rigs[1], config, at_once=False)]
    for _ in range(30):
        data, which = random_lines(random, random.choice([3, 12])), random.randrange(2)
        if random.random() < 0.1:
            data, which = random.choice([b"SUB a.1 7\r\n", b"UNSUB 7\r\n", b"SUB > 8 q\r\n"]), 2
        cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice([0, 0, 3])))
        pieces = [data[i:j] for i, j in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        for side in sides:
            for piece in pieces:
                side.feed(which, piece)
        if random.random() < 0.3:
            for side in sides:
                if isinstance(side.rig, FileAccountRig):
                    side.rig.settle()
    assert sides[0].outcome() == sides[1].outcome()


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=str)
def test_memory_streams_hold_the_same(config: dict[str, Any]) -> None:
    for seed in range(3):
        run_program(seed, config, (AccountRig(), AccountRig()))


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=str)
def test_file_streams_hold_the_same(config: dict[str, Any]) -> None:
    for seed in range(100, 102):
        config = {"storage": "file", **config}
        run_program(seed, config, (FileAccountRig(), FileAccountRig()))


def lines_of(subjects: list[bytes]) -> bytes:
    return b"".join(b"PUB %b %d\r\n%b\r\n" % (one, len(one), one) for one in subjects)


def test_what_is_known_is_taken_at_once() -> None:
    side = Side(AccountRig(), {}, at_once=True)
    subjects = [b"a.%d" % (i % 10) for i in range(300)]
    side.feed(0, lines_of(subjects[:10]))
    assert side.connections[0].parser.taker is not None
    side.feed(0, lines_of(subjects))
    assert isinstance(side.subscription, StreamSubscription)
    assert side.subscription.lines.taken == 300
    assert [one and one[1] for one in side.stored()] == subjects[:10] + subjects
    assert side.broker.router.offers == 310


def test_a_new_subscriber_gets_the_next_message() -> None:
    side = Side(AccountRig(), {}, at_once=True)
    for _ in range(2):
        side.feed(0, lines_of([b"a.1", b"a.2"]))
    side.feed(2, b"SUB a.2 9\r\n")
    for _ in range(2):
        side.feed(0, lines_of([b"a.1", b"a.2"]))
    assert side.transports[2].take() == b"MSG a.2 9 3\r\na.2\r\n" * 2
    assert side.stream.store.messages == 8


def test_a_consumer_is_told_of_all_of_them() -> None:
    rig = AccountRig()
    side = Side(rig, {}, at_once=True)
    rig.api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": {"name": "C"}})
    subjects = [b"a.%d" % (i % 10) for i in range(50)]
    side.feed(0, lines_of(subjects[:10]))
    side.feed(0, lines_of(subjects))
    assert rig.api("CONSUMER.INFO.A.C")["num_pending"] == 60


def test_a_publisher_is_held_where_the_disk_does_not_keep_up() -> None:
    side = Side(AccountRig(), {}, at_once=True)
    gate = Gate(side.broker.global_account)
    gated = StreamSubscription(b"b.>", side.stream, gate)
    side.broker.global_account.add(gated)
    side.feed(0, lines_of([b"b.1", b"b.2"]))
    side.feed(0, lines_of([b"b.1", b"b.2"]))
    assert gated.lines.taken == 2
    assert side.transports[0].is_reading
    gate.shut()
    side.feed(0, lines_of([b"b.1", b"b.2"] * 1000))
    assert not side.transports[0].is_reading
    gate.open()
    assert side.transports[0].is_reading


@pytest.mark.parametrize("way", ["lines", "one by one"])
def test_who_publishes_little_is_not_held_with_those_who_publish_much(way: str) -> None:
    side = Side(AccountRig(), {}, at_once=True)
    gate = Gate(side.broker.global_account)
    gated = StreamSubscription(b"b.>", side.stream, gate)
    side.broker.global_account.add(gated)
    reply = b" r" if way == "one by one" else b""
    line = b"PUB b.1%b 1000\r\n%b\r\n" % (reply, bytes(1000))
    side.feed(0, line * 2)
    for _ in range(2):
        gate.shut()
        for _ in range(SLIGHT_BYTES // len(line)):
            side.feed(0, line)
            assert side.transports[0].is_reading
        side.feed(0, line * 2)
        assert not side.transports[0].is_reading
        side.feed(1, line)
        assert side.transports[1].is_reading
        gate.open()
        assert side.transports[0].is_reading


def test_together_those_who_publish_little_are_held() -> None:
    side = Side(AccountRig(), {}, at_once=True)
    gate = Gate(side.broker.global_account)
    side.broker.global_account.add(StreamSubscription(b"b.>", side.stream, gate))
    gate.shut()
    count = SLIGHT_TOTAL_BYTES // 10_000
    publishers = [Client(cid, side.broker.global_account, ChunkPool()) for cid in range(count + 2)]
    passing = [gate.admits(publisher, 10_000) for publisher in publishers]
    assert passing == [True] * count + [False] * 2


def test_limits_of_an_account_are_met_by_each_message() -> None:
    side = Side(AccountRig(), {}, at_once=True)
    usage = side.stream.usage
    side.feed(0, lines_of([b"a.1", b"a.2"]))
    usage.limit = usage.used + 200
    side.feed(0, lines_of([b"a.1", b"a.2"] * 20))
    assert usage.limit - 30 < usage.used <= usage.limit
    assert side.stream.store.bytes == usage.used
