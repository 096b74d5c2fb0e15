"""The options of a cluster: routes to the other servers of it, and from them.

Plain data only; `midge.server.config.options` re-exports the names. Zero means "not set" wherever a
docstring says so, since TOML has no null.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from midge.server.config.leafnodes import Compression, RoundTrips, SecretUrls
from midge.server.config.security import SubjectPermissions, Tls
from midge.server.config.table import Count, Seconds, Secret, Table, WriteTimeout


class ClusterAuthorization(Table, frozen=True, kw_only=True):
    """Credentials for servers of the cluster; without a user, every server is admitted."""

    user: str = ""
    """User name that other servers give."""
    password: Secret = ""
    """Password of that user, plain or bcrypt."""
    timeout_s: Seconds = 0.0
    """Seconds that a server has to authenticate; 0 means 2."""


class ClusterPermissions(Table, frozen=True, kw_only=True):
    """Subjects whose interest crosses routes; messages follow it."""

    imports: SubjectPermissions = SubjectPermissions()
    """Subjects whose interest is announced to other servers."""
    exports: SubjectPermissions = SubjectPermissions()
    """Subjects whose interest is accepted from other servers."""


class Cluster(Table, frozen=True, kw_only=True):
    """This server as a member of a cluster, whose servers all have routes to each other."""

    name: str = ""
    """Name of the cluster, the same on all of its servers; empty adopts the others' name."""
    host: str = "127.0.0.1"
    """Address to bind for routes."""
    port: Annotated[int, Meta(ge=-1, le=65535)] = 0
    """Port for routes; 0 means no cluster, -1 takes a free one."""
    advertise: str = ""
    """`host:port` announced to the other servers; empty means the bound address."""
    no_advertise: bool = False
    """Announce no addresses of servers to clients: neither others' here, nor this one's there."""
    routes: SecretUrls = ()
    """Servers to connect to: `nats-route://user:password@host:6222`; the others are learnt."""
    authorization: ClusterAuthorization = ClusterAuthorization()
    """Credentials that servers of the cluster must present."""
    permissions: ClusterPermissions = ClusterPermissions()
    """Subjects whose interest crosses routes."""
    tls: Tls = Tls()
    """Certificates of routes, for both directions; the other side's is always asked for."""
    check_known_urls: bool = False
    """Admit a server only if a DNS name in its certificate is the host of one of `routes`."""
    compression: Compression = "accept"
    """S2 compression of routes; see `leafnodes.compression`."""
    compression_rtt_s: RoundTrips = (0.01, 0.05, 0.1)
    """Round trips of `s2_auto`; see `leafnodes.compression_rtt_s`."""
    pool_size: int = 0
    """Routes to each other server that accounts share. Of two servers, the larger number holds. 0
    means 3 if there are `accounts`, and -1 otherwise, which means one route for all accounts."""
    accounts: tuple[str, ...] = ()
    """Accounts with a route of their own to each other server, in addition to the system account's
    and to the pool; the same on all servers."""
    connect_retries: Count = 0
    """Further attempts to reach a server that another one has announced, at least 2; servers in
    `routes` are tried for ever."""
    connect_backoff: bool = False
    """Double the time between attempts, up to 30 seconds."""
    ping_interval_s: Seconds = 0.0
    """Seconds between PINGs on routes; 0 means that of clients, and never more than 30."""
    write_deadline_s: Seconds = 0.0
    """Seconds that a route's socket has for pending output; 0 means `limits.write_deadline_s`."""
    write_timeout_policy: WriteTimeout = "default"
    """What happens then, as `limits.write_timeout_policy` says; default `retry`."""
