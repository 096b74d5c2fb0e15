"""How much of what a link may tell one interest takes up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.sublist.subscription import RemoteSubscription

_USUAL_TOKENS = 8
_USUAL_BYTES = 1024


def size_of(told: RemoteSubscription) -> int:
    """Return 1, and one more for each token beyond 8 and for each 1,024 bytes of what it names.

    A token of a wildcard subject takes 300 bytes where no other subject shares it, and a line may
    have 30,000: without this, 200 lines took 1.9 GB.
    """
    subject, queue = told.subject, told.queue
    named = len(subject) + len(told.origin) + (0 if queue is None else len(queue))
    return 1 + max(subject.count(b".") + 1 - _USUAL_TOKENS, 0) + named // _USUAL_BYTES
