"""The interest to announce over each account's links: its clients', and other links' interest.

`told.py` describes how one link announces it.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from midge.server.clients.observer import Observer
from midge.server.peers.imported import Imports
from midge.server.routing.passage import SERVICE, crosses
from midge.server.routing.role import BEHIND_ROUTES, LAST_CHOICE, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.accounts.links import AccountLinks
    from midge.server.peers.imported import ImportedStream
    from midge.server.peers.told import Key, Link, Told
    from midge.server.routing.account import Account

_WORKER = int(Role.WORKER)


class AccountInterest:
    """The interest in one account, for the links of that account.

    It listens to the account while there is a link. `also` returns the subjects announced to links
    of a role without a subscription. `imported`, once it is set, has other accounts' interest in
    this account's streams, and `streams` the streams that this account imports.
    """

    def __init__(
        self,
        account: Account,
        also: Callable[[int], list[bytes]],
        interests: Interests | None = None,
    ) -> None:
        self.account = account
        self.imported: Imports | None = None
        self.streams: list[ImportedStream] = []
        self._also = also
        self._interests = interests
        self._links: list[Link] = []

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: Link, allows: Callable[[bytes], bool]) -> None:
        """Announce all interest that concerns `link`, and every change from now on."""
        if not self._links:
            self.account.add_listener(self)
            if self.imported is not None:
                self.imported.renew()
        self._links.append(link)
        self.renew(link, allows)

    def renew(self, link: Link, allows: Callable[[bytes], bool]) -> None:
        """Announce newly allowed interest over `link`, and withdraw interest now denied."""
        link.told.begin(self._walk_for(link), partial(self._count_for, link), allows)

    def remove(self, link: Link) -> None:
        """Stop announcing over `link`."""
        if link in self._links:
            self._links.remove(link)
            if not self._links:
                self.account.remove_listener(self)
                if self.imported is not None:
                    self.imported.end()

    def accounts_planned(self) -> None:
        """Announce the changes by new or ended imports of this account's streams."""
        if self._links and self.imported is not None and self.imported.renew():
            for link in self._links:
                self.renew(link, link.told.allows)

    def _walk_for(self, link: Link) -> Iterator[list[Key]]:
        """Yield the keys of interest to announce over `link`."""
        told = link.told
        yield [(subject, None, "") for subject in self._also(link.role)]
        for batch in self.account.sublist.walk():
            yield [(subject, queue, "") for subject, queue in batch]
        yield from told.keys_behind(self.account.sublist, attrgetter("subject"))
        for stream in self._imported_streams():
            yield from stream.keys(told)

    def _count_for(self, link: Link, key: Key) -> int:
        """Count the interest in `key` that concerns `link`."""
        subject, queue, from_cluster = key
        told, sublist, imported = link.told, self.account.sublist, self.imported
        count = 0
        if not from_cluster:
            count = sublist.count_members(subject, queue)
            if queue is None:
                if count and imported is not None and imported.has_crossings:
                    count -= self._count_untold(imported, link, subject)
                count = (count > 0) + (subject in self._also(link.role))
        if sublist.remotes is not None:
            count += told.count_behind(sublist.remotes.exactly(subject, queue), key)
        if imported is not None and imported.streams:
            count += sum(stream.count(told, key) for stream in imported.streams)
        return count

    def _imported_streams(self) -> list[ImportedStream]:
        return [] if self.imported is None else self.imported.streams

    def _count_imports(self, subject: bytes) -> int:
        """Count the imports of exactly `subject`, which are subscriptions of the server's own."""
        imported = self.imported
        if imported is None or not imported.has_crossings:
            return 0
        return imported.count_crossings(subject)

    def _count_untold(self, imported: Imports, link: Link, subject: bytes) -> int:
        """Count the imports of exactly `subject` that are not announced over `link` themselves.

        An import of a stream never is, because its importers' interest is announced instead. An
        import of a service is, if messages that arrive over the link may cross it.
        """
        if crosses(link.role, SERVICE):
            return imported.count_streams(subject)
        return imported.count_crossings(subject)

    # What the account tells.

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Announce new interest."""
        self._change((subject, queue, ""), 1)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Announce the end of interest."""
        self._change((subject, queue, ""), -1)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Announce the new number of members of a queue group."""
        self._change((subject, queue, ""), 0)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Do nothing: `link_changed` handles it, because it knows the link."""

    def _change(self, key: Key, change: int) -> None:
        if self._imported_streams() or (key[1] is None and self._count_imports(key[0])):
            self.look(key[0], key[1])
            return
        for link in self._links:
            link.told.change(key, change)

    def look(self, subject: bytes, queue: bytes | None) -> None:
        """Count local interest again, and announce a change."""
        for link in self._links:
            link.told.look((subject, queue, ""))

    def look_behind(self, source: Link, subject: bytes, queue: bytes | None, origin: str) -> None:
        """Count interest behind `source` again, and announce a change."""
        for told, key in self._hearing(source, subject, queue, origin):
            told.look(key)

    def _hearing(
        self, source: Link, subject: bytes, queue: bytes | None, origin: str
    ) -> Iterator[tuple[Told, Key]]:
        """Yield the links that interest behind `source` concerns, each with its key for it."""
        origin = origin or source.cluster
        for link in self._links:
            if link.told.hears_of(source, origin):
                yield link.told, link.told.key_of(subject, queue, origin)

    # What links tell.

    def link_changed(
        self, source: Link, subject: bytes, queue: bytes | None, change: int, origin: str = ""
    ) -> None:
        """Announce a change of the interest behind `source` over the other links."""
        interests = self._interests
        if interests is not None and interests.outside is not None and source.role != _WORKER:
            from_where = "" if queue is None else _from_where(source.role, origin)
            interests.outside(self.account, subject, queue, change, from_where)
        for stream in self.streams:
            stream.link_changed(source, subject, queue, origin)
        if len(self._links) == 1 and source in self._links:
            return  # interest is not sent back over its own link
        if self._imported_streams():
            self.look_behind(source, subject, queue, origin)
            return
        for told, key in self._hearing(source, subject, queue, origin):
            told.change(key, change)


class Interests(Observer):
    """The interest in each account of a server, for all of its links; `imports` is between them.

    `extra` has for a link's role the function that returns the subjects announced over such links
    of an account without a subscription. `outside` is called for changed interest behind links to
    other servers: account, subject, queue group, change, and the place of its members (role.py). It
    is None where this is the only worker.
    """

    def __init__(self, imports: AccountLinks | None = None) -> None:
        self._imports = imports
        self.extra: dict[int, Callable[[Account], list[bytes]]] = {}
        self.outside: Callable[[Account, bytes, bytes | None, int, str], None] | None = None
        self._accounts: dict[str, AccountInterest] = {}

    def of(self, account: Account) -> AccountInterest:
        """Return the interest of `account`, for its links."""
        interest = self._accounts.get(account.name)
        if interest is None:

            def also(role: int) -> list[bytes]:
                subjects = self.extra.get(role)
                return [] if subjects is None else subjects(account)

            interest = AccountInterest(account, also, self)
            self._accounts[account.name] = interest
            if self._imports is not None:
                interest.imported = Imports(interest, self._imports, self.of)
        return interest

    def accounts_planned(self) -> None:
        """Announce the changes by new or ended imports."""
        for interest in list(self._accounts.values()):
            interest.accounts_planned()


def _from_where(role: int, origin: str) -> str:
    """Return the place of queue members behind a link of `role` and the leaf cluster `origin`."""
    if role == Role.ROUTE:
        return BEHIND_ROUTES + (LAST_CHOICE if origin else "")
    return LAST_CHOICE
