"""Identification in progress: the request of a connection, its time limit, and open questions.

There is at most one question per connection. When its connection ends or is authenticated again,
the question is cancelled, and its answer is ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from midge.protocol import errors
from midge.server.auth import AuthRequest, Refusal, Verdict
from midge.server.channels.closed_reason import ClosedReason

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from midge.protocol.messages import ConnectOptions
    from midge.server.clients.connection import Connection
    from midge.server.config.options import Options

_AUTH_TIMEOUT_S = 2.0
_AFTER_TLS_S = 1.0

Conclude = Callable[["Connection", Verdict], None]
"""Applies a verdict to a connection."""


def request_of(connection: Connection) -> AuthRequest:
    """Return the authentication request of `connection`: its credentials and its peer."""
    options, channel = connection.options, connection.channel
    tls = channel.tls_facts()
    certificate = b"" if tls is None else channel.peer_certificate()
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
        certificate_chain=channel.peer_chain() if certificate else (),
        tls=tls,
        proxy_signature=options.proxy_sig,
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


def refusal_of(options: ConnectOptions, *, header_support: bool) -> tuple[ClosedReason, str] | None:
    """Return reason and -ERR text if no client may connect with such options, else None."""
    if options.account or options.new_account:
        return ClosedReason.AUTHENTICATION_FAILURE, errors.AUTHORIZATION_VIOLATION
    if options.protocol < 0 or options.protocol > 1:
        return ClosedReason.BAD_CLIENT_PROTOCOL, errors.INVALID_CLIENT_PROTOCOL
    if options.no_responders and not (options.headers and header_support):
        return ClosedReason.NO_RESPONDERS_REQUIRES_HEADERS, errors.NO_RESPONDERS_REQUIRES_HEADERS
    return None


class OpenQuestion(Struct, frozen=True, eq=False):
    """An open question; `apply_verdict` takes the verdict."""

    pending: asyncio.Future[Verdict]
    apply_verdict: Conclude

    def verdict(self) -> Verdict:
        """Return the answer; a cancelled or failed question is a refusal."""
        if self.pending.cancelled():
            return Refusal("the question was called off")
        error = self.pending.exception()
        return self.pending.result() if error is None else Refusal(f"internal error: {error}")


class PendingAuth:
    """The open questions of one server, by cid."""

    def __init__(self) -> None:
        self._open: dict[int, OpenQuestion] = {}

    def __contains__(self, connection: Connection) -> bool:
        return connection.cid in self._open

    def conclusion_of(self, connection: Connection) -> Conclude | None:
        """Return the function that will get the verdict on `connection`, or None."""
        question = self._open.get(connection.cid)
        return None if question is None else question.apply_verdict

    def ask(
        self, connection: Connection, verdict: Awaitable[Verdict], apply_verdict: Conclude
    ) -> None:
        """Call `apply_verdict` with the `verdict`, unless another question replaces this one."""
        self.drop(connection)
        question = OpenQuestion(asyncio.ensure_future(verdict), apply_verdict)
        self._open[connection.cid] = question
        question.pending.add_done_callback(lambda _: self._answered(connection, question))

    def drop(self, connection: Connection) -> None:
        """Cancel the question about `connection`."""
        question = self._open.pop(connection.cid, None)
        if question is not None and not question.pending.done():
            # In the next turn, when the coroutine has begun: Python warns of unawaited coroutines.
            asyncio.get_running_loop().call_soon(question.pending.cancel)

    def close(self) -> None:
        """Cancel all questions."""
        for question in self._open.values():
            question.pending.cancel()
        self._open.clear()

    def _answered(self, connection: Connection, question: OpenQuestion) -> None:
        """Apply the verdict, if `question` is still open."""
        if self._open.get(connection.cid) is question:
            del self._open[connection.cid]
            question.apply_verdict(connection, question.verdict())
