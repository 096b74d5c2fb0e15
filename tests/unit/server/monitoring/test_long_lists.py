"""Pages with very many subscriptions: they end at a page's limit, and yield to other work."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from midge.server.broker.broker import Broker
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.server.monitoring import connz, long_lists, whole
from midge.server.monitoring.arguments import Arguments
from midge.server.monitoring.console.interest import interest
from midge.server.monitoring.long_lists import SizeBudget, StepBudget
from midge.server.monitoring.state import State
from midge.sublist.subscription import Subscription
from midge.testing import ManualClock
from tests.support.transports import Transport

Page = Callable[[str], Awaitable[Any]]
Connect = Callable[..., Awaitable[Any]]


async def ignore(message: Any) -> None:
    """Take a message."""


def held(count: int, size: int) -> list[Subscription]:
    return [Subscription(b"x" * size, None, b"%d" % number) for number in range(count)]


class TestRoom:
    def test_takes_no_more_than_the_limit(self) -> None:
        room = SizeBudget(detail=False)
        assert len(room.take(held(10, 10), 4)) == 4
        assert room.left_out == 0

    @pytest.mark.parametrize("detail", [False, True])
    def test_takes_no_more_bytes_than_a_page_may_have(self, detail: bool) -> None:
        room = SizeBudget(detail=detail)
        taken = room.take(held(10_000, 4096), 10_000)
        assert len(taken) * 4096 + 160 * len(taken) > long_lists.MAX_LISTED_BYTES - 5000
        assert len(taken) * 4096 <= long_lists.MAX_LISTED_BYTES
        assert room.left_out == 10_000 - len(taken)

    def test_is_full_from_then_on(self) -> None:
        room = SizeBudget(detail=False)
        room.take(held(10_000, 4096), 10_000)
        before = room.left_out
        assert room.take(held(3, 1), 2) == []
        assert room.left_out == before + 2


async def test_long_work_lets_others_in_between() -> None:
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    steps = StepBudget()
    for _ in range(100_000):
        await steps.charge(1)
    assert others >= 190
    counting.cancel()


async def test_the_fields_of_a_few_connections_are_listed_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a message waits for that comes while a page of 200 is made."""
    broker = Broker(Options(), ManualClock(), Random(1))
    for cid in range(200):
        connection = Connection(broker, cid, ("127.0.0.1", 1), "STANDARD")
        connection.channel.connection_made(Transport())
        connection.channel.feed(b"CONNECT {}\r\n")
    turn = 0
    listed: Counter[int] = Counter()
    entry = connz._entry

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def note(*arguments: Any) -> Any:
        listed[turn] += 1
        return entry(*arguments)

    monkeypatch.setattr(connz, "_entry", note)
    counting = asyncio.ensure_future(count())
    page = await connz.connz(State(broker), connz.ConnzOptions())
    counting.cancel()
    assert page["num_connections"] == listed.total() == 200
    assert max(listed.values()) <= 32


async def test_the_first_in_order_are_those_of_a_sort() -> None:
    items = [Random(1).randrange(1000) for _ in range(3000)]
    wanted = sorted(items, key=lambda number: -number)
    for most in (0, 1, 700, 3000, 5000):
        found = await long_lists.first_in_order(items, lambda number: -number, most)
        assert found == wanted[:most]


MANY = 3000
PAGES_OF_MANY: dict[str, Callable[[State], Awaitable[Any]]] = {
    "varz": whole.whole_varz,
    "totals": whole.whole_totals,
    "accstatz": lambda state: whole.whole_accstatz(state, Arguments({"unused": "1"})),
    "sorted": lambda state: connz.connz(state, connz.ConnzOptions(sort="pending", limit=50)),
    "deep": lambda state: connz.connz(state, connz.ConnzOptions(offset=MANY - 50, limit=50)),
    "searched": lambda state: connz.connz(state, connz.ConnzOptions(search="client-7", limit=50)),
    "now": whole.whole_clients_now,
    "tree": lambda state: interest(state.broker, Arguments({"account": "$G", "limit": "50"})),
    "groups": lambda state: interest(state.broker, Arguments({"account": "$G", "groups": "1"})),
}


