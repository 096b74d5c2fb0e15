"""Holds back publishers that are faster than a disk, for as long as it takes."""

from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool

_NO_CHUNKS = ChunkPool()  # nothing is ever written to a gate


class Gate(Client):
    """Stands for a receiver of what publishers send that is not a connection.

    While `is_shut`, its publishers are not read.
    """

    def __init__(self, account: Account) -> None:
        Client.__init__(self, 0, account, _NO_CHUNKS)
        self.is_shut = False
        self._holding: dict[Client, None] = {}

    def shut(self) -> None:
        """Hold publishers from now on."""
        self.is_shut = True

    def open(self) -> None:
        """Release the publishers."""
        self.is_shut = False
        holding = self._holding
        self._holding = {}
        for publisher in holding:
            publisher.release()

    def held(self, publisher: Client) -> None:
        """Remember `publisher`, which is not read until the gate opens."""
        self._holding[publisher] = None

    def unheld(self, publisher: Client) -> None:
        """Forget `publisher`, which waits no longer."""
        self._holding.pop(publisher, None)
