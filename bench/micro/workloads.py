"""The subscriptions and subjects that the micro benchmarks use."""

import itertools
import random

from midge.sublist.subscription import Subscription

TOKENS = (b"orders", b"eu", b"berlin", b"store", b"new", b"paid", b"sent")
"""Seven tokens on five levels give 16,807 subjects."""

COUNT = 10_000


def subjects(count: int = COUNT) -> list[bytes]:
    """Return distinct literal subjects of five tokens in a fixed shuffled order."""
    everything = [b".".join(tokens) for tokens in itertools.product(TOKENS, repeat=5)]
    random.Random(1).shuffle(everything)
    return everything[:count]


def with_wildcards(literals: list[bytes], share: float) -> list[bytes]:
    """Replace tokens of that share of the subjects: one by `*`, or the last ones by `>`."""
    rng = random.Random(2)
    return [_widened(s, rng) if rng.random() < share else s for s in literals]


def subscriptions(patterns: list[bytes]) -> list[Subscription]:
    """Return a subscription for each pattern."""
    return [Subscription(p, None, b"%d" % number) for number, p in enumerate(patterns)]


def _widened(subject: bytes, rng: random.Random) -> bytes:
    tokens = subject.split(b".")
    level = rng.randrange(1, len(tokens))
    if rng.random() < 0.5:
        return b".".join([*tokens[:level], b"*", *tokens[level + 1 :]])
    return b".".join([*tokens[:level], b">"])
