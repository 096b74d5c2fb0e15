"""What routes announce and carry of the streams that an account exports, with a peer in memory."""

from __future__ import annotations

from collections import Counter

import pytest

from midge.protocol.frame import Frame
from midge.server.accounts.plan import plan_accounts
from midge.server.config.options import Account as Table
from midge.server.config.options import Export, Import, ImportSource
from midge.server.routing.client import Client
from midge.server.routing.subscription import RoutedSubscription
from tests.support.routes import Route, World


class Kept(RoutedSubscription):
    """Keeps the payloads that come."""

    def __init__(self, subject: str, queue: str = "") -> None:
        RoutedSubscription.__init__(self, subject.encode(), queue.encode() or None)
        self.got: list[bytes] = []

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        self.got.append(frame.payload_bytes())
        return True


class Accounts:
    """A server in a cluster whose account A exports `ex.>` to B, which calls it `imp.>`, and C."""

    def __init__(self) -> None:
        self.world = World()
        self.plan(Import(stream=_OF_A, to="imp.>"))

    def plan(self, *imports: Import) -> None:
        a = Table(name="A", exports=(Export(stream="ex.>"),))
        c = Table(name="C", imports=(Import(stream=_OF_A, prefix="pre"),))
        plans = plan_accounts([a, Table(name="B", imports=imports), c])
        self.world.broker.admission.links.apply(plans)

    def add(self, account: str, subject: str, queue: str = "") -> Kept:
        kept = Kept(subject, queue)
        assert self.world.broker.account(account).add(kept) is None
        return kept

    def remove(self, account: str, kept: Kept) -> None:
        assert self.world.broker.account(account).remove(kept) is None


_OF_A = ImportSource(account="A", subject="ex.>")


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


def told(route: Route) -> list[str]:
    """Return the interest of A announced since the last call."""
    return [line for line in route.take() if line[3:6] == " A "]


@pytest.mark.parametrize(
    ("account", "subject", "queue", "meant"),
    [
        ("B", "imp.x", "", "ex.x"),
        ("B", "imp.*.y", "", "ex.*.y"),
        ("B", "imp.>", "q", "ex.> q 1"),
        ("B", ">", "", "ex.>"),
        ("B", "*.x", "", "ex.x"),
        ("B", "*.x.>", "q", "ex.x.> q 1"),
        ("B", "ex.x", "", None),
        ("B", "imp", "", None),
        ("C", "pre.ex.x", "", "ex.x"),
        ("C", "*.*.x", "", "ex.x"),
        ("C", "ex.x", "", None),
    ],
)
def test_importers_subscriptions_are_told_as_the_exporters(
    accounts: Accounts, account: str, subject: str, queue: str, meant: str | None
) -> None:
    before = accounts.world.joined("BEFORE")
    kept = accounts.add(account, subject, queue)
    expected = [] if meant is None else [f"RS+ A {meant}"]
    assert told(before) == expected
    after = (
        accounts.world.accept()
        .connect(name="NAFTER")
        .introduce(server_id="NAFTER", server_name="AFTER")
    )
    assert told(after) == expected
    before.take()
    accounts.remove(account, kept)
    ended = [line.replace("+", "-").removesuffix(" 1") for line in expected]
    assert told(before) == told(after) == ended


def test_interest_of_several_accounts_is_told_as_one(accounts: Accounts) -> None:
    route = accounts.world.joined()
    own = accounts.add("A", "ex.x", "q")
    narrow, wide = accounts.add("B", "imp.x", "q"), accounts.add("C", "pre.*.x", "q")
    assert told(route) == [f"RS+ A ex.x q {weight}" for weight in (1, 2, 3)]
    for account, kept in (("B", narrow), ("A", own), ("C", wide)):
        accounts.remove(account, kept)
    assert told(route) == ["RS+ A ex.x q 2", "RS+ A ex.x q 1", "RS- A ex.x q"]


def test_plain_interest_ends_with_the_last_of_all_accounts(accounts: Accounts) -> None:
    route = accounts.world.joined()
    kept = [("A", accounts.add("A", "ex.>")), ("B", accounts.add("B", ">"))]
    kept += [("B", accounts.add("B", "imp.>")), ("C", accounts.add("C", "pre.>"))]
    assert told(route) == ["RS+ A ex.>"]
    for account, one in kept[:-1]:
        accounts.remove(account, one)
    assert told(route) == []
    accounts.remove(*kept[-1])
    assert told(route) == ["RS- A ex.>"]


