"""How many connections there are by address, user and account, over all workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

Key = tuple[str, str]
"""The key of a count: a kind, and a name of that kind."""


class Ledger:
    """The seats of all connections, by worker and client id."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._held: dict[int, dict[int, list[Key]]] = {}

    def hear(self, worker: int, lines: list[list[Any]]) -> list[tuple[int, str]]:
        """Do what a worker has written in `lines`; return the answers to what it asks.

        A line is `["take", cid, number, claims]`, answered where the number is not 0, or
        `["leave", cid]`.
        """
        answers: list[tuple[int, str]] = []
        for kind, cid, *rest in lines:
            if kind == "leave":
                self._leave(worker, cid)
                continue
            number, claims = rest
            limit = self._take(worker, cid, claims)
            if number:
                answers.append((number, limit))
        return answers

    def forget(self, worker: int) -> None:
        """Free the seats of a worker that has ended."""
        for keys in self._held.pop(worker, {}).values():
            self._free(keys)

    def count(self, kind: str, name: str) -> int:
        """Return how many connections there are of one name."""
        return self._counts[kind, name]

    def _take(self, worker: int, cid: int, claims: list[tuple[str, str, int]]) -> str:
        """Seat a connection, in place of the seats that it has; return the limit that forbids it.

        A connection that is refused has no seat any more.
        """
        self._leave(worker, cid)
        for kind, name, most in claims:
            if 0 <= most <= self._counts[kind, name]:
                return kind
        keys = [(kind, name) for kind, name, _ in claims]
        self._held.setdefault(worker, {})[cid] = keys
        self._counts.update(keys)
        return ""

    def _leave(self, worker: int, cid: int) -> None:
        self._free(self._held.get(worker, {}).pop(cid, ()))

    def _free(self, keys: list[Key] | tuple[()]) -> None:
        for key in keys:
            self._counts[key] -= 1
            if not self._counts[key]:
                self._counts.pop(key)
