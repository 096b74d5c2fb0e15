"""The options of leaf nodes: links to servers that this one connects to, and from others.

Plain data only; `midge.server.config.options` re-exports the names. Zero means "not set" wherever a
docstring says so, since TOML has no null.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from midge.server.config.security import ClientTls, Permissions, Tls
from midge.server.config.table import Seconds, Secret, Table, WriteTimeout

Compression = Literal["off", "accept", "s2_auto", "s2_fast", "s2_better", "s2_best"]
RoundTrips = Annotated[tuple[Seconds, ...], Meta(min_length=1, max_length=4)]

SecretUrls = Annotated[tuple[str, ...], Meta(extra={"secret": True})]
"""URLs that may hold passwords."""


class LeafRemoteTls(ClientTls, frozen=True, kw_only=True):
    """Encryption of a link to a remote; it is used, too, where the remote asks for it."""

    ZERO_IS_DEFAULT = ("timeout_s",)

    required: bool = False
    """Speak TLS even where no URL begins with `tls://` and the remote does not ask for it."""
    handshake_first: bool = False
    """Begin TLS before the remote's INFO."""
    timeout_s: Seconds = 2.0
    """Seconds for the handshake; 0 means the default."""


class LeafProxy(Table, frozen=True, kw_only=True):
    """An HTTP proxy on the way to a remote, which opens the connection for CONNECT."""

    url: str = ""
    """`http://host:port`, or `https://` for TLS up to the proxy; empty connects without a proxy."""
    username: str = ""
    """User name for the proxy."""
    password: Secret = ""
    """Password of that user."""
    timeout_s: Seconds = 0.0
    """Seconds for the proxy's answer; 0 means `dial_timeout_s`."""


class LeafRemote(Table, frozen=True, kw_only=True):
    """A server, or a cluster, to connect one account to."""

    ZERO_IS_DEFAULT = ("dial_timeout_s", "first_info_timeout_s")

    urls: SecretUrls = ()
    """`host`, `host:port`, `nats-leaf://user:password@host:7422` or `wss://host`, tried in turn."""
    account: str = ""
    """Account here that is linked; empty means `$G`."""
    user: str = ""
    """User name, where the URL in use has none."""
    password: Secret = ""
    """Password of that user."""
    token: Secret = ""
    """Token, where the URL in use has no user."""
    credentials: str = ""
    """Path of a credentials file with a user's JWT and seed."""
    nkey_seed: Secret = ""
    """Seed of a user's nkey (`SU…`)."""
    tls: LeafRemoteTls = LeafRemoteTls()
    """Encryption of the link."""
    proxy: LeafProxy = LeafProxy()
    """HTTP proxy on the way to the remote."""
    deny_imports: tuple[str, ...] = ()
    """Subjects that are neither asked for nor taken from the remote."""
    deny_exports: tuple[str, ...] = ()
    """Subjects that are not sent to the remote."""
    isolate_interest: bool = False
    """Do not announce the interest of this server's leaf nodes to the remote."""
    request_isolation: bool = False
    """Ask the remote not to announce the interest of its other leaf nodes."""
    hub: bool = False
    """Act as the hub of the remote, although this server opens the connection."""
    compression: Compression = "off"
    """S2 compression of the link: see `leafnodes.compression`."""
    compression_rtt_s: RoundTrips = (0.01, 0.05, 0.1)
    """Round trips of `s2_auto`; see `leafnodes.compression_rtt_s`."""
    no_randomize: bool = False
    """Try the URLs in the order in which they stand."""
    ignore_discovered_servers: bool = False
    """Connect to `urls` only, and not to others of the remote's cluster."""
    dial_timeout_s: Seconds = 1.0
    """Seconds for the connection; 0 means the default."""
    first_info_timeout_s: Seconds = 1.0
    """Seconds for the remote's INFO; 0 means the default."""
    ws_compression: bool = False
    """Offer to compress the frames of a WebSocket (`ws://`, `wss://`)."""
    ws_no_masking: bool = False
    """Offer to send the frames of a WebSocket without masks, which cost time."""
    disabled: bool = False
    """Do not connect."""


class LeafUser(Table, frozen=True, kw_only=True):
    """A user that leaf nodes connect as."""

    user: str = ""
    """User name; empty when `nkey` identifies the user."""
    password: Secret = ""
    """Password, plain or bcrypt."""
    nkey: str = ""
    """Public user nkey (begins with `U`)."""
    account: str = ""
    """Account that links of this user belong to; empty takes the account of `authorization`."""
    proxy_required: bool = False
    """Refuse this user but through a proxy of `proxies.trusted`."""
    permissions: Permissions | None = None
    """Subjects that such a link may publish and subscribe to; unset restricts nothing."""


class LeafAuthorization(Table, frozen=True, kw_only=True):
    """Users of leaf nodes; without any, the users of clients."""

    user: str = ""
    """The only user's name; not together with `users`."""
    password: Secret = ""
    """The only user's password, plain or bcrypt."""
    nkey: str = ""
    """The only user's public nkey, in place of name and password."""
    account: str = ""
    """Account that the links belong to; empty means `$G`."""
    users: tuple[LeafUser, ...] = ()
    """Users, each perhaps of another account."""
    proxy_required: bool = False
    """Refuse these users but through a proxy of `proxies.trusted`."""
    timeout_s: Seconds = 0.0
    """Seconds that a leaf node has to authenticate; 0 means 2."""


class LeafNodes(Table, frozen=True, kw_only=True):
    """Links to other servers: those that connect here, and `remotes` that this one connects to."""

    ZERO_IS_DEFAULT = ("reconnect_s",)

    host: str = "127.0.0.1"
    """Address to bind for leaf nodes."""
    port: Annotated[int, Meta(ge=-1, le=65535)] = 0
    """Port for leaf nodes; 0 means none, -1 takes a free one."""
    advertise: str = ""
    """`host:port` announced to leaf nodes; empty means the bound address."""
    no_advertise: bool = False
    """Send leaf nodes no address to come back to."""
    proxy_protocol: bool = False
    """Expect a PROXY protocol header, as `listen.proxy_protocol` does."""
    authorization: LeafAuthorization = LeafAuthorization()
    """Credentials that leaf nodes must present."""
    tls: Tls = Tls()
    """Certificates of the port; `handshake_first = "auto"` is that of clients only."""
    min_version: str = ""
    """Oldest version of a leaf node's server, such as `2.10.0`; empty takes all."""
    compression: Compression = "off"
    """S2 compression: `accept` does what the other server asks for; the levels write the same."""
    compression_rtt_s: RoundTrips = (0.01, 0.05, 0.1)
    """Longest round trips of `s2_auto` for no compression, `s2_fast` and `s2_better`."""
    isolate_interest: bool = False
    """Do not announce the interest of one leaf node to the others."""
    reconnect_s: Seconds = 1.0
    """Seconds before a remote that was lost, or not reached, is tried again; 0: default."""
    write_deadline_s: Seconds = 0.0
    """Seconds that a link's socket has for pending output; 0 means `limits.write_deadline_s`."""
    write_timeout_policy: WriteTimeout = "default"
    """What happens then, as `limits.write_timeout_policy` says; default `retry`."""
    remotes: tuple[LeafRemote, ...] = ()
    """Servers to connect to."""
