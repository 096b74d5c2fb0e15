"""Hold back publishers that are faster than a disk, until it has caught up."""

from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool

SLIGHT_BYTES = 16 * 1024
"""A publisher that has sent at most this much since a gate was shut is not held.

Publishers at full speed fill the queue for the disk every 30 ms. A low-volume publisher does not
cause that, but without this exemption its messages would wait for half of that time.
"""

SLIGHT_TOTAL_BYTES = 512 * 1024
"""When all such publishers together have sent this much, they are held as well."""

_NO_CHUNKS = ChunkPool()  # nothing is ever written to a gate
_SLIGHT = SLIGHT_BYTES  # C numbers where this is compiled
_SLIGHT_TOTAL = SLIGHT_TOTAL_BYTES


class Gate(Client):
    """Represents a receiver that is not a connection, such as a stream on a disk.

    While `is_shut`, its publishers are not read, except those that it `admits`.
    """

    def __init__(self, account: Account) -> None:
        Client.__init__(self, 0, account, _NO_CHUNKS)
        self.is_shut = False
        self._holding: dict[Client, None] = {}
        self._passed: dict[Client, int] = {}
        self._passed_total = 0

    def shut(self) -> None:
        """Hold publishers from now on."""
        self.is_shut = True

    def admits(self, publisher: Client, size: int) -> bool:
        """Count `size` bytes of `publisher` while this is shut; return False to hold it.

        See `SLIGHT_BYTES`.
        """
        passed: int = self._passed.get(publisher, 0) + size
        self._passed[publisher] = passed
        self._passed_total += size
        return passed <= _SLIGHT and self._passed_total <= _SLIGHT_TOTAL

    def open(self) -> None:
        """Release the publishers."""
        self.is_shut = False
        holding = self._holding
        self._holding = {}
        self._passed.clear()
        self._passed_total = 0
        for publisher in holding:
            publisher.release()

    def held_publishers(self) -> dict[Client, None]:
        """Return the publishers that are not read until the gate opens."""
        return self._holding
