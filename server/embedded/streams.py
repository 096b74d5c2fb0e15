"""One stream of a server in the process: publish to it, read it, and consume from it."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midge.jetstream.errors import JetStreamError
from midge.jetstream.json.times import parse_time
from midge.protocol.headers import parse_headers
from midge.server.embedded.jetstream_requests import PubAck, Requests, publish
from midge.server.embedded.settings import in_nanoseconds
from midge.server.embedded.stream_messages import Consuming, StoredMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from midge.protocol.headers import Headers

_NO_MESSAGE = 10037


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state of a stream: its subjects, messages, bytes, sequences and consumers."""

    name: str
    subjects: tuple[str, ...]
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    consumers: int


class Stream:
    """One stream."""

    def __init__(self, jetstream: Requests, name: str) -> None:
        self.name = name
        self._jetstream = jetstream

    async def publish(
        self,
        subject: str,
        payload: bytes | str = b"",
        headers: Headers | None = None,
        *,
        msg_id: str | None = None,
        expected_last_seq: int | None = None,
    ) -> PubAck:
        """Store a message and return when it is durable.

        A message with a `msg_id` that the stream remembers is not stored again.

        Raises:
            JetStreamError: the stream refuses it, for example because `expected_last_seq` is not
                its last sequence.
            MidgeError: no stream takes the subject.
            ValueError: the subject has a wildcard, or the message is too large.
        """
        fields = {"Nats-Expected-Stream": self.name, **(headers or {})}
        if msg_id is not None:
            fields["Nats-Msg-Id"] = msg_id
        if expected_last_seq is not None:
            fields["Nats-Expected-Last-Sequence"] = str(expected_last_seq)
        return await publish(self._jetstream, subject, payload, fields)

    async def state(self) -> StreamState:
        """Return the state of the stream; raises JetStreamError if it does not exist."""
        info = await self._jetstream.call(f"STREAM.INFO.{self.name}")
        config, state = info["config"], info["state"]
        return StreamState(
            name=config["name"],
            subjects=tuple(config.get("subjects") or ()),
            messages=state["messages"],
            bytes=state["bytes"],
            first_seq=state["first_seq"],
            last_seq=state["last_seq"],
            consumers=state["consumer_count"],
        )

    async def get(self, seq: int) -> StoredMessage | None:
        """Return the message of a sequence, or None."""
        return await self._get({"seq": seq})

    async def last(self, subject: str) -> StoredMessage | None:
        """Return the last message of a subject, or None."""
        return await self._get({"last_by_subj": subject})

    async def _get(self, body: dict[str, Any]) -> StoredMessage | None:
        try:
            answer = await self._jetstream.call(f"STREAM.MSG.GET.{self.name}", body)
        except JetStreamError as error:
            if error.api.err_code == _NO_MESSAGE:
                return None
            raise
        found = answer["message"]
        block = b64decode(found.get("hdrs") or "")
        return StoredMessage(
            found["subject"],
            found["seq"],
            parse_time(found["time"]).ns,
            parse_headers(block) if block else {},
            b64decode(found.get("data") or ""),
        )

    async def messages(
        self, *subjects: str, start_seq: int = 1, follow: bool = False
    ) -> AsyncIterator[StoredMessage]:
        """Iterate over the stored messages in order, or only over messages on `subjects`.

        The iteration ends with the last message that was stored when it began; with `follow`, it
        never ends. Other tasks run in between.
        """
        config = {"deliver_policy": "by_start_sequence", "opt_start_seq": max(start_seq, 1)}
        async with self._reading(config, subjects) as consuming:
            left = consuming.pending
            while follow or left > 0:
                message = await consuming.next()
                left -= 1
                yield message.stored()

    def _reading(self, config: dict[str, Any], subjects: tuple[str, ...]) -> Consuming:
        """Return a consumer without acknowledgements that is removed when it is no longer used."""
        return Consuming(self._jetstream, self.name, "", {**config, "ack_policy": "none"}, subjects)

    def consume(self, name: str, *subjects: str, **config: Any) -> Consuming:
        """Take messages through the durable consumer `name`; make it if it does not exist.

        `subjects` are its filters, and `config` has JetStream's keys, durations in seconds.
        Example: `async with stream.consume("billing") as messages: async for message in messages:`.
        Unacknowledged messages are redelivered after `ack_wait`.
        """
        return Consuming(
            self._jetstream,
            self.name,
            name,
            {"ack_policy": "explicit", **in_nanoseconds("consumer", config)},
            subjects,
        )

    async def purge(self, subject: str = "", *, keep: int = 0) -> int:
        """Remove all messages, or one subject's, except the last `keep`; return how many."""
        body: dict[str, Any] = {"keep": keep} if keep else {}
        if subject:
            body["filter"] = subject
        answer = await self._jetstream.call(f"STREAM.PURGE.{self.name}", body)
        return int(answer["purged"])

    async def delete(self) -> None:
        """Delete the stream with its messages; raises JetStreamError if it does not exist."""
        await self._jetstream.call(f"STREAM.DELETE.{self.name}")
