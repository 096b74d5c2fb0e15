"""Long lists on pages: made in pieces, and bounded by the size of a page."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from midge.server.monitoring import go_format

if TYPE_CHECKING:
    from midge.jetstream.stream.pieces import WaitingPieces

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_LISTED_BYTES = 8 * 1024 * 1024
"""Most bytes of the subscriptions on one page."""

DETAIL_STEPS = 4
"""Steps of describing a subscription with its details."""

# Steps, each of less than a microsecond: a turn takes 0.3 ms, since it is the wait of every message
# that comes meanwhile, and a scraper asks once a second. To yield costs 10 us with nothing to read.
_TURN_STEPS = 512
_ENTRY_BYTES = 32  # bytes of a subscription on a page, besides its names
_DETAIL_BYTES = 160


class StepBudget:
    """Counts the steps of long work, and yields to the event loop after a number of them."""

    def __init__(self) -> None:
        self._steps_left = _TURN_STEPS

    async def charge(self, steps: int) -> None:
        """Count `steps`."""
        self._steps_left -= steps
        if self._steps_left <= 0:
            self._steps_left = _TURN_STEPS
            await asyncio.sleep(0)


async def first_in_order(
    items: Sequence[Item], key: Callable[[Item], Any], most: int
) -> list[Item]:
    """Return the first `most` of `items` by `key`; sort in runs of a turn each, and merge them."""
    runs, found, steps = [], [], StepBudget()
    for start in range(0, len(items), _TURN_STEPS):
        runs.append(sorted(items[start : start + _TURN_STEPS], key=key))
        await steps.charge(_TURN_STEPS)
    for item in islice(merge(*runs, key=key), min(most, len(items))):
        found.append(item)
        await steps.charge(2)
    return found


async def finish(pieces: "WaitingPieces[Result]") -> Result:
    """Do work in pieces, one a turn, and wait for what they wait for; return its result."""
    while True:
        try:
            arrival = next(pieces)
        except StopIteration as end:
            result: Result = end.value
            return result
        if arrival is None:
            await asyncio.sleep(0)
        else:
            has_come = asyncio.Event()
            arrival.then(has_come.set)
            await has_come.wait()


class SizeBudget:
    """The room of a page for subscriptions; `left_out` counts those beyond it."""

    def __init__(self, *, detail: bool) -> None:
        self._each_bytes = _DETAIL_BYTES if detail else _ENTRY_BYTES
        self._left_bytes = MAX_LISTED_BYTES
        self.left_out = 0

    def take(self, held: Iterable[Any], most: int) -> list[Any]:
        """Return the first `most` subscriptions of `held`, which has them, while there is room."""
        taken = []
        for subscription in islice(held, most):
            size = len(subscription.subject) + len(subscription.queue or b"") + self._each_bytes
            if size > self._left_bytes:
                self._left_bytes = 0
                break
            self._left_bytes -= size
            taken.append(subscription)
        self.left_out += most - len(taken)
        return taken


def subscription_detail(subscription: Any, cid: int) -> dict[str, Any]:
    """Return the fields of one subscription; inapplicable ones are left out."""
    detail: dict[str, Any] = {"subject": go_format.text(subscription.subject)}
    if subscription.queue is not None:
        detail["qgroup"] = go_format.text(subscription.queue)
    detail["sid"] = go_format.text(subscription.sid)
    detail["msgs"] = subscription.delivered
    if subscription.max_messages > 0:
        detail["max"] = subscription.max_messages
    detail["cid"] = cid
    return detail
