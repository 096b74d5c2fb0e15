"""The interest announced to other workers, by account: that of this worker's clients and services.

Every worker has the same imports between accounts, and each answers some requests itself, so these
subscriptions are not announced. Each link gets every change at once, and the interest at its
beginning in pieces.

A client's subscription that is alone on its subject gets a number, which is announced with it. The
messages that other workers send for it in blocks go straight to the client while it has that
number.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from midge.server.accounts.service_link import ServiceLink
from midge.server.accounts.stream_link import StreamLink
from midge.server.channels.fair_turns import PORTION_BYTES
from midge.server.routing.role import Role
from midge.server.routing.slow_path import BEHIND, NO_ECHO, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.channels.channel import ChannelOwner
    from midge.server.channels.fair_turns import FairTurns
    from midge.server.routing.account import Account
    from midge.sublist.subscription import Subscription

Key = tuple[bytes, bytes, "bytes | None", bytes]
"""The name of an account, a subject, the queue group of members' interest, and where those are that
are behind links to other servers, see role.py."""

NUMBERED_MAX = 1 << 15
"""Most subscriptions of a worker with a number: each takes 112 bytes here and 80 in each other
worker, where it takes 264 more once a message has come. With 100,000 subscriptions in each of two
workers, numbers are 70 of the 590 bytes that one takes."""

_ALONE_BEFORE = 2  # subscriptions, of which one may have been alone, and numbered
_NUMBER_MAX = (1 << 31) - 1  # a block's head has four bytes for it
HARMLESS = BEHIND | NO_ECHO | NO_HEADERS
"""Checks of deliveries that no block needs: it has no headers, and is of others' messages."""

_TELLING_BYTES = 256  # what a line of interest takes of a turn

_ANSWERED_BY_EACH = frozenset({b"$SYS.REQ.USER.INFO"})
"""Requests that only the worker of the client that asks can answer."""


class WorkerInterest:
    """The interest in all accounts: of subscriptions here, and behind links to other servers.

    The SubLists of the accounts have the subscriptions, which are not counted once more.
    `numbers` has the number of each client's subscription that is alone on its subject, and
    `receivers` the reverse. Without `gives_numbers` no more are given.
    """

    def __init__(self, gives_numbers: Callable[[], bool] = bool) -> None:
        self.numbers: dict[RoutedSubscription, int] = {}
        self.receivers: dict[int, RoutedSubscription] = {}
        self._gives_numbers = gives_numbers
        self._last_number = 0
        self._watches: dict[bytes, AccountWatch] = {}
        self._behind: dict[Key, int] = {}
        self._announcers: dict[WorkerAnnouncer, None] = {}

    def watch(self, account: Account) -> None:
        """Announce the present subscriptions of `account`, and changes from now on."""
        watch = AccountWatch(self, account)
        self._watches[watch.name] = watch
        account.add_watcher(watch)
        watch.begin()

    def join(self, announcer: WorkerAnnouncer) -> None:
        """Announce everything by `announcer`, and every change from now on."""
        self._announcers[announcer] = None
        announcer.begin()

    def leave(self, announcer: WorkerAnnouncer) -> None:
        """Announce nothing more by `announcer`."""
        self._announcers.pop(announcer, None)

    def walk(self) -> Iterator[Key]:
        """Yield the kinds of interest, while it may change."""
        for watch in list(self._watches.values()):
            yield from watch.walk()
        yield from list(self._behind)

    def count(self, key: Key) -> int:
        """Count the interest of a kind."""
        name, subject, queue, from_where = key
        count = self._behind.get(key, 0) if self._behind else 0
        watch = None if from_where else self._watches.get(name)
        return count if watch is None else count + watch.count(subject, queue)

    def numbered(self, key: Key) -> tuple[int, bytes] | None:
        """Return the number of the only subscription of a kind, and its sid."""
        watch = self._watches.get(key[0])
        if not self.numbers or key[2] is not None or watch is None:
            return None
        found = watch.account.sublist.exactly(key[1], None)
        number = self.numbers.get(found[0]) if len(found) == 1 else None  # type: ignore[call-overload]
        return None if number is None else (number, found[0].sid)

    def change_behind(
        self, account: Account, subject: bytes, queue: bytes | None, change: int, from_where: str
    ) -> None:
        """Count so much more, or less, interest behind links to other servers."""
        key = (account.name.encode(), subject, queue, from_where.encode())
        behind = self._behind.get(key, 0) + change
        if behind > 0:
            self._behind[key] = behind
        else:
            self._behind.pop(key, None)
        count = self.count(key)
        is_renumbered = count > 1 and self._take_numbers(key)
        self._tell(key, count, is_new=is_renumbered or (count == 1 and change > 0))

    def added(self, key: Key, subscription: Subscription, *, is_new: bool = False) -> None:
        """Announce a new subscription; with `is_new`, as the first of its kind."""
        count = self.count(key)
        if count == 1:
            self._number(subscription)
        elif self._take_numbers(key):
            is_new = True
        self._tell(key, count, is_new=is_new or count == 1)

    def removed(self, key: Key, subscription: Subscription) -> None:
        """Announce the end of a subscription."""
        is_renumbered = self._take_number(subscription)
        self._tell(key, self.count(key), is_new=is_renumbered)

    def _tell(self, key: Key, count: int, *, is_new: bool) -> None:
        """Announce how much interest of a kind there is; plain interest only when it is new."""
        if key[2] is not None or count == 0 or is_new:
            for announcer in self._announcers:
                announcer.change(key, count)

    def _number(self, subscription: Subscription) -> None:
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
            and self._last_number < _NUMBER_MAX
            and self._gives_numbers()
        ):
            self._last_number += 1
            self.numbers[subscription] = self._last_number
            self.receivers[self._last_number] = subscription

    def _take_numbers(self, key: Key) -> bool:
        """Take the number from a subscription that is no longer alone; False without one."""
        watch = self._watches.get(key[0])
        if not self.numbers or key[2] is not None or key[3] or watch is None:
            return False
        if watch.count(key[1], None) > _ALONE_BEFORE:
            return False
        found = watch.account.sublist.exactly(key[1], None)
        return any(self._take_number(one) for one in found)

    def _take_number(self, subscription: Subscription) -> bool:
        """Take its number from `subscription`; False without one."""
        number = self.numbers.pop(subscription, None)  # type: ignore[call-overload]
        if number is None:
            return False
        del self.receivers[number]
        return True


