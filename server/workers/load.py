"""A worker's reports of its load to its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.clients.observer import Observer

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.workers.control import ControlChannel
    from midge.server.workers.role import HandedSockets

_SETTLE_S = 0.05  # by then most sockets handed over have become connections


class LoadReport(Observer):
    """Counts the connections of `broker` for the parent, which counts those that it hands over.

    It reports an end in the next turn of the loop, so that a full server has room again at once. It
    reports new connections a little later, because the parent has counted them already.
    """

    def __init__(self, broker: Broker, source: HandedSockets, control: ControlChannel) -> None:
        self._broker = broker
        self._source = source
        self._control = control
        self._is_due = False
        self._is_expected = False

    def start(self) -> None:
        """Tell from now on."""
        self._broker.observers.append(self)
        self._source.taken = self._expect

    def client_connected(self, connection: Any) -> None:
        """See a client that has been let in."""
        self._expect()

    def client_closed(self, connection: Any) -> None:
        """See a connection end."""
        if not self._is_due:
            self._is_due = True
            self._broker.clock.call_later(0, self._tell)

    def _expect(self) -> None:
        """Count again in a moment."""
        if not self._is_expected:
            self._is_expected = True
            self._broker.clock.call_later(_SETTLE_S, self._count)

    def _count(self) -> None:
        self._is_expected = False
        self._tell()

    def _tell(self) -> None:
        self._is_due = False
        self._control.tell("load", received=self._source.received, open=len(self._broker.clients))
