"""The interest announced to other workers: numbers of subscriptions, and the announcer.

`ledger.py` has the interest: of this worker, and of other servers that it has links to. Every
worker has the same imports between accounts, and each answers some requests itself, so these
subscriptions are not announced. Each link gets every change at once, and the interest at its
beginning in pieces. Unlike for a link to another server, no list of the announced interest is
kept: nothing is denied between workers, so each change of the count is a line.

A client's subscription that is alone on its subject gets a number, which is announced with it. The
messages that other workers send for it in blocks go straight to the client while it has that
number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.channels.fair_turns import PORTION_BYTES
from midge.server.routing.role import Role
from midge.server.routing.slow_path import BEHIND, NO_ECHO, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.channels.channel import ChannelOwner
    from midge.server.channels.fair_turns import FairTurns
    from midge.sublist.subscription import Subscription

NUMBERED_MAX = 1 << 15
"""Most subscriptions of a worker with a number: each takes 112 bytes here and 80 in each other
worker, where it takes 264 more once a message has come. With 100,000 subscriptions in each of two
workers, numbers are 70 of the 590 bytes that one takes."""

_NUMBER_MAX = (1 << 31) - 1  # a block's head has four bytes for it
HARMLESS = BEHIND | NO_ECHO | NO_HEADERS
"""Checks of deliveries that no block needs: it has no headers, and is of others' messages."""

_LINE_BYTES = 256  # what a line of interest takes of a turn
_STEP_BYTES = 2048  # likewise a step of the walk, of which there may be no line


class Numbers:
    """The numbers of clients' subscriptions that are alone on their subjects.

    `receivers` has the subscriptions by number. No more are given while `gives` returns False.
    """

    def __init__(self, gives: Callable[[], bool] = bool) -> None:
        self.receivers: dict[int, RoutedSubscription] = {}
        self._gives = gives
        self._numbers: dict[Subscription, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, subscription: Subscription) -> int:
        """Return the number of `subscription`; 0 without one."""
        return self._numbers.get(subscription, 0)

    def give(self, subscription: Subscription) -> None:
        """Give `subscription` a number, where nothing but its subject decides what it gets."""
        client = subscription.client if isinstance(subscription, RoutedSubscription) else None
        if (
            isinstance(subscription, RoutedSubscription)
            and subscription.queue is None
            and subscription.max_messages == 0
            and client is not None
            and client.role == Role.CLIENT
            and not client.deliver_checks & ~HARMLESS
            and len(self.receivers) < NUMBERED_MAX
            and self._last < _NUMBER_MAX
            and self._gives()
        ):
            self._last += 1
            self._numbers[subscription] = self._last
            self.receivers[self._last] = subscription

    def take(self, subscription: Subscription) -> bool:
        """Take its number from `subscription`; False without one."""
        number = self._numbers.pop(subscription, None)
        if number is None:
            return False
        del self.receivers[number]
        return True


class WorkerAnnouncer:
    """The interest that is announced over one link: everything in pieces, then every change.

    `done` is called whenever everything has been announced.
    """

    def __init__(self, link: ChannelOwner, turns: FairTurns, done: Callable[[], None]) -> None:
        self._link = link
        self._turns = turns
        self._done = done
        self._left: Iterator[list[bytes]] | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything has been announced."""
        return self._left is None

    def begin(self, lines: Iterator[list[bytes]]) -> None:
        """Send `lines`, a few at a time, some of them now and the rest in later turns."""
        self._left = lines
        self._send_waiting(PORTION_BYTES)

    def send(self, line: bytes) -> None:
        """Announce a change at once."""
        self._link.send(line)

    def end(self) -> None:
        """Announce nothing more."""
        self._left = None

    def _send_waiting(self, budget: int) -> None:
        while self._left is not None and budget > 0:
            lines = next(self._left, None)
            if lines is None:
                self._left = None
                self._done()
                return
            budget -= _STEP_BYTES
            for line in lines:
                self._link.send(line)
                budget -= _LINE_BYTES + len(line)
        if self._left is not None:
            self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._send_waiting(min(self._turns.share(), 64 * PORTION_BYTES))
