"""The importers' interest in an exported stream, as it is announced over the exporter's links.

The import itself carries a message that arrives over a link to the importers. So this server
announces their subscriptions under the exporter's subjects, each with its queue group and number of
members. Only interest of this server and of leaf nodes counts, because the other servers of a
cluster carry their messages by their own imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from midge.server.accounts.service_link import Response, ServiceLink
from midge.server.accounts.stream_link import StreamLink
from midge.server.routing.passage import BOTH, STREAM, passes
from midge.server.routing.role import Role
from midge.sublist.subjects import covers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.accounts.links import AccountLinks
    from midge.server.peers.told import Key, Link, Told
    from midge.server.routing.account import Account
    from midge.sublist.subscription import Subscription

_CROSSINGS = (StreamLink, ServiceLink, Response)


class AnInterest(Protocol):
    """The interest in one account, for its links."""

    account: Account
    streams: list[ImportedStream]

    def look(self, subject: bytes, queue: bytes | None) -> None:
        """Count the interest of this server again."""

    def look_behind(self, source: Link, subject: bytes, queue: bytes | None, origin: str) -> None:
        """Count the interest behind a link again."""


class ImportedStream:
    """The interest of one importer in one stream, under the exporter's subjects.

    `exporter` is the interest in the exporter's account, which has the links, and `importer` is
    the interest in the importing account.
    """

    def __init__(
        self,
        stream: StreamLink,
        links: AccountLinks,
        exporter: AnInterest,
        importer: AnInterest,
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

    def link_changed(self, source: Link, subject: bytes, queue: bytes | None, origin: str) -> None:
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

    def keys(self, told: Told) -> Iterator[list[Key]]:
        """Yield the keys of interest to announce over a link, a few at a time."""
        for batch in self._account.sublist.walk():
            yield [
                (meant, queue, "")
                for subject, queue in batch
                if (meant := self.exporters_subject(subject, queue)) is not None
            ]
        yield from told.keys_behind(self._account.sublist, self._meaning)

    def _meaning(self, one: Any) -> bytes | None:
        """Return what interest behind a link of the importer means of the stream."""
        return self.exporters_subject(one.subject, one.queue) if _counts(one.remote) else None

    def count(self, told: Told, key: Key) -> int:
        """Count the interest in `key` that concerns a link."""
        subject, queue, origin = key
        wider = self._wider.get((subject, queue), set())
        asked = list(wider)
        if covers(self.stream.plan.source, subject):
            asked.append(self.stream.importers_subject(subject))
        found = 0
        for local in asked:
            there = self._count_remotes(told, key, local)
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

    def _count_remotes(self, told: Told, key: Key, local: bytes) -> int:
        """Count the interest behind leaf nodes and in other workers."""
        remotes = self._account.sublist.remotes
        if remotes is None:
            return 0
        found: Any = remotes.exactly(local, key[1])
        return told.count_behind((one for one in found if _counts(one.remote)), key)


class Imports:
    """The streams of one account that others import, for the announcements over its links.

    `interest` is the interest in this account, and `of` returns another account's.
    """

    def __init__(
        self,
        interest: AnInterest,
        links: AccountLinks,
        of: Callable[[Account], AnInterest],
    ) -> None:
        self._interest = interest
        self._account = interest.account
        self._links = links
        self._of = of
        self.streams: list[ImportedStream] = []
        self._watches = False

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

    @property
    def has_crossings(self) -> bool:
        """Whether messages in the account go through any import."""
        return self._watches

    def _watch(self, *, watches: bool) -> None:
        """Look again at each subject of the account that is imported, or no longer."""
        if watches and not self._watches:
            self._account.add_watcher(self)
        elif self._watches and not watches:
            self._account.remove_watcher(self)
        self._watches = watches

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

    def count_streams(self, subject: bytes) -> int:
        """Count the imports of exactly `subject`, as a stream."""
        return self._links.count_streams(self._account.name, subject)

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


def _counts(link: Link) -> bool:
    """Return whether interest over `link` in an importer's account is interest in the stream."""
    return passes(Role.CLIENT, link.role, STREAM) == BOTH
