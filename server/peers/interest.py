"""The interest that each account's links are told: its clients' and that behind other links."""

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

    It listens to the account while there is a link. `also` returns the subjects that links of a
    kind are told of without a subscription. `imported`, once it is set, has what other accounts
    want of this one's streams, and `streams` what links of those are told of interest here.
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
        """Tell `link` of all interest that concerns it, and of every change from now on."""
        if not self._links:
            self.account.add_listener(self)
            if self.imported is not None:
                self.imported.renew()
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
                if self.imported is not None:
                    self.imported.end()

    def accounts_planned(self) -> None:
        """Tell what has changed by other imports of this account's streams."""
        if self._links and self.imported is not None and self.imported.renew():
            for link in self._links:
                self.renew(link, link.told.allows)

    def _walk_for(self, link: Link) -> Iterator[list[Key]]:
        """Yield the kinds of interest that `link` may have to be told of."""
        told = link.told
        yield [(subject, None, "") for subject in self._also(link.role)]
        for batch in self.account.sublist.walk():
            yield [(subject, queue, "") for subject, queue in batch]
        yield from told.keys_behind(self.account.sublist, attrgetter("subject"))
        for stream in self._imported_streams():
            yield from stream.keys(told)

    def _count_for(self, link: Link, key: Key) -> int:
        """Count the interest of a kind that `link` is told of."""
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
        """Count the imports of exactly `subject` that are no interest to `link` by themselves.

        None of a stream is, because what its importers want is told. One of a service is where
        messages that come over the link may cross it.
        """
        if crosses(link.role, SERVICE):
            return imported.count_streams(subject)
        return imported.count_crossings(subject)

    # What the account tells.

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that there is interest of a kind."""
        self._change((subject, queue, ""), 1)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Pass on that interest has ended."""
        self._change((subject, queue, ""), -1)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Pass on how many members a queue group has."""
        self._change((subject, queue, ""), 0)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Leave it to `link_changed`, which knows from where."""

    def _change(self, key: Key, change: int) -> None:
        if self._imported_streams() or (key[1] is None and self._count_imports(key[0])):
            self.look(key[0], key[1])
            return
        for link in self._links:
            link.told.change(key, change)

    def look(self, subject: bytes, queue: bytes | None) -> None:
        """Have interest of a kind that is here counted anew, and tell what has changed."""
        for link in self._links:
            link.told.look((subject, queue, ""))

    def look_behind(self, source: Link, subject: bytes, queue: bytes | None, origin: str) -> None:
        """Have interest of a kind that is behind `source` counted anew, and tell of changes."""
        for told, key in self._hearing(source, subject, queue, origin):
            told.look(key)

    def _hearing(
        self, source: Link, subject: bytes, queue: bytes | None, origin: str
    ) -> Iterator[tuple[Told, Key]]:
        """Yield what is told of interest behind `source`, each with the key that it has there."""
        origin = origin or source.cluster
        for link in self._links:
            if link.told.hears_of(source, origin):
                yield link.told, link.told.key_of(subject, queue, origin)

    # What links tell.

    def link_changed(
        self, source: Link, subject: bytes, queue: bytes | None, change: int, origin: str = ""
    ) -> None:
        """Pass on to the other links that `source` has told of more, or less, interest."""
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

    `extra` has, by the role of a link, what gives the subjects that such a link of an account is
    told of without a subscription. `outside` is told of interest behind links to other servers:
    account, subject, queue group, change, and where its members are, see role.py. It is None where
    this is the only worker.
    """

    def __init__(self, imports: AccountLinks | None = None) -> None:
        self._imports = imports
        self.extra: dict[int, Callable[[Account], list[bytes]]] = {}
        self.outside: Callable[[Account, bytes, bytes | None, int, str], None] | None = None
        self._accounts: dict[str, AccountInterest] = {}

    def of(self, account: Account) -> AccountInterest:
        """Return what the links of `account` are told by."""
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
        """Tell what has changed by other imports."""
        for interest in list(self._accounts.values()):
            interest.accounts_planned()


def _from_where(role: int, origin: str) -> str:
    """Say where members of a queue group are, behind a link of `role`, that come from `origin`."""
    if role == Role.ROUTE:
        return BEHIND_ROUTES + (LAST_CHOICE if origin else "")
    return LAST_CHOICE
