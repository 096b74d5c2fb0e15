"""The credentials that a connection offers, and how long it has to do so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.auth import AuthRequest

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection
    from midge.server.config.options import Options

_AUTH_TIMEOUT_S = 2.0
_AFTER_TLS_S = 1.0


def request_of(connection: Connection) -> AuthRequest:
    """Return the request for authentication of `connection`: its credentials and its peer."""
    options = connection.options
    certificate = connection.channel.peer_certificate()
    return AuthRequest(
        user=options.user,
        password=options.password,
        token=options.auth_token,
        jwt=options.jwt,
        nkey=options.nkey,
        signature=options.sig,
        client_name=options.name,
        lang=options.lang,
        version=options.version,
        nonce=connection.nonce,
        peer_host=connection.peer_host,
        peer_port=connection.peer_port,
        connection_type=connection.listener_kind,
        certificate=certificate,
        certificate_chain=connection.channel.peer_chain() if certificate else (),
        tls=connection.channel.tls_facts(),
        cid=connection.cid,
        protocol=options.protocol,
    )


def auth_timeout_s(options: Options, connection: Connection) -> float:
    """Return how long the client of `connection` has for its CONNECT."""
    own_s = options.websocket.authorization.timeout_s
    if connection.listener_kind == "WEBSOCKET" and own_s:
        return own_s
    if options.authorization.timeout_s:
        return options.authorization.timeout_s
    return options.tls.timeout_s + _AFTER_TLS_S if options.tls.enabled else _AUTH_TIMEOUT_S
