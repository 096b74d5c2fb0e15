"""Pull requests and direct gets: from the router to the consumers and streams they name."""

from __future__ import annotations

from midge.jetstream.account.account import JetStreamAccount
from midge.jetstream.api import routes
from midge.jetstream.consumer.consumer import Consumer
from midge.jetstream.stream.stream import Stream
from midge.protocol import memory
from midge.protocol.frame import Frame

_NOTHING = b""


class MessageRequests:
    """The requests of one account that are answered with messages.

    They come in rows for one consumer or one stream, so the latest of each is kept beside what
    names it in a subject: the next request that begins so needs no look-up by name.

    `work` is what the store looked at for the latest request, see `Store.work`.
    """

    def __init__(self, streams: JetStreamAccount) -> None:
        self._streams = streams
        self._pull_subject = _NOTHING
        self._consumer: Consumer | None = None
        self._get_prefix = _NOTHING
        self._stream: Stream | None = None
        self.work = 0

    def take_next(self, frame: Frame) -> bool:
        """Take a request like one before; False, and then nothing has happened, for any other."""
        if frame.header_size > 0:  # they may ask for a level of the API
            return False
        data = frame.data
        start = frame.base + frame.subject_start
        end = frame.base + frame.subject_end
        consumer = self._consumer
        if (
            consumer is not None
            and end - start == len(self._pull_subject)
            and memory.starts_with(data, start, end, self._pull_subject)
        ):
            if consumer.is_closed:
                return False
            reply = frame.reply_bytes()
            before = consumer.host.store.work
            consumer.request(_NOTHING if reply is None else reply, frame.payload_bytes())
            self.work = consumer.host.store.work - before
            return True
        stream = self._stream
        if (
            stream is None
            or not memory.starts_with(data, start, end, self._get_prefix)
            or stream.is_closed
            or not stream.allows_direct
        ):
            return False
        reply = frame.reply_bytes()
        before = stream.store.work
        if reply is not None:
            subject = memory.take(data, start + len(self._get_prefix), end)
            stream.direct_get.get_last(reply, subject, frame.payload_bytes())
        self.work = stream.store.work - before
        return True

    def take(self, subject: bytes, reply: bytes, headers: bytes, body: bytes) -> bool:
        """Take any request; False if nothing answers it: no responders."""
        streams = self._streams
        self.work = 0
        if subject.startswith(routes.NEXT):
            self._pull_subject = subject
            self._consumer = consumer = routes.consumer_of_pull(streams, subject)
            if consumer is None:
                return False
            before = consumer.host.store.work
            routes.pull(streams, consumer, reply, headers, body)
            self.work = consumer.host.store.work - before
            return True
        name, dot, wanted = subject[len(routes.DIRECT_GET) :].partition(b".")
        stream = routes.stream_of(streams, name)
        if dot:
            self._get_prefix = b"%b%b." % (routes.DIRECT_GET, name)
            self._stream = stream
        if stream is None or not stream.allows_direct:
            return False
        before = stream.store.work
        if reply:
            routes.direct_get(streams, stream, wanted if dot else None, reply, headers, body)
        self.work = stream.store.work - before
        return True
