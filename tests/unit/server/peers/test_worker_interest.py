"""What one worker tells the others of interest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from midge.server.accounts.stream_link import StreamLink
from midge.server.peers import worker_interest
from midge.server.peers.worker_interest import WorkerAnnouncer, WorkerInterest
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.slow_path import DENIED_SUBJECTS, NO_ECHO
from midge.server.routing.subscription import RoutedSubscription


class FakeLink:
    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def send(self, piece: bytes) -> None:
        self.lines.append(piece)

    def taken(self) -> list[bytes]:
        lines, self.lines = self.lines, []
        return lines


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
        self.interest = WorkerInterest(lambda: gives_numbers)
        self.link = FakeLink()
        self.turns = FakeTurns()
        self.done = 0
        self.announcer = WorkerAnnouncer(
            self.interest, self.link, cast("Any", self.turns), self._note_done
        )
        self.client = Client(1, self.account, ChunkPool())

    def _note_done(self) -> None:
        self.done += 1

    def add(self, subject: bytes, queue: bytes | None = None) -> RoutedSubscription:
        subscription = RoutedSubscription(subject, queue, b"1", self.client)
        assert self.account.add(subscription) is None
        return subscription


def test_the_first_of_a_kind_is_told_and_the_last() -> None:
    rig = Rig()
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
    one, other = rig.add(b"a.*"), rig.add(b"a.*")
    assert rig.link.taken() == [b"RS+ A a.*\r\n"]
    rig.account.remove(one)
    assert rig.link.taken() == []
    rig.account.remove(other)
    assert rig.link.taken() == [b"RS- A a.*\r\n"]


def test_a_queue_group_is_told_with_its_weight() -> None:
    rig = Rig()
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
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
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
    assert sorted(rig.link.taken()) == [b"RS+ A a\r\n", b"RS+ A q g 2\r\n"]
    assert (rig.done, rig.announcer.is_done) == (1, True)


def test_much_is_told_in_turns_and_changes_meanwhile_are_right() -> None:
    rig = Rig()
    held = [rig.add(b"s.%d" % i) for i in range(2000)]
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
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
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
    plan = cast(
        "Any", type("Plan", (), {"source": b"news", "transform": None, "allows_trace": False})()
    )
    carried = StreamLink(cast("Any", None), plan, rig.account)
    rig.account.add(carried)
    answered = RoutedSubscription(b"$SYS.REQ.USER.INFO")
    rig.account.add(answered)
    assert rig.link.taken() == []
    rig.add(b"news")
    assert rig.link.taken() == [b"RS+ A news\r\n"]
    rig.account.remove(carried)
    assert rig.link.taken() == []


def test_a_link_that_has_left_is_told_nothing() -> None:
    rig = Rig()
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
    rig.interest.leave(rig.announcer)
    rig.add(b"a")
    assert rig.link.taken() == []


def test_a_subscription_has_a_number_while_it_is_alone_on_its_subject() -> None:
    rig = Rig(gives_numbers=True)
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
    one = rig.add(b"a")
    assert rig.link.taken() == [b"NS+ A a 1 1\r\n"]
    assert rig.interest.receivers == {1: one}
    other, third = rig.add(b"a"), rig.add(b"a")
    assert rig.link.taken() == [b"RS+ A a\r\n"]
    assert rig.interest.receivers == {}
    for subscription in (one, third):
        rig.account.remove(subscription)
    assert rig.link.taken() == []
    rig.account.remove(other)
    again = rig.add(b"a")
    assert rig.link.taken() == [b"RS- A a\r\n", b"NS+ A a 2 1\r\n"]
    rig.account.remove(again)
    assert rig.link.taken() == [b"RS- A a\r\n"]
    assert (rig.interest.receivers, rig.interest.numbers) == ({}, {})


def test_numbers_are_for_what_gets_every_message_of_its_subject(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(gives_numbers=True)
    rig.interest.watch(rig.account)
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
    rig.interest.join(rig.announcer)
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
    rig.interest.join(rig.announcer)
    rig.interest.watch(rig.account)
    assert rig.link.taken() == [b"RS+ A two\r\n"]
    for i in range(100):
        rig.add(b"s.%d" % i)
        rig.add(b"s.%d" % i, b"g")
    state = vars(rig.interest)
    assert {name: len(held) for name, held in state.items() if isinstance(held, dict)} == {
        "numbers": 0,
        "receivers": 0,
        "_watches": 1,
        "_behind": 0,
        "_announcers": 1,
    }
    assert sum(len(list(watch.walk())) for watch in rig.interest._watches.values()) == 201


def test_interest_behind_links_counts_like_subscriptions() -> None:
    rig = Rig(gives_numbers=True)
    rig.interest.watch(rig.account)
    rig.interest.join(rig.announcer)
    rig.interest.change_behind(rig.account, b"a", None, 1, "")
    assert rig.link.taken() == [b"RS+ A a\r\n"]
    one = rig.add(b"a")
    rig.interest.change_behind(rig.account, b"a", None, -1, "")
    rig.account.remove(one)
    assert rig.link.taken() == [b"RS- A a\r\n"]
    rig.add(b"a")
    rig.interest.change_behind(rig.account, b"a", None, 1, "")
    assert rig.link.taken() == [b"NS+ A a 1 1\r\n", b"RS+ A a\r\n"]
    assert rig.interest.numbers == {}
    rig.interest.change_behind(rig.account, b"q", b"g", 2, "~_")
    rig.add(b"q", b"g")
    rig.interest.change_behind(rig.account, b"q", b"g", -2, "~_")
    assert rig.link.taken() == [b"LS+ ~_ A q g 2\r\n", b"RS+ A q g 1\r\n", b"LS- ~_ A q g\r\n"]
