"""Streams, consumers and key-value buckets of a server in another thread, for code that blocks.

Each method does what the method of this name does in `midge.server.embedded.jetstream`, and waits
for the result. The objects stay usable after a restart of the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from midge.protocol.headers import Headers
    from midge.server.embedded.jetstream import JetStream
    from midge.server.embedded.jetstream_requests import PubAck
    from midge.server.embedded.key_value import KeyValue, KeyValueEntry
    from midge.server.embedded.server_thread import ServerThread
    from midge.server.embedded.stream_messages import Consuming, StoredMessage, StreamMessage
    from midge.server.embedded.streams import Stream, StreamState

T = TypeVar("T")

_END: Any = object()


class ThreadedJetStream:
    """The streams of one account of a server in another thread."""

    def __init__(self, server: ServerThread, account: str) -> None:
        self._server = server
        self._account = account

    def stream(self, name: str) -> ThreadedStream:
        """Return access to a stream, which need not exist yet."""
        return ThreadedStream(self, name)

    def add_stream(self, name: str, subjects: Iterable[str] = (), **config: Any) -> ThreadedStream:
        """Make a stream, or find an equal one; see `JetStream.add_stream`."""
        __tracebackhide__ = True
        self.wait(lambda jetstream: jetstream.add_stream(name, subjects, **config))
        return ThreadedStream(self, name)

    def streams(self) -> list[str]:
        """Return the names of all streams."""
        return self.wait(lambda jetstream: jetstream.streams())

    def key_value(self, bucket: str) -> ThreadedKeyValue:
        """Return access to a key-value bucket, which need not exist yet."""
        return ThreadedKeyValue(self, bucket)

    def add_key_value(self, bucket: str, *, history: int = 1, **config: Any) -> ThreadedKeyValue:
        """Make a key-value bucket; see `JetStream.add_key_value`."""
        __tracebackhide__ = True
        self.wait(lambda jetstream: jetstream.add_key_value(bucket, history=history, **config))
        return ThreadedKeyValue(self, bucket)

    def wait(self, function: Callable[[JetStream], Awaitable[T]]) -> T:
        """Await `function(jetstream)` in the server's thread and return its result."""
        __tracebackhide__ = True
        return self._server.wait(lambda server: function(server.jetstream_of(self._account)))

    def iterate(self, function: Callable[[JetStream], AsyncIterator[T]]) -> Iterator[T]:
        """Iterate over `function(jetstream)` in the server's thread."""
        __tracebackhide__ = True
        begun: list[AsyncIterator[T]] = []

        async def begin_and_next(jetstream: JetStream) -> T:
            if not begun:
                begun.append(function(jetstream))
            return await anext(begun[0], cast("T", _END))

        try:
            while (item := self.wait(begin_and_next)) is not _END:
                yield item
        finally:
            if begun and self._server.is_running:
                self._server.wait(lambda _: cast("Any", begun[0]).aclose())


class ThreadedStream:
    """One stream of a server in another thread."""

    def __init__(self, jetstream: ThreadedJetStream, name: str) -> None:
        self.name = name
        self._jetstream = jetstream

    def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        headers: Headers | None = None,
        *,
        msg_id: str | None = None,
        expected_last_seq: int | None = None,
    ) -> PubAck:
        """Store a message and return when it is durable; see `Stream.publish`."""
        __tracebackhide__ = True
        return self._wait(
            lambda stream: stream.publish(
                subject, payload, headers, msg_id=msg_id, expected_last_seq=expected_last_seq
            )
        )

    def state(self) -> StreamState:
        """Return the state of the stream; raises JetStreamError if it does not exist."""
        __tracebackhide__ = True
        return self._wait(lambda stream: stream.state())

    def get(self, seq: int) -> StoredMessage | None:
        """Return the message of a sequence, or None."""
        __tracebackhide__ = True
        return self._wait(lambda stream: stream.get(seq))

    def last(self, subject: str) -> StoredMessage | None:
        """Return the last message of a subject, or None."""
        __tracebackhide__ = True
        return self._wait(lambda stream: stream.last(subject))

    def messages(
        self, *subjects: str, start_seq: int = 1, follow: bool = False
    ) -> Iterator[StoredMessage]:
        """Iterate over the stored messages in order; see `Stream.messages`."""
        return self._jetstream.iterate(
            lambda jetstream: jetstream.stream(self.name).messages(
                *subjects, start_seq=start_seq, follow=follow
            )
        )

    def consume(self, name: str, *subjects: str, **config: Any) -> ThreadedConsuming:
        """Take messages through the durable consumer `name`; see `Stream.consume`.

        Example: `with stream.consume("billing") as messages: for message in messages: …`.
        """
        return ThreadedConsuming(
            self._jetstream,
            lambda jetstream: jetstream.stream(self.name).consume(name, *subjects, **config),
        )

    def purge(self, subject: str = "", *, keep: int = 0) -> int:
        """Remove all messages, or one subject's, except the last `keep`; return how many."""
        __tracebackhide__ = True
        return self._wait(lambda stream: stream.purge(subject, keep=keep))

    def delete(self) -> None:
        """Delete the stream with its messages; raises JetStreamError if it does not exist."""
        __tracebackhide__ = True
        self._wait(lambda stream: stream.delete())

    def _wait(self, function: Callable[[Stream], Awaitable[T]]) -> T:
        __tracebackhide__ = True
        return self._jetstream.wait(lambda jetstream: function(jetstream.stream(self.name)))


