"""Gossip of a cluster: the INFO that a server sends about itself and about its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType, structs

from midge.protocol.leaf_messages import SubjectRules
from midge.protocol.route_messages import (
    GOSSIP_DEFAULT,
    GOSSIP_DISABLED,
    GOSSIP_OVERRIDE,
    RouteInfo,
)
from midge.server.broker.server_info import LEAFS, WEBSOCKETS
from midge.server.config.addresses import advertised_address
from midge.server.listeners.sockets import host_in_url

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.config.security import SubjectPermissions
    from midge.server.peers.link import Link

URLS_MAX = 64
"""Most addresses for clients that are taken from one server."""

_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  # nosec B104 - compared, not bound


def known_urls(broker: Broker, routes: dict[str, Link], kind: str, *, with_own: bool) -> list[str]:
    """Return the addresses for the field `kind`: this server's, then the other servers'."""
    if broker.options.cluster.no_advertise and kind != LEAFS:
        return []
    shows_own = with_own and not broker.lame_duck
    found = dict.fromkeys(own_urls(broker, kind) if shows_own else ())
    for link in routes.values():
        info = link.end.info
        if not info.ldm:
            found.update(dict.fromkeys((getattr(info, kind) or ())[:URLS_MAX]))
    return list(found)


def own_urls(broker: Broker, kind: str) -> tuple[str, ...]:
    """Return this server's own addresses for the field `kind` of INFO."""
    options = broker.options
    address, advertised = (broker.host, broker.port), options.listen.client_advertise
    is_hidden = options.cluster.no_advertise
    if kind == WEBSOCKETS:
        address, advertised = broker.websocket_address, options.websocket.advertise
    elif kind == LEAFS:
        address, advertised = broker.leafnode_address, options.leafnodes.advertise
        is_hidden = options.leafnodes.no_advertise
    host, port = advertised_address(advertised, *address)
    if is_hidden or not address[1] or (host in _ANY_ADDRESS and not advertised):
        return ()
    return (f"{host_in_url(host)}:{port}",)


def announce_server(routes: dict[str, Link], link: Link, info: RouteInfo) -> None:
    """Announce the server of `info`, behind `link`, over `routes`, for others to connect to it.

    As on nats-server, once for its pool, and once for each dedicated route.
    """
    end = link.end
    if end.gossip_mode == GOSSIP_DISABLED:
        return
    for server_id, other in list(routes.items()):
        if server_id == info.server_id:
            continue
        if link.is_dedicated and not other.end.pool_size:
            continue
        announced = structs.replace(
            info,
            nonce=UNSET,
            route_pool_idx=UNSET,
            route_account=end.place if link.is_dedicated else UNSET,
            gossip_mode=_gossip_mode(end, other.end),
        )
        other.send(announced.line())


def _gossip_mode(end: Any, other: Any) -> int:
    """Return whether the server of `other` should pass the server of `end` on to further servers.

    As nats-server: a server announced by a server that connected explicitly is passed on; for a
    server that has accepted the connection, the others need not do so.
    """
    if end.was_solicited:
        return GOSSIP_OVERRIDE if end.is_explicit else GOSSIP_DEFAULT
    return GOSSIP_OVERRIDE if other.is_explicit else GOSSIP_DISABLED


def rules_in_info(rules: SubjectPermissions) -> SubjectRules | UnsetType:
    """Return `rules` as INFO has them."""
    if not rules.allow and not rules.deny:
        return UNSET
    return SubjectRules(allow=rules.allow, deny=rules.deny)
