"""Ends of identities: at the time in them, or when a token of operator mode changes or expires."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from midge.protocol import errors
from midge.server.channels.closed_reason import ClosedReason

if TYPE_CHECKING:
    from midge.server.accounts.from_tokens import TokenAccounts
    from midge.server.auth import Identity, Refusal
    from midge.server.auth.claims import AccountBody, Claims
    from midge.server.auth.operator import OperatorMode
    from midge.server.channels.host import Host
    from midge.server.clients.connection import Connection
    from midge.server.clock import Timer

_LONGEST_WAIT_S = 3600.0
"""Longest time between two checks of an expiry, because the wall clock may jump."""

WhyEnded = Callable[["Identity"], "Refusal | None"]
"""Returns the reason why an identity is no longer valid, or None."""


class Expiries:
    """Closes each connection when its identity expires."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._timers: dict[int, Timer] = {}

    def watch(self, connection: Connection, identity: Identity) -> None:
        """Close `connection` when `identity`, which it is bound to, expires."""
        if identity.expires_at_s is None:
            return
        left_s = identity.expires_at_s - self._host.clock.wall()
        if left_s <= 0:
            connection.close(ClosedReason.AUTHENTICATION_EXPIRED, expiry_text(identity))
            return
        self._timers[connection.cid] = self._host.clock.call_later(
            min(left_s, _LONGEST_WAIT_S), self.watch, connection, identity
        )

    def forget(self, connection: Connection) -> None:
        """Stop watching `connection`, if it is watched."""
        timer = self._timers.pop(connection.cid, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Cancel every timer."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


def expiry_text(identity: Identity) -> str:
    """Return the -ERR text for a client whose `identity` has expired."""
    if identity.ends_with_account:
        return errors.ACCOUNT_AUTHENTICATION_EXPIRED
    return errors.AUTHENTICATION_EXPIRED


class ScanResult(Struct, frozen=True, eq=False):
    """Clients whose account, key or token has `ended`, and those whose account has `changed`."""

    ended: list[tuple[Connection, Refusal]]
    changed: list[Connection]
    why_ended: WhyEnded


def scan_tokens(
    mode: OperatorMode, accounts: TokenAccounts, connections: Iterable[Connection], now_s: float
) -> ScanResult:
    """Plan `accounts` again by their current tokens, and return the affected connections."""
    before = accounts.claims
    accounts.plan(mode, set(before), now_s)
    known: dict[str, Claims[AccountBody]] = {}
    found = ScanResult([], [], partial(mode.why_ended, now_s=now_s, known=known))
    for connection in connections:
        identity = connection.identity
        if identity is None:
            continue
        ended = mode.why_ended(identity, now_s, known)
        if ended is not None:
            found.ended.append((connection, ended))
        elif before.get(identity.account) is not known[identity.account]:
            found.changed.append(connection)
    return found
