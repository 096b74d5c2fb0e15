"""The buffers that streams have read ahead into, within one budget for a store directory."""

from __future__ import annotations

from typing import Protocol

BUDGET_BYTES = 64 << 20
"""Most bytes in the buffers of all streams: enough for a thousand consumers that catch up with 64
KiB each. A buffer has at least the size of one record."""


class Owner(Protocol):
    """Has a buffer."""

    def drop_ahead(self) -> None:
        """Drop the buffer; later reads fill it again."""


class ReadBuffers:
    """Drops the buffers that were filled longest ago as soon as all together are too large."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self.total_bytes = 0
        self._budget_bytes = budget_bytes
        self._sizes: dict[Owner, int] = {}

    def filled(self, owner: Owner, size: int) -> None:
        """Count a buffer filled with `size` bytes, and drop older ones above the budget."""
        self.emptied(owner)
        self._sizes[owner] = size
        self.total_bytes += size
        while self.total_bytes > self._budget_bytes and len(self._sizes) > 1:
            oldest = next(iter(self._sizes))
            self.emptied(oldest)
            oldest.drop_ahead()

    def emptied(self, owner: Owner) -> None:
        """Note that a buffer was freed."""
        self.total_bytes -= self._sizes.pop(owner, 0)
