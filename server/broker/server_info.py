"""The INFO of a server: facts about itself, its TLS and its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET, structs

from midge.protocol import COMPATIBLE_VERSION
from midge.protocol.messages import Info
from midge.server.config.addresses import advertised_address

if TYPE_CHECKING:
    from midge.server.broker.server_keys import ServerKeys
    from midge.server.config.options import Options
    from midge.server.config.security import Tls


CLIENTS, WEBSOCKETS, LEAFS = "connect_urls", "ws_connect_urls", "leafnode_urls"
"""The fields of a server's INFO on a route that list its addresses for others, by their kind."""


class Neighbours(Protocol):
    """The cluster of this server, as INFO describes it to clients."""

    name: str
    is_dynamic: bool

    def urls(self, kind: str, *, with_own: bool = True) -> list[str]:
        """The addresses to which a `kind` of others may connect; maybe without this server's."""


class CommonInfo:
    """The part of INFO that all clients of one server share, rebuilt when its options change."""

    def __init__(self, keys: ServerKeys) -> None:
        self._keys = keys
        self._made_of: tuple[Options, str, int] | None = None
        self._plain: Info
        self._with_tls: Info

    def copy(self, options: Options, host: str, port: int, *, offers_tls: bool) -> Info:
        """Return a copy, with the TLS fields if the listener `offers_tls`."""
        made_of = self._made_of
        if (
            made_of is None
            or made_of[0] is not options
            or made_of[1] is not host
            or made_of[2] != port
        ):
            self._plain = server_info(options, self._keys, host, port)
            self._with_tls = structs.replace(self._plain)
            add_tls(self._with_tls, options.tls)
            self._made_of = options, host, port
        return structs.replace(self._with_tls if offers_tls else self._plain)


def server_info(options: Options, keys: ServerKeys, host: str, port: int) -> Info:
    """Return the INFO that all clients share; the server listens on `host` and `port`."""
    limits, jetstream = options.limits, options.jetstream
    host, port = advertised_address(options.listen.client_advertise, host, port)
    return Info(
        server_id=keys.server_id,
        server_name=options.server_name or keys.server_id,
        version=COMPATIBLE_VERSION,
        go="python",
        host=host,
        port=port,
        headers=limits.header_support,
        max_payload=limits.max_payload_bytes,
        jetstream=True if jetstream.enabled else UNSET,
        domain=(jetstream.enabled and jetstream.domain) or UNSET,
        xkey=keys.xkey,
    )


def add_cluster(info: Info, cluster: Neighbours, kind: str) -> None:
    """Add the servers that a `kind` of client, `CLIENTS` or `WEBSOCKETS`, may connect to."""
    info.cluster = cluster.name
    if cluster.is_dynamic:
        info.cluster_dynamic = True
    urls = cluster.urls(kind)
    if urls:
        info.connect_urls = urls


def add_tls(info: Info, tls: Tls) -> None:
    """Add whether the client listener offers or requires TLS, and client certificates."""
    if not tls.enabled:
        return
    if tls.allow_non_tls:
        info.tls_available = True
    else:
        info.tls_required = True
    if tls.verify or tls.verify_and_map:
        info.tls_verify = True
