"""Links between workers, within one process."""

from __future__ import annotations

import asyncio
import socket
from random import Random
from typing import TYPE_CHECKING

import pytest

from midge.protocol.frame import compose
from midge.protocol.handler import Handler
from midge.protocol.parser import Parser
from midge.server.accounts.plan import plan_accounts
from midge.server.broker.broker import Broker
from midge.server.clock import LoopClock
from midge.server.config.options import Account as Table
from midge.server.config.options import Export, Import, ImportSource, Options
from midge.server.peers.worker_links import WorkerLinks
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from midge.protocol.frame import Frame
    from midge.server.routing.client import Client


class Taking(RoutedSubscription):
    """Keeps what it gets."""

    def __init__(self, subject: bytes, queue: bytes | None = None) -> None:
        super().__init__(subject, queue)
        self.found: list[bytes] = []

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        self.found.append(frame.payload_bytes())
        return True


class RunNotes(Handler):
    """Passes runs of messages, and single messages as runs of 1, to `route`."""

    def __init__(self, route: Callable[[Frame, int], int]) -> None:
        self._route = route
        self.taken = 0

    def on_publish(self, frame: Frame) -> None:
        self.taken += self._route(frame, 1)

    def on_publish_run(self, frame: Frame, count: int) -> int:
        taken = self._route(frame, count)
        self.taken += taken
        return taken


