"""Connections by address, user and account, counted by the parent of several workers.

A single process counts its connections itself. With several workers, each asks the parent for a
slot before it admits a connection that a limit applies to. Without a limit it only reports the
connection, so that the counts are complete if a reload adds a limit.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from midge.protocol import errors
from midge.server.auth import Identity, Refusal, Verdict
from midge.server.auth.identity import ConnectionLimitRefusal
from midge.server.channels.closed_reason import ClosedReason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from midge.server.accounts.plan import AccountPlan
    from midge.server.channels.host import Host
    from midge.server.clients.connection import Connection

NO_LIMIT = -1

QuotaClaim = tuple[str, str, int]
"""A limit that a connection counts towards: one of `ADDRESS`, `USER` and `ACCOUNT`, a name, and the
most connections; a negative number means unlimited."""

ADDRESS, USER, ACCOUNT = "connections_per_address", "connections_per_user", "account"
"""The first two are also the names of limits."""


class ConnectionQuota:
    """The slots of one worker's connections; `send` sends lines to the parent, in order.

    `plan_for` returns the plan of an account. In operator mode, `first_of` is awaited before the
    first connection of an account is admitted.
    """

    def __init__(
        self,
        host: Host,
        plan_for: Callable[[str], AccountPlan | None],
        send: Callable[[list[Any]], object],
    ) -> None:
        self.first_of: Callable[[str], Awaitable[object]] | None = None
        self._firsts: dict[str, asyncio.Future[object]] = {}
        self._host = host
        self._plan_for = plan_for
        self._send = send
        self._unsent: list[Any] = []
        self._last_number = 0
        self._asked: dict[int, asyncio.Future[str]] = {}

    def decide(
        self, connection: Connection, verdict: Verdict | Awaitable[Verdict]
    ) -> Verdict | Awaitable[Verdict]:
        """Return `verdict`, or a refusal if the client has no slot."""
        if isinstance(verdict, Refusal):
            return verdict
        if not isinstance(verdict, Identity):
            return self._decide_later(connection, verdict)
        claims = self._claims_of(connection, verdict)
        if self._is_known(verdict.account) and all(most < 0 for _, _, most in claims):
            self._queue(["take", connection.cid, 0, claims])
            return verdict
        return self._take_slot(connection, verdict, claims)

    def enter(
        self, connection: Connection, identity: Identity | None
    ) -> Verdict | Awaitable[Verdict] | None:
        """Ask for a slot for `connection`, as `identity` if it needs no CONNECT.

        Returns the verdict, or None if the connection is admitted and must still send CONNECT.
        """
        if identity is not None:
            return self.decide(connection, identity)
        claims = [self._address_of(connection)]
        if claims[0][2] < 0:
            self._queue(["take", connection.cid, 0, claims])
            return None
        return self._take_slot(connection, Identity(), claims)

    def leave(self, connection: Connection) -> None:
        """Give up the slots of a connection that has ended."""
        self._queue(["leave", connection.cid])

    def answered(self, answers: list[tuple[int, str]]) -> None:
        """Apply the parent's answers: each has a number, and the limit that was reached or ""."""
        for number, limit in answers:
            asked = self._asked.pop(number, None)
            if asked is not None and not asked.done():
                asked.set_result(limit)

    def introduce(self, verdict: Verdict | Awaitable[Verdict]) -> Verdict | Awaitable[Verdict]:
        """Return `verdict` on a connecting server, once all workers know its account."""
        if isinstance(verdict, Refusal):
            return verdict
        if isinstance(verdict, Identity) and self._is_known(verdict.account):
            return verdict
        return self._introduce(verdict)

    async def _introduce(self, verdict: Verdict | Awaitable[Verdict]) -> Verdict:
        decided = verdict if isinstance(verdict, Verdict) else await verdict
        if isinstance(decided, Identity):
            await self.make_known(decided.account)
        return decided

    # Asking.

    async def _decide_later(self, connection: Connection, pending: Awaitable[Verdict]) -> Verdict:
        verdict = self.decide(connection, await pending)
        return verdict if isinstance(verdict, Verdict) else await verdict

    async def _take_slot(
        self, connection: Connection, identity: Identity, claims: list[QuotaClaim]
    ) -> Verdict:
        await self.make_known(identity.account)
        limit = await self._ask(connection.cid, claims)
        if limit == ACCOUNT:
            text, reason = errors.MAXIMUM_ACCOUNT_CONNECTIONS, "MAXIMUM_ACCOUNT_CONNECTIONS"
            return ConnectionLimitRefusal("the account is full", text, ClosedReason[reason].value)
        if limit:
            reason = ClosedReason.MAXIMUM_CONNECTIONS.value
            return ConnectionLimitRefusal("too many", errors.MAXIMUM_CONNECTIONS, reason, limit)
        return identity

    def _is_known(self, account: str) -> bool:
        operator = self._host.options.operator
        if self.first_of is None or not (operator.jwts or operator.trusted_keys):
            return True
        first = self._firsts.get(account)
        return first is not None and first.done()

    async def make_known(self, account: str) -> None:
        """Wait until all workers know `account`."""
        if self._is_known(account):
            return
        assert self.first_of is not None, "accounts come with their clients"
        first = self._firsts.get(account)
        if first is None:
            first = self._firsts[account] = asyncio.ensure_future(self.first_of(account))
        await asyncio.shield(first)

    def _ask(self, cid: int, claims: list[QuotaClaim]) -> asyncio.Future[str]:
        self._last_number += 1
        asked = self._asked[self._last_number] = asyncio.get_running_loop().create_future()
        self._queue(["take", cid, self._last_number, claims])
        return asked

    def _queue(self, line: list[Any]) -> None:
        """Send `line` together with the other lines of this turn of the loop."""
        self._unsent.append(line)
        if len(self._unsent) == 1:
            self._host.clock.call_later(0, self._send_queued)

    def _send_queued(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._send(unsent)

    # Claims.

    def _claims_of(self, connection: Connection, identity: Identity) -> list[QuotaClaim]:
        plan = self._plan_for(identity.account)
        per_user = self._host.options.limits.max_connections_per_user
        most = NO_LIMIT if plan is None else plan.max_connections
        claims = [self._address_of(connection), (ACCOUNT, identity.account, most)]
        if identity.user:
            claims.append((USER, f"{identity.account} {identity.user}", per_user or NO_LIMIT))
        return claims

    def _address_of(self, connection: Connection) -> QuotaClaim:
        per_address = self._host.options.limits.max_connections_per_address
        return (ADDRESS, connection.peer_host, per_address or NO_LIMIT)
