"""Ask the service of an auth callout: publish the request, take the answer, return a verdict."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from msgspec import structs

from midge.protocol import COMPATIBLE_VERSION
from midge.protocol.headers import format_headers
from midge.server.auth.callout import (
    CALLOUT_SUBJECT,
    XKEY_HEADER,
    CalloutError,
    CalloutService,
    Question,
    claimed_user,
    signed_token,
    without_callout,
)
from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.log.logger import get_logger
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.protocol.frame import Frame
    from midge.server.accounts.links import AccountLinks
    from midge.server.auth import Authenticator
    from midge.server.broker.server_keys import ServerKeys
    from midge.server.channels.host import Host
    from midge.server.internal.internal_publisher import InternalPublisher
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client

_INBOX = "$SYS._INBOX"
_NO_ANSWER = "authorization callout response not received in time on account {!r}"

log = get_logger()


class CalloutClient:
    """Asks a service about the clients that it decides on; other clients keep their verdict."""

    def __init__(
        self,
        host: Host,
        keys: ServerKeys,
        publisher: InternalPublisher,
        links: AccountLinks,
        account: Callable[[str], Account],
    ) -> None:
        self._host = host
        self._keys = keys
        self._publisher = publisher
        self._links = links
        self._account = account
        self._inbox = f"{_INBOX}.{secrets.token_hex(4)}"

    def decide(
        self,
        authenticator: Authenticator,
        request: AuthRequest,
        verdict: Verdict | Awaitable[Verdict],
        timeout_s: float,
    ) -> Verdict | Awaitable[Verdict]:
        """Return the final verdict on `request`, whose own credentials have led to `verdict`."""
        if isinstance(verdict, Verdict):
            return self._decide(authenticator, request, verdict, timeout_s)
        return self._decide_later(authenticator, request, verdict, timeout_s)

    async def _decide_later(
        self,
        authenticator: Authenticator,
        request: AuthRequest,
        pending: Awaitable[Verdict],
        timeout_s: float,
    ) -> Verdict:
        verdict = self._decide(authenticator, request, await pending, timeout_s)
        return verdict if isinstance(verdict, Verdict) else await verdict

    def _decide(
        self, authenticator: Authenticator, request: AuthRequest, verdict: Verdict, timeout_s: float
    ) -> Verdict | Awaitable[Verdict]:
        service = self._service_for(authenticator, request, verdict)
        if service is None:
            return verdict
        is_proven = isinstance(verdict, Identity)
        user = verdict.user if isinstance(verdict, Identity) else claimed_user(request)
        if user in service.auth_users or (service.operator is not None and not is_proven):
            return _bound(verdict, service)  # a service decides only on proven owners of a token
        return self._ask(service, request, claimed_user(request) or user, timeout_s)

    # Choosing the service.

    def _service_for(
        self, authenticator: Authenticator, request: AuthRequest, verdict: Verdict
    ) -> CalloutService | None:
        """Return the service that decides on the client, or None."""
        if authenticator.operator is not None:
            return self._service_of_account(authenticator, request, verdict)
        table = authenticator.callout
        if table is None:
            return None
        account = verdict.account if isinstance(verdict, Identity) else GLOBAL_ACCOUNT
        is_leaf = request.connection_type == "LEAFNODE"
        is_configured = account != GLOBAL_ACCOUNT and not is_leaf
        if is_configured and table.allowed_accounts and account not in table.allowed_accounts:
            return None
        return CalloutService(
            account=table.account or GLOBAL_ACCOUNT,
            issuer=table.issuer,
            auth_users=table.auth_users,
            xkey=table.xkey,
            accounts=self._links.plans.keys(),
        )

    def _service_of_account(
        self, authenticator: Authenticator, request: AuthRequest, verdict: Verdict
    ) -> CalloutService | None:
        """Return the service that the token of the client's account names."""
        mode, now_s = authenticator.operator, self._host.clock.wall()
        assert mode is not None, "asked in operator mode only"
        if isinstance(verdict, Identity):
            account = mode.delegating_account(verdict.account, now_s)
        else:
            account = mode.delegating(request, now_s)
        if account is None or account.nats.authorization is None:
            return None
        external = account.nats.authorization
        return CalloutService(
            account=account.sub,
            issuer=account.sub,
            auth_users=external.auth_users or (),
            xkey=external.xkey,
            allowed_accounts=external.allowed_accounts or (),
            operator=mode,
        )

    # Asking.

    async def _ask(
        self, service: CalloutService, request: AuthRequest, user: str, timeout_s: float
    ) -> Verdict:
        """Ask `service` for the identity of the client of `request`, which claims to be `user`."""
        if service.operator is None and service.account not in self._links.plans:
            return Refusal(f'no valid account "{service.account}" for auth callout request')
        signer = self._keys.signer()
        curve = signer.curve if service.xkey else None
        question = Question(service, request, user, curve, self._keys.server_id)
        now_s = int(self._host.clock.wall())
        server = self._server(curve.public if curve else "")
        claims = question.claims(server, signer.public, now_s, int(now_s + timeout_s))
        asked, headers = signed_token(claims, signer.sign), None
        if curve is not None:
            asked = curve.seal(asked, service.xkey)
            headers = format_headers({XKEY_HEADER: curve.public})
        answer = await self._answer(service, asked, headers, timeout_s)
        if answer is None:
            text = _NO_ANSWER.format(service.account)
            return Refusal(text, account=service.account, reported="", user=user)
        try:
            return _bound(question.judge(answer, self._host.clock.wall()), service)
        except CalloutError as error:
            log.warning("auth_callout_refused", account=service.account, error=str(error))
            return Refusal(str(error), account=service.account, reported=str(error), user=user)

    async def _answer(
        self, service: CalloutService, asked: bytes, headers: bytes | None, timeout_s: float
    ) -> bytes | None:
        """Publish a request; return the first answer to it, or None if none comes in time."""
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        inbox = _Inbox(f"{self._inbox}.{secrets.token_hex(8)}".encode(), answered)
        account = self._account(service.account)
        account.add(inbox)
        timer = self._host.clock.call_later(timeout_s, _settle, answered, None)
        try:
            self._publisher.publish(account, CALLOUT_SUBJECT, asked, inbox.subject, headers)
            return await answered
        finally:
            timer.cancel()
            account.remove(inbox)

    def _server(self, xkey: str) -> dict[str, Any]:
        """Return the description of this server in a request."""
        options, keys = self._host.options, self._keys
        facts = {
            "name": options.server_name or keys.server_id,
            "host": options.listen.host,
            "id": keys.server_id,
            "version": COMPATIBLE_VERSION,
            "tags": list(options.server_tags),
            "xkey": xkey,
        }
        return {name: value for name, value in facts.items() if value}


class _Inbox(RoutedSubscription):
    """Takes the answer to one request."""

    def __init__(self, subject: bytes, answered: asyncio.Future[bytes | None]) -> None:
        RoutedSubscription.__init__(self, subject)
        self._answered = answered

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take the first answer."""
        _settle(self._answered, frame.payload_bytes())
        return True


def _settle(answered: asyncio.Future[bytes | None], answer: bytes | None) -> None:
    if not answered.done():
        answered.set_result(answer)


def _bound(verdict: Verdict, service: CalloutService) -> Verdict:
    """Return `verdict`, without the right to ask the service for clients in its account.

    Only the server may ask.
    """
    if isinstance(verdict, Refusal):
        return structs.replace(verdict, account=service.account)
    return without_callout(verdict) if verdict.account == service.account else verdict
