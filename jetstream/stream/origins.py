"""Where the messages of a mirror or of a sourcing stream come from, and how far each was read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from midge.jetstream import headers
from midge.jetstream.config.names import to_bytes
from midge.jetstream.json.encode import encode, text
from midge.jetstream.store.interface import StoredMessage
from midge.jetstream.stream import incoming as names
from midge.jetstream.stream.follower import Follower
from midge.jetstream.stream.host import StreamHost
from midge.jetstream.stream.remote_follower import RemoteFollower

if TYPE_CHECKING:
    from midge.jetstream.config.source import StreamSource

_POSITIONS = b"\x00sources"
"""Under which name positions are saved beside the consumers; none may be called so."""


class Origins:
    """The origins of one stream; most have none."""

    def __init__(self, stream: StreamHost) -> None:
        self._stream = stream
        self._followers: list[Follower] = []

    def start(self) -> None:
        """Begin to take messages, or begin anew after the configuration has changed."""
        config = self._stream.config
        before = {one.source.index_name(): one for one in self._followers}
        for follower in self._followers:
            follower.stop()
        self._followers = []
        if config.mirror is not None:
            self._add(config.mirror, before, is_mirror=True)
        for source in config.sources:
            self._add(source, before, is_mirror=False)
        if not self._followers:
            return
        self._find_positions()
        # The request that made the stream is answered first.
        self._stream.clock.call_later(0.0, self._connect_all)

    def stop(self) -> None:
        """Take messages no more."""
        for follower in self._followers:
            follower.stop()

    def stream_changed(self, name: str) -> None:
        """Look for an origin again, for a stream of that name has come or gone."""
        for follower in self._followers:
            if follower.source.name == name:
                self._connect(follower)

    def save(self) -> None:
        """Keep the positions, as the messages that tell them are about to go."""
        if self._stream.config.sources:
            positions = {one.source.index_name(): one.last_seq for one in self._followers}
            self._stream.store.save_consumer(_POSITIONS, encode(positions))

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

    def _find_positions(self) -> None:
        """Find how far the origins were read before, by the messages stored and what was saved."""
        if self._followers[0].is_mirror:
            self._followers[0].last_seq = self._stream.store.last_seq
            return
        missing = {one.source.index_name(): one for one in self._followers if not one.last_seq}
        for name, state, _ in self._stream.store.consumers():
            if name == _POSITIONS:
                for index_name, seq in json.loads(state).items():
                    if index_name in missing:
                        missing[index_name].last_seq = seq
        store = self._stream.store
        seq = store.last_seq if store.messages else 0
        while seq and missing:
            message = store.load(seq)
            if message is not None:
                self._note_position(message, missing)
            seq = store.last_matching(b">", seq - 1) if seq > 1 else 0

    def _note_position(self, message: StoredMessage, missing: dict[str, Follower]) -> None:
        where = headers.find(message.headers, names.STREAM_SOURCE) if message.headers else None
        fields = text(where).split(" ") if where else []
        if len(fields) < 4 or not fields[1].isdigit():
            return
        follower = missing.pop(" ".join([fields[0], fields[2], fields[3]]), None)
        if follower is not None:
            follower.taken_seq = int(fields[1])
            follower.identity = to_bytes(fields[5]) if len(fields) > 5 else b""
            follower.last_seq = max(follower.last_seq, follower.taken_seq)
