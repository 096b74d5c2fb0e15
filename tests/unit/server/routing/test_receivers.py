"""Messages over links: once each, queue members there only if there are none here, no echo."""

from __future__ import annotations

from collections import Counter

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.receivers import pick_link
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist import RemoteSubscription
from midge.sublist.result import QueueGroup


class Link(Client):
    """A link that notes what it is to send."""

    def __init__(self, account: Account, name: str) -> None:
        Client.__init__(self, 0, account, ChunkPool())
        self.name = name
        self.sent: list[tuple[bytes, list[bytes] | None]] = []
        self.runs: list[int] = []
        self.queues_of_runs: list[list[bytes] | None] = []
        self.refuses = False

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        if self.refuses:
            return False
        self.sent.append((frame.subject_bytes(), queues))
        return True

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        return not self.refuses

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        self.runs.append(count)
        self.queues_of_runs.append(queues)


class World:
    """An account with two links."""

    def __init__(self) -> None:
        self.account = Account("A")
        self.router = Router()
        self.east = Link(self.account, "east")
        self.west = Link(self.account, "west")

    def tell(
        self,
        link: Link,
        subject: bytes,
        queue: bytes | None = None,
        weight: int = 1,
        *,
        origin: str = "",
        is_last_choice: bool = True,
    ) -> None:
        told = RemoteSubscription(subject, queue, link, weight, origin, is_last_choice)
        assert self.account.sublist.insert_remote(told) is None

    def subscribe(self, subject: bytes, queue: bytes | None = None) -> Client:
        client = Client(1, self.account, ChunkPool())
        self.account.add(RoutedSubscription(subject, queue, b"1", client))
        return client

    def publish(self, subject: bytes, publisher: Client | None = None) -> int:
        result = self.account.sublist.match(subject)
        return self.router.route(self.account, result, publisher, compose(subject, b"x"))


@pytest.fixture
def world() -> World:
    return World()


def test_a_link_gets_a_message_once_however_much_of_its_interest_matches(world: World) -> None:
    for subject in (b"a.b", b"a.*", b"a.>"):
        world.tell(world.east, subject)
    world.tell(world.east, b"a.b", b"q")
    world.tell(world.east, b"a.*", b"r")
    local = world.subscribe(b"a.b")
    assert world.publish(b"a.b") == 2
    assert [subject for subject, _ in world.east.sent] == [b"a.b"]
    assert sorted(world.east.sent[0][1] or []) == [b"q", b"r"]
    assert local.out_messages == 1


def test_nothing_goes_back_to_where_it_came_from(world: World) -> None:
    world.tell(world.east, b"a")
    world.tell(world.west, b"a")
    world.tell(world.east, b"a", b"q")
    assert world.publish(b"a", world.east) == 1
    assert world.east.sent == []
    assert world.west.sent == [(b"a", None)]


def test_a_member_here_is_preferred(world: World) -> None:
    world.tell(world.east, b"a", b"q", 100)
    local = world.subscribe(b"a", b"q")
    for _ in range(100):
        assert world.publish(b"a") == 1
    assert local.out_messages == 100
    assert world.east.sent == []


def test_a_member_there_takes_what_those_here_refuse(world: World) -> None:
    world.tell(world.east, b"a", b"q")
    local = world.subscribe(b"a", b"q")
    local.deliver_checks = 1  # closed
    assert world.publish(b"a") == 1
    assert world.east.sent == [(b"a", [b"q"])]


def test_links_are_picked_by_weight(world: World) -> None:
    world.tell(world.east, b"a", b"q", 3)
    world.tell(world.west, b"a", b"q", 1)
    for _ in range(1000):
        world.publish(b"a")
    assert len(world.east.sent) == 750
    assert len(world.west.sent) == 250


def test_members_behind_a_route_count_like_those_here(world: World) -> None:
    world.tell(world.east, b"a", b"q", 3, is_last_choice=False)
    world.tell(world.west, b"a", b"q", 1, is_last_choice=False)
    world.tell(world.west, b"a", b"q", 9)
    members = [world.subscribe(b"a", b"q") for _ in range(2)]
    for _ in range(600):
        assert world.publish(b"a") == 1
    assert (len(world.east.sent), len(world.west.sent)) == (300, 100)
    assert [member.out_messages for member in members] == [100, 100]


def test_members_of_last_choice_get_what_nobody_else_can(world: World) -> None:
    world.tell(world.east, b"a", b"q", 1, is_last_choice=False)
    world.tell(world.west, b"a", b"q", 9)
    for _ in range(10):
        world.publish(b"a")
    assert (len(world.east.sent), len(world.west.sent)) == (10, 0)
    assert world.publish(b"a", world.east) == 1
    assert len(world.west.sent) == 1


def test_a_publisher_says_which_links_its_messages_may_go_over(world: World) -> None:
    class Wary(Client):
        def reaches(self, link: Client, origin: str) -> bool:
            return origin != "EDGE"

    world.tell(world.east, b"a", b"q", origin="EDGE", is_last_choice=False)
    assert world.publish(b"a", Wary(2, world.account, ChunkPool())) == 0
    world.tell(world.west, b"a", b"q")
    assert world.publish(b"a", Wary(2, world.account, ChunkPool())) == 1
    assert (len(world.east.sent), len(world.west.sent)) == (0, 1)


