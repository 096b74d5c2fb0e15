"""Pages of a server with several workers: what each says of itself, put together.

With one process a page is its own, and nothing is asked.
"""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import structs

from midge.server.channels.closed_reason import ClosedReason
from midge.server.monitoring import accounts, subsz, varz
from midge.server.monitoring.arguments import Arguments
from midge.server.monitoring.long_lists import StepBudget
from midge.server.monitoring.state import limits_met, server_totals, server_totals_in_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from midge.server.broker.broker import Broker
    from midge.server.broker.totals import Totals
    from midge.server.monitoring.connz import ConnzOptions
    from midge.server.monitoring.state import State

Page = dict[str, Any]

_VARZ_SUMMED = (
    *("mem", "cpu", "connections", "total_connections", "in_msgs", "in_bytes", "in_client_msgs"),
    *("in_client_bytes", "out_msgs", "out_bytes", "out_client_msgs", "out_client_bytes"),
    *("slow_consumers", "stale_connections", "stalled_clients", "subscriptions"),
)
_ACCOUNT_SUMMED = ("conns", "total_conns", "num_subscriptions", "slow_consumers")
_TRAFFIC = ("msgs", "bytes")
_SUBLIST_SUMMED = ("num_subscriptions", "num_cache", "num_inserts", "num_removes", "num_matches")
_DETAIL_SUMMED = ("client_connections", "subscriptions")
_SLOW_MAX = 5
_SLOW_MIN_BYTES = 64 * 1024  # output that only waits for the end of a turn is less than a chunk


async def whole_varz(state: State) -> Page:
    """Return `/varz`: counts are sums over the workers, settings are the server's."""
    page = await varz.varz(state)
    worker = state.worker
    if worker is None:
        return page
    others = await worker.ask_others("page", {"name": "varz", "arguments": {}})
    _add(page, others, _VARZ_SUMMED)
    for name in ("slow_consumer_stats", "stale_connection_stats"):
        _add(page[name], [other[name] for other in others], ("clients", "routes", "leafs"))
    page["workers"] = worker.states
    return page


async def whole_connz(state: State, options: ConnzOptions) -> Page:
    """Return `/connz`: sorted, counted and cut into pages over all workers."""
    from midge.server.monitoring import connz  # noqa: PLC0415 - large, and seldom asked for

    if state.worker is None:
        return await connz.connz(state, options)
    most = options.offset + options.limit
    first = structs.replace(options, offset=0, limit=most)
    asked = {"name": "connz", "arguments": structs.asdict(first)}
    others = await state.worker.ask_others("page", asked)
    page, order = await connz.ordered_connz(state, first)
    entries = list(zip(order, page["connections"], strict=True))
    for other, keys in others:
        entries += zip(keys, other["connections"], strict=True)
        page["total"] += other["total"]
    entries.sort(key=lambda entry: cast("Any", entry[0]))
    chosen = [entry for _, entry in entries[options.offset : most]]
    offset, limit = (0, 1) if options.cid else (options.offset, options.limit)
    shown = {"num_connections": len(chosen), "offset": offset, "limit": limit}
    return {**page, **shown, "connections": chosen}


async def whole_subsz(state: State, arguments: Arguments) -> Page:
    """Return `/subsz`: statistics added up, and the list one worker after the other."""
    if state.worker is None:
        return await subsz.subsz(state, arguments)
    offset, limit = arguments.page()
    query = {**arguments.as_dict(), "offset": "0", "limit": str(offset + limit)}
    own = await subsz.subsz(state, Arguments(query))
    others = await state.worker.ask_others("page", {"name": "subsz", "arguments": query})
    return {
        **_with_statistics(own, others),
        "total": sum(one["total"] for one in (own, *others)),
        "offset": offset,
        "limit": limit,
        **_listed((own, *others), offset, limit),
    }


def _listed(pages: Iterable[Page], offset: int, limit: int) -> Page:
    listed = [one for page in pages for one in page.get("subscriptions_list", ())]
    chosen = listed[offset : offset + limit]
    return {"subscriptions_list": chosen} if chosen else {}


def _with_statistics(own: Page, others: list[Page]) -> Page:
    """Return `own` with the statistics of the SubLists of all."""
    every = [own, *others]
    hits = sum(one["cache_hit_rate"] * one["num_matches"] for one in every)
    page = {name: value for name, value in own.items() if name != "subscriptions_list"}
    _add(page, others, _SUBLIST_SUMMED)
    used = [one["avg_fanout"] for one in every if one["max_fanout"]]
    page["cache_hit_rate"] = hits / page["num_matches"] if page["num_matches"] else 0
    page["max_fanout"] = max(one["max_fanout"] for one in every)
    page["avg_fanout"] = sum(used) / len(used) if used else 0
    return page


