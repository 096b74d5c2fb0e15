"""`/leafz`: the links to other servers that are up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.monitoring import go_format
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from midge.server.monitoring.arguments import Arguments
    from midge.server.monitoring.state import State
    from midge.server.peers.leaf import LeafLink

LISTED_MAX = 10_000
"""Most subscriptions of a link that are listed: a page is made in one go."""


def leafz(state: State, arguments: Arguments) -> dict[str, Any]:
    """Give the links; with `subs`, what each has told of interest."""
    with_subscriptions = arguments.flag("subs")
    account = arguments.text("acc")
    links = links_of(state, account)
    return {
        "server_id": state.broker.keys.server_id,
        "now": go_format.timestamp(state.broker.clock.wall()),
        "leafnodes": len(links),
        "leafs": [_entry(link, with_subscriptions=with_subscriptions) for link in links],
    }


def links_of(state: State, account: str = "") -> list[LeafLink]:
    """List the links, those of one account if it is named."""
    nodes = state.leafnodes
    links = [] if nodes is None else list(nodes.links.values())
    return [link for link in links if not account or link.account.name == account]


def _entry(link: LeafLink, *, with_subscriptions: bool) -> dict[str, Any]:
    round_trip_s = link.keepalive.round_trip_s
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
        "subscriptions": link.interest_count,
    }
    if with_subscriptions:
        listed = [(one.subject, one.queue) for one in link.interest[:LISTED_MAX]]
        entry["subscriptions_list"] = [
            (subject if queue is None else b"%b %b" % (subject, queue)).decode(errors="replace")
            for subject, queue in listed
        ]
    entry["compression"] = link.side.compression.mode
    return entry
