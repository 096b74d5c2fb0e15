"""Long lists on pages: made a turn's worth at a time, and no longer than a page may be."""

import asyncio
from collections.abc import Collection
from itertools import islice
from typing import Any

from midge.server.monitoring import go_format

MAX_LISTED_BYTES = 8 * 1024 * 1024
"""What the subscriptions on one page may take."""

DETAIL_STEPS = 4
"""StepBudget that it takes to describe a subscription with its details."""

_TURN_STEPS = 4096  # of looking at something, of which each takes less than some microseconds
_ENTRY_BYTES = 32  # of a subscription on a page, beside its names
_DETAIL_BYTES = 160


class StepBudget:
    """Counts the steps of long work, and lets others have their turn after some of them."""

    def __init__(self) -> None:
        self._steps_left = _TURN_STEPS

    async def charge(self, steps: int) -> None:
        """Note so many `steps`."""
        self._steps_left -= steps
        if self._steps_left <= 0:
            self._steps_left = _TURN_STEPS
            await asyncio.sleep(0)


class SizeBudget:
    """The room that a page has for subscriptions; `left_out` counts those that found none."""

    def __init__(self, *, detail: bool) -> None:
        self._each_bytes = _DETAIL_BYTES if detail else _ENTRY_BYTES
        self._left_bytes = MAX_LISTED_BYTES
        self.left_out = 0

    def take(self, held: Collection[Any], limit: int) -> list[Any]:
        """Return the first subscriptions of `held`: at most `limit`, and while there is room."""
        taken = []
        for subscription in islice(held, limit):
            size = len(subscription.subject) + len(subscription.queue or b"") + self._each_bytes
            if size > self._left_bytes:
                self._left_bytes = 0
                break
            self._left_bytes -= size
            taken.append(subscription)
        self.left_out += min(limit, len(held)) - len(taken)
        return taken


def subscription_detail(subscription: Any, cid: int) -> dict[str, Any]:
    """Describe one subscription; what does not apply is left out."""
    detail: dict[str, Any] = {"subject": go_format.text(subscription.subject)}
    if subscription.queue is not None:
        detail["qgroup"] = go_format.text(subscription.queue)
    detail["sid"] = go_format.text(subscription.sid)
    detail["msgs"] = subscription.delivered
    if subscription.max_messages > 0:
        detail["max"] = subscription.max_messages
    detail["cid"] = cid
    return detail
