"""What an observer of a server is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.subscription import RoutedSubscription


class Observer:
    """Is told what happens in a server; each method is a no-op. Called on the loop: be quick.

    `connection` is a Connection, which this room does not know.
    """

    def client_connected(self, connection: Any) -> None:
        """See a client that has been let in."""

    def client_closed(self, connection: Any) -> None:
        """See a client that has gone; its counts are final and `reason` says why."""

    def account_made(self, account: Account) -> None:
        """See a new account."""

    def subscribed(self, connection: Any, subscription: RoutedSubscription) -> None:
        """See a new subscription."""

    def unsubscribed(self, connection: Any, subscription: RoutedSubscription, cause: str) -> None:
        """See a subscription end: `unsubscribed`, `auto_unsubscribed` or `disconnected`."""

    def sees_runs(self) -> bool:
        """Tell whether `run_routed` may stand for as many calls of `message_routed`."""
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
