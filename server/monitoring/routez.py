"""`/routez`, `/leafz` and `/gatewayz`: the links to other servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.server.monitoring import go_format
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.monitoring.arguments import Arguments
    from midge.server.monitoring.state import State
    from midge.server.peers.link import Link
    from midge.sublist.subscription import RemoteSubscription

LISTED_MAX = 10_000
"""Most subscriptions of a route that are listed: a page is made in one go."""


def routez(state: State, arguments: Arguments) -> dict[str, Any]:
    """Return the page; with `subs`, with the interest that each server has announced."""
    lists, with_detail = arguments.subscriptions()
    links = routes_of(state)
    return {
        "server_id": state.broker.keys.server_id,
        "server_name": state.server_name,
        "now": go_format.timestamp(state.broker.clock.wall()),
        **_permissions(state),
        "num_routes": len(links),
        "routes": [_entry(state, link, lists=lists, with_detail=with_detail) for link in links],
    }


def _permissions(state: State) -> dict[str, Any]:
    """Return the configured permissions of routes, where they do not allow all."""
    rules = state.broker.options.cluster.permissions
    shown = (("import", rules.imports), ("export", rules.exports))
    return {name: found for name, one in shown if (found := _lists(one))}


def _lists(rules: Any) -> dict[str, Any]:
    found = {"allow": list(rules.allow), "deny": list(rules.deny)}
    return {name: subjects for name, subjects in found.items() if subjects}


def routes_of(state: State) -> list[Link]:
    """List the routes."""
    return [] if state.cluster is None else list(state.cluster.links.values())


def _entry(state: State, link: Link, *, lists: bool, with_detail: bool) -> dict[str, Any]:
    now, offset = state.broker.clock.monotonic(), state.wall_offset()
    entry = {
        "rid": link.cid,
        "remote_id": link.end.info.server_id,
        "remote_name": link.name,
        "did_solicit": link.end.was_solicited,
        "is_configured": link.end.is_explicit,
        "ip": link.peer_host,
        "port": link.peer_port,
        "start": go_format.timestamp(link.started_at + offset),
        "last_activity": go_format.timestamp(link.last_active_at + offset),
        "rtt": go_format.duration(link.channel.keepalive.round_trip_s or 0.0),
        "uptime": go_format.uptime(now - link.started_at),
        "idle": go_format.uptime(now - link.last_active_at),
        **_rules(link),
        "pending_size": link.outbound.pending_bytes(),
        "in_msgs": link.in_messages,
        "out_msgs": link.out_messages,
        "in_bytes": link.in_bytes,
        "out_bytes": link.out_bytes,
        "subscriptions": link.announced.count,
    }
    if with_detail:
        entry["subscriptions_list_detail"] = [_detail(link, *one) for one in _announced(link)]
    elif lists:
        entry["subscriptions_list"] = [
            remote.subject.decode(errors="replace") for _, remote in _announced(link)
        ]
    if link.is_dedicated:
        entry["account"] = link.end.place
    entry["compression"] = link.end.compression.mode
    return entry


def _rules(link: Link) -> dict[str, Any]:
    """Return which interest the other server announces and accepts, where not all of it."""
    info = link.end.info
    shown = (("import", info.import_), ("export", info.export))
    return {name: structs.asdict(rules) for name, rules in shown if rules}


def _announced(link: Link) -> Iterator[tuple[bytes, RemoteSubscription]]:
    """Yield up to LISTED_MAX announced subscriptions of the other server, with their accounts."""
    left = LISTED_MAX
    for branch in link.commands.branches.values():
        for remote in branch.interest[:left]:
            yield branch.name, remote
            left -= 1


def _detail(link: Link, account: bytes, remote: RemoteSubscription) -> dict[str, Any]:
    """Return one subscription as nats-server details it."""
    words = [b"R", remote.subject] if link.is_dedicated else [b"R", account, remote.subject]
    found: dict[str, Any] = {"subject": remote.subject.decode(errors="replace")}
    if remote.queue is not None:
        found["qgroup"] = remote.queue.decode(errors="replace")
        words.append(remote.queue)
    found |= {"sid": b" ".join(words).decode(errors="replace"), "msgs": 0, "cid": link.cid}
    return found


def leafz(state: State, arguments: Arguments) -> dict[str, Any]:
    """Return the page of links; with `subs`, with the interest that each has announced."""
    with_subscriptions = arguments.flag("subs")
    account = arguments.text("acc")
    links = links_of(state, account)
    return {
        **_head(state),
        "leafnodes": len(links),
        "leafs": [_leaf_entry(link, with_subscriptions=with_subscriptions) for link in links],
    }


def links_of(state: State, account: str = "") -> list[Link]:
    """List the links, those of one account if it is named."""
    nodes = state.leafnodes
    links = [] if nodes is None else list(nodes.links.values())
    return [link for link in links if not account or link.account.name == account]


def _leaf_entry(link: Link, *, with_subscriptions: bool) -> dict[str, Any]:
    round_trip_s = link.channel.keepalive.round_trip_s
    entry = {
        "id": link.cid,
        "name": link.name,
        "is_spoke": link.role == Role.HUB,
        "account": link.account.name,
        "ip": link.peer_host,
        "port": link.peer_port,
        "rtt": go_format.duration(round_trip_s or 0.0),
        "in_msgs": link.in_messages,
        "out_msgs": link.out_messages,
        "in_bytes": link.in_bytes,
        "out_bytes": link.out_bytes,
        "subscriptions": link.announced.count,
        **({"proxy": {"key": link.end.proxy_key}} if link.end.proxy_key else {}),
    }
    if with_subscriptions:
        listed = [(one.subject, one.queue) for one in link.list_interest(LISTED_MAX)]
        entry["subscriptions_list"] = [
            (subject if queue is None else b"%b %b" % (subject, queue)).decode(errors="replace")
            for subject, queue in listed
        ]
    entry["compression"] = link.end.compression.mode
    return entry


def gatewayz(state: State, arguments: Arguments) -> dict[str, Any]:
    """Return the page of a server without gateways, which midge does not have."""
    arguments.flag("accs")
    return {**_head(state), "outbound_gateways": {}, "inbound_gateways": {}}


def ipqueuesz(arguments: Arguments) -> dict[str, Any]:
    """Return the page of nats-server's queues between goroutines, which midge does not have."""
    arguments.flag("all")
    return {}


def _head(state: State) -> dict[str, Any]:
    return {
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
    }
