"""The ledger of interest: how much there is of each kind in each account, and where.

There is one count for each account, subject, queue group and place, and the SubList of the account
keeps it: its subscriptions are the interest here, and `remotes` in it has the interest behind each
link, with the leaf node cluster that it comes from. Nothing is counted a second time. What another
server, or another worker, is sent is a filter of this count, by the table of passage.py:

    a link         the subscriptions here and those behind other links, as far as messages of that
                   link may pass to them: `AccountLedger._count_for`, announced by announcer.py
    a worker       the subscriptions here, and those behind links to other servers:
                   `AccountLedger.count_for_workers`, announced as worker_interest.py says
    an exporter    the subscriptions of accounts that import a stream: `ImportedStream.count`

An import is itself a subscription in the account that messages come from. It counts for a link
only if messages from that link may cross it.

An import of a stream carries a message that arrives over a link to the importers. So this server
announces their subscriptions under the exporter's subjects, each with its queue group and number of
members. Only interest of this server and of leaf nodes counts, because the other servers of a
cluster carry their messages by their own imports.

Each change comes in by the events of the account for interest here, and by `link_changed` for
interest behind a link. It goes out once over each link that it concerns.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from midge.server.accounts.service_link import Response, ServiceLink
from midge.server.accounts.stream_link import StreamLink
from midge.server.clients.observer import Observer
from midge.server.peers.announcer import InterestLines
from midge.server.routing.passage import BOTH, SERVICE, STREAM, crosses, passes
from midge.server.routing.role import BEHIND_ROUTES, LAST_CHOICE, Role
from midge.sublist.subjects import covers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from midge.server.accounts.links import AccountLinks
    from midge.server.peers.announcer import InterestAnnouncer, Key
    from midge.server.peers.link import Branch
    from midge.server.peers.worker_interest import Numbers, WorkerAnnouncer
    from midge.server.routing.account import Account
    from midge.sublist.subscription import RemoteSubscription, Subscription

_ROUTE, _WORKER = int(Role.ROUTE), int(Role.WORKER)

_ALONE_BEFORE = 2  # subscriptions, of which one may have been alone, and numbered
_ANSWERED_BY_EACH = frozenset({b"$SYS.REQ.USER.INFO"})
"""Requests that only the worker of the client that asks can answer."""


class Ledger(Observer):
    """The interest in each account of a server, for all of its links; `imports` is between them.

    `extra` has for a link's role the function that returns the subjects announced over such links
    of an account without a subscription. `numbers` are those of subscriptions here, as other
    workers know them, and None where this is the only worker. `has_peers` is True once there has
    been a link to another server.
    """

    def __init__(self, imports: AccountLinks | None = None, numbers: Numbers | None = None) -> None:
        self.imports = imports
        self.extra: dict[int, Callable[[Account], list[bytes]]] = {}
        self.numbers = numbers
        self.has_peers = False
        self.workers: dict[WorkerAnnouncer, None] = {}
        self._accounts: dict[str, AccountLedger] = {}

    def of(self, account: Account) -> AccountLedger:
        """Return the interest in `account`."""
        ledger = self._accounts.get(account.name)
        if ledger is None:
            ledger = self._accounts[account.name] = AccountLedger(account, self)
        return ledger

    def account_made(self, account: Account) -> None:
        """Announce the interest in a new account to the other workers, if there are any."""
        if self.numbers is not None:
            self.of(account)

    def accounts_planned(self) -> None:
        """Announce the changes by new or ended imports."""
        for ledger in list(self._accounts.values()):
            ledger.accounts_planned()

    def join(self, worker: WorkerAnnouncer) -> None:
        """Announce everything to another worker, and every change from now on."""
        self.workers[worker] = None
        accounts = list(self._accounts.values())
        worker.begin(chain.from_iterable(one.lines_for_workers() for one in accounts))

    def leave(self, worker: WorkerAnnouncer) -> None:
        """Announce nothing more to another worker."""
        self.workers.pop(worker, None)


class AccountLedger:
    """The interest in one account.

    While there are links, the SubList reports the first and the last interest of each kind. That is
    not enough for imported subjects, for exporters with links, whose streams `importing` has, and
    for other workers: for these the ledger watches each subscription of the account.
    """

    def __init__(self, account: Account, ledger: Ledger) -> None:
        self.account = account
        self.importing: list[ImportedStream] = []
        self._ledger = ledger
        self._lines = InterestLines(b"RS", account.name.encode() + b" ")  # to other workers
        self._links: list[Branch] = []
        self._imported: list[ImportedStream] = []  # streams of this account, while there are links
        self._own_answers = 0  # subscriptions of the server itself to _ANSWERED_BY_EACH
        self._is_listening = self._is_watching = False
        self.watch()
        if ledger.numbers is not None:
            known: set[tuple[bytes, bytes | None]] = set()
            for one in account.sublist:
                kind = (one.subject, one.queue)
                self._changed_for_workers(ledger.numbers, one, 1, is_new=kind not in known)
                known.add(kind)

    def __len__(self) -> int:
        return len(self._links)

    def watch(self) -> None:
        """Listen to the account and watch its subscriptions, or no longer, as the class says."""
        listens, imports, account = bool(self._links), self._ledger.imports, self.account
        watches = bool(self.importing) or self._ledger.numbers is not None
        watches |= listens and imports is not None and imports.has_crossings(account.name)
        if listens != self._is_listening:
            (account.add_listener if listens else account.remove_listener)(self)
        if watches != self._is_watching:
            (account.add_watcher if watches else account.remove_watcher)(self)
        self._is_listening, self._is_watching = listens, watches

    # The links of the account.

    def add(self, link: Branch, allows: Callable[[bytes], bool]) -> None:
        """Announce all interest that concerns `link`, and every change from now on."""
        self._links.append(link)
        self._ledger.has_peers = True
        if len(self._links) == 1:
            self.watch()
            self._renew_imported()
        self.renew(link, allows)

    def renew(self, link: Branch, allows: Callable[[bytes], bool]) -> None:
        """Announce newly allowed interest over `link`, and withdraw interest now denied."""
        link.announcer.begin(self._walk_for(link), partial(self._count_for, link), allows)

    def remove(self, link: Branch) -> None:
        """Stop announcing over `link`."""
        if link in self._links:
            self._links.remove(link)
            if not self._links:
                self.watch()
                self._renew_imported()

    def accounts_planned(self) -> None:
        """Announce the changes by new or ended imports of this account's streams."""
        self.watch()
        if self._links and self._renew_imported():
            for link in self._links:
                self.renew(link, link.announcer.allows)

    def _renew_imported(self) -> bool:
        """Follow the imports in force while there are links; return whether they have changed."""
        imports = self._ledger.imports
        wanted = imports.streams_of(self.account.name) if self._links and imports else []
        known = {one.stream: one for one in self._imported}
        if list(known) == wanted:
            return False
        for stream in known.keys() - set(wanted):
            known[stream].end()
        self._imported = [known.get(stream) or self._follow(stream) for stream in wanted]
        return True

    def _follow(self, stream: StreamLink) -> ImportedStream:
        followed = ImportedStream(stream, self, self._ledger.of(stream.importer))
        followed.begin()
        return followed

    # The counts.

    def count_here(self, role: int, subject: bytes, queue: bytes | None) -> int:
        """Count the subscriptions here that are announced over links of `role`.

        An import of a stream is not, because its importers' interest is announced instead. An
        import of a service is, if messages that arrive over the link may cross it.
        """
        count = self.account.sublist.count_members(subject, queue)
        imports = self._ledger.imports
        if queue is None and count and imports is not None:
            count -= imports.count_streams(self.account.name, subject)
            if not crosses(role, SERVICE):
                count -= imports.count_services(self.account.name, subject)
        return count

    def count_for_workers(self, subject: bytes, queue: bytes | None, place: str) -> int:
        """Count the interest that is announced to workers: here, or at a `place` (role.py)."""
        count = 0
        if not place:
            count = self.count_here(_WORKER, subject, queue)
            if self._own_answers and subject in _ANSWERED_BY_EACH:
                count -= self._own_answers
        remotes = self.account.sublist.remotes if self._ledger.has_peers else None
        if remotes is not None:
            found: Any = remotes.exactly(subject, queue)
            for one in found:
                if _is_outside(one.remote) and _place_of(one) == place:
                    count += one.weight
        return count

    def lines_for_workers(self) -> Iterator[list[bytes]]:
        """Yield the lines that announce this interest to another worker, a few at a time."""
        for batch in self.account.sublist.walk():
            yield self._lines_for((subject, queue, "") for subject, queue in batch)
        remotes = self.account.sublist.remotes
        if remotes is not None and self._ledger.has_peers:
            for found in remotes.walk_subscriptions():
                remote = cast("list[RemoteSubscription]", found)
                outside = [one for one in remote if _is_outside(one.remote)]
                keys = [(one.subject, one.queue, _place_of(one)) for one in outside]
                yield self._lines_for(dict.fromkeys(keys))

    def _lines_for(self, keys: Iterable[Key]) -> list[bytes]:
        """Return the lines for those of `keys` of which there is interest."""
        counted = ((key, self.count_for_workers(*key)) for key in keys)
        return [self._line(key, count) for key, count in counted if count]

    def _line(self, key: Key, count: int) -> bytes:
        """Return the line that announces so much interest of a kind, or its end."""
        numbers, subject = self._ledger.numbers, key[0]
        if count == 1 and key[1] is None and numbers:
            found = self.account.sublist.exactly(subject, None)
            number = numbers.of(found[0]) if len(found) == 1 else 0
            if number:
                return self._lines.numbered(subject, number, found[0].sid)
        return self._lines.began(key, count) if count else self._lines.ended(key)

    def _walk_for(self, link: Branch) -> Iterator[list[Key]]:
        """Yield the keys of interest to announce over `link`."""
        announcer = link.announcer
        yield [(subject, None, "") for subject in self._also(link.role)]
        for batch in self.account.sublist.walk():
            yield [(subject, queue, "") for subject, queue in batch]
        yield from announcer.keys_behind(self.account.sublist, attrgetter("subject"))
        for stream in self._imported:
            yield from stream.keys(announcer)

    def _count_for(self, link: Branch, key: Key) -> int:
        """Count the interest in `key` that concerns `link`."""
        subject, queue, from_cluster = key
        announcer, remotes = link.announcer, self.account.sublist.remotes
        count = 0
        if not from_cluster:
            count = self.count_here(link.role, subject, queue)
            if queue is None:
                count = (count > 0) + (subject in self._also(link.role))
        if remotes is not None:
            count += announcer.count_behind(remotes.exactly(subject, queue), key)
        for stream in self._imported:
            count += stream.count(announcer, key)
        return count

    def _also(self, role: int) -> list[bytes]:
        subjects = self._ledger.extra.get(role)
        return [] if subjects is None else subjects(self.account)

    # Changes here.

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Announce the first interest of a kind."""
        self._announce(subject, queue, 1)

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Announce the end of interest of a kind."""
        self._announce(subject, queue, -1)

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Announce the new number of members of a queue group."""
        self.recount(subject, queue)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Do nothing: `link_changed` handles it, because it knows the link."""

    def _announce(self, subject: bytes, queue: bytes | None, change: int) -> None:
        if queue is not None or self._imported or self._is_imported(subject):
            self.recount(subject, queue)
            return
        for link in self._links:
            link.announcer.change((subject, None, ""), change)

    def added(self, subscription: Subscription) -> None:
        """Announce a new subscription where each counts."""
        self._changed(subscription, 1)

    def removed(self, subscription: Subscription) -> None:
        """Announce the end of a subscription where each counts."""
        self._changed(subscription, -1)

    def _changed(self, subscription: Subscription, change: int) -> None:
        subject, queue = subscription.subject, subscription.queue
        if queue is None and self._links and self._is_imported(subject):
            self.recount(subject, None)
        if self.importing and not isinstance(subscription, StreamLink | ServiceLink | Response):
            for stream in self.importing:
                stream.changed(subject, queue)
        if self._ledger.numbers is not None:
            self._changed_for_workers(self._ledger.numbers, subscription, change)

    def _is_imported(self, subject: bytes) -> bool:
        """Return whether exactly `subject` is imported: that hides the first and the last."""
        imports, name = self._ledger.imports, self.account.name
        if imports is None or not imports.has_crossings(name):
            return False
        return imports.count_crossings(name, subject) > 0

    def _changed_for_workers(
        self, numbers: Numbers, one: Subscription, change: int, *, is_new: bool = False
    ) -> None:
        """Announce a change to the other workers, which have the same imports and own answers."""
        if isinstance(one, StreamLink | ServiceLink):
            return
        subject, queue = one.subject, one.queue
        if subject in _ANSWERED_BY_EACH and one.owned_by() is None:
            self._own_answers += change
            return
        count = self.count_for_workers(subject, queue, "")
        if change > 0 and count == 1:
            numbers.give(one)
            is_new = True
        elif queue is None and numbers:
            takes = numbers.take(one) if change < 0 else self._take_numbers(numbers, subject)
            is_new = is_new or takes
        self._announce_to_workers((subject, queue, ""), count, is_new=is_new)

    def _take_numbers(self, numbers: Numbers, subject: bytes) -> bool:
        """Take the number from a subscription that is no longer alone; False without one."""
        if self.count_here(_WORKER, subject, None) > _ALONE_BEFORE:
            return False
        return any(numbers.take(one) for one in self.account.sublist.exactly(subject, None))

    def _announce_to_workers(self, key: Key, count: int, *, is_new: bool) -> None:
        """Announce how much interest of a kind there is; plain interest only when it is new."""
        if self._ledger.workers and (key[1] is not None or count == 0 or is_new):
            line = self._line(key, count)
            for worker in self._ledger.workers:
                worker.send(line)

    def recount(self, subject: bytes, queue: bytes | None) -> None:
        """Count local interest again, and announce a change."""
        for link in self._links:
            link.announcer.recount((subject, queue, ""))

    # Changes behind links.

    def link_changed(
        self,
        source: Branch,
        subject: bytes,
        queue: bytes | None,
        change: int,
        origin: str = "",
    ) -> None:
        """Announce a change of the interest behind `source` over the other links."""
        if self._ledger.numbers is not None and source.role != _WORKER:
            place = _place(source.role, queue, origin)
            count = self.count_for_workers(subject, queue, place)
            is_new = count == 1 and change > 0
            if queue is None and count > 1 and self._ledger.numbers:
                is_new = self._take_numbers(self._ledger.numbers, subject)
            self._announce_to_workers((subject, queue, place), count, is_new=is_new)
        for stream in self.importing:
            stream.link_changed(source, subject, queue, origin)
        if len(self._links) == 1 and source in self._links:
            return  # interest is not sent back over its own link
        if self._imported:
            self.recount_behind(source, subject, queue, origin)
            return
        for announcer, key in self._links_that_get(source, subject, queue, origin):
            announcer.change(key, change)

    def recount_behind(
        self, source: Branch, subject: bytes, queue: bytes | None, origin: str
    ) -> None:
        """Count interest behind `source` again, and announce a change."""
        for announcer, key in self._links_that_get(source, subject, queue, origin):
            announcer.recount(key)

    def _links_that_get(
        self, source: Branch, subject: bytes, queue: bytes | None, origin: str
    ) -> Iterator[tuple[InterestAnnouncer, Key]]:
        """Yield the links that interest behind `source` concerns, each with its key for it."""
        origin = origin or source.cluster
        for link in self._links:
            if link.announcer.gets(source, origin):
                yield link.announcer, link.announcer.key_of(subject, queue, origin)


