"""Receivers are chosen once for each message: over links of every kind, and across imports."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from midge.protocol.frame import Frame, compose
from midge.server.accounts.links import AccountLinks
from midge.server.accounts.plan import plan_accounts
from midge.server.config.options import Account as Table
from midge.server.config.options import Export, Import, ImportSource
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.jetstream.delivery import Producer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.passage import BOTH, passes
from midge.server.routing.role import Role
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.subscription import RemoteSubscription
from tests.support.each import each

ORIGINS = (Role.CLIENT, Role.LEAF, Role.HUB, Role.ROUTE, Role.WORKER)
LINKS = (Role.LEAF, Role.HUB, Role.ROUTE, Role.WORKER)
GROUPS = (b"g", b"h", b"i")
EXPORTER = Table(name="A", exports=(Export(stream="s"),))
IMPORTER = Table(name="B", imports=(Import(stream=ImportSource(account="A", subject="s")),))


class Link(Producer):
    """A link of a role that notes the queue groups of each message over it."""

    def __init__(self, account: Account, role: Role, got: Counter[bytes | None]) -> None:
        Producer.__init__(self, account, role)
        self.cluster = ""
        self._got = got

    def reaches(self, link: Any, origin: str) -> bool:
        return link is not self and passes(self.role, link.role) == BOTH

    def carried(self) -> Link:
        return self

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        self._got.update(queues or [])
        return True


class World:
    """Two accounts, of which one imports a stream of the other, with random receivers of "s"."""

    def __init__(self, random: Random, *, has_import: bool) -> None:
        self.accounts: dict[str, Account] = {}
        self.got: Counter[bytes | None] = Counter()
        self.groups: set[bytes] = set()
        self.clients: list[tuple[bytes, Client]] = []
        self.router = Router(random if random.random() < 0.5 else None)
        links = AccountLinks(
            InternalPublisher(self.router).route_frame,
            None,  # type: ignore[arg-type] # streams need no clock
            random,
            self.account,
            lambda client: {},
            self.router.carried.append,
        )
        links.apply(plan_accounts((EXPORTER, IMPORTER) if has_import else (EXPORTER,)))
        for name in ("A", "B") if has_import else ("A",):
            self._populate(self.account(name), random)

    def account(self, name: str) -> Account:
        return self.accounts.setdefault(name, Account(name))

    def _populate(self, account: Account, random: Random) -> None:
        far = [Link(account, role, self.got) for role in LINKS for _ in range(random.randrange(3))]
        for group in GROUPS:
            for _ in range(random.choice((0, 1, 3))):
                client = Client(1, account, ChunkPool())
                client.deliver_checks = random.random() < 0.2  # closed, so that it takes nothing
                account.add(RoutedSubscription(b"s", group, b"1", client))
                self.clients.append((group, client))
            for link in random.sample(far, min(len(far), random.randrange(4))):
                is_last = link.role in {Role.LEAF, Role.HUB}
                told = RemoteSubscription(b"s", group, link, random.randint(1, 3), "", is_last)
                account.sublist.insert_remote(told)
        for link in far:
            if random.random() < 0.3:
                account.sublist.insert_remote(RemoteSubscription(b"s", None, link))

    def publish(self, publisher: Client) -> None:
        account = self.account("A")
        result = account.sublist.match(b"s")
        self.router.route(account, result, publisher, compose(b"s", b"x"))


@pytest.mark.parametrize("has_import", [False, True], ids=["one account", "an import"])
@each("origin", ORIGINS)
@each("seed", range(40))
def test_each_group_of_a_message_has_one_choice_and_one_receiver(
    seed: int, origin: Role, has_import: bool
) -> None:
    world = World(Random(seed), has_import=has_import)
    publisher = Link(world.account("A"), origin, Counter())
    for _ in range(10):
        world.got.clear()
        before = world.router.choices
        delivered = Counter({client: client.out_messages for _, client in world.clients})
        world.publish(publisher)
        for group, client in world.clients:
            world.got[group] += client.out_messages - delivered[client]
        assert all(world.got[group] <= 1 for group in GROUPS), world.got
        assert world.router.choices - before == sum(world.got[group] for group in GROUPS)


def test_a_refusal_leads_to_one_more_choice_and_still_one_receiver() -> None:
    world = World(Random(0), has_import=False)
    account = Account("C")
    closed = Client(1, account, ChunkPool())
    closed.deliver_checks = 1
    account.add(RoutedSubscription(b"s", b"g", b"1", closed))
    link = Link(account, Role.LEAF, world.got)
    account.sublist.insert_remote(RemoteSubscription(b"s", b"g", link, 1, "", True))
    assert world.router.route(account, account.sublist.match(b"s"), None, compose(b"s", b"x")) == 1
    assert (world.got, world.router.choices) == (Counter({b"g": 1}), 1)
