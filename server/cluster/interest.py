"""How interest is told over a route, and which of it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.server.links.told import Key


class RouteDialect:
    """The lines RS+ and RS- of one account; LS+ and LS- for leaf nodes, if the peer reads those."""

    def __init__(self, account: str, *, names_origins: bool) -> None:
        self.names_origins = names_origins
        self._account = account.encode()

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""
        subject, queue, origin = key
        if queue is None and not origin:
            return b"RS+ %b %b\r\n" % (self._account, subject)
        words = [*self._words(b"+", origin), subject]
        if queue is not None:
            words += [queue, b"%d" % weight]
        return b" ".join(words) + b"\r\n"

    def ended(self, key: Key) -> bytes:
        """Write that interest has ended."""
        subject, queue, origin = key
        words = [*self._words(b"-", origin), subject]
        if queue is not None:
            words.append(queue)
        return b" ".join(words) + b"\r\n"

    def _words(self, sign: bytes, origin: str) -> list[bytes]:
        if not origin:
            return [b"RS" + sign, self._account]
        return [b"LS" + sign, origin.encode(), self._account]
