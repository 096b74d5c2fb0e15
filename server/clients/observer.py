"""The interface for observers of a server's accounts, clients and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.routing.message_observer import MessageObserver

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol.frame import Frame
    from midge.server.auth import Identity, Refusal
    from midge.server.clients.connection import Connection
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.contained_faults import ContainedFaults
    from midge.server.routing.subscription import RoutedSubscription


class Observer(MessageObserver):
    """Gets the events of a server; each method is a no-op. It runs on the loop and must be quick.

    It gets messages only if the broker is asked to `watch_messages` for it.
    """

    def client_connected(self, connection: Connection) -> None:
        """Called for a client that has been admitted."""

    def client_closed(self, connection: Connection) -> None:
        """Called for a client that has gone; its counts are final, and it has a `reason`."""

    def client_refused(self, connection: Connection, refusal: Refusal) -> None:
        """Called for a client whose authentication has failed, before it is closed."""

    def tokens_scanned(self, why_ended: Callable[[Identity], Refusal | None]) -> None:
        """Called after each check of tokens in operator mode.

        `why_ended` returns why an identity is no longer valid, or None.
        """

    def account_made(self, account: Account) -> None:
        """Called for a new account."""

    def accounts_planned(self) -> None:
        """Called when limits, imports or mappings of accounts may have changed."""

    def cluster_renamed(self) -> None:
        """Called when the server's cluster has a new name."""

    def cluster_urls_changed(self) -> None:
        """Called when servers of the cluster have other addresses for clients or leaf nodes."""

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """Called for a new subscription."""

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """Called when one ends, by `unsubscribed`, `auto_unsubscribed` or `disconnected`."""


class Observers:
    """The observers of one server; an exception in one of them does not affect the others.

    Each is called only for the events whose no-op it overrides: of the ten observers that a server
    may have, at most one handles subscriptions.
    """

    def __init__(self, faults: ContainedFaults) -> None:
        """Count the exceptions of observers in `faults`."""
        self._faults = faults
        self._observers: list[Observer] = []
        self.see_subscriptions = False  # whether any observer handles subscriptions
        self._methods: dict[str, tuple[tuple[Observer, Callable[..., None]], ...]] = {}

    def __contains__(self, observer: object) -> bool:
        return observer in self._observers

    def append(self, observer: Observer) -> None:
        """Add `observer`; it is called after the observers added before it."""
        self._observers.append(observer)
        self._choose()

    def remove(self, observer: Observer) -> None:
        """Remove `observer`. Raises: ValueError when it was not added."""
        self._observers.remove(observer)
        self._choose()

    def show(self, event: str, *arguments: object) -> None:
        """Call the method `event` of each observer."""
        for observer, method in self._methods.get(event, ()):
            try:
                method(*arguments)
            except Exception as error:  # noqa: BLE001 - not the client's fault
                self._faults.note(observer, error)

    def _choose(self) -> None:
        """Collect for each event the observers that override its method."""
        self._methods = {
            event: tuple(
                (observer, getattr(observer, event))
                for observer in self._observers
                if getattr(type(observer), event) is not no_op
            )
            for event, no_op in vars(Observer).items()
            if not event.startswith("_")
        }
        self.see_subscriptions = bool(self._methods["subscribed"])


class SeveralObservers(MessageObserver):
    """Show each message to all of `observers`; `faults` counts what any of them raises.

    Runs stay runs when all of them see those.
    """

    def __init__(self, observers: list[MessageObserver], faults: ContainedFaults) -> None:
        self._observers = observers
        self._faults = faults
        self._sees_runs = all(observer.sees_runs() for observer in observers)

    def sees_runs(self) -> bool:
        """Return whether all of them see runs."""
        return self._sees_runs

    def run_routed(
        self,
        account: Account,
        publisher: Client | None,
        frame: Frame,
        count: int,
        plain: int,
    ) -> None:
        """Show the run that `frame` begins to each."""
        base = frame.base
        for observer in self._observers:
            try:
                observer.run_routed(account, publisher, frame, count, plain)
            except Exception as error:  # noqa: BLE001 - the others still have to see it
                frame.base = base
                self._faults.note(observer, error)

    def message_routed(
        self,
        account: Account,
        publisher: Client | None,
        frame: Frame,
        plain: int,
        queued: int,
    ) -> None:
        """Show `frame` to each."""
        for observer in self._observers:
            try:
                observer.message_routed(account, publisher, frame, plain, queued)
            except Exception as error:  # noqa: BLE001 - the others still have to see it
                self._faults.note(observer, error)
