"""Certificates and credentials of routes: those that the port checks, and those shown to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from midge.server.auth import Identity, Refusal
from midge.server.auth.authenticator import Authenticator
from midge.server.auth.client_tls import build_client_context
from midge.server.config.leafnodes import LeafRemoteTls
from midge.server.config.options import Authorization, Options
from midge.server.listeners.tls import build_server_context
from midge.server.peers.dial import parse_route_address
from midge.server.peers.listener import PortRules

if TYPE_CHECKING:
    import ssl

    from midge.server.auth import AuthRequest, Verdict
    from midge.server.config.cluster import Cluster as Table


def port_rules(options: Options) -> PortRules:
    """Read the user and the certificates of the port. Raises: ConfigError, they cannot be.

    The certificates of servers that connect are checked.
    """
    table, login = options.cluster, options.cluster.authorization
    own: Authenticator | None = None
    if login.user:
        users = Options(authorization=Authorization(user=login.user, password=login.password))
        own = Authenticator(users)
    tls: ssl.SSLContext | None = None
    if table.tls.enabled:
        tls = build_server_context(structs.replace(table.tls, verify=True), "cluster.tls")
    return PortRules(own, tls, table.tls.timeout_s)


def client_context(table: Table) -> ssl.SSLContext:
    """Return the context for connecting to servers, with this server's certificate.

    Raises:
        ConfigError: a file cannot be read, or is not what it should be.
    """
    tls = table.tls
    own = tls.pairs[0]
    shown = LeafRemoteTls(
        cert_file=own.cert_file,
        key_file=own.key_file,
        ca_file=tls.ca_file,
        curve_preferences=tls.curve_preferences,
    )
    return build_client_context(shown, "cluster.tls")


def by_certificate(table: Table, request: AuthRequest) -> Verdict:
    """Admit a server whose certificate names a host of `routes`, or the cluster's user."""
    from midge.server.auth.certificates import names_host, read_names  # noqa: PLC0415 - large

    hosts = [parse_route_address(url).host for url in table.routes]
    if table.check_known_urls and names_host(request.certificate, hosts):
        return Identity()
    names = read_names(request.certificate) if table.tls.verify_and_map else None
    if names is not None and table.authorization.user in names.alternatives:
        return Identity()
    return Refusal("no name in the certificate is known")
