"""JetStream's API: requests, a stream's state, and reading a range of its sequences.

Ranges are read through an ephemeral pull consumer without acknowledgements: the server keeps no
state for us that a killed worker could leave behind for longer than half a minute.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from midge.client.client import NatsClient
from midge.client.errors import (
    ClientError,
    NoAnswerError,
    ServerError,
    StreamError,
    StreamNotFoundError,
)
from midge.client.headers import Headers, parse_headers
from midge.protocol.client_side import ReceivedMessage, delivery_columns, publish_frame

PULL_MESSAGES = 16_384
PULL_BYTES = 16 << 20
"""Most under way at once, far below the 64 MiB at which a server drops a slow consumer."""
_FIRST_PULL_MESSAGES = 256
"""The first request asks for this many messages, later ones for twice as many as have come, because
a reader may stop after a few."""
_NANOSECONDS = 1_000_000_000
_HEARTBEAT_S = 2.0
_PULL_EXPIRES_S = 30
_INACTIVE_S = 30
_HEARTBEAT_STATUS = 100
_BAD_REQUEST = 400
_REQUEST_ENDED = {404, 408}
_REQUEST_DONE = {"Batch Completed"}
_TOO_LARGE = "Message Size Exceeds MaxBytes"
_NOT_FOUND_CODES = {10059, 10039, 10076}
_AWAY_CODES = {10008, 10009, 10118}
"""The cluster or the stream has no leader at the moment, or the stream is offline."""
_CONSUMER_NOT_FOUND = 10014
_BUCKETS = {"KV_": "bucket", "OBJ_": "object store"}
_VERBS = {
    *("CREATE", "UPDATE", "INFO", "LIST", "NAMES", "PURGE", "DELETE", "SNAPSHOT", "RESTORE"),
    *("MSG", "GET", "NEXT", "DURABLE", "PAUSE", "RESET", "UNPIN"),
}
_ACK_PREFIX = b"$JS.ACK."
_SILENCE_S = 10.0
"""Five heartbeats: then the server or the consumer is gone."""


@dataclass(frozen=True)
class StreamSummary:
    """The current state of a stream. With no messages, `first_seq` is `last_seq + 1`."""

    name: str
    created: str
    first_seq: int
    last_seq: int
    messages: int
    retention: str = "limits"

    @property
    def end_seq(self) -> int:
        """The sequence that the next message to arrive will get."""
        return self.last_seq + 1


class DeliveryColumns(NamedTuple):
    """Where messages stand in their stream, as columns, and how many match after the last."""

    seqs: list[int]
    times_ns: list[int]
    pending: int


def parse_deliveries(messages: list[ReceivedMessage]) -> DeliveryColumns:
    """Take apart the reply subjects that messages of one consumer were delivered with.

    Raises:
        ServerError: one is not a valid subject.
    """
    try:
        return DeliveryColumns(*delivery_columns(messages))
    except ValueError as error:
        raise ServerError(str(error)) from error


class JetStreamApi:
    """The JetStream API over one client; `domain` selects a leaf node's own JetStream."""

    def __init__(self, client: NatsClient, domain: str = "") -> None:
        self.client = client
        self.prefix = f"$JS.{domain}.API" if domain else "$JS.API"

    def call(self, operation: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer of an API operation such as `STREAM.INFO.ORDERS`.

        Raises:
            StreamNotFoundError: the stream is not there, or JetStream is off.
            StreamError: JetStream refused.
            ServerError: the connection broke, no answer came in time, or JetStream is away.

        """
        payload = json.dumps(body).encode() if body else b""
        target = target_of(operation)
        try:
            answer = self.client.request(f"{self.prefix}.{operation}".encode(), payload)
        except NoAnswerError as error:
            raise NoAnswerError(f"{target}: JetStream", error.timeout_s) from error
        if is_no_responders(answer):
            raise StreamNotFoundError(
                f"{target}: nobody answers; JetStream is off for this server or account"
            )
        return checked_answer(answer, target)

    def publish(
        self, subject: bytes, payload: bytes, headers: bytes = b"", asked: str = ""
    ) -> dict[str, Any]:
        """Return the acknowledgement of a message that a stream has stored.

        `asked` is what errors name, by default the subject.

        Raises:
            StreamNotFoundError: no stream takes the subject.
            StreamError: the stream refused the message.
            ServerError: the connection broke, or no answer came in time.

        """
        shown = asked or subject.decode(errors="backslashreplace")
        try:
            answer = self.client.request(subject, payload, headers)
        except NoAnswerError as error:
            raise NoAnswerError(shown, error.timeout_s) from error
        if is_no_responders(answer):
            what = "not found" if asked else "no stream takes this subject"
            raise StreamNotFoundError(f"{shown}: {what}")
        return checked_answer(answer, shown)

    def stream_state(self, stream: str) -> StreamSummary:
        """Return what `stream` holds now."""
        info = self.call(f"STREAM.INFO.{stream}")
        try:
            state, config = info["state"], info["config"]
            return StreamSummary(
                name=config["name"],
                created=info["created"],
                first_seq=max(1, state["first_seq"]),
                last_seq=state["last_seq"],
                messages=state["messages"],
                retention=config.get("retention", "limits"),
            )
        except (KeyError, TypeError) as error:
            raise ServerError(f"STREAM.INFO.{stream}: the answer lacks {error}") from error

    def seq_at_time(self, state: StreamSummary, moment: str) -> int:
        """Return the first sequence stored at or after `moment` (RFC 3339), else the end."""
        start = {"deliver_policy": "by_start_time", "opt_start_time": moment}
        with PullConsumer(self, state.name, start, ()) as consumer:
            for _, deliveries in consumer.chunks(1):
                return deliveries.seqs[0]
        return state.end_seq


class PullConsumer:
    """An ephemeral pull consumer, deleted on leaving its `with` block."""

    def __init__(
        self, jetstream: JetStreamApi, stream: str, start: dict[str, Any], filters: tuple[str, ...]
    ) -> None:
        """`start` holds the settings of the consumer that are not the default."""
        self._jetstream = jetstream
        self._client = jetstream.client
        self._stream = stream
        self._inbox = self._client.new_inbox().replace(b"_INBOX.", b"_INBOX.pull.")
        config = {
            "ack_policy": "none",
            "inactive_threshold": _INACTIVE_S * _NANOSECONDS,
            "mem_storage": True,
            "num_replicas": 1,
            "max_waiting": 16,
            **start,
        }
        if filters:
            config["filter_subjects"] = list(filters)
        self._sid = self._client.subscribe(self._inbox)
        answer = jetstream.call(
            f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config}
        )
        self.name = str(answer.get("name", ""))
        self.pending = int(answer.get("num_pending", 0))
        """Messages that match and were there when the consumer was made."""
        self._received = 0
        self._requested = 0
        self._pull_bytes = PULL_BYTES
        self._fruitless = 0

    def __enter__(self) -> Self:
        """Return the consumer itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Delete the consumer; the server does so by itself when we cannot."""
        try:
            self._client.unsubscribe(self._sid)
            self._client.send(
                publish_frame(
                    f"{self._jetstream.prefix}.CONSUMER.DELETE.{self._stream}.{self.name}".encode(),
                    self._client.new_inbox(),
                    b"",
                    b"",
                )
            )
        except ClientError:
            pass

    def chunks(
        self, wanted: int, *, follow_s: float = 0.0
    ) -> Iterator[tuple[list[ReceivedMessage], DeliveryColumns]]:
        """Yield deliveries as they are read, in stream order.

        Ends when `wanted` messages came, or when nothing that matches is left in the stream and
        nothing new has come for `follow_s`.

        Raises:
            ServerError: the connection broke, or the consumer is gone.

        """
        pending = self.pending
        heard = last = time.monotonic()
        while wanted > 0 and (pending > 0 or time.monotonic() < last + follow_s):
            most = min(max(_FIRST_PULL_MESSAGES, 2 * self._received), PULL_MESSAGES)
            if self._requested <= most // 2:
                self._pull(min(wanted - self._requested, most))
            left_s = _HEARTBEAT_S if pending > 0 else last + follow_s - time.monotonic()
            received = self._client.receive(min(_HEARTBEAT_S, left_s))
            if received:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_S:
                raise ServerError(f"the server went silent while reading stream {self._stream}")
            data = [message for message in received if message.reply.startswith(_ACK_PREFIX)]
            others = [] if len(data) == len(received) else self._statuses(received)
            self._handle_statuses(others)
            if data:
                self._requested -= len(data)
                self._received += len(data)
                self._fruitless = 0
                wanted -= len(data)
                deliveries = parse_deliveries(data)
                pending = deliveries.pending
                yield data, deliveries
                last = time.monotonic()
            elif pending > 0 and self._is_idle(others):
                pending = self._pending_now(pending)

    def arrives_within(self, timeout_s: float) -> bool:
        """Return True as soon as a message comes, False when none has come in time.

        Raises:
            ServerError: the connection broke, or the consumer is gone.

        """
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if self._requested == 0:
                self._pull(1)
            received = self._client.receive(left_s)
            self._handle_statuses(self._statuses(received))
            ours = [message for message in received if message.sid == self._sid]
            if any(message.reply.startswith(_ACK_PREFIX) for message in ours):
                return True
        return False

    def _pull(self, count: int) -> None:
        """Ask for `count` more messages."""
        if count <= 0:
            return
        request: dict[str, Any] = {
            "batch": count,
            "expires": _PULL_EXPIRES_S * _NANOSECONDS,
            "idle_heartbeat": int(_HEARTBEAT_S * _NANOSECONDS),
        }
        if self._pull_bytes:
            request["max_bytes"] = self._pull_bytes
        else:
            # One message alone is larger than what a request may bring: take it by itself.
            request["batch"] = count = 1
            self._pull_bytes = PULL_BYTES
        subject = f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self.name}"
        self._client.send(
            publish_frame(subject.encode(), self._inbox, b"", json.dumps(request).encode())
        )
        self._requested += count

    def _statuses(self, received: list[ReceivedMessage]) -> list[Headers]:
        """Return what the server says to our inbox other than deliveries."""
        return [
            parse_headers(message.headers)
            for message in received
            if message.sid == self._sid and message.headers and not message.reply
        ]

    def _handle_statuses(self, statuses: list[Headers]) -> None:
        """Act on what the server says about our requests."""
        for status, description, fields in statuses:
            if status == _HEARTBEAT_STATUS:
                continue
            if description == _TOO_LARGE:
                self._fruitless += 1
                if self._fruitless > 1:
                    self._pull_bytes = 0
            elif status == _BAD_REQUEST:
                raise StreamError(f"stream {self._stream}: {status} {description}")
            elif status not in _REQUEST_ENDED and description not in _REQUEST_DONE:
                raise ServerError(
                    f"stream {self._stream}: the server ended the reading: {status} {description}"
                )
            unfilled = fields.get("Nats-Pending-Messages", ["0"])[0]
            self._requested -= int(unfilled[:18]) if unfilled.isdecimal() else 0
            self._requested = max(0, self._requested)

    @staticmethod
    def _is_idle(statuses: list[Headers]) -> bool:
        """Return whether the reader got nothing but heartbeats, so that it asks for the rest."""
        return all(headers.status == _HEARTBEAT_STATUS for headers in statuses)

    def _pending_now(self, pending: int) -> int:
        """Return the number of messages left, or `pending` while deliveries are under way.

        The server does not report messages that are removed while we wait for them.
        """
        try:
            info = self._jetstream.call(f"CONSUMER.INFO.{self._stream}.{self.name}")
        except StreamError as error:
            if error.code != _CONSUMER_NOT_FOUND:
                raise
            # The server drops a consumer that its reader left idle for too long.
            raise ServerError(str(error)) from error
        delivered = int(info.get("delivered", {}).get("consumer_seq", 0))
        return pending if delivered > self._received else int(info.get("num_pending", 0))


def is_no_responders(message: ReceivedMessage) -> bool:
    """Return whether the server answers that the request had no subscriber."""
    return bool(message.headers) and parse_headers(message.headers).status == 503


def target_of(operation: str) -> str:
    """Return in words what an operation of the API is about: `bucket b` for STREAM.INFO.KV_b."""
    kind, *tokens = operation.split(".")
    tokens = [token for token in tokens if token not in _VERBS]
    if not tokens or kind not in ("STREAM", "CONSUMER"):
        return "JetStream"
    stream = tokens[0]
    for prefix, noun in _BUCKETS.items():
        if stream.startswith(prefix):
            stream = f"{noun} {stream.removeprefix(prefix)}"
            break
    else:
        stream = f"stream {stream}"
    return f"consumer {tokens[1]} of {stream}" if kind == "CONSUMER" and tokens[1:] else stream


def _described(text: str, target: str) -> str:
    """Return what JetStream says of `target`, without naming it once more or as a stream."""
    if text in ("stream not found", "consumer not found"):
        return "not found"
    noun = next((noun for noun in _BUCKETS.values() if target.startswith(f"{noun} ")), "stream")
    return re.sub(r"\bstream\b", noun, text)


def checked_answer(answer: ReceivedMessage, asked: str) -> dict[str, Any]:
    """Return the JSON object that JetStream answered with; `asked` names the request in errors.

    Raises:
        StreamNotFoundError: the stream is not there, or JetStream is off.
        StreamError: JetStream refused.
        ServerError: the answer is not a JSON object, or JetStream is away for the moment.

    """
    result = json_object(answer.payload, asked)
    error = result.get("error")
    if error:
        code = int(error.get("err_code", 0))
        text = f"{asked}: {_described(str(error.get('description', error)), asked)}"
        if code in _AWAY_CODES:
            raise ServerError(text)
        raise (StreamNotFoundError if code in _NOT_FOUND_CODES else StreamError)(text, code)
    return result


def json_object(payload: bytes, operation: str) -> dict[str, Any]:
    """Return the JSON object in an answer; `operation` names the request in errors.

    Raises:
        ServerError: it is none.
    """
    try:
        value = json.loads(payload)
    except ValueError as error:
        raise ServerError(f"{operation}: the answer is not JSON: {payload[:80]!r}") from error
    if not isinstance(value, dict):
        raise ServerError(f"{operation}: the answer is not a JSON object: {payload[:80]!r}")
    return value
