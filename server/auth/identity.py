"""The request and the answers of authentication.

An `AuthRequest` becomes an `Identity` or a `Refusal`. All are immutable; nothing here decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from midge.server.config.account_names import GLOBAL_ACCOUNT

if TYPE_CHECKING:
    from midge.server.auth.permissions import PermissionRules

UNLIMITED = -1
"""The value that means "no limit" in every limit below."""


class AuthRequest(Struct, frozen=True, kw_only=True):
    """Everything about a connection that authentication may use."""

    user: str = ""
    """CONNECT's ``user``."""
    password: str = ""
    """CONNECT's ``pass``."""
    token: str = ""
    """CONNECT's ``auth_token``."""
    jwt: str = ""
    """CONNECT's ``jwt``."""
    nkey: str = ""
    """CONNECT's ``nkey``: a public user key."""
    signature: str = ""
    """CONNECT's ``sig``: the nonce, signed, in base64."""
    client_name: str = ""
    """CONNECT's ``name``."""
    lang: str = ""
    """CONNECT's ``lang``."""
    version: str = ""
    """CONNECT's ``version``."""
    nonce: bytes = b""
    """The nonce of this connection's INFO."""
    peer_host: str = ""
    """Address that the client connects from."""
    peer_port: int = 0
    """Port that the client connects from."""
    connection_type: str = "STANDARD"
    """The kind of listener that the client is connected to."""
    certificate: bytes = b""
    """Client certificate in DER that the TLS handshake verified; empty without one."""
    certificate_chain: tuple[bytes, ...] = ()
    """The verified chain in DER, the client's certificate first."""
    tls: tuple[str, str] | None = None
    """Version (`TLSv1.3`) and cipher suite; None on a plain connection."""
    proxy_signature: str = ""
    """CONNECT's ``proxy_sig``: the nonce, signed by the proxy in between, in base64."""
    cid: int = 0
    """Number of the connection; 0 if it has none yet."""
    protocol: int = 0
    """CONNECT's ``protocol``."""

    def __repr__(self) -> str:
        """Show the request's origin, without its secrets."""
        return f"AuthRequest({self.client_name!r} at {self.peer_host}:{self.peer_port})"

    @property
    def has_credentials(self) -> bool:
        """Return whether the client sent a user name, password or token (no nkey or JWT)."""
        return bool(self.user or self.password or self.token)


class Identity(Struct, frozen=True, kw_only=True):
    """The user that a connection has authenticated as, and its rights."""

    user: str = ""
    """User name or public key; empty without authentication."""
    account: str = GLOBAL_ACCOUNT
    """Name of the account that the connection belongs to."""
    rules: PermissionRules | None = None
    """Compiled permissions; None when the user may do everything within the account."""
    max_subscriptions: int = UNLIMITED
    """Most subscriptions of the connection."""
    max_payload_bytes: int = UNLIMITED
    """Largest message, header included."""
    expires_at_s: float | None = None
    """When the identity ends, in seconds since the epoch."""
    ends_with_account: bool = False
    """Whether `expires_at_s` is the account's end, which comes before the user's."""
    issued_at_s: int = 0
    """When the user's JWT was issued, in seconds since the epoch; compared with revocations."""
    issuer: str = ""
    """Key that signed the user's JWT; empty outside operator mode."""
    display_name: str = ""
    """The user's name in the JWT; for logs and monitoring."""
    tags: tuple[str, ...] = ()
    """The user's tags in the JWT."""
    messages_per_s: int = 0
    """Messages a second that the user may publish; 0 means no limit."""
    bytes_per_s: int = 0
    """Bytes of these a second; 0 means no limit."""
    proxy_required: bool = False
    """Whether the user may connect through a trusted proxy only."""
    proxy_key: str = ""
    """Public key of the trusted proxy in between; empty without one."""


class Refusal(Struct, frozen=True):
    """Why a client was refused; `detail` is for the log, never for the peer."""

    detail: str
    wire: str = "Authorization Violation"
    """The text of the ``-ERR`` that the client gets."""
    reason: str = "Authentication Failure"
    """Reason of the closed connection in monitoring."""
    limit: str = ""
    """Name of the limit that was reached, if that is the reason."""
    account: str = GLOBAL_ACCOUNT
    """Account in which `$SYS.ACCOUNT.CLIENT.AUTH.ERR` reports the refusal."""
    reported: str = "Authentication Failure"
    """The reason in that report."""
    user: str = ""
    """The user whose credentials the client has proven to have; empty without one."""


class ConnectionLimitRefusal(Refusal, frozen=True):
    """The refusal of a connection over a limit; the client itself has done nothing wrong."""


Verdict = Identity | Refusal

Login = Callable[[AuthRequest], "Verdict | Awaitable[Verdict]"]
"""Identifies a client, at once or later."""