async def whole_accountz(state: State, arguments: Arguments) -> Page:
    """Return `/accountz`."""
    page = accounts.accountz(state, arguments)
    detail = page.get("account_detail")
    if state.worker is None or detail is None:
        return page
    asked = {"name": "accountz", "arguments": arguments.as_dict()}
    others = [one["account_detail"] for one in await state.worker.ask_others("page", asked)]
    _add(detail, others, _DETAIL_SUMMED)
    statistics = [one["sublist_stats"] for one in others]
    detail["sublist_stats"] = _with_statistics(detail["sublist_stats"], statistics)
    return page


async def whole_accstatz(state: State, arguments: Arguments) -> Page:
    """Return `/accstatz`."""
    page = await accounts.accstatz(state, arguments)
    if state.worker is None:
        return page
    unused = await accounts.accstatz(state, Arguments({"unused": "1"}))
    names = [one["acc"] for one in unused["account_statz"]]
    found = await whole_account_statistics(state, names)
    shown = arguments.flag("unused")
    page["account_statz"] = [one for one in found if shown or one["conns"]]
    return page


async def whole_account_statistics(state: State, names: list[str]) -> list[Page]:
    """Return the traffic of each of the accounts `names` that there are."""
    found = await _account_statistics(state, names)
    if state.worker is not None:
        asked = {"name": "accounts", "arguments": {"names": names}}
        for other in await state.worker.ask_others("page", asked):
            for one, more in zip(found, other, strict=True):
                _add(one, [more], _ACCOUNT_SUMMED)
                for way in ("sent", "received"):
                    _add(one[way], [more[way]], _TRAFFIC)
    return found


async def _account_statistics(state: State, names: list[str]) -> list[Page]:
    known = state.broker.accounts
    there = [known[name] for name in names if name in known]
    return await accounts.statistics_in_turns(state, there)


async def whole_totals(state: State) -> Page:
    """Return the counts of `STATSZ` that are sums."""
    totals = own_totals(state, await server_totals_in_turns(state.broker))
    if state.worker is not None:
        for other in await state.worker.ask_others("page", {"name": "totals", "arguments": {}}):
            _add(totals, [other], tuple(totals))
    return totals


def own_totals(state: State, totals: Totals | None = None) -> Page:
    """Return the same counts of this process alone; `totals` are counted if they are not given."""
    broker = state.broker
    if totals is None:
        totals = server_totals(broker)
    return {
        "mem": state.usage.memory_bytes(),
        "cpu": state.usage.cpu_percent(),
        "connections": len(broker.clients),
        "total_connections": totals.connections,
        "subscriptions": sum(len(account.sublist) for account in broker.accounts.values()),
        "out_messages": totals.out_messages,
        "out_bytes": totals.out_bytes,
        "in_messages": totals.in_messages,
        "in_bytes": totals.in_bytes,
        "slow_consumers": totals.slow_consumers,
        "slow_routes": totals.slow_routes,
        "slow_leafs": totals.slow_leafs,
        "stale_connections": totals.stale_connections,
        "stale_routes": totals.stale_routes,
        "stale_leafs": totals.stale_leafs,
        "stalled_clients": broker.stalled_clients,
    }


async def whole_metrics(state: State, own: bytes) -> bytes:
    """Return `/metrics`: with several workers, each sample once for each, with a label for it."""
    if state.worker is None:
        return own
    found = await state.worker.ask_others("page", {"name": "metrics", "arguments": {}})
    return labelled([(state.worker.index, own.decode()), *map(tuple, found)]).encode()


