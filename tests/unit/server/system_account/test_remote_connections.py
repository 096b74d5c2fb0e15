"""Other servers' announcements of an account's connections, with a peer in memory."""

from __future__ import annotations

import json

import pytest

from midge.protocol.frame import compose
from midge.server.channels.closed_reason import ClosedReason
from midge.server.routing.account import Account
from midge.server.routing.subscription import RoutedSubscription
from midge.server.system_account.remote_connections import RemoteConnections
from tests.support.routes import Route, World

SUBJECT = "$SYS.SERVER.ACCOUNT.A.CONNS"


class Events:
    """Notes of which accounts the server would report."""

    def __init__(self, world: World) -> None:
        self._system = world.broker.system_account
        self.told: list[str] = []

    def listen(self, subscription: RoutedSubscription) -> None:
        self._system.add(subscription)

    def report_connections(self, account: Account) -> None:
        self.told.append(account.name)


class Counting:
    """A server with one route, whose account A has a client."""

    def __init__(self) -> None:
        self.world = World()
        self.events = Events(self.world)
        self.elsewhere = RemoteConnections(self.world.broker, self.world.cluster, self.events)
        self.world.account.clients.add(99)
        self.elsewhere.start()
        self.route = self.world.joined()
        self.world.clock.advance(0)
        self.events.told.clear()

    def hear(self, document: object, route: Route | None = None) -> tuple[int, int]:
        body = document if isinstance(document, str) else json.dumps(document)
        (route or self.route).say(f"RMSG $SYS {SUBJECT} {len(body.encode())}", body)
        return self.world.broker.count_elsewhere("A")


@pytest.fixture
def counting() -> Counting:
    return Counting()


def test_the_counts_of_all_routes_are_added_up_until_they_end(counting: Counting) -> None:
    assert counting.hear({"acc": "A", "conns": 2, "leafnodes": 1, "other": []}) == (2, 1)
    other = counting.world.joined("OTHER")
    assert counting.hear({"acc": "A", "conns": 3}, other) == (5, 1)
    assert counting.hear({"acc": "A", "conns": 1}) == (4, 0)
    counting.route.link.close(ClosedReason.CLIENT_CLOSED)
    assert counting.world.broker.count_elsewhere("A") == (3, 0)
    counting.elsewhere.stop()
    assert counting.world.broker.count_elsewhere("A") == (0, 0)


@pytest.mark.parametrize(
    "document",
    [
        *("", "no JSON", "[]", '{"acc":"A","conns":"2"}', '{"acc":"\xff"}', "x" * 70_000),
        *({"acc": "A", "conns": -1}, {"acc": "NONE", "conns": 1}, {"conns": 1}),
    ],
)
def test_what_is_no_announcement_is_ignored(counting: Counting, document: object) -> None:
    assert counting.hear(document) == (0, 0)


def test_clients_are_not_believed(counting: Counting) -> None:
    system = counting.world.broker.system_account
    frame = compose(SUBJECT.encode(), b'{"acc":"A","conns":7}')
    result = system.sublist.match(SUBJECT.encode())
    assert counting.world.broker.router.route(system, result, None, frame) == 0
    assert counting.world.broker.count_elsewhere("A") == (0, 0)


def test_a_server_that_comes_is_told_and_asked_and_so_are_all_every_half_minute(
    counting: Counting,
) -> None:
    counting.route.say("RS+ $SYS $SYS.REQ.ACCOUNT.*.CONNS", "RS+ $SYS $SYS.SERVER.ACCOUNT.*.CONNS")
    counting.world.clock.advance(0)
    assert counting.events.told == ["A"]
    counting.world.clock.advance(30)
    counting.world.clock.advance(0)
    assert counting.events.told == ["A", "A"]
    counting.elsewhere.stop()
    counting.world.clock.advance(60)
    assert counting.events.told == ["A", "A"]
