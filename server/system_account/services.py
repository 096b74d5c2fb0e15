"""The subjects of the system account's services, `$SYS.REQ...`; see `system_requests.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from midge.server.internal.service import Request, Services

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.broker.broker import Broker
    from midge.server.routing.account import Account
    from midge.server.system_account.documents import Documents
    from midge.server.system_account.system_requests import SystemRequests

_MAX_WAITING = 64
"""Most waiting requests of one account; further ones get no answer."""

_PAGES = (
    "VARZ", "ROUTEZ", "GATEWAYZ", "LEAFZ", "ACCOUNTZ", "HEALTHZ", "STATSZ", "IDZ", "JSZ", "CONNZ",
    "SUBSZ", "RAFTZ", "IPQUEUESZ", "EXPVARZ", "PROFILEZ",
)  # fmt: skip
_OF_ACCOUNTS = ("CONNZ", "SUBSZ", "INFO", "LEAFZ", "JSZ", "STATZ", "CONNS")

_OF_DIRECTORY = ("UPDATE", "LIST", "DELETE", "PACK")


class SystemServices:
    """Subscribes the services, which answer with the documents of `documents`.

    `reload` loads the configuration.
    """

    def __init__(
        self,
        broker: Broker,
        documents: Callable[[], Documents],
        reload: Callable[[], Awaitable[None]] | None,
    ) -> None:
        self._documents = documents
        self._reload = reload
        self._broker = broker
        self._requests: SystemRequests | None = None
        self._services = Services(
            self._broker.internal, waiting_max=_MAX_WAITING, overfull=self._note_overfull
        )
        self.subscribed = 0

    def subscribe_system(self) -> None:
        """Offer the services of the system account."""
        account = self._broker.system_account
        server_id = self._broker.keys.server_id
        for prefix in ("$SYS.REQ.SERVER.PING", f"$SYS.REQ.SERVER.{server_id}"):
            for name in _PAGES:
                self._offer(f"{prefix}.{name}", account, name)
        self._offer("$SYS.REQ.SERVER.PING", account, "STATSZ")
        for name in ("KICK", "LDM", "RELOAD"):
            self._offer(f"$SYS.REQ.SERVER.{server_id}.{name}", account, name)
        for name in _OF_ACCOUNTS:
            self._offer(f"$SYS.REQ.ACCOUNT.*.{name}", account, f"ACCOUNT {name}")
        self._offer_tokens(account)

    def _offer_tokens(self, account: Account) -> None:
        """Offer the requests about account tokens; most only with a directory of tokens."""
        subjects = {f"$SYS.{kind}.*.CLAIMS.UPDATE": "UPDATE" for kind in ("ACCOUNT", "REQ.ACCOUNT")}
        if self._broker.options.operator.resolver == "directory":
            subjects |= {f"$SYS.REQ.CLAIMS.{name}": name for name in _OF_DIRECTORY}
            subjects["$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"] = "LOOKUP"
        for subject, name in subjects.items():
            self._services.offer(account, subject.encode(), partial(self._answer_tokens, name))
            self.subscribed += 1

    async def _answer_tokens(self, name: str, request: Request) -> bytes | None:
        from midge.server.system_account.account_tokens import (  # noqa: PLC0415 - seldom asked for
            AccountTokens,
        )

        return await AccountTokens(self._broker, self._documents()).answer(name, request)

    def subscribe_account(self, account: Account, *, everything: bool) -> None:
        """Offer the services of every account: user information, and the account's own counts.

        Each worker answers about the users of its own clients. Only one worker, with `everything`,
        answers with the counts.
        """
        self._offer("$SYS.REQ.USER.INFO", account, "USER")
        if everything and account is not self._broker.system_account:
            self._offer("$SYS.REQ.ACCOUNT.PING.STATZ", account, "OWN STATZ")
            self._offer("$SYS.REQ.ACCOUNT.PING.CONNZ", account, "OWN CONNZ")
            self._offer("$SYS.REQ.SERVER.PING.CONNZ", account, "OWN CONNZ")

    def close(self) -> None:
        """Stop answering."""
        self._services.close()

    def _offer(self, subject: str, account: Account, name: str) -> None:
        async def answer(request: Request) -> bytes | None:
            return await self._answers().answer(name, request)

        self._services.offer(account, subject.encode(), answer)
        self.subscribed += account is self._broker.system_account

    def _answers(self) -> SystemRequests:
        if self._requests is None:
            from midge.server.system_account.system_requests import SystemRequests  # noqa: PLC0415 - see there

            self._requests = SystemRequests(self._documents(), self._reload)
        return self._requests

    def _note_overfull(self) -> None:
        self._broker.limit_hits["system_requests"] += 1
