"""Streams, consumers and key-value buckets of a server in the process, without a socket.

Everything takes the path of a client's requests, so that answers, limits and errors are the same as
for clients: a publish is acknowledged when it is durable, and a read returns only durable messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.protocol import key_value
from midge.server.embedded.jetstream_requests import Requests
from midge.server.embedded.key_value import KeyValue
from midge.server.embedded.settings import in_nanoseconds
from midge.server.embedded.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable

HISTORY_MAX = 64  # values of a key; the limit of all clients


class JetStream(Requests):
    """The streams of one account of a server in the process."""

    def stream(self, name: str) -> Stream:
        """Return access to a stream, which need not exist yet."""
        return Stream(self, name)

    async def add_stream(self, name: str, subjects: Iterable[str] = (), **config: Any) -> Stream:
        """Make a stream, or find an equal one; `config` has JetStream's keys, durations in seconds.

        Without `subjects`, its name is its subject.

        Raises:
            MidgeError: `config` has a key that JetStream does not know.
            JetStreamError: the server refuses it, or a different stream has that name.
        """
        __tracebackhide__ = True
        defaults = {"retention": "limits", "storage": "file", "discard": "old", "num_replicas": 1}
        body = {**defaults, **in_nanoseconds("stream", config), "name": name}
        if subjects:
            body["subjects"] = list(subjects)
        await self.call(f"STREAM.CREATE.{name}", body)
        return Stream(self, name)

    async def streams(self) -> list[str]:
        """Return the names of all streams."""
        names: list[str] = []
        while True:
            page = await self.call("STREAM.NAMES", {"offset": len(names)})
            names += page["streams"] or []
            if len(names) >= page["total"]:
                return names

    def key_value(self, bucket: str) -> KeyValue:
        """Return access to a key-value bucket, which need not exist yet."""
        return KeyValue(self, bucket)

    async def add_key_value(self, bucket: str, *, history: int = 1, **config: Any) -> KeyValue:
        """Make a key-value bucket that keeps `history` values of each key.

        Raises:
            JetStreamError: the server refuses it.
            ValueError: `history` is not between 1 and 64.
        """
        if not 1 <= history <= HISTORY_MAX:
            raise ValueError(f"history: expected 1 to {HISTORY_MAX}, got {history}")
        made = {**key_value.stream_settings(history), "allow_msg_ttl": True, **config}
        subjects = [key_value.subject_of(bucket, ">")]
        await self.add_stream(key_value.stream_of(bucket), subjects, **made)
        return self.key_value(bucket)
