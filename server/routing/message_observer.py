"""The interface for observers of a server's messages; of clients: `clients/observer.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client


class MessageObserver:
    """Called with what the router does; each method is a no-op. Called on the loop: be quick."""

    def sees_runs(self) -> bool:
        """Return whether one `run_routed` may replace several calls of `message_routed`."""
        return False

    def run_routed(
        self, account: Account, publisher: Client | None, frame: Frame, count: int, plain: int
    ) -> None:
        """See `count` messages, `frame` the first, after `plain` deliveries of each of them.

        They lie one behind the other, each `frame.end` bytes long, and all have the control line of
        the one that came before them.
        """

    def message_routed(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """See a message after its deliveries; `frame` is valid until this returns."""
