"""Use of one kind of storage by an account and by the server, and the limits on it."""

from __future__ import annotations

_UNLIMITED = -1


class Usage:
    """Bytes in use. `limit` of -1 means unlimited; bytes here also count at `parent`."""

    __slots__ = ("limit", "parent", "used")

    def __init__(self, limit: int = _UNLIMITED, parent: Usage | None = None) -> None:
        self.limit = limit
        self.parent = parent
        self.used = 0

    def add(self, size: int) -> None:
        """Count `size` bytes more, or less."""
        usage: Usage | None = self
        while usage is not None:
            usage.used += size
            usage = usage.parent

    def is_exceeded(self, size: int) -> bool:
        """Return whether the server would use more than it may with `size` bytes more."""
        parent = self.parent
        return parent is not None and 0 <= parent.limit < parent.used + size

    def would_exceed_account(self, size: int) -> bool:
        """Return whether the account would use more than it may with `size` bytes more."""
        return 0 <= self.limit < self.used + size

    def has_room(self, size: int) -> bool:
        """Return whether `size` bytes more are within all limits."""
        parent = self.parent
        return not 0 <= self.limit < self.used + size and not (
            parent is not None and 0 <= parent.limit < parent.used + size
        )
