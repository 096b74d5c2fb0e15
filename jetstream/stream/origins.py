"""Where the messages of a mirror or of a sourcing stream come from, and how far each was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.jetstream.stream import positions
from midge.jetstream.stream.follower import Follower
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.pieces import in_turns
from midge.jetstream.stream.positions import PositionSearch
from midge.jetstream.stream.remote_follower import RemoteFollower

if TYPE_CHECKING:
    from midge.jetstream.config.source import StreamSource


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

    def stream_changed(self, name: str) -> None:
        """Look for an origin again, for a stream of that name has come or gone."""
        for follower in self._followers:
            if follower.source.name == name and self._search is None:
                self._connect(follower)

    def save(self) -> None:
        """Save the positions, because the messages that have them will be removed."""
        if self._stream.config.sources:
            positions.save(self._stream.store, self._followers, is_whole=self._search is None)

    def info(self) -> dict[str, Any]:
        """Return what a stream's info says of its origins."""
        now_ns = self._stream.clock.wall_ns()
        found = [one.info(now_ns) for one in self._followers]
        if not found:
            return {}
        return {"mirror": found[0]} if self._followers[0].is_mirror else {"sources": found}

    def lag(self) -> int:
        """Return how many messages the origins have that have not been taken, of all together."""
        return sum(one.lag() for one in self._followers)

    def _connect_soon(self) -> None:
        """Connect all; the request that made the stream is answered first."""
        self._stream.clock.call_later(0.0, self._connect_all)

    def _connect_all(self) -> None:
        if not self._stream.is_closed:
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
