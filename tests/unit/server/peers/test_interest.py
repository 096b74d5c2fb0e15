"""The interest announced over links, by its origin."""

from __future__ import annotations

import tracemalloc

import pytest

from midge.server.channels.fair_turns import FairTurns
from midge.server.peers import announcer
from midge.server.peers.announcer import InterestAnnouncer, InterestLines
from midge.server.peers.ledger import Ledger
from midge.server.peers.rules import interest_filter, rules_of
from midge.server.routing.account import Account
from midge.server.routing.role import Role
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist import RemoteSubscription
from midge.testing import ManualClock

OWN = b"$LDS.own"


class Link:
    """A link that keeps the lines it is to send."""

    def __init__(self, turns: FairTurns, *, is_hub: bool, cluster: str = "") -> None:
        self.cluster = cluster
        self.interest: dict[object, RemoteSubscription] = {}
        self.lines: list[str] = []
        self.role = Role.HUB if is_hub else Role.LEAF
        self.announcer = InterestAnnouncer(self, turns, InterestLines(b"LS"))

    def send(self, piece: bytes) -> None:
        self.lines.append(piece.decode().removesuffix("\r\n"))

    def take(self) -> list[str]:
        """Return the lines sent since the last call."""
        lines, self.lines = self.lines, []
        return sorted(lines)