def labelled(pages: Iterable[tuple[int, str]]) -> str:
    """Put pages in Prometheus' text form together; each sample gets its worker as a label."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for worker, text in pages:
        family = ""
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                heads[family] = [line]
            elif line.startswith("# TYPE "):
                if line not in heads[family]:
                    heads[family].append(line)
            elif line:
                samples.setdefault(family, []).append(_with_label(line, worker))
    lines = [line for family, head in heads.items() for line in (*head, *samples.get(family, ()))]
    return "\n".join(lines) + "\n"


def _with_label(sample: str, worker: int) -> str:
    label = f'worker="{worker}"'
    name, brace, rest = sample.partition("{")
    if brace:
        return f"{name}{{{label},{rest}"
    name, _, value = sample.partition(" ")
    return f"{name}{{{label}}} {value}"


async def whole_clients_now(state: State) -> Page:
    """Return what the console shows of all clients."""
    page = await _clients_now(state.broker)
    if state.worker is not None:
        others = await state.worker.ask_others("page", {"name": "clients_now", "arguments": {}})
        _add(page, others, ("subscriptions",))
        slow = [one for each in (page, *others) for one in each["slow"]]
        slow.sort(key=lambda one: -one["pending_bytes"])
        page["slow"] = slow[:_SLOW_MAX]
        limits: Counter[str] = Counter()
        for each in (page, *others):
            limits.update(each["limits"])
        page["limits"] = limits
    return page


async def _clients_now(broker: Broker) -> Page:
    """Count what clients subscribe to, name the slowest, and count the limits that were reached."""
    subscriptions, steps = 0, StepBudget()
    slow: list[dict[str, Any]] = []
    for client in list(broker.clients.values()):
        subscriptions += len(client.subscriptions)
        size = client.outbound.pending_bytes()
        if size >= _SLOW_MIN_BYTES:
            slow.append({"cid": client.cid, "name": client.options.name, "pending_bytes": size})
        await steps.charge(1)
    slow.sort(key=lambda one: -one["pending_bytes"])
    reached = {name: count for name, count in limits_met(broker).items() if count}
    return {"subscriptions": subscriptions, "slow": slow[:_SLOW_MAX], "limits": reached}


async def whole_interest(state: State, arguments: Arguments) -> Page:
    """Return a page of what the clients of an account subscribe to."""
    from midge.server.monitoring.console import interest  # noqa: PLC0415 - few have a console

    if state.worker is None:
        return await interest.interest(state.broker, arguments)
    offset, limit = arguments.page()
    query = {**arguments.as_dict(), "offset": "0", "limit": str(offset + limit)}
    own = await interest.interest(state.broker, Arguments(query))
    others = await state.worker.ask_others("page", {"name": "interest", "arguments": query})
    return interest.merged((own, *others), offset, limit)


async def whole_tail(state: State, own: Page, name: str, account: str, pattern: bytes) -> Page:
    """Return what a tail of the console has seen in all workers; `own` is of this one."""
    if state.worker is None:
        return own
    arguments = {"name": name, "account": account, "pattern": pattern}
    others = await state.worker.ask_others("page", {"name": "tail", "arguments": arguments})
    every = [own, *(other for other in others if other is not None)]
    return {
        "messages": sorted(
            (message for one in every for message in one["messages"]),
            key=lambda message: cast("float", message["time"]),
        ),
        "seen": sum(one["seen"] for one in every),
        "left_out": sum(one["left_out"] for one in every),
        "has_begun": own["has_begun"],
    }


def _tail(state: State, name: str, account: str, pattern: bytes) -> Page | None:
    broker = state.broker
    return state.tails().poll(name, broker.account(account), pattern)


async def end_client(state: State, cid: int) -> bool:
    """Close the client `cid`, in whichever worker it is; return whether there was one."""
    asked = {"name": "kick", "arguments": {"cid": cid}}
    return _kick(state, cid) or await _any_other(state, asked)


async def send_client_away(state: State, cid: int) -> bool:
    """Announce lame duck mode to the client `cid`; return whether there was one."""
    asked = {"name": "lame_duck", "arguments": {"cid": cid}}
    return _lame_duck(state, cid) or await _any_other(state, asked)


async def _any_other(state: State, asked: Page) -> bool:
    return state.worker is not None and any(await state.worker.ask_others("page", asked))


def _kick(state: State, cid: int) -> bool:
    client = state.broker.clients.get(cid)
    if client is not None:
        client.close(ClosedReason.KICKED)
    return client is not None


def _lame_duck(state: State, cid: int) -> bool:
    broker = state.broker
    client = broker.clients.get(cid)
    if client is not None:
        line = broker.info_line(client).replace(b"INFO {", b'INFO {"ldm":true,', 1)
        client.send(line)
    return client is not None


async def own_page(state: State, name: str, arguments: Mapping[str, Any]) -> Any:
    """Return this worker's part of a page; the functions above describe `arguments`.

    Raises:
        BadArgument: an argument is invalid.
    """
    if name == "connz":
        from midge.server.monitoring import connz  # noqa: PLC0415 - as above

        return await connz.ordered_connz(state, msgspec.convert(arguments, connz.ConnzOptions))
    if name == "subsz":
        return await subsz.subsz(state, Arguments(arguments))
    if name == "metrics":
        await asyncio.to_thread(importlib.import_module, "midge.server.monitoring.metrics")
        from midge.server.monitoring.metrics import Metrics  # noqa: PLC0415 - imported by now

        assert state.worker is not None, "asked as one of several workers"
        return state.worker.index, Metrics(state).page().decode()
    if name in {"clients_now", "interest"}:
        from midge.server.monitoring.console import interest  # noqa: PLC0415 - as above

        if name == "clients_now":
            return await _clients_now(state.broker)
        return await interest.interest(state.broker, Arguments(arguments))
    return await _asked(state, name, arguments)


async def _asked(state: State, name: str, arguments: Mapping[str, Any]) -> Any:
    """Return what the pages without further imports ask for."""
    match name:
        case "varz":
            return await varz.varz(state)
        case "accountz":
            return accounts.accountz(state, Arguments(arguments))
        case "accounts":
            return await _account_statistics(state, arguments["names"])
        case "totals":
            return own_totals(state, await server_totals_in_turns(state.broker))
        case "tail":
            return _tail(state, **arguments)
        case "kick":
            return _kick(state, arguments["cid"])
        case _:
            assert name == "lame_duck", name
            return _lame_duck(state, arguments["cid"])


def _add(page: Page, others: Iterable[Page], fields: Iterable[str]) -> None:
    """Add to each of `fields` of `page` what the others have there."""
    for field in fields:
        page[field] += sum(other[field] for other in others)