class ThreadedConsuming:
    """Messages of one consumer, pulled as they are read; use it in a `with` block."""

    def __init__(
        self, jetstream: ThreadedJetStream, begin: Callable[[JetStream], Consuming]
    ) -> None:
        self._jetstream = jetstream
        self._begin = begin
        self._inner: Consuming | None = None

    @property
    def pending(self) -> int:
        """The number of matching messages in the stream when it began."""
        return 0 if self._inner is None else self._inner.pending

    def __enter__(self) -> Self:
        """Make or find the consumer; raises JetStreamError if the server refuses it."""

        async def begin(jetstream: JetStream) -> Consuming:
            return await self._begin(jetstream).__aenter__()

        self._inner = self._jetstream.wait(begin)
        return self

    def __exit__(self, *_: object) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            self._jetstream.wait(lambda _: inner.__aexit__())

    def next(self, timeout_s: float | None = None) -> ThreadedStreamMessage:
        """Block until the next message, and return it; see `Consuming.next`."""
        __tracebackhide__ = True
        inner = self._inner
        if inner is None:
            raise MidgeError("the messages of a consumer are read within `with`")
        message = self._jetstream.wait(lambda _: inner.next(timeout_s))
        return ThreadedStreamMessage(self._jetstream, message)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ThreadedStreamMessage:
        return self.next()


class ThreadedStreamMessage:
    """A message that a consumer has delivered, for code that blocks."""

    def __init__(self, jetstream: ThreadedJetStream, inner: StreamMessage) -> None:
        self._jetstream = jetstream
        self._inner = inner
        self.subject = inner.subject
        self.payload = inner.payload
        self.text = inner.text
        self.headers = inner.headers
        self.delivered = inner.delivered
        """Number of deliveries so far, including this one."""
        self.seq = inner.seq
        """Its sequence in the stream."""
        self.time_ns = inner.time_ns
        """Time of its storage, in nanoseconds since the epoch."""

    def ack(self) -> None:
        """Acknowledge the message; returns when the ack is durable."""
        self._jetstream.wait(lambda _: self._inner.ack())

    def nak(self, delay_s: float = 0.0) -> None:
        """Ask for redelivery, after `delay_s` seconds."""
        self._jetstream.wait(lambda _: self._inner.nak(delay_s))

    def term(self) -> None:
        """Terminate the message: it is not redelivered, although it was not processed."""
        self._jetstream.wait(lambda _: self._inner.term())

    def in_progress(self) -> None:
        """Ask for more time before redelivery."""
        self._jetstream.wait(lambda _: self._inner.in_progress())

    def __repr__(self) -> str:
        """Show sequence, subject and the begin of the payload."""
        return repr(self._inner)


class ThreadedKeyValue:
    """The keys of one bucket of a server in another thread."""

    def __init__(self, jetstream: ThreadedJetStream, bucket: str) -> None:
        self.bucket = bucket
        self._jetstream = jetstream

    def get(self, key: str) -> KeyValueEntry | None:
        """Return a key's value, or None."""
        __tracebackhide__ = True
        return self._wait(lambda bucket: bucket.get(key))

    def put(self, key: str, value: bytes | str) -> int:
        """Write a value and return its revision, once it is durable."""
        __tracebackhide__ = True
        return self._wait(lambda bucket: bucket.put(key, value))

    def create(self, key: str, value: bytes | str) -> int:
        """Write the value of a key without a value; see `KeyValue.create`."""
        __tracebackhide__ = True
        return self._wait(lambda bucket: bucket.create(key, value))

    def update(self, key: str, value: bytes | str, revision: int) -> int:
        """Write the value of a key whose last revision is `revision`; see `KeyValue.update`."""
        __tracebackhide__ = True
        return self._wait(lambda bucket: bucket.update(key, value, revision))

    def delete(self, key: str) -> None:
        """Delete a key; its history stays."""
        __tracebackhide__ = True
        self._wait(lambda bucket: bucket.delete(key))

    def purge(self, key: str) -> None:
        """Delete a key with its history."""
        __tracebackhide__ = True
        self._wait(lambda bucket: bucket.purge(key))

    def keys(self, pattern: str = ">") -> list[str]:
        """Return the keys that have a value and match `pattern`."""
        __tracebackhide__ = True
        return self._wait(lambda bucket: bucket.keys(pattern))

    def history(self, key: str) -> list[KeyValueEntry]:
        """Return the stored revisions of a key, the oldest first."""
        __tracebackhide__ = True
        return self._wait(lambda bucket: bucket.history(key))

    def watch(self, pattern: str = ">", *, new_only: bool = False) -> Iterator[KeyValueEntry]:
        """Iterate over the values of matching keys, and then over each change as it comes."""
        return self._jetstream.iterate(
            lambda jetstream: jetstream.key_value(self.bucket).watch(pattern, new_only=new_only)
        )

    def _wait(self, function: Callable[[KeyValue], Awaitable[T]]) -> T:
        __tracebackhide__ = True
        return self._jetstream.wait(lambda jetstream: function(jetstream.key_value(self.bucket)))
