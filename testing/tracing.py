"""Protocol traces in memory, so that the report of a failed test can show the test's trace."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from midge.protocol.headers import parse_headers
from midge.protocol.text import decode
from midge.server.broker.broker import Observer
from midge.server.clients.client_info import client_label
from midge.server.clients.protocol_trace import Tracer
from midge.server.config.options import Logging
from midge.testing.captured import Captured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.jetstream.stream.stream import Stream
    from midge.protocol.frame import Frame
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.embedded.server import Server
    from midge.server.jetstream.engine import Engine
    from midge.server.routing.account import Account
    from midge.sublist.subscription import Subscription
    from midge.testing.capture import Capture
    from midge.testing.strict import StrictMode

LINES_MAX = 500
_PAYLOAD_MAX_BYTES = 200


class _KeepingTracer(Tracer):
    """Adds the lines of one connection to the common trace of all connections."""

    def __init__(self, connection: Connection, keeper: TraceKeeper) -> None:
        options = Logging(max_traced_message_bytes=_PAYLOAD_MAX_BYTES)
        super().__init__(connection.cid, connection.peer, options, lambda: "")
        self._connection = connection
        self._lines = keeper.lines
        self._captures = keeper.captures
        self._strict = keeper.strict
        self._cid = connection.cid
        self._sids: set[bytes] = set()

    def subscribe_received(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        self._sids.add(sid)
        super().subscribe_received(subject, queue, sid)

    def unsubscribe_received(self, sid: bytes, max_messages: int) -> None:
        super().unsubscribe_received(sid, max_messages)
        if self._strict is not None and sid not in self._sids:
            self._strict.found(
                self._connection, f"UNSUB of the unknown sid {sid.decode(errors='replace')!r}"
            )

    def publish_received(self, frame: Frame) -> None:
        super().publish_received(frame)
        if self._strict is not None:
            self._strict.check_publish(self._connection, frame)

    def message_sent(self, subscription: Subscription, frame: Frame) -> None:
        super().message_sent(subscription, frame)
        for capture in self._captures:
            capture.message_delivered(self._connection, frame)

    def _write(self, event: str, **fields: str) -> None:
        arrow = "->" if event.endswith("received") else "<-"
        text = fields.get("line") or fields.get("payload", "")
        label = client_label(self._connection)
        self._lines.append(f"[{self._cid} {label}] {arrow} {text}")


class TraceKeeper(Observer):
    """Keeps the last lines of all connections of a server.

    `captures` get deliveries, and `strict` checks the messages of clients.
    """

    def __init__(self, strict: StrictMode | None = None) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.captures: list[Capture] = []
        self.strict = strict
        self._streams: StreamWatches | None = None
        self._broker: Broker | None = None

    def watch(self, server: Server) -> None:
        """Watch every client that connects to `server` from now on, also after its restarts.

        Runs in the server's thread.
        """
        if self.watch not in server.watchers:
            server.watchers.append(self.watch)
        else:
            self.lines.append("[server] restarted")
        self._broker = server.broker
        self._broker.observers.append(self)
        for capture in self.captures:
            self._broker.watch_messages(capture)
        engine = server.jetstream_engine
        if engine is not None:
            self._streams = StreamWatches(engine, self.captures)
        if self.strict is not None:
            self.strict.watch(server)

    def account_made(self, account: Account) -> None:
        """Watch the streams of a new account as well."""
        if self._streams is not None:
            self._streams.watch_account(account.name)

    def attach(self, capture: Capture) -> None:
        """Show `capture` all messages of the watched server; runs in its thread."""
        assert self._broker is not None
        self._broker.watch_messages(capture)
        self.captures.append(capture)

    def detach(self, capture: Capture) -> None:
        """Remove `capture`; runs in the server's thread."""
        assert self._broker is not None
        self._broker.unwatch_messages(capture)
        self.captures.remove(capture)

    def client_connected(self, connection: Connection) -> None:
        """Trace a client from now on."""
        self.lines.append(f"[{connection.cid} {client_label(connection)}] connected")
        connection.trace(_KeepingTracer(connection, self))

    def client_closed(self, connection: Connection) -> None:
        """Add the end of a client, with its reason, to the trace."""
        reason = connection.reason
        self.lines.append(f"[{connection.cid}] closed: {reason.value if reason else ''}")


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
            stream.followers.add(_StreamWatch(stream, self._captures).wake)
            return added(stream)

        streams.stream_added = watch
        for stream in streams.streams.values():
            stream.followers.add(_StreamWatch(stream, self._captures).wake)


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
