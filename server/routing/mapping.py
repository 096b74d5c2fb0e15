"""Subject mappings: rewrite a published subject before it is matched.

`Mappings` chooses among a mapping's destinations, each a `Transform`, by weight. The share that the
weights leave of 100 % keeps its subject, or is dropped when the source itself is among the
destinations. Random numbers come from the generator that is passed in.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from midge.sublist.bounded_cache import BoundedCache
from midge.sublist.subjects import is_literal, matches

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from midge.server.config import options
    from midge.sublist.transform import Transform

CACHE_MAX = 1024
"""Most subjects whose mapping is cached."""

CACHED_SUBJECT_MAX_BYTES = 256
"""Longest subject whose mapping is cached."""

# In steps of a SubList, of some 40 ns each: mapping an uncached subject, and comparing it with one
# pattern.
_MISS_STEPS = 50
_PATTERN_STEPS = 8


class Mappings:
    """Maps the subjects published in one account.

    `steps` counts the work for uncached subjects, in steps of a SubList.
    """

    def __init__(self, tables: Iterable[options.Mapping], random: Random) -> None:
        """Compile `tables`; of several matching sources, a literal one or else the first wins.

        Raises:
            ValueError: an entry is bad; the text names its source.
        """
        compiled = [_WeightedMapping(table, random) for table in tables]
        self._literal = {m.source: m for m in reversed(compiled) if is_literal(m.source)}
        self._patterns = [m for m in compiled if not is_literal(m.source)]
        self._cache = BoundedCache(CACHE_MAX)
        self.steps = 0

    def sources(self) -> list[bytes]:
        """List the subjects that are mapped."""
        return [*self._literal, *(mapping.source for mapping in self._patterns)]

    def map(self, subject: bytes) -> bytes | None:
        """Return the subject that a message to `subject` goes to; None drops it."""
        known: bytes | None = self._cache.get(subject)
        if known is not None:
            return known
        self.steps += _MISS_STEPS + _PATTERN_STEPS * len(self._patterns) + len(subject)
        mapping = self._literal.get(subject) or self._find(subject)
        mapped = subject if mapping is None else mapping.choose(subject)
        is_steady = mapping is None or mapping.is_steady
        if is_steady and mapped is not None and len(subject) <= CACHED_SUBJECT_MAX_BYTES:
            self._cache.put(subject, mapped)
        return mapped

    def _find(self, subject: bytes) -> _WeightedMapping | None:
        """Return the first mapping with wildcards that matches `subject`."""
        tokens = subject.split(b".")
        return next((m for m in self._patterns if m.covers(subject, tokens)), None)


class _WeightedMapping:
    """One source with its destinations."""

    def __init__(self, table: options.Mapping, random: Random) -> None:
        from midge.sublist.transform import Transform  # noqa: PLC0415 - few accounts map subjects

        where = f"mapping of {table.source!r}"
        self.source = table.source.encode()
        self._before_fwc = self.source.count(b".") + (not self.source.endswith(b">"))
        self._random = random
        self._choices: list[tuple[int, Transform]] = []
        reached = 0
        weights: Counter[str] = Counter()
        seen: set[str] = set()
        for destination in table.destinations:
            if destination.destination in seen:
                raise ValueError(f"{where}: duplicate destination {destination.destination!r}")
            seen.add(destination.destination)
            reached += destination.weight_percent
            weights[destination.cluster] += destination.weight_percent
            try:
                transform = Transform(table.source, destination.destination, random)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
            self._choices.append((reached, transform))
        if max(weights.values(), default=0) > 100:
            raise ValueError(f"{where}: expected weights of at most 100 % in all, got {reached}")
        self._keeps_rest = table.source not in seen
        is_random = any(transform.is_random for _, transform in self._choices)
        self.is_steady = not is_random and (reached == 0 or self._choices[0][0] == 100)

    def covers(self, subject: bytes, tokens: list[bytes]) -> bool:
        """Return whether the source covers `subject`, which is split into `tokens`.

        As on nats-server, a published ``>`` is matched by ``>`` but not by ``*``.
        """
        return b">" not in tokens[: self._before_fwc] and matches(subject, self.source)

    def choose(self, subject: bytes) -> bytes | None:
        """Return the subject that this message to `subject` goes to; None drops it."""
        drawn = 0 if self.is_steady else self._random.randrange(100)
        for reached, transform in self._choices:
            if drawn < reached:
                return transform.rewrite(subject)
        return subject if self._keeps_rest else None
