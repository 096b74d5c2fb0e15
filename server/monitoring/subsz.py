"""`/subsz`: the subscriptions, and statistics of the SubLists."""

from collections.abc import AsyncIterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from midge.server.monitoring import go_format
from midge.server.monitoring.arguments import Arguments, BadArgument
from midge.server.monitoring.long_lists import (
    DETAIL_STEPS,
    SizeBudget,
    StepBudget,
    subscription_detail,
)
from midge.server.routing.account import Account
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist import subjects
from midge.sublist.sublist import SubListStats

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.monitoring.state import State

Found = tuple[Account, Any, int]
"""A subscription with its account and the id of its connection."""


async def subsz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Return the page.

    Raises:
        BadArgument: an argument is invalid.
    """
    wanted = arguments.flag("subs")
    offset, limit = arguments.page()
    test = arguments.text("test").encode("utf-8", "replace")
    if test and not (subjects.is_valid_subject(test) and subjects.is_literal(test)):
        text = "invalid test subject, must be valid publish subject: "
        raise BadArgument(text + go_format.text(test[:64]))
    accounts = _accounts(state, arguments.text("acc"))
    statistics = combined_statistics(accounts)
    page: dict[str, Any] = {
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
        **statistics,
        "total": statistics["num_subscriptions"] if wanted else 0,
        "offset": offset,
        "limit": limit,
    }
    if not wanted:
        return page
    if test:
        page["total"], found = _matching(accounts, test, offset, limit)
    elif cid := arguments.cid():  # an argument of midge's own
        client = state.broker.clients.get(cid)
        held: Any = client.subscriptions if client is not None else {}
        page["total"] = len(held)
        chosen = islice(held.values(), offset, offset + limit)
        found = [(client.account, one, cid) for one in chosen] if client is not None else []
    else:
        found = await _held(state.broker, accounts, offset, limit)
    listed = await _listed(found)
    return {**page, "subscriptions_list": listed} if listed else page


def combined_statistics(accounts: list[Account]) -> dict[str, Any]:
    """Add up the statistics of the SubLists of `accounts`."""
    every = [account.sublist.stats() for account in accounts]
    matches = sum(one.matches for one in every)
    hits = sum(one.cache_hits for one in every)
    return {
        "num_subscriptions": sum(one.subscriptions for one in every),
        "num_cache": sum(one.cache_size for one in every),
        "num_inserts": sum(one.inserts for one in every),
        "num_removes": sum(one.removes for one in every),
        "num_matches": matches,
        "cache_hit_rate": hits / matches if matches else 0,
        "max_fanout": max((one.max_fan_out for one in every), default=0),
        "avg_fanout": _average_fan_out(every),
    }


def _average_fan_out(every: list[SubListStats]) -> float:
    used = [one.average_fan_out for one in every if one.max_fan_out]
    return sum(used) / len(used) if used else 0


def _accounts(state: "State", name: str) -> list[Account]:
    accounts = state.broker.accounts
    if not name:
        return list(accounts.values())
    return [accounts[name]] if name in accounts else []


def _matching(
    accounts: list[Account], subject: bytes, offset: int, limit: int
) -> tuple[int, list[Found]]:
    """Return the number of subscriptions that match `subject`, and a page of them."""
    total = 0
    found: list[Found] = []
    for account in accounts:
        result = account.sublist.match(subject)
        for matching in (result.plain, *(group.members for group in result.queues)):
            start = max(offset - total, 0)
            total += len(matching)
            for one in islice(matching, start, start + limit - len(found)):
                client = one.client if isinstance(one, RoutedSubscription) else None
                found.append((account, one, client.cid if client else 0))
    return total, found


async def _held(broker: "Broker", accounts: list[Account], offset: int, limit: int) -> list[Found]:
    """Return a page of the clients' subscriptions, by account and connection."""
    found: list[Found] = []
    async for account, client in _clients(broker, accounts):
        count = len(client.subscriptions)
        if count <= offset:
            offset -= count
            continue
        held = islice(client.subscriptions.values(), offset, offset + limit - len(found))
        found += [(account, one, client.cid) for one in held]
        offset = 0
        if len(found) >= limit:
            break
    return found


async def _clients(
    broker: "Broker", accounts: list[Account]
) -> AsyncIterator[tuple[Account, "Connection"]]:
    steps = StepBudget()
    for account in accounts:
        for client in broker.clients_of(account):
            await steps.charge(1)
            yield account, client


async def _listed(found: list[Found]) -> list[dict[str, Any]]:
    """Return the fields of the found subscriptions, as many as a page has room for."""
    listed, steps, room = [], StepBudget(), SizeBudget(detail=True)
    for account, one, cid in found:
        if not room.take([one], 1):
            break  # the next page starts here
        listed.append(_detail(account, one, cid))
        await steps.charge(DETAIL_STEPS)
    return listed


def _detail(account: Account, subscription: Any, cid: int) -> dict[str, Any]:
    detail = subscription_detail(subscription, cid)
    return {"account": account.name, "account_tag": account.name, **detail}
