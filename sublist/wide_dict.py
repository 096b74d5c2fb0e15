"""A dictionary that may hold millions, and is never written anew as a whole."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHOLE_MAX = 40_000  # entries; it takes 4 ms to spread them
_PARTS = 64
_PART_BITS = 24  # of a hash: those below place an entry in its dictionary


class WideDict:
    """Values other than None, by bytes.

    A dictionary copies itself each time it has doubled, at 700,000 entries for 35 ms, in which
    nobody is served. Here, from `_WHOLE_MAX` entries on, there are several, each of which does so
    by itself.
    """

    __slots__ = ("_count", "_parts", "_whole")

    def __init__(self) -> None:
        self._count = 0
        self._whole: dict[bytes, Any] = {}
        self._parts: list[dict[bytes, Any]] | None = None

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get(self, key: bytes) -> Any:
        """Return the value of `key`, or None."""
        # Another thread may be spreading: what it has left behind is whole.
        whole = self._whole
        parts = self._parts
        if parts is None:
            return whole.get(key)
        part = parts[hash(key) >> _PART_BITS & _PARTS - 1]
        return part.get(key)

    def put(self, key: bytes, value: Any) -> None:
        """Set the value of `key`, which must not be None."""
        part = self._part_of(key)
        self._count -= len(part)
        part[key] = value
        self._count += len(part)
        if self._count > _WHOLE_MAX and self._parts is None:
            self._spread()

    def pop(self, key: bytes) -> Any:
        """Take `key` out; return its value, or None if it is not there."""
        value = self._part_of(key).pop(key, None)
        if value is not None:
            self._count -= 1
        return value

    def pop_any(self) -> Any:
        """Take a key out, the latest where there are few; return its value, or None."""
        for part in reversed(self.parts()):
            if part:
                self._count -= 1
                return part.popitem()[1]
        return None

    def values(self) -> Iterator[Any]:
        """Iterate over the values, in the order in which they came where there are few."""
        return chain.from_iterable(part.values() for part in self.parts())

    def parts(self) -> list[dict[bytes, Any]]:
        """Return the dictionaries that the entries are in."""
        return [self._whole] if self._parts is None else self._parts

    def _part_of(self, key: bytes) -> dict[bytes, Any]:
        if self._parts is None:
            return self._whole
        return self._parts[hash(key) >> _PART_BITS & _PARTS - 1]

    def _spread(self) -> None:
        parts: list[dict[bytes, Any]] = [{} for _ in range(_PARTS)]
        for key, value in self._whole.items():
            parts[hash(key) >> _PART_BITS & _PARTS - 1][key] = value
        self._parts = parts
        self._whole = {}
