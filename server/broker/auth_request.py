"""The credentials that a connection offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.auth import AuthRequest

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection


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
