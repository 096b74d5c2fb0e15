"""What each link is told of interest: by account, of its clients and of what lies behind links.

Whose interest a link is told of depends on what kinds of link it and the other one are: see
`WANTED`. A hub is told of what is here and of our own leafs, never of what another hub or a route
wants; a route is told the same, since every server of a cluster has a route to every other one.
"""

from __future__ import annotations

import itertools
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from midge.server.clients.fair_turns import PORTION_BYTES
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from midge.server.clients.fair_turns import FairTurns
    from midge.server.routing.account import Account

Key = tuple[bytes, "bytes | None", str]
"""A subject, the name of a queue group for interest of its members, and the leaf node cluster that
it comes from, where the link is told that; empty otherwise."""

Allows = "Callable[[bytes], bool]"
"""Tells whether interest in a subject may be told."""

_LOOK_BYTES = 4096
"""What a look at an interest, and perhaps a line, take of a turn: some 2.5 us."""

_SHARDS = 256
"""Into how many parts what is told is divided: a dictionary of a million entries takes 100 ms to
grow, one of 4,000 less than 1 ms."""

_TURN_MAX_BYTES = 128 * PORTION_BYTES
"""Most that one link takes of a turn, a quarter of it: 5 ms."""


class Kind(Enum):
    """What the server at the other end of a link is to this one."""

    LEAF = "leaf"
    HUB = "hub"
    ROUTE = "route"
    WORKER = "worker"

    @property
    def is_leaf(self) -> bool:
        """Tell whether the other end is a leaf of this server."""
        return self is Kind.LEAF


WANTED: Mapping[Kind, frozenset[Kind]] = {
    Kind.LEAF: frozenset(Kind),
    Kind.HUB: frozenset({Kind.LEAF, Kind.WORKER}),
    Kind.ROUTE: frozenset({Kind.LEAF, Kind.WORKER}),
    Kind.WORKER: frozenset({Kind.LEAF, Kind.HUB, Kind.ROUTE}),
}
"""The kinds of link whose interest each kind is told of, besides that of the account itself."""


class Link(Protocol):
    """What is needed of a link, or of the part of it that belongs to one account."""

    @property
    def cluster(self) -> str:
        """The cluster of the other server, which gets nothing back that comes from there."""

    @property
    def told(self) -> Told:
        """What it is told."""

    @property
    def interest(self) -> Mapping[Any, Interest]:
        """What the other server has told."""

    def send(self, piece: bytes) -> None:
        """Send a line."""


class Interest(Protocol):
    """One interest that the other server has told."""

    @property
    def subject(self) -> bytes:
        """The subject."""

    @property
    def queue(self) -> bytes | None:
        """The queue group; None for plain interest."""

    @property
    def weight(self) -> int:
        """The number of members of a queue group; 1 for plain interest."""

    @property
    def origin(self) -> str:
        """The cluster of the leaf node that it comes from; empty if it comes from none."""


class Dialect(Protocol):
    """The lines that tell interest."""

    names_origins: bool

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""

    def ended(self, key: Key) -> bytes:
        """Write that there is none any more."""


