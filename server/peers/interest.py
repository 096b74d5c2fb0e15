"""The interest to announce over each account's links: its clients', and other links' interest.

`announcer.py` describes how one link announces it.

An import of a stream carries a message that arrives over a link to the importers. So this server
announces their subscriptions under the exporter's subjects, each with its queue group and number of
members. Only interest of this server and of leaf nodes counts, because the other servers of a
cluster carry their messages by their own imports.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from midge.server.accounts.service_link import Response, ServiceLink
from midge.server.accounts.stream_link import StreamLink
from midge.server.clients.observer import Observer
from midge.server.routing.passage import BOTH, SERVICE, STREAM, crosses, passes
from midge.server.routing.role import BEHIND_ROUTES, LAST_CHOICE, Role
from midge.sublist.subjects import covers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.accounts.links import AccountLinks
    from midge.server.peers.announcer import AnnouncedLink, InterestAnnouncer, Key
    from midge.server.routing.account import Account
    from midge.sublist.subscription import Subscription

_WORKER = int(Role.WORKER)
_CROSSINGS = (StreamLink, ServiceLink, Response)


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
        self._links: list[AnnouncedLink] = []

    def __len__(self) -> int:
        return len(self._links)

    def add(self, link: AnnouncedLink, allows: Callable[[bytes], bool]) -> None:
        """Announce all interest that concerns `link`, and every change from now on."""
        if not self._links:
            self.account.add_listener(self)
            if self.imported is not None:
                self.imported.renew()
        self._links.append(link)
        self.renew(link, allows)

    def renew(self, link: AnnouncedLink, allows: Callable[[bytes], bool]) -> None:
        """Announce newly allowed interest over `link`, and withdraw interest now denied."""
        link.announcer.begin(self._walk_for(link), partial(self._count_for, link), allows)

    def remove(self, link: AnnouncedLink) -> None:
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
                self.renew(link, link.announcer.allows)

    def _walk_for(self, link: AnnouncedLink) -> Iterator[list[Key]]:
        """Yield the keys of interest to announce over `link`."""
        announcer = link.announcer
        yield [(subject, None, "") for subject in self._also(link.role)]
        for batch in self.account.sublist.walk():
            yield [(subject, queue, "") for subject, queue in batch]
        yield from announcer.keys_behind(self.account.sublist, attrgetter("subject"))
        for stream in self._imported_streams():
            yield from stream.keys(announcer)

    def _count_for(self, link: AnnouncedLink, key: Key) -> int:
        """Count the interest in `key` that concerns `link`."""
        subject, queue, from_cluster = key
        announcer, sublist, imported = link.announcer, self.account.sublist, self.imported
        count = 0
        if not from_cluster:
            count = sublist.count_members(subject, queue)
            if queue is None:
                if count and imported is not None and imported.has_crossings:
                    count -= imported.count_untold(link.role, subject)
                count = (count > 0) + (subject in self._also(link.role))
        if sublist.remotes is not None:
            count += announcer.count_behind(sublist.remotes.exactly(subject, queue), key)
        if imported is not None and imported.streams:
            count += sum(stream.count(announcer, key) for stream in imported.streams)
        return count

    def _imported_streams(self) -> list[ImportedStream]:
        return [] if self.imported is None else self.imported.streams

    def _count_imports(self, subject: bytes) -> int:
        """Count the imports of exactly `subject`, which are subscriptions of the server's own."""
        imported = self.imported
        if imported is None or not imported.has_crossings:
            return 0
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
            link.announcer.change(key, change)

    def look(self, subject: bytes, queue: bytes | None) -> None:
        """Count local interest again, and announce a change."""
        for link in self._links:
            link.announcer.look((subject, queue, ""))

    def look_behind(
        self, source: AnnouncedLink, subject: bytes, queue: bytes | None, origin: str
    ) -> None:
        """Count interest behind `source` again, and announce a change."""
        for announcer, key in self._hearing(source, subject, queue, origin):
            announcer.look(key)

    def _hearing(
        self, source: AnnouncedLink, subject: bytes, queue: bytes | None, origin: str
    ) -> Iterator[tuple[InterestAnnouncer, Key]]:
        """Yield the links that interest behind `source` concerns, each with its key for it."""
        origin = origin or source.cluster
        for link in self._links:
            if link.announcer.hears_of(source, origin):
                yield link.announcer, link.announcer.key_of(subject, queue, origin)

    # What links tell.

    def link_changed(
        self,
        source: AnnouncedLink,
        subject: bytes,
        queue: bytes | None,
        change: int,
        origin: str = "",
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
        for announcer, key in self._hearing(source, subject, queue, origin):
            announcer.change(key, change)


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


class ImportedStream:
    """The interest of one importer in one stream, under the exporter's subjects.

    `exporter` is the interest in the exporter's account, which has the links, and `importer` is
    the interest in the importing account.
    """

    def __init__(
        self,
        stream: StreamLink,
        links: AccountLinks,
        exporter: AccountInterest,
        importer: AccountInterest,
    ) -> None:
        self.stream = stream
        self._links = links
        self._exporter = exporter
        self._importer = importer
        self._account = stream.importer
        # The importer's subjects that reach beyond the import, by what they mean there.
        self._wider: dict[tuple[bytes, bytes | None], set[bytes]] = {}

    def begin(self) -> None:
        """Hear of changes from now on."""
        self._account.add_watcher(self)
        self._importer.streams.append(self)

    def end(self) -> None:
        """Hear of none any more."""
        self._account.remove_watcher(self)
        self._importer.streams.remove(self)

    def added(self, subscription: Subscription) -> None:
        """Count and announce a new subscription, if it concerns the stream."""
        if isinstance(subscription, _CROSSINGS):
            return
        subject = self.exporters_subject(subscription.subject, subscription.queue)
        if subject is not None:
            self._exporter.look(subject, subscription.queue)

    def removed(self, subscription: Subscription) -> None:
        """Count and announce the end of a subscription."""
        self.added(subscription)

    def link_changed(
        self, source: AnnouncedLink, subject: bytes, queue: bytes | None, origin: str
    ) -> None:
        """Announce changed interest behind a link of the importer."""
        if not _counts(source):
            return
        meant = self.exporters_subject(subject, queue)
        if meant is not None:
            self._exporter.look_behind(source, meant, queue, origin)

    def exporters_subject(self, subject: bytes, queue: bytes | None) -> bytes | None:
        """Return `StreamLink.exporters_subject`; keep a subject that is wider than the import."""
        meant = self.stream.exporters_subject(subject)
        if meant is not None and not covers(self.stream.plan.target, subject):
            self._wider.setdefault((meant, queue), set()).add(subject)
        return meant

    def keys(self, announcer: InterestAnnouncer) -> Iterator[list[Key]]:
        """Yield the keys of interest to announce over a link, a few at a time."""
        for batch in self._account.sublist.walk():
            yield [
                (meant, queue, "")
                for subject, queue in batch
                if (meant := self.exporters_subject(subject, queue)) is not None
            ]
        yield from announcer.keys_behind(self._account.sublist, self._meaning)

    def _meaning(self, one: Any) -> bytes | None:
        """Return what interest behind a link of the importer means of the stream."""
        return self.exporters_subject(one.subject, one.queue) if _counts(one.remote) else None

    def count(self, announcer: InterestAnnouncer, key: Key) -> int:
        """Count the interest in `key` that concerns a link."""
        subject, queue, origin = key
        wider = self._wider.get((subject, queue), set())
        asked = list(wider)
        if covers(self.stream.plan.source, subject):
            asked.append(self.stream.importers_subject(subject))
        found = 0
        for local in asked:
            there = self._count_remotes(announcer, key, local)
            here = 0 if origin else self._count_here(local, queue)
            if here + there == 0:
                wider.discard(local)
            found += here + there
        if not wider:
            self._wider.pop((subject, queue), None)
        return found

    def _count_here(self, local: bytes, queue: bytes | None) -> int:
        """Count the subscriptions of this server; plain ones count as one."""
        members = self._account.sublist.count_members(local, queue)
        if queue is not None:
            return members
        crossings = self._links.count_crossings(self._account.name, local)
        return min(max(members - crossings, 0), 1)

    def _count_remotes(self, announcer: InterestAnnouncer, key: Key, local: bytes) -> int:
        """Count the interest behind leaf nodes and in other workers."""
        remotes = self._account.sublist.remotes
        if remotes is None:
            return 0
        found: Any = remotes.exactly(local, key[1])
        return announcer.count_behind((one for one in found if _counts(one.remote)), key)


class Imports:
    """The streams of one account that others import, for the announcements over its links.

    `interest` is the interest in this account, and `of` returns another account's. With
    `has_crossings`, messages in the account go through some import.
    """

    def __init__(
        self,
        interest: AccountInterest,
        links: AccountLinks,
        of: Callable[[Account], AccountInterest],
    ) -> None:
        self._interest = interest
        self._account = interest.account
        self._links = links
        self._of = of
        self.streams: list[ImportedStream] = []
        self.has_crossings = False

    def renew(self) -> bool:
        """Go by the imports in force now; tell whether they are others than before."""
        self._watch(watches=self._links.has_crossings(self._account.name))
        wanted = self._links.streams_of(self._account.name)
        if [one.stream for one in self.streams] == wanted:
            return False
        known = {one.stream: one for one in self.streams}
        for stream, one in known.items():
            if stream not in wanted:
                one.end()
        self.streams = [known.get(stream) or self._begin(stream) for stream in wanted]
        return True

    def _watch(self, *, watches: bool) -> None:
        """Look again at each subject of the account that is imported, or no longer."""
        if watches and not self.has_crossings:
            self._account.add_watcher(self)
        elif self.has_crossings and not watches:
            self._account.remove_watcher(self)
        self.has_crossings = watches

    def _begin(self, stream: StreamLink) -> ImportedStream:
        """Follow what the importer of `stream` wants."""
        importer = self._of(stream.importer)
        begun = ImportedStream(stream, self._links, self._interest, importer)
        begun.begin()
        return begun

    def end(self) -> None:
        """Follow no import any more."""
        self._watch(watches=False)
        for stream in self.streams:
            stream.end()
        self.streams = []

    def count_untold(self, role: int, subject: bytes) -> int:
        """Count the imports of exactly `subject` that are not announced over a link of `role`.

        An import of a stream never is, because its importers' interest is announced instead. An
        import of a service is, if messages that arrive over the link may cross it.
        """
        links, account = self._links, self._account.name
        services = 0 if crosses(role, SERVICE) else links.count_services(account, subject)
        return services + links.count_streams(account, subject)

    def count_crossings(self, subject: bytes) -> int:
        """Count the imports of exactly `subject`, of either kind."""
        return self._links.count_crossings(self._account.name, subject)

    # The account's own subscriptions: an import hides where the first one comes and the last goes.

    def added(self, subscription: Subscription) -> None:
        """Count the interest in an imported subject again."""
        if subscription.queue is None and self.count_crossings(subscription.subject):
            self._interest.look(subscription.subject, None)

    def removed(self, subscription: Subscription) -> None:
        """Count the interest in an imported subject again."""
        self.added(subscription)


def _counts(link: AnnouncedLink) -> bool:
    """Return whether interest over `link` in an importer's account is interest in the stream."""
    return passes(Role.CLIENT, link.role, STREAM) == BOTH


def _from_where(role: int, origin: str) -> str:
    """Return the place of queue members behind a link of `role` and the leaf cluster `origin`."""
    if role == Role.ROUTE:
        return BEHIND_ROUTES + (LAST_CHOICE if origin else "")
    return LAST_CHOICE
