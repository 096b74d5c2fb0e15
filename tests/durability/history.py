"""Check whether the answers to several clients about a key fit one order of writes.

Each write names the sequence that it expects the key to be at, and gets the next one; so the writes
that succeeded are a chain. A write without an answer may have happened or not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

UNKNOWN, WRITTEN, REFUSED = "unknown", "written", "refused"


@dataclass(frozen=True)
class Write:
    """A compare-and-set: `seq` is its sequence, or the key's sequence in the refusal."""

    key: int
    expected: int
    began: float
    ended: float
    outcome: str
    seq: int = 0


def violations(history: list[Write]) -> list[str]:
    """Return the fault, or nothing if some order explains all answers."""
    by_key: defaultdict[int, list[Write]] = defaultdict(list)
    for write in history:
        by_key[write.key].append(write)
    return [text for key, writes in sorted(by_key.items()) for text in _of_key(key, writes)]


def _of_key(key: int, writes: list[Write]) -> list[str]:
    chain = sorted((w for w in writes if w.outcome == WRITTEN), key=lambda w: w.seq)
    lost = {w.expected for w in writes if w.outcome == UNKNOWN}
    found = []
    if chain and chain[0].expected != 0 and 0 not in lost:
        found.append(f"key {key}: {chain[0]} is the first, and expects another")
    for before, after in pairwise(chain):
        if after.expected != before.seq and before.seq not in lost:
            found.append(f"key {key}: {after} does not follow {before}")
        if after.expected < before.seq:
            found.append(f"key {key}: {after} overwrites {before} unseen")
        if after.ended < before.began:
            found.append(f"key {key}: {after} ended before {before} began")
    found.extend(
        f"key {key}: {refused} was told what cannot have been"
        for refused in writes
        if refused.outcome == REFUSED and not _can_be(refused, chain, lost)
    )
    return found


def _can_be(refused: Write, chain: list[Write], lost: set[int]) -> bool:
    """Return whether the key can have had the sequence of a refusal at the time of the write."""
    if refused.seq == refused.expected:
        return False
    writer = next((w for w in chain if w.seq == refused.seq), None)
    if writer is None and refused.seq != 0 and not lost:
        return False
    if writer is not None and writer.began > refused.ended:
        return False
    following = next((w for w in chain if w.expected == refused.seq), None)
    return following is None or following.ended > refused.began
