"""Remove a client's subscriptions after its end, a slice per turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.channels.charges import STEP_BYTES
from midge.server.channels.fair_turns import BUSY_S, PORTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.channels.host import Host
    from midge.server.routing.account import Account
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.sharded_dict import ShardedDict

_REMOVED_BYTES = 2048  # charge for removing a subscription, besides the steps of the SubList
_SLICE = 2000  # subscriptions removed before others have their turn
_BETWEEN_LOOKS = 16  # subscriptions removed between two looks at the clock


class CleanUp:
    """Removes the subscriptions in `left`, also from `account`, and calls `unsubscribed` for each.

    `dropped` is called when none is left, unless `begin` removed all of them.
    """

    def __init__(
        self,
        host: Host,
        account: Account,
        left: ShardedDict,
        unsubscribed: Callable[[RoutedSubscription], None],
        dropped: Callable[[], None],
    ) -> None:
        self._turns = host.turns
        self._clock = host.clock
        self._account = account
        self._left = left
        self._unsubscribed = unsubscribed
        self._dropped = dropped

    def begin(self) -> bool:
        """Remove a slice, as far as this turn allows; the rest follows in later turns.

        Returns whether none is left.
        """
        most = _SLICE
        budget = PORTION_BYTES
        while self._left and most and budget > 0:
            most -= 1
            budget -= self._remove_one()
            if budget <= 0:
                budget += self._turns.draw(-budget)
        if self._left:
            self._turns.wait(self._go_on)
        return not self._left

    def _go_on(self) -> None:
        """Remove as many as a share of this turn allows."""
        budget = self._turns.share()
        ends_at = self._clock.monotonic() + BUSY_S
        while self._left and budget > 0 and self._clock.monotonic() < ends_at:
            for _ in range(min(len(self._left), _BETWEEN_LOOKS)):
                budget -= self._remove_one()
        self._turns.give_back(max(budget, 0))
        if self._left:
            self._turns.wait(self._go_on)
        else:
            self._clock.call_later(0, self._dropped)  # it may parse input, which is charged apart

    def _remove_one(self) -> int:
        """Remove one subscription; return its cost."""
        subscription = self._left.pop_any()
        sublist = self._account.sublist
        steps = sublist.steps
        self._account.remove(subscription)
        self._unsubscribed(subscription)
        return (sublist.steps - steps) * STEP_BYTES + _REMOVED_BYTES
