"""Passwords and tokens: compare them in constant time, plain or bcrypt.

bcrypt is slow on purpose, so it runs in a few threads of its own. The number of connections bounds
its queue, and the authentication time-out bounds each wait.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from midge.server.config.options import Options, User
    from midge.server.config.security import Tls

_BCRYPT = r"(?s)^\$2[abxy]\$\d{2}\$.{53}$"
_BCRYPT_MAX_BYTES = 72
"""Bytes of a password that bcrypt uses; the rest is ignored, as in other servers."""

_BCRYPT_THREADS = 2


def is_bcrypt(stored: str) -> bool:
    """Return whether the configured `stored` text is a bcrypt hash."""
    return re.match(_BCRYPT, stored) is not None


def has_plain_ones(settings: Options) -> bool:
    """Return whether `settings` have a password in plain text, for which nats-server warns.

    A user without a password counts as well, unless its certificate identifies it.
    """
    table = settings.authorization
    if table.password and not is_bcrypt(table.password):
        return True
    users = (*table.users, *(user for account in settings.accounts for user in account.users))
    return any(
        user.user
        and not is_bcrypt(user.password)
        and (user.password or not _maps_certificates(settings, user))
        for user in users
    )


def _maps_certificates(settings: Options, user: User) -> bool:
    """Return whether a listener that `user` may connect to maps certificates to users."""
    allowed = user.allowed_connection_types
    return any(
        tls.verify_and_map and (not allowed or kind in allowed)
        for kind, tls in listeners_of(settings).items()
    )


def listeners_of(settings: Options) -> dict[str, Tls]:
    """Return the TLS settings by connection type; leaf nodes have the same for both of theirs."""
    leafs = settings.leafnodes.tls
    return {
        "STANDARD": settings.tls,
        "WEBSOCKET": settings.websocket.tls,
        "LEAFNODE": leafs,
        "LEAFNODE_WS": leafs,
    }


def is_same_text(stored: str, offered: str) -> bool:
    """Compare two plain secrets in a time that does not depend on where they differ."""
    import hmac  # noqa: PLC0415 - loads OpenSSL's hashes

    return hmac.compare_digest(stored.encode(errors="replace"), offered.encode(errors="replace"))


def is_hash_of(stored: str, offered: str) -> bool:
    """Return whether `stored` is the bcrypt hash of `offered`.

    Slow; a malformed hash does not match.
    """
    import bcrypt  # noqa: PLC0415 - only for servers with hashes

    password = offered.encode(errors="replace")[:_BCRYPT_MAX_BYTES]
    try:
        return bcrypt.checkpw(password, stored.encode(errors="replace"))
    except ValueError:
        return False


class PasswordChecker:
    """Checks bcrypt hashes in threads, a few at a time. Use one per server and close it."""

    def __init__(self) -> None:
        """Start no thread until the first hash is checked."""
        self._threads: ThreadPoolExecutor | None = None

    async def is_hash_of(self, stored: str, offered: str) -> bool:
        """Return whether `stored` is the bcrypt hash of `offered`, without blocking the loop."""
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

            self._threads = ThreadPoolExecutor(_BCRYPT_THREADS, thread_name_prefix="midge-bcrypt")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, is_hash_of, stored, offered)

    def close(self) -> None:
        """Release the threads; checks that have not started are dropped."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