class AccountWatch:
    """Sees the subscriptions of one account come and go."""

    def __init__(self, interest: WorkerInterest, account: Account) -> None:
        self.account = account
        self.name = account.name.encode()
        self._interest = interest
        self._untold: Counter[tuple[bytes, bytes | None]] = Counter()

    def begin(self) -> None:
        """Announce the present subscriptions."""
        for subscription in self.account.sublist:
            if not is_told(subscription):
                self._untold[subscription.subject, subscription.queue] += 1
        for key in self.walk():
            found = [one for one in self.account.sublist.exactly(key[1], key[2]) if is_told(one)]
            if found:
                self._interest.added(key, found[0], is_new=True)

    def walk(self) -> Iterator[Key]:
        """Yield the kinds of interest, while it may change."""
        for batch in self.account.sublist.walk():
            for subject, queue in batch:
                yield self.name, subject, queue, b""

    def count(self, subject: bytes, queue: bytes | None) -> int:
        """Count the announced subscriptions."""
        members = self.account.sublist.count_members(subject, queue)
        return members - self._untold[subject, queue] if self._untold else members

    def added(self, subscription: Subscription) -> None:
        """Announce a new subscription."""
        if is_told(subscription):
            key = (self.name, subscription.subject, subscription.queue, b"")
            self._interest.added(key, subscription)
        else:
            self._untold[subscription.subject, subscription.queue] += 1

    def removed(self, subscription: Subscription) -> None:
        """Announce the end of a subscription."""
        if is_told(subscription):
            key = (self.name, subscription.subject, subscription.queue, b"")
            self._interest.removed(key, subscription)
            return
        untold = (subscription.subject, subscription.queue)
        self._untold[untold] -= 1
        if not self._untold[untold]:
            del self._untold[untold]


class WorkerAnnouncer:
    """The interest that is announced over one link: everything in pieces, then every change.

    `done` is called whenever everything has been announced.
    """

    def __init__(
        self,
        interest: WorkerInterest,
        link: ChannelOwner,
        turns: FairTurns,
        done: Callable[[], None],
    ) -> None:
        self._interest = interest
        self._link = link
        self._turns = turns
        self._done = done
        self._left: Iterator[Key] | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything has been announced."""
        return self._left is None

    def begin(self) -> None:
        """Announce everything, some of it now and the rest in later turns."""
        self._left = self._interest.walk()
        self._tell_waiting(PORTION_BYTES)

    def change(self, key: Key, count: int) -> None:
        """Announce at once how much interest of a kind there is."""
        self._link.send(self._began(key, count) if count else _ended(key))

    def end(self) -> None:
        """Announce nothing more."""
        self._left = None

    def _tell_waiting(self, budget: int) -> None:
        while self._left is not None and budget > 0:
            key = next(self._left, None)
            if key is None:
                self._left = None
                self._done()
                return
            count = self._interest.count(key)
            if count:
                self._link.send(self._began(key, count))
            budget -= _TELLING_BYTES + len(key[1])
        if self._left is not None:
            self._turns.wait(self._go_on)

    def _began(self, key: Key, count: int) -> bytes:
        numbered = self._interest.numbered(key) if count == 1 else None
        if numbered is None:
            return _began(key, count)
        return b"NS+ %b %b %d %b\r\n" % (*key[:2], *numbered)

    def _go_on(self) -> None:
        self._tell_waiting(min(self._turns.share(), 64 * PORTION_BYTES))


def is_told(subscription: Subscription) -> bool:
    """Return whether other workers must send messages for `subscription`."""
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
