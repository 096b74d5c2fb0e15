"""What each link is told of interest: by account, of its clients and of what lies behind links.

A link that has connected to us, a leaf, is told of everything in its account but what came from
itself. A link that we have made, to a hub, is told of what is here and of our own leafs, never of
what another hub wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midge.server.clients.fair_turns import PORTION_BYTES
from midge.server.leafnodes.rules import may_tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from midge.server.auth.permissions import Permissions
    from midge.server.clients.fair_turns import FairTurns
    from midge.server.routing.account import Account

Key = tuple[bytes, "bytes | None"]
"""A subject, and the name of a queue group for interest of its members."""

_TELLING_BYTES = 256  # what a line of interest takes of a turn


class Link(Protocol):
    """What is needed of a link."""

    @property
    def cluster(self) -> str:
        """The cluster of the other server."""

    @property
    def told(self) -> Told:
        """What it is told."""

    @property
    def interest(self) -> Mapping[Key, Weighted]:
        """What the other server has told."""

    def send(self, piece: bytes) -> None:
        """Send a line."""


class Weighted(Protocol):
    """How much interest there is of a kind."""

    @property
    def weight(self) -> int:
        """The number of members of a queue group; 1 for plain interest."""


class Told:
    """What one link has been told, and is to be told, of interest.

    `wants_leafs` and `wants_hubs` say whose interest it is told of besides that of the account
    itself; `is_hub` is whose it is.
    """

    def __init__(
        self, link: Link, turns: FairTurns, *, is_hub: bool, wants_leafs: bool, wants_hubs: bool
    ) -> None:
        self.is_hub = is_hub
        self._wants_leafs = wants_leafs
        self._wants_hubs = wants_hubs
        self._link = link
        self._turns = turns
        self._rules: Permissions | None = None
        self._counts: dict[Key, int] = {}
        self._untold: dict[Key, None] = {}
        self._is_waiting = False

    def __len__(self) -> int:
        return len(self._counts)

    def hears_of(self, link: Link) -> bool:
        """Tell whether interest that came over `link` is told here."""
        if link is self._link or (self._link.cluster and link.cluster == self._link.cluster):
            return False
        return self._wants_hubs if link.told.is_hub else self._wants_leafs

    def begin(self, found: dict[Key, int], rules: Permissions | None) -> None:
        """Tell all of `found` that `rules` allow, in turns, and what is told already no more."""
        self._rules = rules
        allowed = {key: count for key, count in found.items() if self._allows(key)}
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
        if before == 0 and not self._allows(key):
            return
        count = before + change
        if count <= 0:
            self._forget(key)
            return
        self._counts[key] = count
        if key not in self._untold and (before == 0 or key[1] is not None):
            self._tell(key, count)

    def end(self) -> None:
        """Tell nothing more."""
        self._counts = {}
        self._untold = {}

    def _allows(self, key: Key) -> bool:
        return may_tell(self._rules, key[0])

    def _forget(self, key: Key) -> None:
        """Tell that interest has ended, if it was told of."""
        if self._counts.pop(key, 0) and self._untold.pop(key, True) is not None:
            subject, queue = key
            self._link.send(
                b"LS- %b\r\n" % subject if queue is None else b"LS- %b %b\r\n" % (subject, queue)
            )

    def _tell(self, key: Key, count: int) -> None:
        subject, queue = key
        if queue is None:
            self._link.send(b"LS+ %b\r\n" % subject)
        else:
            self._link.send(b"LS+ %b %b %d\r\n" % (subject, queue, count))

    def _tell_waiting(self, budget: int) -> None:
        """Tell what is still to be told, for so much of this turn; the rest follows in others."""
        while self._untold and budget > 0:
            key = next(iter(self._untold))
            del self._untold[key]
            self._tell(key, self._counts[key])
            budget -= _TELLING_BYTES + len(key[0])
        if self._untold and not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting = False
        self._tell_waiting(min(self._turns.share(), 64 * PORTION_BYTES))


class AccountInterest:
    """The interest in one account, for the links of that account.

    It listens to the account while there is a link. `own` is a subject that all links are told of,
    which no one is subscribed to: interest in it that comes back tells of a loop.
    """

    def __init__(self, account: Account, own: bytes, also: Callable[[], list[bytes]]) -> None:
        self.account = account
        self.own = own
        self._also = also
        self._links: list[Link] = []
        self._members: dict[Key, int] = {}  # of queue groups

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link, rules: Permissions | None) -> None:
        """Tell `link` of all interest that concerns it, and of every change from now on."""
        if not self._links:
            self._members = {
                key: self.account.sublist.count_members(*key)
                for key in self.account.interest()
                if key[1] is not None
            }
            self.account.add_listener(self)
        self._links.append(link)
        link.told.begin(self._interest_for(link), rules)

    def renew(self, link: Link, rules: Permissions | None) -> None:
        """Tell `link`, which has other rules now, what it has not been told, and the reverse."""
        link.told.begin(self._interest_for(link), rules)

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
        for key in self.account.interest():
            found[key] = 1 if key[1] is None else self._members.get(key, 1)
        for subject in self._also():
            found[subject, None] = found.get((subject, None), 0) + 1
        for other in self._links:
            if link.told.hears_of(other):
                for key, told in other.interest.items():
                    found[key] = found.get(key, 0) + told.weight
        found[self.own, None] = 1
        return found

    # What the account tells.

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is interest of a kind."""
        if queue is not None:
            self._members[subject, queue] = 1
        self._change((subject, queue), 1)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is none any more."""
        change = 1 if queue is None else self._members.pop((subject, queue), 1)
        self._change((subject, queue), -change)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Pass on how many members a queue group has."""
        key = (subject, queue)
        before = self._members.get(key, 0)
        self._members[key] = members
        if members != before:
            self._change(key, members - before)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Leave it to `link_changed`, which knows from where."""

    def _change(self, key: Key, change: int) -> None:
        for link in self._links:
            link.told.change(key, change)

    # What links tell.

    def link_changed(self, source: Link, subject: bytes, queue: bytes | None, change: int) -> None:
        """Pass on to the other links that `source` has told of more, or less, interest."""
        for link in self._links:
            if link.told.hears_of(source):
                link.told.change((subject, queue), change)
