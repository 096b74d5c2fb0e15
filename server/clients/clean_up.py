"""The removal of what a client has left behind, which takes turns as all other work does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.clients.charges import STEP_BYTES
from midge.server.clients.fair_turns import BUSY_S, PORTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.clients.host import Host
    from midge.server.routing.account import Account
    from midge.server.routing.subscription import RoutedSubscription
    from midge.sublist.wide_dict import WideDict

_REMOVED_BYTES = 2048  # what it takes to remove a subscription, besides steps of the SubList
_SLICE = 2000  # subscriptions removed before others have their turn
_BETWEEN_LOOKS = 16  # subscriptions; the clock is looked at in between


class CleanUp:
    """Removes the subscriptions `left`, there and from `account`, and tells `unsubscribed`.

    `dropped` is called when none is left, unless that was so at once.
    """

    def __init__(
        self,
        host: Host,
        account: Account,
        left: WideDict,
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
        """Remove a slice, for what can be had of this turn; the others follow in the next.

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
        """Remove as many as a share of this turn is enough for."""
        budget = self._turns.share()
        ends_at = self._clock.monotonic() + BUSY_S
        while self._left and budget > 0 and self._clock.monotonic() < ends_at:
            for _ in range(min(len(self._left), _BETWEEN_LOOKS)):
                budget -= self._remove_one()
        self._turns.give_back(max(budget, 0))
        if self._left:
            self._turns.wait(self._go_on)
        else:
            self._clock.call_later(0, self._dropped)  # it may have input to parse: no part of this

    def _remove_one(self) -> int:
        """Remove one subscription; return what that cost."""
        subscription = self._left.pop_any()
        sublist = self._account.sublist
        steps = sublist.steps
        self._account.remove(subscription)
        self._unsubscribed(subscription)
        return (sublist.steps - steps) * STEP_BYTES + _REMOVED_BYTES