@pytest.mark.parametrize("name", PAGES_OF_MANY)
async def test_a_page_about_many_clients_takes_many_turns(many: State, name: str) -> None:
    """A turn looks at no more than about a thousand of them, 0.5 ms."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await PAGES_OF_MANY[name](many)
    counting.cancel()
    assert turns >= MANY // 1024


@pytest.fixture(scope="module")
def many() -> State:
    """A server with many clients."""
    clock = ManualClock()
    broker = Broker(Options(), clock, Random(1))
    for cid in range(1, MANY + 1):
        clock.advance(0.001)  # each comes in a turn of its own, with that turn's budget
        connection = Connection(broker, cid, ("127.0.0.1", 1), "STANDARD")
        connection.channel.connection_made(Transport())
        subscriptions = f"SUB a.{cid} 1\r\nSUB b q{cid} 2\r\n"
        connection.channel.feed(f'CONNECT {{"name":"client-{cid}"}}\r\n{subscriptions}'.encode())
    assert sum(len(one.subscriptions) for one in broker.clients.values()) == 2 * MANY
    return State(broker)


async def test_connz_is_searched(page: Page, connect: Connect) -> None:
    for name in ("Tug", "tugboat", "ferry"):
        await connect(name=name)
    shown = await page("/connz?search=TUG&limit=1&sort=cid")
    assert (shown["total"], [one["name"] for one in shown["connections"]]) == (2, ["Tug"])
    assert (await page("/connz?search=127.0.0.1"))["total"] == 3
    assert (await page("/connz?search=nobody"))["connections"] == []


async def test_subsz_lists_one_client_in_pages(page: Page, subjects: list[str]) -> None:
    cid = (await page("/connz?search=1&sort=cid"))["connections"][-1]["cid"]
    shown = await page(f"/subsz?subs=1&cid={cid}&offset=8&limit=5")
    assert shown["total"] == 10
    assert [one["subject"] for one in shown["subscriptions_list"]] == subjects[28:]
    assert (await page("/subsz?subs=1&cid=999"))["total"] == 0


@pytest.fixture
async def subjects(connect: Connect) -> list[str]:
    """Three clients with ten subscriptions each."""
    names = []
    for number in range(3):
        client = await connect(name=f"{number}")
        for each in range(10):
            names.append(f"client.{number}.subject.{each}")
            await client.subscribe(names[-1], cb=ignore)
        await client.flush()
    return names


async def test_connz_tells_what_it_left_out(
    page: Page, subjects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "subscriptions_left_out" not in await page("/connz?subs=1")
    monkeypatch.setattr(long_lists, "MAX_LISTED_BYTES", 15 * (len(subjects[0]) + 32))
    shown = await page("/connz?subs=1")
    lists = [entry.get("subscriptions_list") for entry in shown["connections"]]
    assert lists == [subjects[:10], subjects[10:15], None]
    assert shown["subscriptions_left_out"] == 15
    assert [entry["subscriptions"] for entry in shown["connections"]] == [10, 10, 10]
    second = await page("/connz?subs=1&offset=1")
    assert second["connections"][0]["subscriptions_list"] == subjects[10:20]


async def test_subsz_goes_on_where_it_had_no_more_room(
    page: Page, subjects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_lists, "MAX_LISTED_BYTES", 7 * (len(subjects[0]) + 161))
    seen: list[str] = []
    while True:
        subsz = await page(f"/subsz?subs=1&acc=$G&offset={len(seen)}")
        if "subscriptions_list" not in subsz:
            break
        assert len(subsz["subscriptions_list"]) <= 7
        seen += [one["subject"] for one in subsz["subscriptions_list"]]
    own = [one for one in seen if one.startswith("client.")]
    assert own == subjects


@pytest.mark.parametrize(("offset", "limit"), [(0, 5), (3, 4), (8, 100), (40, 5)])
async def test_subsz_counts_all_who_match_and_lists_some(
    page: Page, connect: Connect, offset: int, limit: int
) -> None:
    for queue in ("", "", "a", "b", "a"):
        client = await connect()
        for _ in range(4):
            await client.subscribe("here", queue, cb=ignore)
        await client.flush()
    every = (await page("/subsz?subs=1&test=here"))["subscriptions_list"]
    assert len(every) == 20
    some = await page(f"/subsz?subs=1&test=here&offset={offset}&limit={limit}")
    assert some["total"] == 20
    assert some.get("subscriptions_list", []) == every[offset : offset + limit]