class Told:
    """What one link has been told, and is to be told, of interest.

    `kind` is what the link leads to, and `wanted` are the kinds of link whose interest it is told
    of besides that of the account itself.
    """

    def __init__(
        self,
        link: Link,
        turns: FairTurns,
        dialect: Dialect,
        kind: Kind,
        wanted: Iterable[Kind] | None = None,
    ) -> None:
        self.kind = kind
        self._wanted = WANTED[kind] if wanted is None else frozenset(wanted)
        self._link = link
        self._turns = turns
        self._dialect = dialect
        self._allows: Callable[[bytes], bool] = _all
        self._shards: tuple[dict[Key, int], ...] = ()
        self._count_of: Callable[[Key], int] = _none
        self._walk: Iterator[list[Key]] | None = None
        self._is_waiting = False

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    def keys(self) -> list[Key]:
        """List what is told."""
        return list(itertools.chain(*self._shards))

    def hears_of(self, source: Link, origin: str) -> bool:
        """Tell whether interest that came over `source`, from the cluster `origin`, is told."""
        cluster = self._link.cluster
        if source is self._link or (cluster and origin == cluster):
            return False
        return source.told.kind in self._wanted

    def key_of(self, subject: bytes, queue: bytes | None, origin: str) -> Key:
        """Return the key of interest that came over another link."""
        return subject, queue, origin if self._dialect.names_origins else ""

    def begin(
        self,
        walk: Iterator[list[Key]],
        count_of: Callable[[Key], int],
        allows: Callable[[bytes], bool],
    ) -> None:
        """Tell all of `walk` that is allowed, in turns, and what is told already no more.

        `walk` yields a few kinds of interest at a time, or none, which is a step, too.
        `count_of` tells how much interest of a kind there is by now, which may be none any more.
        What changes during the walk is told at once.
        """
        self._allows = allows
        self._count_of = count_of
        if not self._shards:
            self._shards = tuple({} for _ in range(_SHARDS))
        told = (list(shard) for shard in self._shards if shard)
        self._walk = itertools.chain(told, walk)
        self._look_around(8 * PORTION_BYTES)

    def change(self, key: Key, change: int) -> None:
        """Tell at once that there is so much more, or less, interest of a kind."""
        if not self._shards:
            return
        if self._walk is not None or key[1] is not None:
            self._look_at(key)
            return
        counts = self._counts_with(key)
        before = counts.get(key, 0)
        if before == 0 and not self._allows(key[0]):
            return
        count = before + change
        if count <= 0:
            self._forget(counts, key)
            return
        counts[key] = count
        if before == 0:
            self._link.send(self._dialect.began(key, count))

    def end(self) -> None:
        """Tell nothing more."""
        self._shards = ()
        self._walk = None

    def _look_at(self, key: Key) -> None:
        """Tell what has changed of interest of a kind, if anything has."""
        counts = self._counts_with(key)
        before = counts.get(key, 0)
        count = self._count_of(key) if self._allows(key[0]) else 0
        if count <= 0:
            self._forget(counts, key)
        elif count != before:
            counts[key] = count
            if before == 0 or key[1] is not None:
                self._link.send(self._dialect.began(key, count))

    def _counts_with(self, key: Key) -> dict[Key, int]:
        """Return the part of what is told that `key` belongs to."""
        return self._shards[hash(key) % _SHARDS]

    def _forget(self, counts: dict[Key, int], key: Key) -> None:
        """Tell that interest has ended, if it was told of."""
        if counts.pop(key, 0):
            self._link.send(self._dialect.ended(key))

    def _look_around(self, budget: int) -> None:
        """Go on with the walk for so much of this turn; the rest follows in others."""
        while self._walk is not None and budget > 0:
            keys = next(self._walk, None)
            if keys is None:
                self._walk = None
                return
            for key in keys:
                self._look_at(key)
            budget -= _LOOK_BYTES * (4 + len(keys))
        if self._walk is not None and not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        share = self._turns.share()
        used = min(share, _TURN_MAX_BYTES)
        self._turns.give_back(share - used)
        self._look_around(used)


def _none(_: Key) -> int:
    return 0


def _all(_: bytes) -> bool:
    return True


