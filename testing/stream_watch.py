"""Show the messages that streams store to captures, as soon as the streams show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol.headers import parse_headers
from midge.protocol.text import decode
from midge.testing.captured import Captured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.jetstream.stream.stream import Stream
    from midge.server.jetstream.engine import Engine
    from midge.testing.capture import Capture


class StreamWatches:
    """Shows `captures` the messages that all streams of a server store, also of later streams."""

    def __init__(self, engine: Engine, captures: list[Capture]) -> None:
        self._engine = engine
        self._captures = captures
        for name in list(engine.accounts):
            self.watch_account(name)

    def watch_account(self, name: str) -> None:
        """Watch the streams of an account, if it may have any."""
        found = self._engine.accounts.get(name)
        if found is None:
            return
        streams = found.streams
        added = streams.stream_added

        def watch(stream: Stream) -> Iterator[None]:
            stream.followers.add(_StreamWatch(stream, self._captures))
            return added(stream)

        streams.stream_added = watch
        for stream in streams.streams.values():
            stream.followers.add(_StreamWatch(stream, self._captures))


class _StreamWatch:
    """A follower of one stream, woken when it shows more."""

    def __init__(self, stream: Stream, captures: list[Capture]) -> None:
        self._stream = stream
        self._captures = captures
        self._seen_seq = stream.store.visible_seq

    def wake(self) -> None:
        """Show the new messages."""
        store = self._stream.store
        seq, self._seen_seq = self._seen_seq, store.visible_seq
        while self._captures and seq < self._seen_seq:
            seq += 1
            message = store.load(seq)
            if message is None:  # removed before it could be shown
                continue
            shown = Captured(
                subject=decode(message.subject),
                payload=message.payload,
                headers=parse_headers(message.headers) if message.headers else {},
                stream=self._stream.config.name,
                seq=seq,
            )
            for capture in self._captures:
                capture.message_stored(shown)
