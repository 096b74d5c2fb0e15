"""What the clients of an account subscribe to: the tree of subjects, and the queue groups.

A page is made by one walk over the subscriptions, 0.3 ms of it in a turn. It is in the order of
names, so that the pages of several workers are put together from as many entries of each.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, Any

from midge.protocol.text import decode
from midge.server.monitoring.long_lists import StepBudget, first_in_order

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.monitoring.arguments import Arguments

MEMBERS_MAX = 100
"""Members of a queue group that a page lists: those with the most messages."""

Entry = dict[str, Any]
Group = tuple[bytes, bytes]
"""Subject and name of a queue group."""

Member = tuple["Connection", Any]
"""A client and its subscription."""


async def interest(broker: Broker, arguments: Arguments) -> dict[str, Any]:
    """Return a page of the tokens that follow `prefix`, or of queue groups with `groups`.

    Raises:
        BadArgument: an argument is invalid.
    """
    offset, limit = arguments.page()
    account = arguments.text("account")
    prefix = arguments.text("prefix").encode("utf-8", "replace")
    walk, describe = (_groups, _group) if arguments.flag("groups") else (_tokens, _token)
    held: dict[Any, Any] = await walk(_subscriptions(broker, account, prefix), len(prefix))
    names = await first_in_order(list(held), lambda name: name, offset + limit)
    return {"total": len(held), "entries": [describe(one, held[one]) for one in names[offset:]]}


def merged(pages: Iterable[dict[str, Any]], offset: int, limit: int) -> dict[str, Any]:
    """Return one page for several workers, each of which gives its entries from the first on."""
    entries: dict[tuple[str, str], Entry] = {}
    total = 0
    for page in pages:
        total += page["total"]
        for entry in page["entries"]:
            known = entries.setdefault((entry["subject"], entry.get("queue", "")), entry)
            if known is not entry:
                total -= 1
                _add(known, entry)
    ordered = [entries[name] for name in sorted(entries)]
    return {"total": total, "entries": ordered[offset : offset + limit]}


def _add(known: Entry, entry: Entry) -> None:
    for field in ("subscriptions", "messages", "below"):
        known[field] += entry[field]
    if "members" in known:
        known["least"] = min(known["least"], entry["least"])
        both = (*known["members"], *entry["members"])
        known["members"] = nlargest(MEMBERS_MAX, both, lambda one: one["messages"])


async def _tokens(members: AsyncIterator[Member], start: int) -> dict[bytes, list[int]]:
    """Count by the subject up to the end of the token at `start`."""
    found: dict[bytes, list[int]] = {}
    async for _, one in members:
        subject = one.subject
        end = subject.find(b".", start)
        counts = found.setdefault(subject if end < 0 else subject[:end], [0, 0, 0])
        counts[0 if end < 0 else 1] += 1
        counts[2] += one.delivered
    return found


def _token(subject: bytes, counts: list[int]) -> Entry:
    subscriptions, below, messages = counts
    fields = {"subscriptions": subscriptions, "below": below, "messages": messages}
    return {"subject": decode(subject), **fields}


async def _groups(members: AsyncIterator[Member], _start: int) -> dict[Group, list[Member]]:
    """Return the members of each queue group."""
    found: dict[Group, list[Member]] = {}
    async for client, one in members:
        if one.queue is not None:
            found.setdefault((one.subject, one.queue), []).append((client, one))
    return found


def _group(group: Group, members: list[Member]) -> Entry:
    busiest = nlargest(MEMBERS_MAX, members, lambda member: member[1].delivered)
    return {
        "subject": decode(group[0]),
        "queue": decode(group[1]),
        "subscriptions": len(members),
        "below": 0,
        "messages": sum(one.delivered for _, one in members),
        "least": min(one.delivered for _, one in members),
        "members": [
            {"cid": client.cid, "name": client.options.name, "messages": one.delivered}
            for client, one in busiest
        ],
    }


async def _subscriptions(broker: Broker, name: str, prefix: bytes) -> AsyncIterator[Member]:
    """Yield the clients' subscriptions that begin with `prefix`, while they come and go."""
    account, steps = broker.accounts.get(name), StepBudget()
    for client in broker.clients_of(account) if account is not None else ():
        for one in list(client.subscriptions.values()):
            await steps.charge(1)
            if one.subject.startswith(prefix):
                yield client, one
