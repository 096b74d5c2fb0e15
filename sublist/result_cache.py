"""The results of a SubList by subject, for subjects that a dictionary look-up does not answer.

An insert replaces the results that it matches by ones that include the new subscription, and a
remove drops them, so that every cached result is valid.

The cache adapts to subjects that do not repeat. If more subjects are in rotation than it holds,
each result is evicted before its next use, and ack subjects are never used again. A sweep that
found fewer than four hits per result built therefore lets only every seventh result in; once
results are used again, every result is cached.
"""

from itertools import islice

from midge.sublist.result import SubListResult
from midge.sublist.subjects import matches
from midge.sublist.subscription import Subscription

_COPIED_MAX = 64  # an insert replaces results up to this many subscriptions, and drops larger ones
_READ_PER_STEP = 32  # bytes of a subject compared in one step
_WEIGHT_MAX = 1 << 20  # subscriptions in all results of more than _COPIED_MAX
_KEEP_EVERY = 7  # cache every seventh result while few are reused; odd, as subjects come in pairs
_USES = 4  # cache every result while each built one is used this often, on average


class ResultCache:
    """Results in `by_subject`, at most `most` of them; with 0 nothing is cached.

    One more evicts the oldest until `sweep_to` are left.
    """

    __slots__ = (
        "_hits_before",
        "_keep_every",
        "_misses",
        "_most",
        "_sweep_to",
        "_weight",
        "by_subject",
    )

    def __init__(self, most: int, sweep_to: int) -> None:
        if most < 0 or not 0 <= sweep_to <= most:
            raise ValueError(
                f"expected 0 <= cache_sweep_to <= cache_max, got {sweep_to} and {most}"
            )
        self.by_subject: dict[bytes, SubListResult] = {}
        self._most = most
        self._sweep_to = sweep_to
        self._weight = 0
        self._misses = 0  # results built since the last sweep
        self._hits_before = 0  # cache hits up to the last sweep
        self._keep_every = 1  # how many results are built for each one that is cached

    def is_sampling(self) -> bool:
        """Return whether only a sample of the results is cached."""
        return self._keep_every > 1

    def skips_next(self) -> bool:
        """Return whether the next result that is built will not be cached."""
        return (self._misses + 1) % self._keep_every != 0

    def skip(self) -> None:
        """Count a result that was found without building it; it takes the turn of the next one."""
        self._misses += 1

    def keep(self, subject: bytes, result: SubListResult, hits: int) -> None:
        """Count a result that was built, and cache it if it belongs to the sample.

        `hits` counts all matches so far that found a result.
        """
        if self._most == 0:
            return
        self._misses += 1
        if self._misses % self._keep_every:
            return
        reach = result.reach()
        if reach > _COPIED_MAX:
            self._weight += reach
            if self._weight > _WEIGHT_MAX:
                self.by_subject.clear()
                self._weight = reach
        self.by_subject[subject] = result
        if len(self.by_subject) > self._most:
            self._sweep(hits)

    def add(self, added: Subscription, literal: bool) -> int:
        """Replace the results that `added` matches by ones that include it; return the steps taken.

        Large results are dropped, because copying them for each of many inserts would take
        quadratic time.
        """
        keys: list[bytes] = []
        steps = self._find_matched(added.subject, literal, keys)
        for key in keys:
            known = self.by_subject.get(key)
            if known is None:
                continue
            if known.fan_out() > _COPIED_MAX or known.reach() > _COPIED_MAX:
                del self.by_subject[key]
            else:
                self.by_subject[key] = known.with_added(added)
                steps += _COPIED_MAX
        return steps

    def drop(self, subject: bytes, literal: bool) -> int:
        """Drop the results that a subscription to `subject` was part of; return the steps taken."""
        keys: list[bytes] = []
        steps = self._find_matched(subject, literal, keys)
        for key in keys:
            self.by_subject.pop(key, None)
        return steps

    def clear(self) -> None:
        """Drop all results."""
        self.by_subject.clear()
        self._weight = 0

    def _find_matched(self, pattern: bytes, literal: bool, found: list[bytes]) -> int:
        """Append the cached subjects that `pattern` matches to `found`; return the steps taken.

        A comparison reads at most as many bytes of a subject as the pattern has.
        """
        if literal:
            found.append(pattern)
            return 0
        steps = 0
        most = len(pattern)
        for key in self.by_subject:
            steps += 1 + min(len(key), most) // _READ_PER_STEP
            if matches(key, pattern):
                found.append(key)
        return steps

    def _sweep(self, hits: int) -> None:
        """Drop the oldest results until `sweep_to` are left, and decide how many are let in."""
        used = hits - self._hits_before
        self._hits_before = hits
        self._keep_every = 1 if used >= self._misses * _USES else _KEEP_EVERY
        self._misses = 0
        surplus = len(self.by_subject) - self._sweep_to
        for key in list(islice(self.by_subject, surplus)):
            del self.by_subject[key]
