"""Pull, read and acknowledge a stream's messages within the server's own process."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from midge.protocol.errors import MidgeError
from midge.server.embedded.direct import PENDING_MAX

if TYPE_CHECKING:
    from midge.server.embedded.direct import DirectSubscription
    from midge.server.embedded.inbox import Message
    from midge.server.embedded.jetstream_requests import Requests

_BATCH = 256
"""Messages per pull request: enough that a reader seldom waits, few enough to give back at its end.
"""

_EXPIRES_NS = 30 * 10**9
_INACTIVE_NS = 300 * 10**9


class StoredMessage(NamedTuple):
    """A stored message; `time_ns` is the time of its storage, since the epoch."""

    subject: str
    seq: int
    time_ns: int
    headers: dict[str, list[str]]
    payload: bytes

    @property
    def text(self) -> str:
        """The payload as text; bytes that are not UTF-8 are shown as escapes."""
        return self.payload.decode("utf-8", "backslashreplace")


class StreamMessage:
    """A message that a consumer has delivered."""

    __slots__ = ("_jetstream", "_message", "delivered", "seq", "time_ns")

    def __init__(self, jetstream: Requests, message: Message) -> None:
        assert message.reply is not None
        tokens = message.reply.split(".")
        shift = 0 if len(tokens) == 9 else 2
        self._jetstream = jetstream
        self._message = message
        self.delivered = int(tokens[4 + shift])
        """Number of deliveries so far, including this one."""
        self.seq = int(tokens[5 + shift])
        """Its sequence in the stream."""
        self.time_ns = int(tokens[7 + shift])
        """Time of its storage, in nanoseconds since the epoch."""

    @property
    def subject(self) -> str:
        """Subject of the publish."""
        return self._message.subject

    @property
    def payload(self) -> bytes:
        """Payload, without the headers."""
        return self._message.payload

    @property
    def text(self) -> str:
        """The payload as text; bytes that are not UTF-8 are shown as escapes."""
        return self._message.text

    @property
    def headers(self) -> dict[str, list[str]]:
        """The headers by name, or empty."""
        return self._message.headers

    def stored(self) -> StoredMessage:
        """Return the stored form of the message."""
        return StoredMessage(self.subject, self.seq, self.time_ns, self.headers, self.payload)

    async def ack(self) -> None:
        """Acknowledge the message; returns when the ack is durable."""
        assert self._message.reply is not None
        await self._jetstream.ask(self._message.reply, b"+ACK")

    async def nak(self, delay_s: float = 0.0) -> None:
        """Ask for redelivery, after `delay_s` seconds."""
        delay = json.dumps({"delay": round(delay_s * 1e9)}) if delay_s else ""
        self._message.respond(f"-NAK {delay}".strip())

    async def term(self) -> None:
        """Terminate the message: it is not redelivered, although it was not processed."""
        self._message.respond(b"+TERM")

    async def in_progress(self) -> None:
        """Ask for more time before redelivery."""
        self._message.respond(b"+WPI")

    def __repr__(self) -> str:
        """Show sequence, subject and the begin of the payload."""
        return f"<StreamMessage {self.seq} {self.subject!r} {self.payload[:64]!r}>"


class Consuming:
    """Messages of one consumer, pulled as they are read; use it with `async with`.

    `pending` is the number of matching messages in the stream when it began.
    """

    def __init__(
        self,
        jetstream: Requests,
        stream: str,
        name: str,
        config: dict[str, Any],
        subjects: tuple[str, ...],
    ) -> None:
        self.pending = 0
        self._jetstream = jetstream
        self._stream = stream
        self._name = name
        self._config = {**config, "durable_name": name} if name else dict(config)
        if len(subjects) == 1:
            self._config["filter_subject"] = subjects[0]
        elif subjects:
            self._config["filter_subjects"] = list(subjects)
        if not name:
            self._config |= {"inactive_threshold": _INACTIVE_NS, "mem_storage": True}
        self._is_temporary = not name
        self._inbox = ""
        self._subscription: DirectSubscription | None = None
        self._requested = 0

    async def __aenter__(self) -> Self:
        """Make or find the consumer; raises JetStreamError if the server refuses it."""
        to = f"CONSUMER.CREATE.{self._stream}"
        if not self._is_temporary:
            to += f".{self._name}"
        body = {"stream_name": self._stream, "config": self._config}
        answer = await self._jetstream.call(to, body)
        self._name = answer["name"]
        self.pending = answer["num_pending"]
        direct = self._jetstream.direct
        self._inbox = f"_INBOX.{secrets.token_hex(12)}"
        self._subscription = direct.subscribe(
            self._inbox, None, None, self._jetstream.account, PENDING_MAX
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the reading; give unread messages back, and delete a temporary consumer."""
        if self._subscription is None:
            return
        self._subscription.unsubscribe()
        for message in self._unread():
            await message.nak()
        self._subscription = None
        if self._is_temporary:
            subject = f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}"
            self._jetstream.direct.send(subject, b"", None, None, self._jetstream.account)

    def _unread(self) -> list[StreamMessage]:
        """Return the unread messages of a consumer that wants acknowledgements, else nothing."""
        assert self._subscription is not None
        waiting = self._subscription.take_waiting()
        if self._config["ack_policy"] == "none":
            return []
        return [StreamMessage(self._jetstream, one) for one in waiting if _is_delivery(one)]

    async def next(self, timeout_s: float | None = None) -> StreamMessage:
        """Wait for the next message and return it.

        Raises:
            TimeoutError: none came within `timeout_s`, by the server's clock.
            MidgeError: the consumer is gone.
        """
        if self._subscription is None:
            raise MidgeError("the messages of a consumer are read within `async with`")
        while True:
            if not self._requested:
                self._pull()
            message = await self._subscription.next(timeout_s)
            if _is_delivery(message):
                self._requested -= 1
                return StreamMessage(self._jetstream, message)
            self._handle_status(message)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamMessage:
        return await self.next()

    def _pull(self) -> None:
        self._requested = _BATCH if self._is_temporary else 1
        body = {"batch": self._requested, "expires": _EXPIRES_NS}
        taken = self._jetstream.direct.send(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}",
            json.dumps(body),
            None,
            self._inbox,
            self._jetstream.account,
        )
        if not taken:
            raise MidgeError(f"consumer {self._name!r} of stream {self._stream!r} is gone")

    def _handle_status(self, message: Message) -> None:
        """Pull again when a request has ended; raises MidgeError when the consumer is gone."""
        status = message.headers.get("Status", [""])[0]
        description = message.headers.get("Description", [""])[0]
        if status == "100":
            return
        self._requested = 0
        if status not in ("404", "408") and description != "Batch Completed":
            raise MidgeError(f"consumer {self._name!r}: {status} {description}".rstrip())


def _is_delivery(message: Message) -> bool:
    return message.reply is not None and message.reply.startswith("$JS.ACK.")
