"""What each link is told of interest: by account, of its clients and of what lies behind links.

Whose interest a link is told of depends on what kinds of link it and the other one are: see
`WANTED`. A hub is told of what is here and of our own leafs, never of what another hub or a route
wants; a route is told the same, since every server of a cluster has a route to every other one.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from midge.server.clients.fair_turns import PORTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from midge.server.clients.fair_turns import FairTurns
    from midge.server.routing.account import Account

Key = tuple[bytes, "bytes | None", str]
"""A subject, the name of a queue group for interest of its members, and the leaf node cluster that
it comes from, where the link is told that; empty otherwise."""

Allows = "Callable[[bytes], bool]"
"""Tells whether interest in a subject may be told."""

_TELLING_BYTES = 256  # what a line of interest takes of a turn


class Kind(Enum):
    """What the server at the other end of a link is to this one."""

    LEAF = "leaf"
    HUB = "hub"
    ROUTE = "route"
    WORKER = "worker"


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
        self._counts: dict[Key, int] = {}
        self._untold: dict[Key, None] = {}
        self._is_waiting = False

    def __len__(self) -> int:
        return len(self._counts)

    def keys(self) -> list[Key]:
        """List what is told."""
        return list(self._counts)

    def hears_of(self, source: Link, origin: str) -> bool:
        """Tell whether interest that came over `source`, from the cluster `origin`, is told."""
        cluster = self._link.cluster
        if source is self._link or (cluster and origin == cluster):
            return False
        return source.told.kind in self._wanted

    def key_of(self, subject: bytes, queue: bytes | None, origin: str) -> Key:
        """Return the key of interest that came over another link."""
        return subject, queue, origin if self._dialect.names_origins else ""

    def begin(self, found: dict[Key, int], allows: Callable[[bytes], bool]) -> None:
        """Tell all of `found` that is allowed, in turns, and what is told already no more."""
        self._allows = allows
        allowed = {key: count for key, count in found.items() if allows(key[0])}
        for key in [key for key in self._counts if key not in allowed]:
            self._forget(key)
        for key, count in allowed.items():
            if self._counts.get(key) != count:
                self._untold[key] = None
        self._counts = allowed
        self._tell_waiting(PORTION_BYTES)

    def change(self, key: Key, change: int) -> None:
        """Tell at once that there is so much more, or less, interest of a kind."""
        before = self._counts.get(key, 0)
        if before == 0 and not self._allows(key[0]):
            return
        count = before + change
        if count <= 0:
            self._forget(key)
            return
        self._counts[key] = count
        if key not in self._untold and (before == 0 or key[1] is not None):
            self._link.send(self._dialect.began(key, count))

    def end(self) -> None:
        """Tell nothing more."""
        self._counts = {}
        self._untold = {}

    def _forget(self, key: Key) -> None:
        """Tell that interest has ended, if it was told of."""
        if self._counts.pop(key, 0) and self._untold.pop(key, True) is not None:
            self._link.send(self._dialect.ended(key))

    def _tell_waiting(self, budget: int) -> None:
        """Tell what is still to be told, for so much of this turn; the rest follows in others."""
        while self._untold and budget > 0:
            key = next(iter(self._untold))
            del self._untold[key]
            self._link.send(self._dialect.began(key, self._counts[key]))
            budget -= _TELLING_BYTES + len(key[0])
        if self._untold and not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        self._tell_waiting(min(self._turns.share(), 64 * PORTION_BYTES))


def _all(_: bytes) -> bool:
    return True


class AccountInterest:
    """The interest in one account, for the links of that account.

    It listens to the account while there is a link. `also` returns the subjects that links of a
    kind are told of without a subscription.
    """

    def __init__(self, account: Account, also: Callable[[Kind], list[bytes]]) -> None:
        self.account = account
        self._also = also
        self._links: list[Link] = []
        self._members: dict[tuple[bytes, bytes | None], int] = {}  # of queue groups

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link, allows: Callable[[bytes], bool]) -> None:
        """Tell `link` of all interest that concerns it, and of every change from now on."""
        if not self._links:
            self._members = {
                key: self.account.sublist.count_members(*key)
                for key in self.account.interest()
                if key[1] is not None
            }
            self.account.add_listener(self)
        self._links.append(link)
        link.told.begin(self._interest_for(link), allows)

    def renew(self, link: Link, allows: Callable[[bytes], bool]) -> None:
        """Tell `link`, which has other rules now, what it has not been told, and the reverse."""
        link.told.begin(self._interest_for(link), allows)

    def remove(self, link: Link) -> None:
        """Tell `link` nothing any more."""
        if link in self._links:
            self._links.remove(link)
            if not self._links:
                self.account.remove_listener(self)
                self._members = {}

    def _interest_for(self, link: Link) -> dict[Key, int]:
        """Collect what `link` is to be told."""
        found: dict[Key, int] = {}
        for subject, queue in self.account.interest():
            members = 1 if queue is None else self._members.get((subject, queue), 1)
            found[subject, queue, ""] = members
        told = link.told
        for subject in self._also(told.kind):
            found[subject, None, ""] = found.get((subject, None, ""), 0) + 1
        for other in self._links:
            for interest in other.interest.values():
                origin = interest.origin or other.cluster
                if not told.hears_of(other, origin):
                    continue
                key = told.key_of(interest.subject, interest.queue, origin)
                found[key] = found.get(key, 0) + interest.weight
        return found

    # What the account tells.

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is interest of a kind."""
        if queue is not None:
            self._members[subject, queue] = 1
        self._change((subject, queue, ""), 1)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is none any more."""
        change = 1 if queue is None else self._members.pop((subject, queue), 1)
        self._change((subject, queue, ""), -change)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Pass on how many members a queue group has."""
        before = self._members.get((subject, queue), 0)
        self._members[subject, queue] = members
        if members != before:
            self._change((subject, queue, ""), members - before)

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
        origin = origin or source.cluster
        for link in self._links:
            told = link.told
            if told.hears_of(source, origin):
                told.change(told.key_of(subject, queue, origin), change)


class Interests:
    """The interest in each account of a server, for all of its links.

    `extra` has, by kind of link, what gives the subjects that such a link of an account is told of
    without a subscription.
    """

    def __init__(self) -> None:
        self.extra: dict[Kind, Callable[[Account], list[bytes]]] = {}
        self._accounts: dict[str, AccountInterest] = {}

    def of(self, account: Account) -> AccountInterest:
        """Return what the links of `account` are told by."""
        interest = self._accounts.get(account.name)
        if interest is None:

            def also(kind: Kind) -> list[bytes]:
                subjects = self.extra.get(kind)
                return [] if subjects is None else subjects(account)

            interest = self._accounts[account.name] = AccountInterest(account, also)
        return interest
