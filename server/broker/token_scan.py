"""The regular check of account tokens in operator mode: they change, expire and revoke users."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from midge.server.accounts.from_tokens import TokenAccounts
    from midge.server.auth import Identity, Refusal
    from midge.server.auth.claims import AccountBody, Claims
    from midge.server.auth.operator import OperatorMode
    from midge.server.clients.connection import Connection


WhyEnded = Callable[["Identity"], "Refusal | None"]
"""Returns the reason why an identity is no longer valid, or None."""


class Found(Struct, frozen=True, eq=False):
    """Clients whose account, key or token has `ended`, and those whose account has `changed`."""

    ended: list[tuple[Connection, Refusal]]
    changed: list[Connection]
    why_ended: WhyEnded


def scan_tokens(
    mode: OperatorMode, accounts: TokenAccounts, connections: Iterable[Connection], now_s: float
) -> Found:
    """Plan `accounts` again by their current tokens, and return the affected connections."""
    before = accounts.claims
    accounts.plan(mode, set(before), now_s)
    known: dict[str, Claims[AccountBody]] = {}
    found = Found([], [], partial(mode.why_ended, now_s=now_s, known=known))
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
