"""The interest that other workers are told: by account, of clients and of services of this one.

Every worker has the same imports between accounts, and each answers some requests itself, so those
subscriptions are not told. Each link is told every change at once, and the interest at its
beginning in turns.

A client's subscription that is alone on its subject gets a number, which the others are told. The
messages that they send for it in blocks go straight to the client while it has that number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midge.server.accounts.service_link import ServiceLink
from midge.server.accounts.stream_link import StreamLink
from midge.server.channels.fair_turns import PORTION_BYTES
from midge.server.routing.role import Role
from midge.server.routing.slow_path import BEHIND, NO_ECHO, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.channels.fair_turns import FairTurns
    from midge.server.routing.account import Account
    from midge.sublist.subscription import Subscription

Key = tuple[bytes, bytes, "bytes | None", bytes]
"""The name of an account, a subject, the queue group of members' interest, and where those are that
are behind links to other servers, see role.py."""

NUMBERED_MAX = 1 << 16
"""Most subscriptions with a number: each takes 175 bytes here and 70 in each other worker, where it
takes 264 more once a message has come (tracemalloc, 60,000 of them, compiled, Python 3.11)."""

_NUMBER_MAX = (1 << 31) - 1  # a block's head has four bytes for it
HARMLESS = BEHIND | NO_ECHO | NO_HEADERS
"""Checks of deliveries that no block needs: it has no headers, and is of others' messages."""

_TELLING_BYTES = 256  # what a line of interest takes of a turn

_ANSWERED_BY_EACH = frozenset({b"$SYS.REQ.USER.INFO"})
"""Requests that only the worker of the client that asks can answer."""


class Sender(Protocol):
    """The link over which interest is told."""

    def send(self, piece: bytes) -> None:
        """Send a line."""


class Interest:
    """The interest in all accounts, by how many subscriptions there are of each kind.

    `numbers` has the number of a client's only subscription to a subject, and its sid;
    `receivers` has the subscription of each number. Without `gives_numbers` no more are given.
    """

    def __init__(self, gives_numbers: Callable[[], bool] = bool) -> None:
        self.counts: dict[Key, int] = {}
        self.numbers: dict[Key, tuple[int, bytes]] = {}
        self.receivers: dict[int, RoutedSubscription] = {}
        self._gives_numbers = gives_numbers
        self._last_number = 0
        self._told: dict[Told, None] = {}

    def watch(self, account: Account) -> None:
        """Count the subscriptions of `account` from now on, and those that are there."""
        watch = AccountWatch(self, account.name.encode())
        account.add_watcher(watch)
        for subscription in account.sublist:
            watch.added(subscription)

    def join(self, told: Told) -> None:
        """Have `told` say everything, and every change from now on."""
        self._told[told] = None
        told.begin()

    def leave(self, told: Told) -> None:
        """Have it say nothing more."""
        self._told.pop(told, None)

    def change(self, key: Key, change: int, subscription: Subscription | None = None) -> None:
        """Count so many subscriptions more, or less; `subscription` is the one that has come."""
        count = self.counts.get(key, 0) + change
        if count:
            self.counts[key] = count
        else:
            self.counts.pop(key, None)
        was_numbered = self._take_number(key)
        if count == 1 and isinstance(subscription, RoutedSubscription):
            self._number(key, subscription)
        if key[2] is not None or count == 0 or (count == 1 and change > 0) or was_numbered:
            for told in self._told:
                told.change(key, count)

    def _number(self, key: Key, subscription: RoutedSubscription) -> None:
        """Give `subscription` a number, where nothing but its subject decides what it gets."""
        client = subscription.client
        if (
            subscription.queue is None
            and subscription.max_messages == 0
            and client is not None
            and client.role == Role.CLIENT
            and not client.deliver_checks & ~HARMLESS
            and len(self.receivers) < NUMBERED_MAX
            and self._last_number < _NUMBER_MAX
            and self._gives_numbers()
        ):
            self._last_number += 1
            self.numbers[key] = (self._last_number, subscription.sid)
            self.receivers[self._last_number] = subscription

    def _take_number(self, key: Key) -> bool:
        """Take the number from the subscription to which `key` belongs; False if it has none."""
        numbered = self.numbers.pop(key, None)
        if numbered is None:
            return False
        del self.receivers[numbered[0]]
        return True


class AccountWatch:
    """Sees the subscriptions of one account come and go."""

    def __init__(self, interest: Interest, name: bytes) -> None:
        self._interest = interest
        self._name = name

    def added(self, subscription: Subscription) -> None:
        """Count a subscription."""
        if is_told(subscription):
            key = (self._name, subscription.subject, subscription.queue, b"")
            self._interest.change(key, 1, subscription)

    def removed(self, subscription: Subscription) -> None:
        """Count it no longer."""
        if is_told(subscription):
            self._interest.change((self._name, subscription.subject, subscription.queue, b""), -1)


class Told:
    """The interest that one link has been told, and is still to be told.

    `done` is called whenever nothing is left to be told.
    """

    def __init__(
        self, interest: Interest, link: Sender, turns: FairTurns, done: Callable[[], None]
    ) -> None:
        self._interest = interest
        self._link = link
        self._turns = turns
        self._done = done
        self._untold: dict[Key, None] = {}

    @property
    def is_done(self) -> bool:
        """Whether the link has been told everything."""
        return not self._untold

    def begin(self) -> None:
        """Tell everything, some of it now and the rest in later turns."""
        self._untold = dict.fromkeys(self._interest.counts)
        self._tell_waiting(PORTION_BYTES)

    def change(self, key: Key, count: int) -> None:
        """Tell at once how much interest of a kind there is, unless its turn is still to come."""
        if not count:
            if self._untold.pop(key, True) is not None:
                self._link.send(_ended(key))
        elif key not in self._untold:
            self._link.send(self._began(key, count))

    def end(self) -> None:
        """Tell nothing more."""
        self._untold = {}

    def _tell_waiting(self, budget: int) -> None:
        while self._untold and budget > 0:
            key = next(iter(self._untold))
            del self._untold[key]
            self._link.send(self._began(key, self._interest.counts[key]))
            budget -= _TELLING_BYTES + len(key[1])
        if self._untold:
            self._turns.wait(self._go_on)
        else:
            self._done()

    def _began(self, key: Key, count: int) -> bytes:
        numbered = self._interest.numbers.get(key)
        if numbered is None:
            return _began(key, count)
        return b"NS+ %b %b %d %b\r\n" % (*key[:2], *numbered)

    def _go_on(self) -> None:
        self._tell_waiting(min(self._turns.share(), 64 * PORTION_BYTES))


def is_told(subscription: Subscription) -> bool:
    """Return whether other workers are to send what `subscription` wants."""
    if isinstance(subscription, ServiceLink | StreamLink):
        return False
    return subscription.owned_by() is not None or subscription.subject not in _ANSWERED_BY_EACH


def _began(key: Key, count: int) -> bytes:
    account, subject, queue, from_where = key
    if queue is None:
        return b"RS+ %b %b\r\n" % (account, subject)
    verb = b"LS+ " + from_where if from_where else b"RS+"
    return b"%b %b %b %b %d\r\n" % (verb, account, subject, queue, count)


def _ended(key: Key) -> bytes:
    account, subject, queue, from_where = key
    if queue is None:
        return b"RS- %b %b\r\n" % (account, subject)
    verb = b"LS- " + from_where if from_where else b"RS-"
    return b"%b %b %b %b\r\n" % (verb, account, subject, queue)
