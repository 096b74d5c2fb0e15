"""The interface for observers of a server's accounts, clients and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.routing.observer import MessageObserver

if TYPE_CHECKING:
    from midge.server.clients.connection import Connection
    from midge.server.routing.account import Account
    from midge.server.routing.subscription import RoutedSubscription


class Observer(MessageObserver):
    """Is told what happens in a server; each method is a no-op. Called on the loop: be quick.

    Of messages it is told only when the broker is asked to `watch_messages` for it.
    """

    def client_connected(self, connection: Connection) -> None:
        """See a client that has been admitted."""

    def client_closed(self, connection: Connection) -> None:
        """See a client that has gone; its counts are final and `reason` says why."""

    def account_made(self, account: Account) -> None:
        """See a new account."""

    def accounts_planned(self) -> None:
        """See that accounts may have other limits, imports or mappings."""

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """See a new subscription."""

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """See a subscription end: `unsubscribed`, `auto_unsubscribed` or `disconnected`."""
