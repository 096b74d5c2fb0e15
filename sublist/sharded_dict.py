"""A dictionary for millions of entries that never copies itself as a whole."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHOLE_MAX = 40_000  # entries of one dictionary; spreading them over several takes 4 ms
_PARTS = 64
_PART_BITS = 24  # the hash bits from here on select a part; those below place an entry in it


class ShardedDict:
    """Values other than None, by bytes.

    A dictionary copies itself each time it has doubled. At 700,000 entries that takes 35 ms, and
    the server serves no client meanwhile. From `_WHOLE_MAX` entries on, the entries are therefore
    spread over several dictionaries, which grow one at a time.
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
        # Another thread may be spreading the entries: the dictionary that it reads stays complete.
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
        """Remove `key`; return its value, or None without one."""
        value = self._part_of(key).pop(key, None)
        if value is not None:
            self._count -= 1
        return value

    def pop_any(self) -> Any:
        """Remove any key, the latest while there is one dictionary; return its value, or None."""
        for part in reversed(self.parts()):
            if part:
                self._count -= 1
                return part.popitem()[1]
        return None

    def values(self) -> Iterator[Any]:
        """Iterate over the values, in order of insertion while there is one dictionary."""
        return chain.from_iterable(part.values() for part in self.parts())

    def parts(self) -> list[dict[bytes, Any]]:
        """Return the dictionaries that hold the entries."""
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
