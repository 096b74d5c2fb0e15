"""The interest that one link is told: its state, and the lines that tell it.

Which interest a link is told depends on its role and on that of the link where the interest lies:
see peers/passage.py.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from midge.server.clients.fair_turns import PORTION_BYTES
from midge.server.routing.passage import is_told
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from midge.server.clients.fair_turns import FairTurns
    from midge.sublist.sublist import SubList
    from midge.sublist.subscription import RemoteSubscription

Key = tuple[bytes, "bytes | None", str]
"""A subject, the name of a queue group for interest of its members, and the leaf node cluster that
it comes from, where the link is told that; empty otherwise."""

Allows = "Callable[[bytes], bool]"
"""Tells whether interest in a subject may be told."""

_LOOK_BYTES = 4096
"""Charge to a turn for a look at an interest, and perhaps a line: some 2.5 us."""

_STEP_LOOKS = 16
"""Looks charged for a step of the walk: 32 subjects, of which it may yield none."""

_SHARDS = 256
"""Into how many parts what is told is divided: a dictionary of a million entries takes 100 ms to
grow, one of 4,000 less than 1 ms."""

_FREED_AT_ONCE = 16  # of those parts

_TURN_MAX_BYTES = 128 * PORTION_BYTES
"""Most that one link takes of a turn, a quarter of it: 5 ms."""


class Link(Protocol):
    """The members that `Told` uses of a link, or of the part of it that belongs to one account."""

    @property
    def role(self) -> int:
        """Its role: a route, a leaf node link, or a link to another worker."""

    @property
    def cluster(self) -> str:
        """The cluster of the other server, which gets nothing back that comes from there."""

    @property
    def told(self) -> Told:
        """The interest that it is told."""

    def send(self, piece: bytes) -> None:
        """Send a line."""


class Dialect(Protocol):
    """The lines that tell interest."""

    names_origins: bool

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""

    def ended(self, key: Key) -> bytes:
        """Write that interest has ended."""


class LeafDialect:
    """The lines LS+ and LS-."""

    names_origins = False

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""
        subject, queue, _ = key
        if queue is None:
            return b"LS+ %b\r\n" % subject
        return b"LS+ %b %b %d\r\n" % (subject, queue, weight)

    def ended(self, key: Key) -> bytes:
        """Write that interest has ended."""
        subject, queue, _ = key
        if queue is None:
            return b"LS- %b\r\n" % subject
        return b"LS- %b %b\r\n" % (subject, queue)


class RouteDialect:
    """The lines RS+ and RS- of one account; LS+ and LS- for leaf nodes, if the peer reads those."""

    def __init__(self, account: str, *, names_origins: bool) -> None:
        self.names_origins = names_origins
        self._account = account.encode()

    def began(self, key: Key, weight: int) -> bytes:
        """Write that there is interest, or that a queue group has another weight."""
        subject, queue, origin = key
        if queue is None and not origin:
            return b"RS+ %b %b\r\n" % (self._account, subject)
        words = [*self._words(b"+", origin), subject]
        if queue is not None:
            words += [queue, b"%d" % weight]
        return b" ".join(words) + b"\r\n"

    def ended(self, key: Key) -> bytes:
        """Write that interest has ended."""
        subject, queue, origin = key
        words = [*self._words(b"-", origin), subject]
        if queue is not None:
            words.append(queue)
        return b" ".join(words) + b"\r\n"

    def _words(self, sign: bytes, origin: str) -> list[bytes]:
        if not origin:
            return [b"RS" + sign, self._account]
        return [b"LS" + sign, origin.encode(), self._account]


class Told:
    """The interest that one link has been told, and is to be told.

    With `is_isolated` it is told of no interest behind leafs. `allows` tells which interest may be
    told.
    """

    def __init__(
        self,
        link: Link,
        turns: FairTurns,
        dialect: Dialect,
        *,
        is_isolated: bool = False,
    ) -> None:
        self._is_isolated = is_isolated
        self._link = link
        self._turns = turns
        self._dialect = dialect
        self.allows: Callable[[bytes], bool] = _all
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
        """Return whether interest that came over `source`, from the cluster `origin`, is told."""
        cluster = self._link.cluster
        if source is self._link or (cluster and origin == cluster):
            return False
        if self._is_isolated and source.role == Role.LEAF:
            return False
        return is_told(self._link.role, source.role)

    def key_of(self, subject: bytes, queue: bytes | None, origin: str) -> Key:
        """Return the key of interest that came over another link."""
        return subject, queue, origin if self._dialect.names_origins else ""

    def keys_behind(
        self, sublist: SubList, meaning: Callable[[Any], bytes | None]
    ) -> Iterator[list[Key]]:
        """Yield the kinds of interest behind other links that this one is told, a few at a time.

        `meaning` returns the subject under which one is told; None for not at all.
        """
        if sublist.remotes is None:
            return
        for found in sublist.remotes.walk_subscriptions():
            keys = []
            for one in cast("list[RemoteSubscription]", found):
                source: Any = one.remote
                origin = one.origin or source.cluster
                if self.hears_of(source, origin):
                    subject = meaning(one)
                    if subject is not None:
                        keys.append(self.key_of(subject, one.queue, origin))
            yield keys

    def count_behind(self, found: Iterable[Any], key: Key) -> int:
        """Count the interest in `found`, all behind links, of which this link is told as `key`."""
        subject, queue, _ = key
        count = 0
        for interest in found:
            source = interest.remote
            origin = interest.origin or source.cluster
            if self.hears_of(source, origin) and self.key_of(subject, queue, origin) == key:
                count += interest.weight
        return count

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
        self.allows = allows
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
        if before == 0 and not self.allows(key[0]):
            return
        count = before + change
        if count <= 0:
            self._forget(counts, key)
            return
        counts[key] = count
        if before == 0:
            self._link.send(self._dialect.began(key, count))

    def look(self, key: Key) -> None:
        """Tell at once what has changed of interest of a kind, if anything has."""
        if self._shards:
            self._look_at(key)

    def end(self) -> None:
        """Tell nothing more."""
        left, self._shards = [shard for shard in self._shards if shard], ()
        self._walk = None
        if left:
            self._turns.wait(partial(self._free, left))

    def _free(self, left: list[dict[Key, int]]) -> None:
        """Free the keys in `left` turn by turn: a million of them take 0.25 s."""
        self._turns.give_back(self._turns.share())
        del left[-_FREED_AT_ONCE:]
        if left:
            self._turns.wait(partial(self._free, left))

    def _look_at(self, key: Key) -> None:
        """Tell what has changed of interest of a kind, if anything has."""
        counts = self._shards[hash(key) % _SHARDS]
        before = counts.get(key, 0)
        count = self._count_of(key) if self.allows(key[0]) else 0
        if count <= 0:
            if before:
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
            if not counts:
                counts.clear()  # which gives its table back: 5 KB after 100 entries

    def _look_around(self, budget: int) -> None:
        """Go on with the walk for so much of this turn; the rest follows in others."""
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