class ImportedStream:
    """The interest of one importer in one stream, under the exporter's subjects.

    `exporter` is the interest in the exporter's account, which has the links, and `importer` is
    the interest in the importing account.
    """

    def __init__(
        self, stream: StreamLink, exporter: AccountLedger, importer: AccountLedger
    ) -> None:
        self.stream = stream
        self._exporter = exporter
        self._importer = importer
        self._sublist = importer.account.sublist
        # The importer's subjects that reach beyond the import, by what they mean there.
        self._wider: dict[tuple[bytes, bytes | None], set[bytes]] = {}

    def begin(self) -> None:
        """Hear of changes from now on."""
        self._importer.importing.append(self)
        self._importer.watch()

    def end(self) -> None:
        """Hear of none any more."""
        self._importer.importing.remove(self)
        self._importer.watch()

    def changed(self, subject: bytes, queue: bytes | None) -> None:
        """Announce changed interest of the importer here, if it concerns the stream."""
        meant = self._exporters_subject(subject, queue)
        if meant is not None:
            self._exporter.recount(meant, queue)

    def link_changed(
        self, source: Branch, subject: bytes, queue: bytes | None, origin: str
    ) -> None:
        """Announce changed interest behind a link of the importer."""
        meant = self._exporters_subject(subject, queue) if _counts(source) else None
        if meant is not None:
            self._exporter.recount_behind(source, meant, queue, origin)

    def _exporters_subject(self, subject: bytes, queue: bytes | None) -> bytes | None:
        """Return `StreamLink.exporters_subject`; keep a subject that is wider than the import."""
        meant = self.stream.exporters_subject(subject)
        if meant is not None and not covers(self.stream.plan.target, subject):
            self._wider.setdefault((meant, queue), set()).add(subject)
        return meant

    def keys(self, announcer: InterestAnnouncer) -> Iterator[list[Key]]:
        """Yield the keys of interest to announce over a link, a few at a time."""
        for batch in self._sublist.walk():
            yield [
                (meant, queue, "")
                for subject, queue in batch
                if (meant := self._exporters_subject(subject, queue)) is not None
            ]
        yield from announcer.keys_behind(self._sublist, self._meaning)

    def _meaning(self, one: Any) -> bytes | None:
        """Return what interest behind a link of the importer means of the stream."""
        return self._exporters_subject(one.subject, one.queue) if _counts(one.remote) else None

    def count(self, announcer: InterestAnnouncer, key: Key) -> int:
        """Count the interest in `key` that concerns a link."""
        subject, queue, origin = key
        wider = self._wider.get((subject, queue), set())
        asked = list(wider)
        if covers(self.stream.plan.source, subject):
            asked.append(self.stream.importers_subject(subject))
        found = 0
        for local in asked:
            count = 0
            if not origin:
                count = max(self._importer.count_here(_WORKER, local, queue), 0)
                count = count if queue is not None else min(count, 1)
            if self._sublist.remotes is not None:
                behind: Any = self._sublist.remotes.exactly(local, queue)
                count += announcer.count_behind((one for one in behind if _counts(one.remote)), key)
            if count == 0:
                wider.discard(local)
            found += count
        if not wider:
            self._wider.pop((subject, queue), None)
        return found


def _counts(link: Branch) -> bool:
    """Return whether interest over `link` in an importer's account is interest in the stream."""
    return passes(Role.CLIENT, link.role, STREAM) == BOTH


def _is_outside(source: Any) -> bool:
    """Return whether `source` is a link to another server: workers hear of its interest."""
    return source.role != _WORKER and source.announcer is not None


def _place_of(one: Any) -> str:
    return _place(one.remote.role, one.queue, one.origin)


def _place(role: int, queue: bytes | None, origin: str) -> str:
    """Return the place (role.py) of queue members behind a link; plain interest has none."""
    if queue is None:
        return ""
    if role != _ROUTE:
        return LAST_CHOICE
    return BEHIND_ROUTES + (LAST_CHOICE if origin else "")
