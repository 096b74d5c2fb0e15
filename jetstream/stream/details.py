"""The state and the info of a stream, and the lists of STREAM.INFO: subjects and deleted sequences.

A large stream is read in pieces while it stays in use. Its subjects are first counted by ranges of
the alphabet; then the subjects of the page's ranges are collected, so that only a page of a million
subjects is sorted and held in memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

from midge.jetstream.json.encode import encode, text
from midge.jetstream.json.times import ZERO_TIME, format_time
from midge.jetstream.store import lookups
from midge.jetstream.store.store import Store
from midge.jetstream.stream.pieces import Pieces
from midge.jetstream.stream.searching import is_pattern
from midge.jetstream.stream.stream import Stream

LISTED_APART = -1
"""Placeholder in a state for a list that is written separately, see `details`."""


def state(
    stream: Stream, *, with_subjects: bool = False, with_deleted: bool = False
) -> dict[str, Any]:
    """Return the state as answers show it, with `LISTED_APART` for the lists that are asked for."""
    store = stream.store
    fields: dict[str, Any] = {
        "messages": store.messages,
        "bytes": store.bytes,
        "first_seq": store.first_seq,
        "first_ts": _time(store.first_time_ns()),
        "last_seq": store.last_seq,
        "last_ts": _time(max(store.last_time_ns, stream.skipped_ns)),
    }
    if store.subject_count:
        fields["num_subjects"] = store.subject_count
    if with_subjects:
        fields["subjects"] = LISTED_APART
    deleted = lookups.deleted_count(store) if store.last_seq > store.first_seq else 0
    if deleted:
        fields["num_deleted"] = deleted
        if with_deleted:
            fields["deleted"] = LISTED_APART
    lost = getattr(store, "lost", None)
    lost_bytes = getattr(store, "lost_bytes", 0)
    if lost or lost_bytes:
        fields["lost"] = {"msgs": sorted(lost or ()), "bytes": lost_bytes}
    fields["consumer_count"] = len(stream.consumers)
    return fields


def info(
    stream: Stream,
    *,
    config: dict[str, Any],
    shown_state: dict[str, Any],
    domain: str = "",
    cluster: str = "",
) -> dict[str, Any]:
    """Return the info of a stream; `domain` and `cluster`, its leader, only if not empty."""
    fields: dict[str, Any] = {
        "config": config,
        "created": format_time(stream.created_ns),
        "state": shown_state,
    }
    if domain:
        fields["domain"] = domain
    if cluster:
        fields["cluster"] = {"leader": cluster}
    fields |= stream.origins.info()
    fields["ts"] = format_time(stream.clock.wall_ns())
    return fields


def _time(ns: int) -> str:
    return format_time(ns) if ns else ZERO_TIME


SUBJECTS_MAX = 100_000
"""Most subjects that one answer details, as in nats-server."""

SEQUENCES_MAX = 100_000
"""Most deleted sequences that one answer lists; nats-server lists all, whatever their number."""

PIECE_SUBJECTS = 10_000
"""Subjects looked at in one piece: some 4 ms, at up to 0.4 us each to find and sort."""

PIECE_SEQUENCES = 20_000
"""Sequences listed in one piece: some 4 ms, at 0.2 us each to find and write."""

_GAP_COST = 5  # of finding one, in sequences: 1 us

_DRAWN = 4096
_RANGES = 256
"""Ranges of the alphabet: of a million subjects each has 4,000, sorted and written in 5 ms."""


class Details(NamedTuple):
    """Members of the JSON object of the subjects, elements of the list of deleted sequences.

    `total` is the number of matching subjects.
    """

    subjects: bytes = b""
    total: int = 0
    deleted: bytes = b""


def details(
    store: Store, random: Random, pattern: bytes, offset: int, *, with_deleted: bool
) -> Pieces[Details]:
    """Return the page of subjects that begins at `offset`; an empty `pattern` asks for none.

    Without a pattern, `offset` is where the page of deleted sequences begins.
    """
    subjects, total = b"", 0
    if pattern:
        subjects, total = yield from _subjects(store, random, pattern, offset)
    apart = 0 if pattern else offset
    deleted = (yield from _deleted(store, apart)) if with_deleted else b""
    return Details(subjects, total, deleted)


def _subjects(
    store: Store, random: Random, pattern: bytes, offset: int
) -> Pieces[tuple[bytes, int]]:
    """Return a page of subjects with their counts, and how many match."""
    page, total = yield from subject_page(store, random, pattern, offset, SUBJECTS_MAX)
    parts = []
    for names in page:
        counts = {text(name): store.count_for_subject(name) for name in names}
        parts.append(encode(counts)[1:-1])
        if len(page) > 1:
            yield
    return b",".join(part for part in parts if part), total


def subject_page(
    store: Store, random: Random, pattern: bytes, offset: int, most: int
) -> Pieces[tuple[list[list[bytes]], int]]:
    """Return up to `most` subjects in order from the one at `offset`, and how many match.

    They come as several lists, none of which is long.
    """
    if not is_pattern(pattern):
        found = [pattern] if store.count_for_subject(pattern) else []
        return [found[offset:]], len(found)
    if store.subject_numbers() <= PIECE_SUBJECTS:
        found, _ = lookups.subject_names(store, pattern, 0, PIECE_SUBJECTS)
        found.sort()
        return [found[offset : offset + most]], len(found)
    yield
    bounds = _bounds(store, random, pattern)
    sizes = yield from _sizes(store, pattern, bounds)
    ranges, skipped = _needed(sizes, offset, most)
    gathered = yield from _gathered(store, pattern, bounds, ranges)
    page = []
    for names in gathered:
        names.sort()
        page.append(names[skipped : skipped + most])
        skipped = max(skipped - len(names), 0)
        most -= len(page[-1])
        yield
    return page, sum(sizes)


def _bounds(store: Store, random: Random, pattern: bytes) -> list[bytes]:
    """Return names between which there are about equally many subjects that match.

    They are drawn at random: no order in which subjects are stored makes one range much larger.
    """
    limit = store.subject_numbers()
    drawn: set[bytes] = set()
    for _ in range(_DRAWN):
        names, _ = lookups.subject_names(store, pattern, random.randrange(limit), 1)
        drawn.update(names)
    return sorted(drawn)[:: max(len(drawn) // _RANGES, 1)]


def _runs(store: Store, pattern: bytes) -> Iterator[list[bytes]]:
    """Yield the subjects that match, some of them in order at a time."""
    number = 0
    while number >= 0:
        names, number = lookups.subject_names(store, pattern, number, PIECE_SUBJECTS)
        names.sort()
        yield names


def _sizes(store: Store, pattern: bytes, bounds: list[bytes]) -> Pieces[list[int]]:
    """Count the subjects below the first of the bounds, between each two, and beyond the last."""
    sizes = [0] * (len(bounds) + 1)
    for names in _runs(store, pattern):
        for i, (start, end) in enumerate(pairwise(_places(names, bounds))):
            sizes[i] += end - start
        yield
    return sizes


def _places(names: list[bytes], bounds: list[bytes]) -> list[int]:
    """Return where the ranges between bounds begin in sorted names, and where the last one ends."""
    places = [0]
    for bound in bounds:
        places.append(bisect_left(names, bound, places[-1]))
    return [*places, len(names)]


def _needed(sizes: list[int], offset: int, most: int) -> tuple[range, int]:
    """Return the ranges that a page is in, and how many subjects of them stand before it."""
    first, before = 0, 0
    while first < len(sizes) and before + sizes[first] <= offset:
        before += sizes[first]
        first += 1
    last, end = first, before
    while last < len(sizes) and end < offset + most:
        end += sizes[last]
        last += 1
    return range(first, last), offset - before


def _gathered(
    store: Store, pattern: bytes, bounds: list[bytes], ranges: range
) -> Pieces[list[list[bytes]]]:
    """Return the subjects of some ranges."""
    gathered: list[list[bytes]] = [[] for _ in ranges]
    if not ranges:
        return gathered
    for names in _runs(store, pattern):
        places = _places(names, bounds)
        for i, found in zip(ranges, gathered, strict=True):
            found.extend(names[places[i] : places[i + 1]])
        yield
    return gathered


def _deleted(store: Store, offset: int) -> Pieces[bytes]:
    """Return the elements of a JSON list: a page of the sequences without a message."""
    if lookups.deleted_count(store) > PIECE_SEQUENCES:
        yield
    parts: list[bytes] = []
    found: list[int] = []
    listed = spent = 0
    seq = store.first_seq or 1
    while listed < SEQUENCES_MAX:
        start, end = _gap(store, seq)
        if start == end:
            break
        seq = end + 1
        spent += _GAP_COST
        passed = min(offset, end - start)
        offset -= passed
        start += passed
        while start < end and listed < SEQUENCES_MAX:
            upto = min(end, start + PIECE_SEQUENCES, start + SEQUENCES_MAX - listed)
            found.extend(range(start, upto))
            listed += upto - start
            spent += upto - start
            start = upto
            if spent >= PIECE_SEQUENCES:
                break
        if start < end:
            seq = start
        if spent >= PIECE_SEQUENCES:
            parts.append(encode(found)[1:-1])
            found.clear()
            spent = 0
            yield
    parts.append(encode(found)[1:-1])
    return b",".join(part for part in parts if part)


def _gap(store: Store, seq: int) -> tuple[int, int]:
    return lookups.gap(store, seq)
