"""Expiry of identities: credentials and accounts that are valid until a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.server.clients.closed_reason import ClosedReason

if TYPE_CHECKING:
    from midge.server.auth import Identity
    from midge.server.clients.connection import Connection
    from midge.server.clients.host import Host
    from midge.server.clock import Timer

_LONGEST_WAIT_S = 3600.0
"""Longest time between two checks of an expiry, because the wall clock may jump."""


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
            self._host.router.flush_unless_due()
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
