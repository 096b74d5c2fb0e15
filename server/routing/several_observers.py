"""Several observers of messages as one, which is all that a router has a place for."""

from typing import TYPE_CHECKING

from midge.server.routing.observer import Observer

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.contained_faults import ContainedFaults


class SeveralObservers(Observer):
    """Show each message to all of `observers`; `faults` counts what any of them raises."""

    def __init__(self, observers: list[Observer], faults: "ContainedFaults") -> None:
        self._observers = observers
        self._faults = faults

    def message_routed(
        self,
        account: "Account",
        publisher: "Client | None",
        frame: "Frame",
        plain: int,
        queued: int,
    ) -> None:
        """Show `frame` to each."""
        for observer in self._observers:
            try:
                observer.message_routed(account, publisher, frame, plain, queued)
            except Exception as error:  # noqa: BLE001 - the others still have to see it
                self._faults.note(observer, error)
