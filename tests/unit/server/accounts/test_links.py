"""Links between accounts: what crosses, under which subject, how often and for how long."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.accounts import service_link
from midge.server.accounts.links import AccountLinks
from midge.server.accounts.plan import plan_accounts
from midge.server.accounts.service_link import ServiceLink, with_request_info
from midge.server.config.options import (
    Account as Table,
)
from midge.server.config.options import (
    Export,
    Import,
    ImportSource,
    Mapping,
    MappingDestination,
)
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.jetstream.delivery import Producer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.role import Role
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.subscription import RemoteSubscription


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: Any) -> Any:
        raise AssertionError("links need no timers")


class Probe(RoutedSubscription):
    """Notes what arrives."""

    def __init__(self, subject: str, queue: str = "") -> None:
        RoutedSubscription.__init__(self, subject.encode(), queue.encode() or None)
        self.got: list[tuple[str, str | None, bytes, bytes | None]] = []
        self.takes = True
        self.then: Callable[[], object] | None = None

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        if not self.takes:
            return False
        reply = frame.reply_bytes()
        self.got.append(
            (
                frame.subject_bytes().decode(),
                None if reply is None else reply.decode(),
                frame.payload_bytes(),
                frame.header_bytes(),
            )
        )
        if self.then is not None:
            self.then()
        return True

    @property
    def subjects(self) -> list[str]:
        return [subject for subject, *_ in self.got]

    @property
    def reply(self) -> bytes:
        reply = self.got[-1][1]
        assert reply is not None
        return reply.encode()


class NotingLink(Producer):
    """A leaf node link that notes the payload and the queue groups of each message over it."""

    def __init__(self, account: Account) -> None:
        Producer.__init__(self, account, Role.LEAF)
        self.sent: list[tuple[bytes, list[bytes] | None]] = []

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        self.sent.append((frame.payload_bytes(), queues))
        return True


class World:
    """Accounts linked as configured, without any connection."""

    def __init__(self, *tables: Table) -> None:
        self.accounts: dict[str, Account] = {}
        self.clock = Clock()
        self.router = Router()
        self.links = AccountLinks(
            InternalPublisher(self.router).route_frame,
            self.clock,
            Random(1),
            self.account,
            lambda client: {"rtt": 5, "user": "u"},
            self.router.carried.append,
        )
        self.links.apply(plan_accounts(tables))

    def account(self, name: str) -> Account:
        return self.accounts.setdefault(name, Account(name))

    def subscribe(self, account: str, subject: str, queue: str = "") -> Probe:
        probe = Probe(subject, queue)
        assert self.account(account).sublist.insert(probe) is None
        return probe

    def publish(
        self,
        account: str,
        subject: bytes | str,
        reply: str | None = None,
        payload: bytes = b"x",
        headers: bytes | None = None,
    ) -> int:
        subject = subject.encode() if isinstance(subject, str) else subject
        frame = compose(subject, payload, reply.encode() if reply else None, headers)
        target = self.account(account)
        return self.router.route(target, target.sublist.match(subject), None, frame)

    def service(self, account: str = "B") -> ServiceLink:
        links = [link for link in self.links._links.values() if isinstance(link, ServiceLink)]
        return next(link for link in links if link.importer.name == account)


def importing(name: str = "B", *, stream: str = "", service: str = "", **fields: Any) -> Table:
    kind = "stream" if stream else "service"
    source = ImportSource(account="A", subject=stream or service)
    return Table(name=name, imports=(Import(**{kind: source, **fields}),))


A = Table(
    name="A",
    exports=(
        Export(stream="st.>"),
        Export(service="svc.>"),
        Export(service="many", response_type="stream", response_threshold_s=10),
        Export(service="parts", response_type="chunked"),
    ),
)


class TestStreams:
    def test_messages_reach_the_importer_under_their_new_subject(self) -> None:
        world = World(A, importing(stream="st.>", prefix="pre"))
        probe = world.subscribe("B", "pre.st.*")
        assert world.publish("A", "st.x", reply="r", payload=b"1", headers=b"NATS/1.0\r\n\r\n") == 1
        assert probe.got == [("pre.st.x", "r", b"1", b"NATS/1.0\r\n\r\n")]

    def test_a_message_goes_once_over_a_link_for_plain_subscriptions_and_groups(self) -> None:
        world = World(A, importing(stream="st.>", prefix="pre"))
        link = NotingLink(world.account("B"))
        for subject, queue in ((b"pre.st.>", None), (b"pre.st.x", b"q"), (b"pre.st.*", b"r")):
            told = RemoteSubscription(subject, queue, link)
            world.account("B").sublist.insert_remote(told)
        own = world.subscribe("B", "pre.st.x", "r")
        assert world.publish("A", "st.x", payload=b"1")
        assert link.sent == [(b"1", [b"q"])]
        assert own.subjects == ["pre.st.x"]
        own.takes = False
        assert world.publish("A", "st.x", payload=b"2")
        payload, queues = link.sent[-1]
        assert (payload, sorted(queues or ())) == (b"2", [b"q", b"r"])
        assert len(link.sent) == 2

    def test_a_delivery_keeps_what_it_shows_and_other_messages_do_not(self) -> None:
        """What a receiver of a delivery publishes meanwhile is a message like any other."""
        world = World(A, importing(stream="st.>", prefix="pre"))
        probe = world.subscribe("B", "pre.st.*")
        delivered = compose(b"orders.1", b"1", b"$JS.ACK.S.c.1", None)
        world.links.delivery = (delivered, b"st.x")
        account = world.account("A")
        world.router.route(account, account.sublist.match(b"st.x"), None, delivered)
        world.publish("A", "st.y", payload=b"2")
        assert [(one[0], one[1]) for one in probe.got] == [
            ("orders.1", "$JS.ACK.S.c.1"),
            ("pre.st.y", None),
        ]

    def test_nothing_else_crosses(self) -> None:
        world = World(A, importing(stream="st.>"))
        everything = [world.subscribe(name, ">") for name in ("B", "C", "$G", "$SYS")]
        world.publish("A", "other")
        world.publish("B", "st.back")
        assert [probe.subjects for probe in everything] == [["st.back"], [], [], []]

    def test_nobody_there_counts_as_nobody(self) -> None:
        world = World(A, importing(stream="st.>"))
        assert world.publish("A", "st.x") == 0

    def test_what_is_shown_is_no_request_and_no_request_is_shown(self) -> None:
        """As on nats-server; with both ways between two accounts it would never come to rest."""
        offers = Table(name="A", exports=(Export(stream="x"), Export(service="x")))
        other = Table(name="C", exports=(Export(service="x"),))
        source = ImportSource(account="A", subject="x")
        both = Table(name="B", imports=(Import(stream=source), Import(service=source)))
        split = Table(
            name="D",
            imports=(Import(stream=source), Import(service=ImportSource(account="C", subject="x"))),
        )
        world = World(offers, both, other, split)
        probes = {name: world.subscribe(name, "x") for name in "ABCD"}
        for publisher, expected in (("A", "ABD"), ("B", "AB"), ("D", "CD")):
            assert world.publish(publisher, "x") == len(expected)
            assert {name for name, probe in probes.items() if probe.got} == set(expected)
            for probe in probes.values():
                probe.got.clear()

    def test_what_is_shown_to_an_importer_is_not_shown_on(self) -> None:
        """As on nats-server: exporting everything gives nothing away that comes from others."""
        b = Table(
            name="B",
            imports=(Import(stream=ImportSource(account="A", subject="st.>"), prefix="b"),),
            exports=(Export(stream=">"),),
        )
        c = Table(name="C", imports=(Import(stream=ImportSource(account="B", subject=">")),))
        world = World(A, b, c)
        probe = world.subscribe("C", ">")
        assert world.publish("A", "st.x") == 0
        assert world.publish("B", "b.st.y") == 1
        assert probe.subjects == ["b.st.y"]

    def test_a_prefix_may_end_in_a_dot(self) -> None:
        world = World(A, importing(stream="st.>", prefix="pre."))
        probe = world.subscribe("B", ">")
        assert world.publish("A", "st.x") == 1
        assert probe.subjects == ["pre.st.x"]


class TestQueueGroupsOfStreams:
    """Members in the exporter's account and in the importers' are one group, as on nats-server."""

    def test_one_member_of_all_accounts_gets_a_message(self) -> None:
        c = importing("C", stream="st.>", prefix="pre")
        world = World(A, importing(stream="st.>"), c)
        members = [
            world.subscribe("A", "st.x", "q"),
            world.subscribe("B", "st.*", "q"),
            world.subscribe("C", ">", "q"),
            world.subscribe("C", "pre.st.x", "q"),
        ]
        other = world.subscribe("C", "pre.st.x", "other")
        plain = world.subscribe("B", "st.x")
        for i in range(12):
            assert world.publish("A", "st.x", payload=b"%d" % i) == 3
        assert [len(one.got) for one in members] == [3, 3, 3, 3]
        assert sorted(int(one[2]) for member in members for one in member.got) == list(range(12))
        assert len(other.got) == len(plain.got) == 12

    def test_an_account_whose_members_refuse_is_passed_over(self) -> None:
        world = World(A, importing(stream="st.>"))
        refusing = world.subscribe("A", "st.x", "q")
        refusing.takes = False
        taking = world.subscribe("B", "st.x", "q")
        assert [world.publish("A", "st.x") for _ in range(4)] == [1] * 4
        assert len(taking.got) == 4
        taking.takes = False
        assert world.publish("A", "st.x") == 0

    def test_what_is_published_on_the_way_is_a_message_of_its_own(self) -> None:
        world = World(A, importing(stream="st.>"))
        members = [world.subscribe(name, "st.>", "q") for name in ("A", "B")]
        echoing = world.subscribe("A", "st.x")
        echoing.then = lambda: world.publish("A", "st.y")
        for _ in range(4):
            world.publish("A", "st.x")
        subjects = [subject for one in members for subject in one.subjects]
        assert sorted(subjects) == ["st.x"] * 4 + ["st.y"] * 4
        assert [len(one.got) for one in members] == [4, 4]


class TestServices:
    def test_a_request_and_its_answer_cross_once(self) -> None:
        world = World(A, importing(service="svc.req", to="my.req"))
        server = world.subscribe("A", "svc.*")
        client = world.subscribe("B", "inbox.1")
        assert world.publish("B", "my.req", reply="inbox.1", payload=b"q") == 1
        assert server.subjects == ["svc.req"]
        assert server.reply.startswith(b"_R_.")
        assert server.got[0][3] == b'NATS/1.0\r\nNats-Request-Info: {"acc":"B","rtt":5}\r\n\r\n'
        assert world.publish("A", server.reply, reply="ignored", payload=b"a") == 1
        assert client.got == [("inbox.1", None, b"a", None)]
        assert world.publish("A", server.reply, payload=b"again") == 0
        assert len(client.got) == 1
        assert world.service().waiting() == 0

    def test_a_request_without_reply_opens_no_way_back(self) -> None:
        world = World(A, importing(service="svc.req"))
        server = world.subscribe("A", "svc.req")
        assert world.publish("B", "svc.req") == 1
        assert server.got[0][1] is None
        assert world.service().waiting() == 0

    def test_no_responder_leaves_nothing_behind(self) -> None:
        world = World(A, importing(service="svc.req"))
        assert world.publish("B", "svc.req", reply="inbox") == 0
        assert world.service().waiting() == 0
        assert len(world.account("A").sublist) == 0

    def test_reply_subjects_differ_and_only_the_exporter_can_use_them(self) -> None:
        world = World(A, importing(service="svc.req"))
        server = world.subscribe("A", "svc.req")
        client = world.subscribe("B", "inbox")
        for _ in range(50):
            world.publish("B", "svc.req", reply="inbox")
        replies = {reply for _, reply, *_ in server.got}
        assert len(replies) == 50
        for account in ("B", "C", "$G"):
            assert world.publish(account, server.reply) == 0
        assert not client.got

    def test_a_stream_of_answers_lasts_while_they_come(self) -> None:
        world = World(A, importing(service="many"))
        server = world.subscribe("A", "many")
        client = world.subscribe("B", "inbox")
        world.publish("B", "many", reply="inbox")
        for _ in range(3):
            world.clock.now_s += 9
            assert world.publish("A", server.reply) == 1
        assert len(client.got) == 3
        world.clock.now_s += 11
        world.publish("B", "many", reply="inbox")
        assert world.service().waiting() == 1

    def test_parts_end_with_an_empty_one(self) -> None:
        world = World(A, importing(service="parts"))
        server = world.subscribe("A", "parts")
        client = world.subscribe("B", "inbox")
        world.publish("B", "parts", reply="inbox")
        reply = server.reply
        counts = [world.publish("A", reply, payload=part) for part in (b"1", b"2", b"", b"3")]
        assert counts == [1, 1, 1, 0]
        assert [payload for _, _, payload, _ in client.got] == [b"1", b"2", b""]

    def test_unanswered_requests_are_forgotten(self) -> None:
        world = World(A, importing(service="svc.req"))
        server = world.subscribe("A", "svc.req")
        world.publish("B", "svc.req", reply="inbox")
        first = server.reply
        world.clock.now_s = 121
        world.publish("B", "svc.req", reply="inbox")
        assert world.service().waiting() == 1
        assert world.publish("A", first) == 0

    def test_unanswered_requests_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(service_link, "REQUESTS_MAX", 5)
        world = World(A, importing(service="svc.req"))
        world.subscribe("A", "svc.req")
        for _ in range(20):
            world.publish("B", "svc.req", reply="inbox")
        assert world.service().waiting() == 5
        assert len(world.account("A").sublist) == 6
        assert world.links.evicted_requests == 15

    def test_their_replies_are_bounded_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(service_link, "REPLIES_MAX_BYTES", 1000)
        world = World(A, importing(service="svc.req"))
        server = world.subscribe("A", "svc.req")
        for number in range(30):
            world.publish("B", "svc.req", reply=f"{number:0100}")
        assert world.service().waiting() == 10
        assert world.links.evicted_requests == 20
        world.subscribe("B", f"{29:0100}")
        assert world.publish("A", server.reply) == 1
        assert world.service().waiting() == 9

    def test_an_answer_that_comes_too_late_does_not_cross(self) -> None:
        """Also without a later request."""
        world = World(A, importing(service="svc.req"))
        server = world.subscribe("A", "svc.req")
        client = world.subscribe("B", "inbox")
        world.publish("B", "svc.req", reply="inbox")
        world.clock.now_s = 121
        assert world.publish("A", server.reply) == 0
        assert client.got == []
        assert world.service().waiting() == 0

    def test_who_asks_is_told_only_when_shared(self) -> None:
        world = World(A, importing(service="svc.req", share=True))
        server = world.subscribe("A", "svc.req")
        world.publish("B", "svc.req")
        headers = server.got[0][3]
        assert headers is not None
        assert b'"user":"u"' in headers


class TestChanges:
    def test_what_stays_the_same_is_left_alone(self) -> None:
        tables = (A, importing(service="svc.req"))
        world = World(*tables)
        server = world.subscribe("A", "svc.req")
        client = world.subscribe("B", "inbox")
        world.publish("B", "svc.req", reply="inbox")
        world.links.apply(plan_accounts(tables))
        assert world.publish("A", server.reply) == 1
        assert len(client.got) == 1

    def test_what_is_gone_carries_nothing_any_more(self) -> None:
        world = World(A, importing(service="svc.req"))
        server = world.subscribe("A", "svc.req")
        world.publish("B", "svc.req", reply="inbox")
        world.links.apply(plan_accounts([A, Table(name="B")]))
        assert world.publish("B", "svc.req") == 0
        assert world.publish("A", server.reply) == 0
        assert len(world.account("A").sublist) == 1
        assert len(world.account("B").sublist) == 0

    def test_mappings_come_and_go(self) -> None:
        mapping = Mapping(source="a", destinations=(MappingDestination(destination="b"),))
        world = World(Table(name="B", mappings=(mapping,)))
        mapper = world.account("B").mapper
        assert mapper is not None
        world.links.apply(plan_accounts([Table(name="B", mappings=(mapping,))]))
        assert world.account("B").mapper is mapper
        world.links.apply(plan_accounts([Table(name="B")]))
        assert world.account("B").mapper is None


class TestRequestInfo:
    OURS = b"\r\nNats-Request-Info: {}\r\n\r\n"

    @pytest.mark.parametrize(
        ("headers", "kept"),
        [
            (None, b"NATS/1.0"),
            (b"NATS/1.0\r\n\r\n", b"NATS/1.0"),
            (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b"),
            (b"NATS/1.0\r\nNats-Request-Info: x\r\n\r\n", b"NATS/1.0"),
            (b"NATS/1.0\r\nNATS-REQUEST-info:x\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b"),
            (b"NATS/1.0\r\nnats-request-info : x\r\nnats-request-INFO: y\r\n\r\n", b"NATS/1.0"),
            (b"NATS/1.0\r\nA: b\nNats-Request-Info: x\r\n\r\n", b"NATS/1.0\r\nA: b"),
            (b"NATS/1.0\r\nA: b\rNats-Request-Info: x\r\n\r\n", b"NATS/1.0\r\nA: b"),
            (b"NATS/1.0\r\n Nats-Request-Info: x\r\n\r\n", b"NATS/1.0"),
            (b"NATS/1.0\r\nX-Nats-Request-Info: x\r\n\r\n", b"NATS/1.0\r\nX-Nats-Request-Info: x"),
            (b"NATS/1.0\r\nA: b", b"NATS/1.0\r\nA: b"),
            (b"garbage\r\nNats-Request-Info: x", b"NATS/1.0"),
            (b"", b"NATS/1.0"),
            (b"NATS/1.0 503\r\n\r\n\r\n", b"NATS/1.0 503"),
        ],
    )
    def test_only_ours_is_there(self, headers: bytes | None, kept: bytes) -> None:
        assert with_request_info(headers, b"{}") == kept + self.OURS

    def test_no_request_is_longer_than_a_message_may_be(self) -> None:
        world = World(A, importing(service="svc.req", to="ask"))
        probe = world.subscribe("A", "svc.req")
        headers = b"NATS/1.0\r\nA: b\r\n\r\n"
        for block in (None, headers):
            assert world.publish("B", "ask", "r", b"x" * 100, block) == 1
            _, _, payload, got = probe.got[-1]
            longest = len(payload) + len(got or b"")
            world.links.max_payload = longest
            assert world.publish("B", "ask", "r", b"x" * 100, block) == 1
            assert world.publish("B", "ask", "r", b"x" * 101, block) == 0
            assert world.service().waiting() == 2
            world.service().forget_all()
            world.links.max_payload = -1
        assert [len(payload) for _, _, payload, _ in probe.got] == [100] * 4

    def test_a_header_bomb_takes_linear_time(self) -> None:
        for filler in (b"\r\n", b"\n ", b"\r", b"\n\t\t\t", b"\nnats-request-info"):
            bomb = b"NATS/1.0" + filler * 200_000
            assert with_request_info(bomb, b"{}").endswith(self.OURS)