def test_a_weight_of_none_is_never_picked(world: World) -> None:
    world.tell(world.east, b"a", b"q", 0)
    assert world.publish(b"a") == 0
    assert world.east.sent == []


def test_a_random_pick_goes_by_weight_too() -> None:
    class Chooser:
        place = -1

        def randrange(self, total: int) -> int:
            self.place = (self.place + 1) % total
            return self.place

    links = [Link(Account("A"), name) for name in "ab"]
    members = [
        RemoteSubscription(b"a", b"q", link, weight)
        for link, weight in zip(links, (2, 3), strict=True)
    ]
    group = QueueGroup(b"q", tuple(members))
    chooser = Chooser()
    counts = Counter(pick_link(group, None, chooser).name for _ in range(50))  # type: ignore[arg-type,union-attr]
    assert counts == {"a": 20, "b": 30}


def test_what_a_link_refuses_has_no_responder(world: World) -> None:
    world.tell(world.east, b"a")
    world.east.refuses = True
    assert world.publish(b"a") == 0


def test_a_run_goes_over_each_link_as_one(world: World) -> None:
    world.tell(world.east, b"a")
    world.tell(world.west, b"a")
    local = world.subscribe(b"a")
    data = bytearray(b"PUB a 1\r\nx\r\n" * 5)
    result = world.account.sublist.match(b"a")
    frame = whole(data)
    assert world.router.route_run(world.account, result, world.east, frame, 5) == 5
    assert (world.east.runs, world.west.runs) == ([], [5])
    assert local.out_messages == 5
    world.west.refuses = True
    assert world.router.route_run(world.account, result, None, frame, 5) == 0


def route_run(world: World, publisher: Client | None = None) -> int:
    """Publish a run of five messages to "a"; return how many are routed as one."""
    frame = whole(bytearray(b"PUB a 1\r\nx\r\n" * 5))
    result = world.account.sublist.match(b"a")
    return world.router.route_run(world.account, result, publisher, frame, 5)


def test_a_run_for_a_group_behind_one_link_goes_as_one(world: World) -> None:
    world.tell(world.east, b"a", b"q", 3)
    world.tell(world.east, b"a", b"q", 2, origin="far")
    world.tell(world.west, b"a")
    local = world.subscribe(b"a")
    assert route_run(world) == 5
    assert (world.east.runs, world.west.runs) == ([5], [5])
    assert (world.east.queues_of_runs, world.west.queues_of_runs) == ([[b"q"]], [None])
    assert local.out_messages == 5
    world.tell(world.east, b"a")
    assert route_run(world) == 5
    assert world.east.runs == [5, 5], "once, for plain subscriptions and the group"
    world.east.refuses = True
    assert route_run(world) == 0


@pytest.mark.parametrize(
    "interest",
    [
        [("east", b"q", 1), ("west", b"q", 1)],
        [("east", b"q", 1), ("east", b"r", 1)],
        [("east", b"q", 0)],
        [("here", b"q", 1), ("east", b"q", 1)],
    ],
    ids=["two links", "two groups", "no members", "a member here"],
)
def test_a_run_for_groups_that_share_it_out_goes_one_by_one(
    world: World, interest: list[tuple[str, bytes, int]]
) -> None:
    for place, queue, weight in interest:
        if place == "here":
            world.subscribe(b"a", queue)
        else:
            world.tell(getattr(world, place), b"a", queue, weight)
    assert route_run(world) == 0


def test_a_run_for_a_group_does_not_go_back_to_where_it_came_from(world: World) -> None:
    world.tell(world.east, b"a", b"q")
    assert route_run(world, world.east) == 0
    world.tell(world.west, b"a", b"q")
    assert route_run(world, world.east) == 5
    assert (world.east.runs, world.west.runs) == ([], [5])


def test_a_run_that_an_import_may_carry_on_goes_one_by_one(world: World) -> None:
    class Import(RoutedSubscription):
        def takes_runs(self) -> bool:
            return True

        def receive(self, publisher: Client | None, frame: Frame) -> bool:
            return True

    world.account.add(Import(b"a"))
    assert route_run(world) == 5
    world.tell(world.east, b"a", b"q")
    assert route_run(world) == 0


def whole(data: bytearray) -> Frame:
    """Return the first frame in `data` as the parser gives it."""
    from midge.protocol.handler import Handler
    from midge.protocol.parser import Parser

    frames: list[Frame] = []

    class Taking(Handler):
        def on_publish(self, frame: Frame) -> None:
            frames.append(frame)

        def on_publish_run(self, frame: Frame, count: int) -> int:
            frame.base = 0
            return count

    parser = Parser(Taking())
    parser.budget = 1 << 30
    parser.feed(data, 0, len(data))
    frames[0].base = 0
    return frames[0]
