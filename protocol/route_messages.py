"""The JSON documents of a route: CONNECT of the server that connects, and INFO of both.

Unknown fields are ignored, and every known one may be missing: the route decides which of them a
peer must send, and refuses in nats-server's words.
"""

import msgspec
from msgspec import UNSET, UnsetType

from midge.protocol.leaf_messages import SubjectRules, read_document

GOSSIP_DEFAULT = 0
GOSSIP_DISABLED = 1
GOSSIP_OVERRIDE = 2
"""Value of `gossip_mode`: the receiver passes the INFO on once it has a route to that server."""


class RouteInfo(msgspec.Struct, kw_only=True):
    """The INFO of a server on a route, or about another server: then `server_id` is not its own.

    An unset field is left out of the line. `ip` is the URL that other servers connect to. Only the
    INFO of a client port has a `client_id`. `midge_jetstream` says that a midge has streams. It
    takes no part in the cluster's JetStream and therefore sends ``"jetstream":false``.
    """

    server_id: str = ""
    server_name: str = ""
    version: str = ""
    proto: int = 0
    git_commit: str | UnsetType = UNSET
    go: str | UnsetType = UNSET
    host: str = ""
    port: int = 0
    headers: bool | UnsetType = UNSET
    client_id: int | UnsetType = UNSET
    auth_required: bool | UnsetType = UNSET
    tls_required: bool | UnsetType = UNSET
    tls_verify: bool | UnsetType = UNSET
    max_payload: int = 0
    jetstream: bool | UnsetType = UNSET
    ip: str | UnsetType = UNSET
    nonce: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    cluster_dynamic: bool | UnsetType = UNSET
    domain: str | UnsetType = UNSET
    connect_urls: tuple[str, ...] | UnsetType | None = UNSET
    ws_connect_urls: tuple[str, ...] | UnsetType | None = UNSET
    ldm: bool | UnsetType = UNSET
    compression: str | UnsetType = UNSET
    import_: SubjectRules | UnsetType | None = msgspec.field(default=UNSET, name="import")
    export: SubjectRules | UnsetType | None = UNSET
    lnoc: bool | UnsetType = UNSET
    lnocu: bool | UnsetType = UNSET
    route_pool_size: int | UnsetType = UNSET
    route_pool_idx: int | UnsetType = UNSET
    route_account: str | UnsetType = UNSET
    midge_jetstream: bool | UnsetType = UNSET
    gossip_mode: int | UnsetType = UNSET
    leafnode_urls: tuple[str, ...] | UnsetType | None = UNSET
    api_lvl: int | UnsetType = UNSET

    def urls(self) -> tuple[list[str], ...]:
        """Return the addresses for each kind of client; none of a server in lame duck mode."""
        found = (self.connect_urls, self.ws_connect_urls, self.leafnode_urls)
        return () if self.ldm else tuple(list(one) for one in found if one)

    def line(self) -> bytes:
        """Return the whole INFO line, with a blank before the CR LF as nats-server's."""
        return b"INFO %b \r\n" % msgspec.json.encode(self)


class RouteConnect(msgspec.Struct, kw_only=True):
    """The CONNECT of the connecting server; `name` is its server id."""

    echo: bool = True
    verbose: bool = False
    pedantic: bool = False
    user: str | UnsetType = UNSET
    password: str | UnsetType = msgspec.field(default=UNSET, name="pass")
    tls_required: bool = False
    headers: bool = True
    name: str = ""
    cluster: str = ""
    cluster_dynamic: bool | UnsetType = UNSET
    lnoc: bool | UnsetType = UNSET
    lnocu: bool | UnsetType = UNSET
    gateway: str | UnsetType = UNSET
    lang: str | UnsetType = UNSET

    def line(self) -> bytes:
        """Return the whole CONNECT line."""
        return b"CONNECT %b\r\n" % msgspec.json.encode(self)


_read_info = msgspec.json.Decoder(RouteInfo).decode
_read_connect = msgspec.json.Decoder(RouteConnect).decode


def parse_route_info(document: bytes) -> RouteInfo:
    """Read the JSON of an INFO line; see `read_document`, also for what it raises."""
    return read_document(_read_info, document, "INFO")


def parse_route_connect(document: bytes) -> RouteConnect:
    """Read the JSON of a CONNECT line; see `read_document`, also for what it raises."""
    return read_document(_read_connect, document, "CONNECT")
