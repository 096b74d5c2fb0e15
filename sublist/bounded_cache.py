"""A bounded cache for repeated questions about subjects."""

from __future__ import annotations

from typing import Any


class BoundedCache:
    """Up to `most` answers in `entries`; a full cache is cleared before the next `put`.

    Clearing costs nothing per look-up, unlike keeping an order of use, and the answers that are in
    use return soon.
    """

    __slots__ = ("entries", "most")

    def __init__(self, most: int) -> None:
        self.entries: dict[Any, Any] = {}
        self.most = most

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: object) -> Any:
        """Return the answer for `key`, or None if it is not cached."""
        return self.entries.get(key)

    def put(self, key: object, answer: object) -> None:
        """Keep `answer`, which must not be None."""
        if len(self.entries) >= self.most:
            self.entries.clear()
        self.entries[key] = answer
