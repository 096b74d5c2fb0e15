"""Byte counters that the processes of the load generator share.

Each slot is written by one process only, as one aligned 8-byte store, so no lock is needed.
"""

import mmap


class Counters:
    """Fixed slots of unsigned 64-bit numbers in memory that stays shared after a fork."""

    def __init__(self, publishers: int, subscribers: int) -> None:
        slots = publishers + subscribers + 1
        memory = memoryview(mmap.mmap(-1, slots * 8)).cast("Q")
        self.offered = memory[:publishers]
        """Per publisher: bytes that the subscribers must receive for what it has sent so far."""
        self.received = memory[publishers : publishers + subscribers]
        """Per subscriber connection: bytes received since the handshake."""
        self._last_byte = memory[publishers + subscribers :]

    @property
    def last_byte_ns(self) -> int:
        """When a subscriber last received something, on the monotonic clock."""
        return self._last_byte[0]

    @last_byte_ns.setter
    def last_byte_ns(self, value: int) -> None:
        self._last_byte[0] = value

    def outstanding_bytes(self) -> int:
        """Return how much all publishers together are ahead of all subscribers."""
        return sum(self.offered) - sum(self.received)

    def group_outstanding_bytes(self, publisher: int, subscribers: slice) -> int:
        """Return how much one publisher is ahead of its subscribers."""
        return self.offered[publisher] - sum(self.received[subscribers])
