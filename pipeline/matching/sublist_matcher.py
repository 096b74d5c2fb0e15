"""Match columns of subjects, instead of single messages, by the SubList that routes live traffic.

A `Matcher` is built in a Spark worker from the broadcast patterns, and stays there for later tasks.
It does not need Spark itself.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midge.sublist import OwnedSubscription, SubList

Indices = npt.NDArray[np.int64]

PAIRS_MAX = 1 << 18
"""Approximate number of pairs in one batch of answers, because a fan-out has no bound."""

MEMO_MAX = 1_000_000
"""Most subjects whose answers a matcher remembers; then it drops all of them."""

_MATCHERS_MAX = 2  # a worker seldom serves more queries at a time
_NOTHING: Indices = np.empty(0, np.int64)
_matchers: OrderedDict[str, "Matcher"] = OrderedDict()


class Matcher:
    """Matches subjects against patterns by scope.

    `patterns` has a column `pattern` and the columns named in `scope`; a pattern only matches
    subjects of equal scope. An invalid pattern matches nothing.
    """

    def __init__(self, patterns: pa.Table, scope: Sequence[str] = ()) -> None:
        self.patterns = patterns.combine_chunks()
        self._scope = list(scope)
        self._sublists: dict[tuple[object, ...], SubList] = {}
        self._memo: dict[tuple[tuple[object, ...], str], Indices] = {}
        # The memo below is the cache; a second one inside the SubList would only take time.
        scopes = zip(*(patterns.column(name).to_pylist() for name in scope), strict=True)
        for index, pattern in enumerate(patterns.column("pattern").to_pylist()):
            sublist = self._sublist(next(scopes) if scope else ())
            sublist.insert(OwnedSubscription(pattern.encode(), owner=index))

    def match(self, subject: str | None, scope: tuple[object, ...] = ()) -> Indices:
        """Return the indices of the patterns that match `subject`; null matches nothing."""
        if subject is None or None in scope:
            return _NOTHING
        found = self._memo.get((scope, subject))
        if found is None:
            found = self._match(subject, scope)
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            self._memo[scope, subject] = found
        return found

    def pairs(self, batch: pa.RecordBatch) -> Iterator[tuple[Indices, Indices]]:
        """Yield row numbers of `batch` and the pattern indices they pair with, bounded in size."""
        codes, answers = self._answers(batch)
        if not answers:
            return
        lengths = np.fromiter(map(len, answers), np.int64, len(answers))
        flat = np.concatenate(answers)
        starts = np.cumsum(lengths) - lengths
        counts = lengths[codes]
        for first, last in _bounded(np.cumsum(counts)):
            part = counts[first:last]
            rows = np.repeat(np.arange(first, last), part)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(part) - part, part)
            yield rows, flat[np.repeat(starts[codes[first:last]], part) + within]

    def _answers(self, batch: pa.RecordBatch) -> tuple[Indices, list[Indices]]:
        """Return each row's code and each code's answer, matching each distinct subject once."""
        subjects = batch.column("subject").dictionary_encode(null_encoding="encode")
        values = subjects.dictionary.to_pylist()
        codes = subjects.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if not self._scope:
            return codes, [self.match(subject) for subject in values]
        scopes: list[tuple[object, ...]] = [()]
        scope_codes = np.zeros(len(codes), np.int64)
        for name in self._scope:
            column = batch.column(name).dictionary_encode(null_encoding="encode")
            members = column.dictionary.to_pylist()
            indices = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            scopes = [(*left, right) for left in scopes for right in members]
            scope_codes = scope_codes * len(members) + indices
        distinct, codes = np.unique(scope_codes * len(values) + codes, return_inverse=True)
        pairs = (divmod(int(code), len(values)) for code in distinct)
        return codes, [self.match(values[subject], scopes[scope]) for scope, subject in pairs]

    def _match(self, subject: str, scope: tuple[object, ...]) -> Indices:
        sublist = self._sublists.get(scope)
        if sublist is None:
            return _NOTHING
        plain = sublist.match(subject.encode()).plain
        return np.fromiter(
            (subscription.owned_by() for subscription in plain), np.int64, len(plain)
        )

    def _sublist(self, scope: tuple[object, ...]) -> SubList:
        sublist = self._sublists.get(scope)
        if sublist is None:
            sublist = self._sublists[scope] = SubList(cache_max=0, cache_sweep_to=0)
        return sublist


def worker_matcher(name: str, build: Callable[[], Matcher]) -> Matcher:
    """Return this worker's matcher called `name`, built on first use and kept for later tasks."""
    matcher = _matchers.get(name)
    if matcher is None:
        matcher = _matchers[name] = build()
        while len(_matchers) > _MATCHERS_MAX:
            _matchers.popitem(last=False)
    return matcher


def _bounded(ends: Indices) -> Iterator[tuple[int, int]]:
    """Cut rows with these cumulated pair counts into runs of about `PAIRS_MAX` pairs."""
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + PAIRS_MAX, side="right"))
        last = max(last, first + 1)
        yield first, last
        first = last
