"""Several observers of messages as one, which is all that a router has a place for."""

from typing import TYPE_CHECKING

from midge.server.routing.observer import MessageObserver

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.routing.contained_faults import ContainedFaults


class SeveralObservers(MessageObserver):
    """Show each message to all of `observers`; `faults` counts what any of them raises.

    Runs stay runs when all of them see those.
    """

    def __init__(self, observers: list[MessageObserver], faults: "ContainedFaults") -> None:
        self._observers = observers
        self._faults = faults
        self._sees_runs = all(observer.sees_runs() for observer in observers)

    def sees_runs(self) -> bool:
        """Return whether all of them see runs."""
        return self._sees_runs

    def run_routed(
        self,
        account: "Account",
        publisher: "Client | None",
        frame: "Frame",
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
