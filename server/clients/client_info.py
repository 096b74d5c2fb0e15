"""The descriptions of a client for services and the system account."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from midge.protocol.errors import quote

if TYPE_CHECKING:
    from midge.protocol.messages import ConnectOptions
    from midge.server.clients.connection import Connection

CLIENT_TYPES = {"STANDARD": "nats", "WEBSOCKET": "websocket"}
"""Monitoring's names for the clients of each kind of listener."""


def user_of(connection: Connection) -> str:
    """Return the user of `connection`, or the claimed user if it was refused or not asked."""
    if connection.identity is not None and connection.identity.user:
        return str(connection.identity.user)
    said = connection.options
    return said.nkey or said.user or ("[REDACTED]" if said.auth_token else "")


def issuer_key_of(connection: Connection) -> str:
    """Return the key that signed the client's JWT; of an nkey in the configuration, its account."""
    identity = connection.identity
    if identity is None:
        return ""
    has_nkey = bool(identity.user) and identity.user == connection.options.nkey
    return identity.issuer or (identity.account if has_nkey else "")


def offered_by(said: ConnectOptions) -> str:
    """Return the user that a CONNECT claims, as nats-server logs it, no secrets; "" if none."""
    if said.nkey:
        return f"Nkey {quote(said.nkey.encode(errors='replace'))}"
    if said.user:
        return f"User {quote(said.user.encode(errors='replace'))}"
    # The key in a token counts only once the token is verified.
    return 'Token "[REDACTED]"' if said.auth_token and not said.jwt else ""


def client_info(connection: Connection, wall_offset_s: float) -> dict[str, Any]:
    """Describe the client of `connection`; unknown fields are left out.

    `wall_offset_s` is the wall clock minus the monotonic clock.
    """
    options = connection.options
    facts = {
        "start": datetime.fromtimestamp(connection.started_at + wall_offset_s, UTC),
        "host": connection.peer_host,
        "id": connection.cid,
        "acc": connection.account.name,
        "user": user_of(connection),
        "name": options.name,
        "lang": options.lang,
        "ver": options.version,
        "kind": "Client",
        "client_type": CLIENT_TYPES.get(connection.listener_kind, "nats"),
    }
    return {field: value for field, value in facts.items() if value}


def shared_info(
    connection: Connection, wall_offset_s: float, server: str, cluster: str
) -> dict[str, Any]:
    """Return the description of a client that a service gets if the import shares it."""
    round_trip_s = connection.channel.keepalive.round_trip_s or 0.0
    return {
        **client_info(connection, wall_offset_s),
        "rtt": round(round_trip_s * 1e9),
        "server": server,
        "cluster": cluster or None,
    }


def client_label(connection: Connection) -> str:
    """Return version, language and name of a client in nats-server's form: `v2.3:python3:shop`."""
    options = connection.options
    if not (options.name or options.lang or options.version):
        return ""
    version = f"v{options.version}" if options.version else ""
    return ":".join(part for part in (version, options.lang, options.name) if part)
