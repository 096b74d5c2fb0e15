"""`/subsz`: the subscriptions, and how the SubLists do."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from midge.server.account import Account
from midge.server.connection import Connection
from midge.server.monitoring import forms
from midge.server.monitoring.arguments import Arguments, BadArgument
from midge.server.monitoring.connz import subscription_detail
from midge.server.subscription import RoutedSubscription
from midge.sublist import subjects
from midge.sublist.sublist import SubListStats

if TYPE_CHECKING:
    from midge.server.monitoring.state import State

_SLICE = 256
"""Connections looked through before others have their turn."""


async def subsz(state: "State", arguments: Arguments) -> dict[str, Any]:
    """Make the page.

    Raises:
        BadArgument: an argument cannot be.
    """
    wanted = arguments.flag("subs")
    offset, limit = arguments.page()
    test = arguments.text("test").encode("utf-8", "replace")
    if test and not (subjects.is_valid_subject(test) and subjects.is_literal(test)):
        text = "invalid test subject, must be valid publish subject: "
        raise BadArgument(text + forms.text(test[:64]))
    accounts = _accounts(state, arguments.text("acc"))
    statistics = combined_statistics(accounts)
    page: dict[str, Any] = {
        "server_id": state.hub.keys.server_id,
        "now": forms.timestamp(state.hub.clock.wall()),
        **statistics,
        "total": statistics["num_subscriptions"] if wanted else 0,
        "offset": offset,
        "limit": limit,
    }
    if test:
        found = _matching(accounts, test)
        page["total"] = len(found) if wanted else 0
        listed = found[offset : offset + limit]
    else:
        listed = await _listed(accounts, offset, limit) if wanted else []
    return {**page, "subscriptions_list": listed} if wanted and listed else page


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
    accounts = state.hub.accounts
    if not name:
        return list(accounts.values())
    return [accounts[name]] if name in accounts else []


def _matching(accounts: list[Account], subject: bytes) -> list[dict[str, Any]]:
    """List those who would get a message on `subject`."""
    found = []
    for account in accounts:
        result = account.sublist.match(subject)
        members = [member for group in result.queues for member in group.members]
        for one in (*result.plain, *members):
            client = one.client if isinstance(one, RoutedSubscription) else None
            found.append(_detail(account, one, client.cid if client else 0))
    return found


async def _listed(accounts: list[Account], offset: int, limit: int) -> list[dict[str, Any]]:
    """List a page of the clients' subscriptions, by account and connection."""
    page: list[dict[str, Any]] = []
    async for account, client in _clients(accounts):
        count = len(client.subscriptions)
        if count <= offset:
            offset -= count
            continue
        held = list(client.subscriptions.values())[offset : offset + limit - len(page)]
        page += [_detail(account, one, client.cid) for one in held]
        offset = 0
        if len(page) >= limit:
            break
    return page


async def _clients(accounts: list[Account]) -> AsyncIterator[tuple[Account, Connection]]:
    position = 0
    for account in accounts:
        for client in list(account.clients.values()):
            position += 1
            if position % _SLICE == 0:
                await asyncio.sleep(0)
            if isinstance(client, Connection):
                yield account, client


def _detail(account: Account, subscription: Any, cid: int) -> dict[str, Any]:
    detail = subscription_detail(subscription, cid)
    return {"account": account.name, "account_tag": account.name, **detail}