class World:
    """An account and its links."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turns = FairTurns(self.clock)
        self.account = Account("A")
        ledger = Ledger()
        ledger.extra = dict.fromkeys((Role.LEAF, Role.HUB), lambda _: [OWN])
        self.interest = ledger.of(self.account)

    def link(self, *, is_hub: bool = False, cluster: str = "", rules=None) -> Link:
        link = Link(self.turns, is_hub=is_hub, cluster=cluster)
        self.interest.add(link, interest_filter(rules))
        return link

    def add(self, subject: bytes, queue: bytes | None = None) -> RoutedSubscription:
        subscription = RoutedSubscription(subject, queue)
        assert self.account.add(subscription) is None
        return subscription

    def tell(self, link: Link, subject: bytes, queue: bytes | None, change: int) -> None:
        """Announce interest over `link`."""
        known = link.interest.get((subject, queue))
        if known is None:
            known = link.interest[subject, queue] = RemoteSubscription(subject, queue, link, change)
            assert self.account.sublist.insert_remote(known) is None
        else:
            known.weight += change
        if not known.weight:
            del link.interest[subject, queue]
            assert self.account.sublist.remove_remote(known) is None
        self.interest.link_changed(link, subject, queue, change)


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_and_the_last_are_told_and_each_size_of_a_group(world: World) -> None:
    hub = world.link(is_hub=True)
    assert hub.take() == [f"LS+ {OWN.decode()}"]
    plain = [world.add(b"a"), world.add(b"a")]
    members = [world.add(b"a", b"q") for _ in range(3)]
    assert hub.lines == ["LS+ a", "LS+ a q 1", "LS+ a q 2", "LS+ a q 3"]
    hub.take()
    for one in (*plain, *members):
        world.account.remove(one)
    assert hub.lines == ["LS- a", "LS+ a q 2", "LS+ a q 1", "LS- a q"]


def test_what_is_there_already_is_told_at_once(world: World) -> None:
    for _ in range(2):
        world.add(b"a.*")
        world.add(b"b", b"q")
    leaf = world.link()
    assert leaf.take() == [f"LS+ {OWN.decode()}", "LS+ a.*", "LS+ b q 2"]


def test_what_is_told_no_more_takes_no_room(world: World) -> None:
    hub = world.link(is_hub=True)
    tracemalloc.start()
    try:
        some = [world.add(b"a.%d" % i) for i in range(5_000)]
        for one in some:
            world.account.remove(one)
        kept = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, announcer.__file__)]
        )
    finally:
        tracemalloc.stop()
    assert len(hub.take()) == 10_001
    assert sum(one.size for one in kept.statistics("filename")) < 64 * 1024  # 350,000 otherwise


def test_a_leaf_is_told_of_others_and_never_of_itself(world: World) -> None:
    first, second = world.link(), world.link()
    hub = world.link(is_hub=True)
    for link in (first, second, hub):
        link.take()
    world.tell(first, b"x", None, 1)
    world.tell(first, b"x", b"q", 3)
    assert first.take() == []
    assert second.take() == hub.take() == ["LS+ x", "LS+ x q 3"]
    local = world.add(b"x")
    assert first.take() == ["LS+ x"], "somebody else is there now"
    assert second.take() == [], "it knows already"
    world.tell(first, b"x", None, -1)
    assert second.take() == []
    world.account.remove(local)
    assert (first.take(), second.take(), hub.take()) == (["LS- x"], ["LS- x"], ["LS- x"])


def test_what_one_hub_wants_is_not_told_another(world: World) -> None:
    one, two, leaf = world.link(is_hub=True), world.link(is_hub=True), world.link()
    for link in (one, two, leaf):
        link.take()
    world.tell(one, b"x", None, 1)
    assert two.take() == []
    assert leaf.take() == ["LS+ x"]


def test_links_of_one_cluster_are_told_nothing_of_each_other(world: World) -> None:
    first, second = world.link(cluster="C"), world.link(cluster="C")
    first.take(), second.take()
    world.tell(first, b"x", None, 1)
    assert second.take() == []


def test_weights_of_several_sources_are_added(world: World) -> None:
    world.add(b"w", b"q")
    leafs = [world.link() for _ in range(3)]
    for leaf in leafs:
        leaf.take()
    world.tell(leafs[0], b"w", b"q", 2)
    world.tell(leafs[1], b"w", b"q", 4)
    assert leafs[2].lines == ["LS+ w q 3", "LS+ w q 7"]
    late = world.link()
    assert "LS+ w q 7" in late.take()
    world.tell(leafs[0], b"w", b"q", -2)
    assert late.take() == ["LS+ w q 5"]


def test_what_the_rules_do_not_allow_is_not_told(world: World) -> None:
    world.add(b"in.a")
    hub = world.link(is_hub=True, rules=rules_of(["in.>"], ["in.no"]))
    other = world.add(b"other")
    denied = world.add(b"in.no")
    world.add(b"in.*")
    assert hub.take() == [f"LS+ {OWN.decode()}", "LS+ in.*", "LS+ in.a"]
    world.account.remove(other)
    world.account.remove(denied)
    assert hub.take() == []
    world.add(b">")
    world.add(b"*.>")
    world.add(b"out.*")
    assert hub.take() == ["LS+ *.>", "LS+ >"], "each is wider than what is allowed"


def test_other_rules_tell_and_take_back_what_differs(world: World) -> None:
    world.add(b"a.1")
    world.add(b"b.1")
    hub = world.link(is_hub=True, rules=rules_of(["a.>"], []))
    assert hub.take() == [f"LS+ {OWN.decode()}", "LS+ a.1"]
    world.interest.renew(hub, interest_filter(rules_of(["b.>"], [])))
    assert hub.take() == ["LS+ b.1", "LS- a.1"]


def test_much_interest_is_told_in_turns(world: World) -> None:
    count = 3000
    subscriptions = [world.add(b"s.%d" % i) for i in range(count)]
    hub = world.link(is_hub=True)
    announcer = len(hub.lines)
    assert 0 < announcer < count
    changed = [line for line in hub.lines if line.startswith("LS+ s.")]
    gone = {one.subject.decode() for one in subscriptions[1000:1010]}
    for one in subscriptions[1000:1010]:
        world.account.remove(one)
    world.add(b"meanwhile")
    assert hub.lines[-1] == "LS+ meanwhile", "what is new waits for nothing"
    world.clock.advance(1)
    assert len(changed) < count
    final: set[str] = set()
    for line in hub.lines:
        sign, _, subject = line.partition(" ")
        if sign == "LS+":
            assert subject not in final
            final.add(subject)
        else:
            final.remove(subject)
    expected = {one.subject.decode() for one in subscriptions} - gone
    assert final == expected | {"meanwhile", OWN.decode()}


def test_a_link_that_has_left_is_told_nothing(world: World) -> None:
    leaf = world.link()
    leaf.take()
    world.interest.remove(leaf)
    world.add(b"x")
    assert leaf.take() == []
    assert (world.account.interest_listener, world.account.watcher) == (None, None)
