"""The interest that one worker announces to the others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from midge.server.accounts.plan import plan_accounts
from midge.server.broker.broker import Broker
from midge.server.config.options import Account as Table
from midge.server.config.options import Export, Import, ImportSource, Options
from midge.server.peers import worker_interest
from midge.server.peers.ledger import Ledger
from midge.server.peers.worker_interest import Numbers, WorkerAnnouncer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.role import Role
from midge.server.routing.slow_path import DENIED_SUBJECTS, NO_ECHO
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist import RemoteSubscription
from midge.testing import ManualClock


class FakeLink:
    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def send(self, piece: bytes) -> None:
        self.lines.append(piece)

    def taken(self) -> list[bytes]:
        lines, self.lines = self.lines, []
        return lines


class FakePeer:
    """A link to another server."""

    announcer = ""
    cluster = ""

    def __init__(self, role: Role) -> None:
        self.role = role


class FakeTurns:
    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def wait(self, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def share(self) -> int:
        return 64 * 1024

    def turn(self) -> None:
        self.waiting.pop(0)()


class Rig:
    def __init__(self, *, gives_numbers: bool = False) -> None:
        self.account = Account("A")
        self.numbers = Numbers(lambda: gives_numbers)
        self.ledger = Ledger(None, self.numbers)
        self.link = FakeLink()
        self.turns = FakeTurns()
        self.done = 0
        self.behind: dict[tuple[Role, bytes, bytes | None, str], RemoteSubscription] = {}
        self.announcer = WorkerAnnouncer(self.link, cast("Any", self.turns), self._note_done)
        self.client = Client(1, self.account, ChunkPool())

    def _note_done(self) -> None:
        self.done += 1

    def add(self, subject: bytes, queue: bytes | None = None) -> RoutedSubscription:
        subscription = RoutedSubscription(subject, queue, b"1", self.client)
        assert self.account.add(subscription) is None
        return subscription

    def watch(self) -> None:
        """Announce the interest in the account."""
        self.ledger.account_made(self.account)

    def tell(
        self, role: Role, subject: bytes, queue: bytes | None, change: int, origin: str = ""
    ) -> None:
        """Announce interest behind a link of `role` to another server."""
        self.ledger.has_peers = True
        source = FakePeer(role)
        known = self.behind.get((role, subject, queue, origin))
        if known is None:
            known = RemoteSubscription(subject, queue, source, change, origin)
            self.behind[role, subject, queue, origin] = known
            assert self.account.sublist.insert_remote(known) is None
        else:
            known.weight += change
        if not known.weight:
            del self.behind[role, subject, queue, origin]
            assert self.account.sublist.remove_remote(known) is None
        self.ledger.of(self.account).link_changed(
            cast("Any", source), subject, queue, change, origin
        )


def test_the_first_of_a_kind_is_told_and_the_last() -> None:
    rig = Rig()
    rig.watch()
    rig.ledger.join(rig.announcer)
    one, other = rig.add(b"a.*"), rig.add(b"a.*")
    assert rig.link.taken() == [b"RS+ A a.*\r\n"]
    rig.account.remove(one)
    assert rig.link.taken() == []
    rig.account.remove(other)
    assert rig.link.taken() == [b"RS- A a.*\r\n"]


def test_a_queue_group_is_told_with_its_weight() -> None:
    rig = Rig()
    rig.watch()
    rig.ledger.join(rig.announcer)
    members = [rig.add(b"q", b"g") for _ in range(3)]
    assert rig.link.taken() == [b"RS+ A q g %d\r\n" % weight for weight in (1, 2, 3)]
    for member in members:
        rig.account.remove(member)
    assert rig.link.taken() == [b"RS+ A q g 2\r\n", b"RS+ A q g 1\r\n", b"RS- A q g\r\n"]


def test_what_there_is_already_is_told_at_the_beginning() -> None:
    rig = Rig()
    rig.add(b"a")
    rig.add(b"q", b"g")
    rig.add(b"q", b"g")
    rig.watch()
    rig.ledger.join(rig.announcer)
    assert sorted(rig.link.taken()) == [b"RS+ A a\r\n", b"RS+ A q g 2\r\n"]
    assert (rig.done, rig.announcer.is_done) == (1, True)


def test_much_is_told_in_turns_and_changes_meanwhile_are_right() -> None:
    rig = Rig()
    held = [rig.add(b"s.%d" % i) for i in range(2000)]
    rig.watch()
    rig.ledger.join(rig.announcer)
    assert not rig.announcer.is_done
    known = set(rig.link.taken())
    assert len(known) < 2000
    early, late = held[0], held[-1]
    assert b"RS+ A s.0\r\n" in known
    rig.account.remove(early)
    rig.account.remove(late)
    rig.add(b"new")
    assert rig.link.taken() == [b"RS- A s.0\r\n", b"RS- A s.1999\r\n", b"RS+ A new\r\n"]
    while not rig.announcer.is_done:
        rig.turns.turn()
    known |= set(rig.link.taken())
    assert len(known) == 1999
    assert b"RS+ A s.1999\r\n" not in known
    assert rig.done == 1


def test_what_every_worker_has_is_not_told() -> None:
    rig = Rig()
    broker = Broker(Options(), ManualClock(), Random(1))
    links, rig.account = broker.admission.links, broker.account("A")
    rig.ledger.imports = links
    exported = Table(name="A", exports=(Export(stream="news"), Export(service="ask")))
    imports = [Import(stream=ImportSource(account="A", subject="news"))]
    imports += [Import(service=ImportSource(account="A", subject="ask"))]
    rig.watch()
    rig.ledger.join(rig.announcer)
    links.apply(plan_accounts([exported, Table(name="B", imports=tuple(imports))]))
    answered = RoutedSubscription(b"$SYS.REQ.USER.INFO")
    rig.account.add(answered)
    assert rig.link.taken() == []
    for subject in (b"news", b"ask", b"$SYS.REQ.USER.INFO"):
        rig.add(subject)
        assert rig.link.taken() == [b"RS+ A %b\r\n" % subject]
    links.apply({})
    rig.account.remove(answered)
    assert rig.link.taken() == []


def test_a_link_that_has_left_is_told_nothing() -> None:
    rig = Rig()
    rig.watch()
    rig.ledger.join(rig.announcer)
    rig.ledger.leave(rig.announcer)
    rig.add(b"a")
    assert rig.link.taken() == []


def test_a_subscription_has_a_number_while_it_is_alone_on_its_subject() -> None:
    rig = Rig(gives_numbers=True)
    rig.watch()
    rig.ledger.join(rig.announcer)
    one = rig.add(b"a")
    assert rig.link.taken() == [b"NS+ A a 1 1\r\n"]
    assert rig.numbers.receivers == {1: one}
    other, third = rig.add(b"a"), rig.add(b"a")
    assert rig.link.taken() == [b"RS+ A a\r\n"]
    assert rig.numbers.receivers == {}
    for subscription in (one, third):
        rig.account.remove(subscription)
    assert rig.link.taken() == []
    rig.account.remove(other)
    again = rig.add(b"a")
    assert rig.link.taken() == [b"RS- A a\r\n", b"NS+ A a 2 1\r\n"]
    rig.account.remove(again)
    assert rig.link.taken() == [b"RS- A a\r\n"]
    assert (rig.numbers.receivers, len(rig.numbers)) == ({}, 0)


def test_numbers_are_for_what_gets_every_message_of_its_subject(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(gives_numbers=True)
    rig.watch()
    rig.add(b"kept")
    rig.add(b"q", b"g")
    rig.account.add(RoutedSubscription(b"internal"))
    limited = RoutedSubscription(b"limited", None, b"1", rig.client)
    limited.max_messages = 1
    rig.account.add(limited)
    rig.client.deliver_checks = DENIED_SUBJECTS
    rig.add(b"denied")
    rig.client.deliver_checks = NO_ECHO
    rig.add(b"echo")
    monkeypatch.setattr(worker_interest, "NUMBERED_MAX", 2)
    rig.add(b"surplus")
    rig.ledger.join(rig.announcer)
    assert sorted(rig.link.taken()) == [
        b"NS+ A echo 2 1\r\n",
        b"NS+ A kept 1 1\r\n",
        b"RS+ A denied\r\n",
        b"RS+ A internal\r\n",
        b"RS+ A limited\r\n",
        b"RS+ A q g 1\r\n",
        b"RS+ A surplus\r\n",
    ]


def test_subscriptions_are_counted_by_the_sublist_alone() -> None:
    rig = Rig()
    rig.add(b"two")
    rig.add(b"two")
    rig.ledger.join(rig.announcer)
    rig.watch()
    assert rig.link.taken() == [b"RS+ A two\r\n"]
    for i in range(100):
        rig.add(b"s.%d" % i)
        rig.add(b"s.%d" % i, b"g")
    held = {**vars(rig.ledger), **vars(rig.numbers), **vars(rig.ledger.of(rig.account))}
    assert {name: len(one) for name, one in held.items() if isinstance(one, dict | list)} == {
        "extra": 0,
        "_numbers": 0,
        "receivers": 0,
        "importing": 0,
        "_accounts": 1,
        "workers": 1,
        "_imported": 0,
        "_links": 0,
    }
    lines = rig.ledger.of(rig.account).lines_for_workers()
    assert sum(len(batch) for batch in lines) == 201


def test_interest_behind_links_counts_like_subscriptions() -> None:
    rig = Rig(gives_numbers=True)
    rig.watch()
    rig.ledger.join(rig.announcer)
    rig.tell(Role.LEAF, b"a", None, 1)
    assert rig.link.taken() == [b"RS+ A a\r\n"]
    one = rig.add(b"a")
    rig.tell(Role.LEAF, b"a", None, -1)
    rig.account.remove(one)
    assert rig.link.taken() == [b"RS- A a\r\n"]
    rig.add(b"a")
    rig.tell(Role.ROUTE, b"a", None, 1)
    assert rig.link.taken() == [b"NS+ A a 1 1\r\n", b"RS+ A a\r\n"]
    assert len(rig.numbers) == 0
    rig.tell(Role.ROUTE, b"q", b"g", 2, "EDGE")
    rig.add(b"q", b"g")
    rig.tell(Role.ROUTE, b"q", b"g", -2, "EDGE")
    assert rig.link.taken() == [b"LS+ ~_ A q g 2\r\n", b"RS+ A q g 1\r\n", b"LS- ~_ A q g\r\n"]


def test_interest_of_other_workers_is_not_told_again() -> None:
    rig = Rig()
    rig.watch()
    rig.ledger.join(rig.announcer)
    rig.tell(Role.WORKER, b"a", None, 1)
    rig.tell(Role.HUB, b"b", b"g", 3)
    assert rig.link.taken() == [b"LS+ _ A b g 3\r\n"]
    rig.ledger.leave(rig.announcer)
    rig.tell(Role.LEAF, b"b", b"g", 1)
    rig.ledger.join(rig.announcer)
    assert rig.link.taken() == [b"LS+ _ A b g 4\r\n"]