class AccountInterest:
    """The interest in one account, for the links of that account.

    It listens to the account while there is a link. `also` returns the subjects that links of a
    kind are told of without a subscription.
    """

    def __init__(
        self,
        account: Account,
        also: Callable[[Kind], list[bytes]],
        outside: Callable[[Account, bytes, bytes | None, int, bool], None] | None = None,
    ) -> None:
        self.account = account
        self._also = also
        self._outside = outside
        self._links: list[Link] = []

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link, allows: Callable[[bytes], bool]) -> None:
        """Tell `link` of all interest that concerns it, and of every change from now on."""
        if not self._links:
            self.account.add_listener(self)
        self._links.append(link)
        self.renew(link, allows)

    def renew(self, link: Link, allows: Callable[[bytes], bool]) -> None:
        """Tell `link`, which has other rules now, what it has not been told, and the reverse."""
        link.told.begin(self._walk_for(link), partial(self._count_for, link), allows)

    def remove(self, link: Link) -> None:
        """Tell `link` nothing any more."""
        if link in self._links:
            self._links.remove(link)
            if not self._links:
                self.account.remove_listener(self)

    def _walk_for(self, link: Link) -> Iterator[list[Key]]:
        """Yield the kinds of interest that `link` may have to be told of."""
        told = link.told
        yield [(subject, None, "") for subject in self._also(told.kind)]
        for batch in self.account.sublist.walk():
            yield [(subject, queue, "") for subject, queue in batch]
        for other in list(self._links):
            for interest in list(other.interest.values()):
                origin = interest.origin or other.cluster
                if told.hears_of(other, origin):
                    yield [told.key_of(interest.subject, interest.queue, origin)]

    def _count_for(self, link: Link, key: Key) -> int:
        """Count the interest of a kind that `link` is told of."""
        subject, queue, from_cluster = key
        told, sublist = link.told, self.account.sublist
        count = 0
        if not from_cluster:
            count = sublist.count_members(subject, queue)
            if queue is None:
                count = min(count, 1) + (subject in self._also(told.kind))
        if sublist.remotes is not None:
            for interest in sublist.remotes.exactly(subject, queue):
                assert isinstance(interest, RemoteSubscription), "others are not remote"
                source: Any = interest.remote
                origin = interest.origin or source.cluster
                if told.hears_of(source, origin) and told.key_of(subject, queue, origin) == key:
                    count += interest.weight
        return count

    # What the account tells.

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is interest of a kind."""
        self._change((subject, queue, ""), 1)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is none any more."""
        self._change((subject, queue, ""), -1)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Pass on how many members a queue group has."""
        self._change((subject, queue, ""), 0)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Leave it to `link_changed`, which knows from where."""

    def _change(self, key: Key, change: int) -> None:
        for link in self._links:
            link.told.change(key, change)

    # What links tell.

    def link_changed(
        self, source: Link, subject: bytes, queue: bytes | None, change: int, origin: str = ""
    ) -> None:
        """Pass on to the other links that `source` has told of more, or less, interest."""
        kind = source.told.kind
        if self._outside is not None and kind is not Kind.WORKER:
            is_last_choice = queue is not None and (kind is not Kind.ROUTE or bool(origin))
            self._outside(self.account, subject, queue, change, is_last_choice)
        origin = origin or source.cluster
        for link in self._links:
            told = link.told
            if told.hears_of(source, origin):
                told.change(told.key_of(subject, queue, origin), change)


class Interests:
    """The interest in each account of a server, for all of its links.

    `extra` has, by kind of link, what gives the subjects that such a link of an account is told of
    without a subscription. `outside` is told of interest behind links to other servers: account,
    subject, queue group, change, and whether its members are of last choice.
    """

    def __init__(self) -> None:
        self.extra: dict[Kind, Callable[[Account], list[bytes]]] = {}
        self.outside: Callable[[Account, bytes, bytes | None, int, bool], None] = _ignore
        self._accounts: dict[str, AccountInterest] = {}

    def of(self, account: Account) -> AccountInterest:
        """Return what the links of `account` are told by."""
        interest = self._accounts.get(account.name)
        if interest is None:

            def also(kind: Kind) -> list[bytes]:
                subjects = self.extra.get(kind)
                return [] if subjects is None else subjects(account)

            interest = AccountInterest(account, also, self._pass_on)
            self._accounts[account.name] = interest
        return interest

    def _pass_on(
        self, account: Account, subject: bytes, queue: bytes | None, change: int, is_last: bool
    ) -> None:
        self.outside(account, subject, queue, change, is_last)


def _ignore(*_: object) -> None:
    """Pass nothing on: there is no other worker."""
