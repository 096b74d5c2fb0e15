"""Key-value buckets within the server's own process, by the conventions of NATS's clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from midge.jetstream.errors import JetStreamError
from midge.protocol import key_value
from midge.protocol.key_value import PUT
from midge.server.embedded.jetstream_requests import Requests, publish
from midge.server.embedded.stream_messages import Consuming
from midge.server.embedded.streams import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from midge.server.embedded.stream_messages import StoredMessage


class KeyValueEntry(NamedTuple):
    """One revision of a key. `operation` is `PUT`, `DEL` or `PURGE`."""

    key: str
    value: bytes
    revision: int
    time_ns: int
    operation: str

    @property
    def text(self) -> str:
        """The value as text; bytes that are not UTF-8 are shown as escapes."""
        return self.value.decode("utf-8", "backslashreplace")


class KeyValue:
    """The keys of one bucket."""

    def __init__(self, jetstream: Requests, bucket: str) -> None:
        self.bucket = bucket
        self._jetstream = jetstream
        self._stream = Stream(jetstream, key_value.stream_of(bucket))
        self._prefix = key_value.subject_of(bucket)

    async def get(self, key: str) -> KeyValueEntry | None:
        """Return a key's value, or None."""
        message = await self._stream.last(self._subject(key))
        entry = None if message is None else self._entry(message)
        return entry if entry is not None and entry.operation == PUT else None

    async def put(self, key: str, value: bytes | str) -> int:
        """Write a value and return its revision, once it is durable."""
        return await self._publish(key, value, {})

    async def create(self, key: str, value: bytes | str) -> int:
        """Write the value of a key without a value, and return its revision.

        Raises:
            JetStreamError: the key has a value.
        """
        try:
            return await self.update(key, value, 0)
        except JetStreamError as error:
            if error.api.err_code not in key_value.WRONG_SEQUENCES:
                raise
            message = await self._stream.last(self._subject(key))
            if message is None or self._entry(message).operation == PUT:
                raise
            return await self.update(key, value, message.seq)

    async def update(self, key: str, value: bytes | str, revision: int) -> int:
        """Write the value of a key whose last revision is `revision`, and return the new revision.

        Raises:
            JetStreamError: the key is at another revision.
        """
        return await self._publish(key, value, key_value.expected_revision(revision))

    async def delete(self, key: str) -> None:
        """Delete a key; its history stays."""
        await self._publish(key, b"", key_value.marker_headers(purges=False))

    async def purge(self, key: str) -> None:
        """Delete a key with its history."""
        await self._publish(key, b"", key_value.marker_headers(purges=True))

    async def keys(self, pattern: str = ">") -> list[str]:
        """Return the keys that have a value and match `pattern`."""
        return [
            entry.key
            async for entry in self._entries(pattern, "last_per_subject", follow=False)
            if entry.operation == PUT
        ]

    async def history(self, key: str) -> list[KeyValueEntry]:
        """Return the stored revisions of a key, the oldest first."""
        self._subject(key)
        return [entry async for entry in self._entries(key, "all", follow=False)]

    async def watch(
        self, pattern: str = ">", *, new_only: bool = False
    ) -> AsyncIterator[KeyValueEntry]:
        """Iterate over the values of matching keys, and then over each change as it comes.

        The iteration never ends by itself. A deletion is also an entry.
        """
        policy = "new" if new_only else "last_per_subject"
        async for entry in self._entries(pattern, policy, follow=True):
            yield entry

    async def _entries(
        self, pattern: str, policy: str, *, follow: bool
    ) -> AsyncIterator[KeyValueEntry]:
        config: dict[str, Any] = {"deliver_policy": policy, "ack_policy": "none"}
        name = self._stream.name
        filters = (self._prefix + pattern,)
        async with Consuming(self._jetstream, name, "", config, filters) as consuming:
            left = consuming.pending
            while follow or left > 0:
                left -= 1
                yield self._entry((await consuming.next()).stored())

    def _entry(self, message: StoredMessage) -> KeyValueEntry:
        operation = key_value.operation_of(message.headers)
        key = message.subject[len(self._prefix) :]
        return KeyValueEntry(key, message.payload, message.seq, message.time_ns, operation)

    async def _publish(self, key: str, value: bytes | str, headers: dict[str, Any]) -> int:
        return (await publish(self._jetstream, self._subject(key), value, headers)).seq

    def _subject(self, key: str) -> str:
        """Return the subject of a key.

        Raises:
            ValueError: clients would not accept the key.
        """
        if not key_value.KEY.fullmatch(key):
            raise ValueError(f"key: expected letters, digits and -/_=. inside, got {key!r}")
        return self._prefix + key