class Workers:
    """Several brokers, each linked with all others."""

    def __init__(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock()
        self.lost: list[tuple[int, int]] = []
        self.brokers = [Broker(Options(), clock, Random(i), loop.call_soon) for i in range(count)]
        self.meshes = [
            WorkerLinks(broker, i, lambda peer, i=i: self.lost.append((i, peer)))
            for i, broker in enumerate(self.brokers)
        ]

    def link(self, one: int, other: int) -> None:
        ends = socket.socketpair()
        self.meshes[one].attach(other, ends[0])
        self.meshes[other].attach(one, ends[1])

    async def settled(self) -> None:
        for mesh in self.meshes:
            await mesh.settled()

    def subscribe(self, worker: int, subject: bytes, queue: bytes | None = None) -> Taking:
        subscription = Taking(subject, queue)
        self.brokers[worker].global_account.add(subscription)
        return subscription

    def publish(self, worker: int, subject: bytes, payload: bytes, name: str = "$G") -> int:
        return self.publish_frame(worker, compose(subject, payload), name)

    def publish_frame(self, worker: int, frame: Frame, name: str = "$G") -> int:
        broker = self.brokers[worker]
        account = broker.account(name)
        result = account.sublist.match(frame.subject_bytes())
        return broker.internal.route_frame(account, result, frame, None)

    def publish_run(self, worker: int, line: bytes, payloads: list[bytes]) -> int:
        """Publish messages of equal control lines at once; return how many were taken."""
        router = self.brokers[worker].router
        account = self.brokers[worker].global_account
        notes = RunNotes(lambda frame, count: router.route_run(account, result, None, frame, count))
        result = account.sublist.match(line.split()[1])
        feed = bytearray(b"".join(line + payload + b"\r\n" for payload in payloads))
        Parser(notes).feed(feed, 0, len(feed))
        return notes.taken

    async def close(self) -> None:
        for mesh in self.meshes:
            mesh.close()
        await asyncio.sleep(0.01)  # for the sockets, which belong to the loop


@pytest.fixture
async def three() -> AsyncIterator[Workers]:
    workers = Workers(3)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        workers.link(one, other)
    await workers.settled()
    yield workers
    await workers.close()


async def test_a_message_reaches_every_plain_subscription_once(three: Workers) -> None:
    held = [three.subscribe(i, subject) for i in range(3) for subject in (b"a.b", b"a.*")]
    await three.settled()
    for worker in range(3):
        three.publish(worker, b"a.b", b"%d" % worker)
    await three.settled()
    assert [sorted(one.found) for one in held] == [[b"0", b"1", b"2"]] * 6


async def test_a_queue_group_gets_a_message_once_by_weight(three: Workers) -> None:
    held = [three.subscribe(i, b"q", b"g") for i in (0, 1, 1, 2, 2, 2)]
    plain = three.subscribe(2, b"q")
    await three.settled()
    sent = [b"%d" % i for i in range(600)]
    for i, payload in enumerate(sent):
        three.publish(i % 3, b"q", payload)
    await three.settled()
    assert sorted(payload for one in held for payload in one.found) == sorted(sent)
    assert sorted(plain.found) == sorted(sent)
    shares = [len(one.found) for one in held]
    assert all(97 <= share <= 103 for share in shares), shares


async def test_who_is_interested_is_known_once_settled(three: Workers) -> None:
    assert three.publish(0, b"s", b"") == 0
    subscription = three.subscribe(2, b"s")
    await three.meshes[2].settled()
    assert three.publish(0, b"s", b"") == 1
    three.brokers[2].global_account.remove(subscription)
    await three.meshes[2].settled()
    assert three.publish(0, b"s", b"") == 0


async def test_a_lost_link_releases_the_barrier_and_its_interest(three: Workers) -> None:
    three.subscribe(1, b"s")
    await three.settled()
    assert three.publish(0, b"s", b"") == 1
    waiting = asyncio.ensure_future(three.meshes[0].settled())
    await asyncio.sleep(0)
    three.meshes[0].links[1].channel.abort()
    await asyncio.wait_for(waiting, 60)
    while not {(0, 1), (1, 0)} <= set(three.lost):
        await asyncio.sleep(0.001)
    assert three.publish(0, b"s", b"") == 0
    three.link(0, 1)
    await three.settled()
    assert three.publish(0, b"s", b"") == 1


async def test_a_new_link_takes_the_place_of_the_old_one(three: Workers) -> None:
    held = three.subscribe(1, b"s")
    await three.settled()
    three.link(0, 1)
    await three.settled()
    assert three.publish(0, b"s", b"x") == 1
    await three.settled()
    assert held.found == [b"x"]
    assert three.lost == []


async def test_accounts_are_apart(three: Workers) -> None:
    subscription = Taking(b"s")
    three.brokers[0].account("OTHER").add(subscription)
    await three.settled()
    assert three.publish(1, b"s", b"") == 0
    assert three.publish(1, b"s", b"x", "OTHER") == 1
    await three.settled()
    assert subscription.found == [b"x"]


async def test_messages_of_accounts_that_take_turns_are_told_apart(three: Workers) -> None:
    names = ("$G", "ONE", "OTHER")
    held = {name: Taking(b"s.*") for name in names}
    for name, one in held.items():
        three.brokers[1].account(name).add(one)
    await three.settled()
    for i in range(60):
        three.publish(0, b"s.%d" % i, b"%d" % i, names[i % 7 % 3])
    await three.settled()
    for number, name in enumerate(names):
        assert held[name].found == [b"%d" % i for i in range(60) if i % 7 % 3 == number]


async def test_messages_of_all_forms_keep_their_order(three: Workers) -> None:
    held = three.subscribe(1, b"s.*")
    three.subscribe(1, b"s.q", b"g")
    await three.settled()
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    for i in range(40):
        payload = b"%d" % i
        forms = [
            compose(b"s.a", payload),
            compose(b"s.a", payload, b"reply"),
            compose(b"s.a", payload, None, header),
            compose(b"s.q", payload),
        ]
        three.publish_frame(0, forms[i * i % 7 % 4])
    await three.settled()
    assert held.found == [b"%d" % i for i in range(40)]


@pytest.mark.parametrize(("size", "count"), [(1, 3000), (1000, 200), (70_000, 3)])
async def test_runs_cross_whole_however_they_fit_into_chunks(
    three: Workers, size: int, count: int
) -> None:
    held = three.subscribe(1, b"s")
    await three.settled()
    payloads = [bytes([i % 251]) * size for i in range(count)]
    assert three.publish_run(0, b"PUB s %d\r\n" % size, payloads) == count
    await three.settled()
    assert held.found == payloads


async def test_what_an_import_carries_crosses_once_for_plain_subscribers_and_groups(
    three: Workers,
) -> None:
    source = ImportSource(account="EX", subject="ex.>")
    tables = [
        Table(name="EX", exports=(Export(stream="ex.>"),)),
        Table(name="IM", imports=(Import(stream=source, to="imp.>"),)),
    ]
    for broker in three.brokers:
        broker.admission.links.apply(plan_accounts(tables))
    plain = [Taking(b"imp.a"), Taking(b"imp.*")]
    members = [Taking(b"imp.>", b"q") for _ in range(3)]
    for one in (*plain, *members):
        three.brokers[1].account("IM").add(one)
    members.append(Taking(b"ex.*", b"q"))
    three.brokers[0].account("EX").add(members[-1])
    await three.settled()
    sent = [b"%d" % i for i in range(40)]
    for payload in sent:
        three.publish(0, b"ex.a", payload, "EX")
    await three.settled()
    assert [one.found for one in plain] == [sent, sent]
    assert sorted(data for one in members for data in one.found) == sorted(sent)
    assert all(one.found for one in members)
