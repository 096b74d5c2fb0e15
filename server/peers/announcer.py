"""The interest announced over one link: its state, and the lines that announce it.

The idea. A server sends a message over a link only if a subscription behind that link matches it.
So each server announces to its peers which messages it wants: this is its interest. It is much
smaller than the subscriptions. A thousand clients that subscribe to `orders.>` are one line, sent
with the first subscription and withdrawn after the last. A queue group is a line with its number
of members, sent again whenever that changes, because the peer distributes messages by it.

A key is one kind of interest: a subject, a queue group or None, and for some links the leaf node
cluster that it comes from. `InterestAnnouncer` has the announced count of each key, to which
three sources add:

    clients       the subscriptions in the account's SubList, and JetStream's
    other links   interest that other peers have announced here, as far as passage.py lets messages
                  pass between the two links: `gets`
    importers     subscriptions of accounts that import a stream of this one

The rules of a link (`allows`) leave some of it out: permissions, `deny_imports`, isolation.

Two ways follow a change. `recount` counts a key again from all sources, compares the count with the
announced one, and sends the difference. It is always right, and it can be repeated at any time.
`change` only adds to the announced count. It takes a fraction of the time, and is right where only
one source of plain interest has changed; otherwise it recounts.

A new link. A server may have a million subscriptions, so `begin` walks over all keys in pieces,
each charged to the fair turns, and recounts each key. Changes during the walk are announced at
once by a recount, so their order does not matter: if the walk comes to the key later, it finds the
same count and sends nothing.

New rules. After a reload, or an INFO with other permissions, `begin` walks again: first over the
keys already announced, which withdraws those now denied, then over all others.

nats-server announces in the same way, by `RS+` and `RS-` on routes and `LS+` and `LS-` on leaf node
links; `InterestLines` writes them. `AccountLedger` (ledger.py) connects these parts for an account.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from midge.server.channels.fair_turns import PORTION_BYTES
from midge.server.routing.passage import is_announced
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from midge.server.channels.fair_turns import FairTurns
    from midge.server.peers.link import Branch
    from midge.sublist.sublist import SubList
    from midge.sublist.subscription import RemoteSubscription

Key = tuple[bytes, "bytes | None", str]
"""A subject, a queue group or None, and the leaf node cluster of the interest, where the link's
dialect names it; empty otherwise. Between workers, that is the place (role.py) of a queue group's
members behind links to other servers."""

_LOOK_BYTES = 4096
"""Charge to a turn for a recount of a key, and perhaps a line: some 2.5 us."""

_STEP_LOOKS = 16
"""Looks charged for a step of the walk: 32 subjects, of which it may yield none."""

_SHARDS = 256
"""Dictionaries that share the announced keys: a dictionary of a million entries takes 100 ms to
grow, one of 4,000 less than 1 ms."""

_FREED_AT_ONCE = 16  # of those dictionaries

_TURN_MAX_BYTES = 128 * PORTION_BYTES
"""Most work of one link in a turn, a quarter of it: 5 ms."""


class InterestLines:
    """The lines that announce interest: LS+ and LS- on leaf node links, and RS+ and RS- elsewhere.

    `account` is an account's name and a blank on a route or between workers, and empty on a route
    of its own. A peer that `names_origins` reads LS+ and LS- for the interest of leaf node
    clusters.
    """

    __slots__ = ("_account", "_heads", "names_origins")  # each account of a ledger has one

    def __init__(self, verb: bytes, account: bytes = b"", *, names_origins: bool = False) -> None:
        self.names_origins = names_origins
        self._account = account
        self._heads = {sign: b"%b%b %b" % (verb, sign, account) for sign in (b"+", b"-")}

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""
        subject, queue, origin = key
        head = self._head(b"+", origin)
        if queue is None:
            return b"%b%b\r\n" % (head, subject)
        return b"%b%b %b %d\r\n" % (head, subject, queue, weight)

    def numbered(self, subject: bytes, number: int, sid: bytes) -> bytes:
        """Write to a worker that one subscription has interest: `number`, `sid` of its client."""
        return b"NS+ %b%b %d %b\r\n" % (self._account, subject, number, sid)

    def ended(self, key: Key) -> bytes:
        """Write that interest has ended."""
        subject, queue, origin = key
        head = self._head(b"-", origin)
        return b"%b%b\r\n" % (head, subject if queue is None else b"%b %b" % (subject, queue))

    def _head(self, sign: bytes, origin: str) -> bytes:
        if not origin:
            return self._heads[sign]
        return b"LS%b %b %b" % (sign, origin.encode(), self._account)


class InterestAnnouncer:
    """The interest announced, and still to be announced, over one link.

    With `is_isolated` no interest behind leafs is announced. `allows` returns whether interest in a
    subject may be.
    """

    def __init__(
        self,
        link: Branch,
        turns: FairTurns,
        lines: InterestLines,
        *,
        is_isolated: bool = False,
    ) -> None:
        self._is_isolated = is_isolated
        self._link = link
        self._turns = turns
        self._lines = lines
        self.allows: Callable[[bytes], bool] = _all
        self._shards: tuple[dict[Key, int], ...] = ()
        self._count_of: Callable[[Key], int] = _none
        self._walk: Iterator[list[Key]] | None = None
        self._is_waiting = False

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards)

    def keys(self) -> list[Key]:
        """List the announced keys."""
        return list(itertools.chain(*self._shards))

    def gets(self, source: Branch, origin: str) -> bool:
        """Return whether this link gets interest that `source` announced for cluster `origin`."""
        cluster = self._link.cluster
        if source is self._link or (cluster and origin == cluster):
            return False
        if self._is_isolated and source.role == Role.LEAF:
            return False
        return is_announced(self._link.role, source.role)

    def key_of(self, subject: bytes, queue: bytes | None, origin: str) -> Key:
        """Return the key of interest that came over another link."""
        return subject, queue, origin if self._lines.names_origins else ""

    def keys_behind(
        self, sublist: SubList, meaning: Callable[[Any], bytes | None]
    ) -> Iterator[list[Key]]:
        """Yield the kinds of interest behind other links to announce over this one, in batches.

        `meaning` returns the subject to announce for a subscription; None announces nothing.
        """
        if sublist.remotes is None:
            return
        for found in sublist.remotes.walk_subscriptions():
            keys = []
            for one in cast("list[RemoteSubscription]", found):
                source: Any = one.remote
                origin = one.origin or source.cluster
                if self.gets(source, origin):
                    subject = meaning(one)
                    if subject is not None:
                        keys.append(self.key_of(subject, one.queue, origin))
            yield keys

    def count_behind(self, found: Iterable[Any], key: Key) -> int:
        """Count the interest in `found`, all behind links, that this link gets as `key`."""
        subject, queue, _ = key
        count = 0
        for interest in found:
            source = interest.remote
            origin = interest.origin or source.cluster
            if self.gets(source, origin) and self.key_of(subject, queue, origin) == key:
                count += interest.weight
        return count

    def begin(
        self,
        walk: Iterator[list[Key]],
        count_of: Callable[[Key], int],
        allows: Callable[[bytes], bool],
    ) -> None:
        """Announce all allowed keys of `walk` in pieces, and withdraw announced ones now denied.

        `walk` yields a few keys at a time; an empty list is a step as well. `count_of` returns the
        present interest of a key, which may have ended. Changes during the walk are announced at
        once.
        """
        self.allows = allows
        self._count_of = count_of
        if not self._shards:
            self._shards = tuple({} for _ in range(_SHARDS))
        announcer = (list(shard) for shard in self._shards if shard)
        self._walk = itertools.chain(announcer, walk)
        self._look_around(8 * PORTION_BYTES)

    def change(self, key: Key, change: int) -> None:
        """Announce at once a change of the interest in a key."""
        if not self._shards:
            return
        if self._walk is not None or key[1] is not None:
            self._look_at(key)
            return
        counts = self._counts_with(key)
        before = counts.get(key, 0)
        if before == 0 and not self.allows(key[0]):
            return
        count = before + change
        if count <= 0:
            self._forget(counts, key)
            return
        counts[key] = count
        if before == 0:
            self._link.send(self._lines.began(key, count))

    def recount(self, key: Key) -> None:
        """Count a key again, and announce a change at once."""
        if self._shards:
            self._look_at(key)

    def end(self) -> None:
        """Announce nothing more."""
        left, self._shards = [shard for shard in self._shards if shard], ()
        self._walk = None
        self._link, self._count_of = cast("Branch", None), _none  # both refer to this announcer
        if left:
            self._turns.wait(partial(self._free, left))

    def _free(self, left: list[dict[Key, int]]) -> None:
        """Free the keys in `left` turn by turn: a million of them take 0.25 s."""
        self._turns.give_back(self._turns.share())
        del left[-_FREED_AT_ONCE:]
        if left:
            self._turns.wait(partial(self._free, left))

    def _look_at(self, key: Key) -> None:
        """Count a key again, and announce a change."""
        counts = self._shards[hash(key) % _SHARDS]
        before = counts.get(key, 0)
        count = self._count_of(key) if self.allows(key[0]) else 0
        if count <= 0:
            if before:
                self._forget(counts, key)
        elif count != before:
            counts[key] = count
            if before == 0 or key[1] is not None:
                self._link.send(self._lines.began(key, count))

    def _counts_with(self, key: Key) -> dict[Key, int]:
        """Return the dictionary that `key` belongs to."""
        return self._shards[hash(key) % _SHARDS]

    def _forget(self, counts: dict[Key, int], key: Key) -> None:
        """Announce the end of interest, if it was announced."""
        if counts.pop(key, 0):
            self._link.send(self._lines.ended(key))
            if not counts:
                counts.clear()  # frees its table: 5 KB after 100 entries

    def _look_around(self, budget: int) -> None:
        """Continue the walk for `budget` bytes of this turn, and schedule the rest."""
        while self._walk is not None and budget > 0:
            keys = next(self._walk, None)
            if keys is None:
                self._walk = None
                return
            for key in keys:
                self._look_at(key)
            budget -= _LOOK_BYTES * (_STEP_LOOKS + len(keys))
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
