"""The interface for observers of a server's accounts, clients and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.routing.observer import MessageObserver

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clients.connection import Connection
    from midge.server.routing.account import Account
    from midge.server.routing.contained_faults import ContainedFaults
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

    def cluster_renamed(self) -> None:
        """See that the cluster which the server is in has another name."""

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """See a new subscription."""

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """See a subscription end: `unsubscribed`, `auto_unsubscribed` or `disconnected`."""


class Observers:
    """The observers of one server; what any of them raises affects no other.

    Each is called only for the events whose no-op it replaces: of ten observers that a server may
    have, one at most looks at subscriptions.
    """

    def __init__(self, faults: ContainedFaults) -> None:
        """Count in `faults` what observers raise."""
        self._faults = faults
        self._observers: list[Observer] = []
        self.see_subscriptions = False  # whether any of them is told of subscriptions
        self._told: dict[str, tuple[tuple[Observer, Callable[..., None]], ...]] = {}

    def __contains__(self, observer: object) -> bool:
        return observer in self._observers

    def append(self, observer: Observer) -> None:
        """Tell `observer` what happens, after those before it."""
        self._observers.append(observer)
        self._choose()

    def remove(self, observer: Observer) -> None:
        """Tell `observer` no more. Raises: ValueError when it is not told."""
        self._observers.remove(observer)
        self._choose()

    def show(self, event: str, *arguments: object) -> None:
        """Call the method `event` of each observer."""
        for observer, method in self._told.get(event, ()):
            try:
                method(*arguments)
            except Exception as error:  # noqa: BLE001 - the client has no part in it
                self._faults.note(observer, error)

    def _choose(self) -> None:
        """Find out for each event which observers have a method of their own for it."""
        self._told = {
            event: tuple(
                (observer, getattr(observer, event))
                for observer in self._observers
                if getattr(type(observer), event) is not no_op
            )
            for event, no_op in vars(Observer).items()
            if not event.startswith("_")
        }
        self.see_subscriptions = bool(self._told["subscribed"])