def test_an_import_by_itself_is_no_interest_but_a_subscription_beside_it_is(
    accounts: Accounts,
) -> None:
    route = accounts.world.joined()
    for _ in range(2):
        own = accounts.add("A", "ex.>")
        assert told(route) == ["RS+ A ex.>"]
        accounts.remove("A", own)
        assert told(route) == ["RS- A ex.>"]


def test_other_imports_are_told_at_once(accounts: Accounts) -> None:
    accounts.add("B", "imp.x")
    accounts.add("B", "new.y")
    accounts.add("B", ">", "q")
    route = accounts.world.joined()
    known = {"ex.x", "ex.> q 1"}
    accounts.plan(Import(stream=_OF_A, to="new.>"))
    assert renewed(known, told(route)) == {"ex.y", "ex.> q 1"}
    accounts.plan()
    assert renewed(known, told(route)) == set()
    accounts.add("B", "imp.z")
    assert told(route) == []


def test_a_first_import_of_a_service_is_not_told_and_a_subscription_to_it_is(
    accounts: Accounts,
) -> None:
    route = accounts.world.joined()
    links = accounts.world.broker.admission.links
    a = Table(name="A", exports=(Export(service="ask"),))
    b = Table(name="B", imports=(Import(service=ImportSource(account="A", subject="ask")),))
    links.apply({})
    route.take()
    links.apply(plan_accounts([a, b]))
    assert route.take() == []
    kept = accounts.add("B", "ask")
    assert route.take() == ["RS+ B ask"]
    links.apply({})
    assert route.take() == []
    accounts.remove("B", kept)
    assert route.take() == ["RS- B ask"]


def renewed(known: set[str], lines: list[str]) -> set[str]:
    """Return the interest announced after `lines`, if `known` was announced before them."""
    for line in lines:
        sign, interest = line[2], line.removeprefix("RS+ A ").removeprefix("RS- A ")
        known -= {one for one in known if one.split()[:2] == interest.split()[:2]}
        if sign == "+":
            known.add(interest)
    return known


def test_a_message_from_a_route_reaches_the_importers_and_no_route(accounts: Accounts) -> None:
    route = accounts.world.joined()
    plain, member = accounts.add("B", "imp.x"), accounts.add("B", "imp.x", "q")
    route.say("RS+ B imp.x", "RS+ B imp.x q 2", "RS+ A ex.x q 2").take()
    route.say("RMSG A ex.x 1", "1", "RMSG A ex.x | p q 1", "2", "HMSG A ex.x | q 12 13")
    route.say("NATS/1.0", "", "3", "RMSG A ex.x + r q 1", "4")
    assert (plain.got, member.got) == ([b"1", b"2", b"3", b"4"], [b"2", b"3", b"4"])
    assert route.take() == []


def test_a_message_goes_over_a_route_once_and_to_one_member_of_all(accounts: Accounts) -> None:
    world = accounts.world
    route = world.joined()
    plain = accounts.add("B", "imp.x")
    members = [accounts.add("A", "ex.x", "q"), accounts.add("B", "imp.*", "q")]
    members.append(accounts.add("C", "pre.ex.x", "q"))
    route.say("RS+ A ex.x", "RS+ A ex.x q 3", "RS+ B imp.x", "RS+ B imp.x q 3").take()
    world.account = world.broker.account("A")
    taken = Counter(world.publish(b"ex.x") for _ in range(12))
    assert taken == {2: 6, 3: 6}, "who takes it behind the route is not counted here"
    lines = Counter(line for line in route.take() if "MSG" in line)
    assert lines == {"RMSG A ex.x | q 1": 6, "RMSG A ex.x 1": 6}
    assert [len(one.got) for one in (plain, *members)] == [12, 2, 2, 2]


def test_leaf_members_of_an_importer_count_only_where_there_is_no_other(accounts: Accounts) -> None:
    world = accounts.world
    world.account = world.broker.account("A")
    route = world.joined()
    route.say("LS+ EDGE B imp.x q 4", "RS+ A ex.x q 1").take()
    assert world.publish(b"ex.x") == 1
    assert [line for line in route.take() if "MSG" in line] == ["RMSG A ex.x | q 1"]
    route.say("RS- A ex.x q")
    assert world.publish(b"ex.x") == 0, "the other server carries to its own leaf nodes"
