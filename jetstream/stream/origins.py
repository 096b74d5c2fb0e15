"""The origins of a mirror or of a sourcing stream, and the positions of the stream in them.

Each message from a source has its position there in a header. The last message of each source may
lie anywhere in the stream, so `PositionSearch` goes backwards, in pieces. The positions found are
saved beside the stream, and the next search ends there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from midge.jetstream import headers
from midge.jetstream.config.names import to_bytes
from midge.jetstream.json.encode import decode, encode, text
from midge.jetstream.store.interface import Keeper, LoadedMessage
from midge.jetstream.store.store import Store
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.follower import Follower
from midge.jetstream.stream.pieces import WaitingPieces, in_turns, until_cached
from midge.jetstream.stream.remote_follower import RemoteFollower
from midge.jetstream.stream.stream_host import StreamHost

if TYPE_CHECKING:
    from midge.jetstream.config.source import StreamSource

_NAME = b"\x00sources"
"""Under which name positions are saved beside the consumers; none may be called so."""

_SEARCHED = ""
"""Beside the sources, of which none has this name: the last message when all had been found."""

_PIECE_BYTES = 1 << 20
_READ_COST = 2048
"""Fixed cost of looking at a message, besides its bytes: 3 us, while a MiB takes some 3 ms."""

_SAVED_FROM = 10_000
"""Messages looked at from which a search is worth being remembered: 30 ms."""


class PositionSearch(Keeper):
    """Finds the positions of those of `followers` that have none in the messages of `store`.

    `unseen` has those whose last message has not been found yet.
    """

    def __init__(self, store: Store, followers: list[Follower]) -> None:
        self.unseen = {one.source.index_name(): one for one in followers if not one.last_seq}
        self._store = store
        self._followers = followers
        self._searched_seq = 0
        self._saved: set[str] = set()
        self._noted: set[str] = set()
        self._at = store.last_seq + 1
        self._looked = 0
        self._is_stopped = False
        self._load_saved()

    def pieces(self) -> WaitingPieces[bool]:
        """Search the messages in pieces; return False if `stop` has been called before the end."""
        store = self._store
        store.keepers.append(self)
        room = _PIECE_BYTES
        try:
            while not self._is_stopped and (seq := self._next_seq()):
                yield from until_cached(store, seq)
                self._look_at(seq)
                room -= _READ_COST + store.size_of(seq)
                if room <= 0:
                    room = _PIECE_BYTES
                    yield None
            is_whole = not self._is_stopped
        finally:
            self.stop()
        if is_whole and self._looked >= _SAVED_FROM:
            save(store, self._followers, is_whole=True)
        return is_whole

    def stop(self) -> None:
        """Look no further."""
        self._is_stopped = True
        if self in self._store.keepers:
            self._store.keepers.remove(self)

    # Removals during the search.

    def removing(self, seq: int) -> None:
        """Look at a message that goes before its turn."""
        message = self._store.load(seq) if seq < self._at and self.unseen else None
        if message is not None:
            self._note(message, is_last=False)

    def removing_all(self) -> None:
        """Look at all that is left, at once."""
        while seq := self._next_seq():
            self._look_at(seq)

    # The search.

    def _load_saved(self) -> None:
        """Load the saved positions; for their sources no older message has to be searched."""
        for name, state, _ in self._store.consumers():
            if name != _NAME:
                continue
            saved = decode(state)
            self._searched_seq = saved.pop(_SEARCHED, 0)
            self._saved = set(saved)
            for index_name, position in saved.items():
                follower = self.unseen.get(index_name)
                if follower is None:
                    continue
                if isinstance(position, int):  # as was saved formerly
                    follower.last_seq = position
                else:
                    follower.last_seq, follower.taken_seq, identity = position
                    follower.identity = to_bytes(identity)

    def _next_seq(self) -> int:
        """Return the last message that has not been looked at; 0 when there is no need."""
        store = self._store
        if not self.unseen or self._at <= 1 or not store.messages:
            return 0
        seq = store.last_matching(b">", self._at - 1)
        if seq <= self._searched_seq:
            for name in self._saved:
                self.unseen.pop(name, None)
            self._searched_seq = 0
        return seq if self.unseen else 0

    def _look_at(self, seq: int) -> None:
        self._at = seq
        self._looked += 1
        message = self._store.load(seq)
        if message is not None:
            self._note(message, is_last=True)

    def _note(self, message: LoadedMessage, *, is_last: bool) -> None:
        """Note which position a message gives; of its source it `is_last`, or may not be."""
        where = headers.find(message.headers, names.STREAM_SOURCE) if message.headers else None
        fields = text(where).split(" ") if where else []
        taken_seq = headers.parse_number(to_bytes(fields[1])) if len(fields) >= 4 else -1
        if taken_seq < 0:
            return
        name = " ".join([fields[0], fields[2], fields[3]])
        follower = self.unseen.get(name)
        if follower is None:
            return
        is_sure = is_last and name not in self._noted
        if is_last:
            del self.unseen[name]
        else:
            self._noted.add(name)
        if is_sure or taken_seq > follower.taken_seq:
            follower.taken_seq = taken_seq
            follower.identity = to_bytes(fields[5]) if len(fields) > 5 else b""
            follower.last_seq = max(follower.last_seq, taken_seq)


def save(store: Store, followers: Iterable[Follower], *, is_whole: bool) -> None:
    """Keep the positions; unless they are known to be whole, all messages are looked at again.

    The last message may be one that is just being taken, which they do not mention.
    """
    saved: dict[str, object] = {
        one.source.index_name(): [one.last_seq, one.taken_seq, text(one.identity)]
        for one in followers
    }
    if is_whole:
        saved[_SEARCHED] = max(store.last_seq - 1, 0)
    store.save_consumer(_NAME, encode(saved))


class Origins:
    """The origins of one stream; most have none."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        self._followers: list[Follower] = []
        self._search: PositionSearch | None = None

    def start(self) -> None:
        """Begin to take messages, also again after the configuration has changed."""
        config = self._stream.config
        before = {one.source.index_name(): one for one in self._followers}
        for follower in self._followers:
            follower.stop()
        self._end_search(before)
        self._followers = []
        if config.mirror is not None:
            self._add(config.mirror, before, is_mirror=True)
        for source in config.sources:
            self._add(source, before, is_mirror=False)
        if not self._followers:
            return
        self._search_positions()

    def stop(self) -> None:
        """Take messages no more."""
        if self._search is not None:
            self._search.stop()
        for follower in self._followers:
            follower.stop()

    def release(self) -> None:
        """Drop a deleted stream, and the followers, which refer to it too."""
        self._stream = cast("StreamHost", None)
        self._followers = []
        self._search = None

    def stream_changed(self, name: str) -> None:
        """Look for an origin again, for a stream of that name has come or gone."""
        for follower in self._followers:
            if follower.source.name == name and self._search is None:
                self._connect(follower)

    def save(self) -> None:
        """Save the positions, because the messages that have them will be removed."""
        if self._stream.config.sources:
            save(self._stream.store, self._followers, is_whole=self._search is None)

    def info(self) -> dict[str, Any]:
        """Return what a stream's info says of its origins."""
        if not self._followers:
            return {}
        now_ns = self._stream.clock.wall_ns()
        found = [one.info(now_ns) for one in self._followers]
        return {"mirror": found[0]} if self._followers[0].is_mirror else {"sources": found}

    def lag(self) -> int:
        """Return how many messages the origins have that have not been taken, of all together."""
        return sum(one.lag() for one in self._followers)

    def _connect_soon(self) -> None:
        """Connect all; the request that made the stream is answered first."""
        self._stream.clock.call_later(0.0, self._connect_all)

    def _connect_all(self) -> None:
        if self._followers and not self._stream.is_closed:
            for follower in self._followers:
                self._connect(follower)

    def _add(self, source: StreamSource, before: dict[str, Follower], *, is_mirror: bool) -> None:
        external = source.external
        is_ours = external is None or external.api_prefix == self._own_prefix()
        kind = Follower if is_ours else RemoteFollower
        follower = kind(self._stream, source, is_mirror=is_mirror)
        known = before.get(source.index_name())
        if known is not None and known.is_mirror == is_mirror:
            follower.last_seq, follower.seen_ns = known.last_seq, known.seen_ns
            follower.taken_seq, follower.identity = known.taken_seq, known.identity
        self._followers.append(follower)

    def _connect(self, follower: Follower) -> None:
        siblings = self._stream.siblings
        if siblings is not None:
            follower.connect(siblings.get(follower.source.name))

    def _own_prefix(self) -> str:
        domain = self._stream.surroundings.domain
        return f"$JS.{domain}.API" if domain else ""

    def _search_positions(self) -> None:
        """Find how far the origins were read before, then connect them."""
        if self._followers[0].is_mirror:
            self._followers[0].last_seq = self._stream.store.last_seq
            self._connect_soon()
            return
        search = self._search = PositionSearch(self._stream.store, self._followers)
        in_turns(self._stream, search.pieces(), self._found, lambda _: None)

    def _found(self, is_whole: bool) -> None:
        if is_whole:
            self._search = None
            self._connect_soon()

    def _end_search(self, before: dict[str, Follower]) -> None:
        """Give a search up, and forget in `before` what it has not found."""
        if self._search is not None:
            self.save()
            for name in self._search.unseen:
                before.pop(name, None)
            self._search.stop()
            self._search = None
