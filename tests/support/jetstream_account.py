"""JetStream of one account without a server: requests and messages in, what it sends out."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from midge.jetstream.account.account import JetStreamAccount
from midge.jetstream.account.limits import JetStreamAccountLimits, ServerLimits
from midge.jetstream.api import dispatch
from midge.jetstream.config.stream import StreamConfig
from midge.jetstream.environment.sink import Sink
from midge.jetstream.environment.surroundings import Surroundings
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.store import Store
from midge.jetstream.stream.stream import Stream
from midge.protocol.frame import compose
from midge.server.jetstream.message_requests import MessageRequests
from midge.sublist.subjects import matches
from midge.testing.simulated_disk import SimulatedDisk

from .consumer_rig import TurnedClock

REPLY = "_INBOX.1"

Take = Callable[[bytes, bytes, bytes, bytes], bool]

Sent = tuple[str, bytes, bytes]
"""A message that went out: subject, header block and payload."""


class Outbox(Sink):
    """Keeps sent messages, and the ack subjects of deliveries; inboxes have subscribers."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.delivered: list[bytes] = []
        self.interest: set[bytes] = set()
        self.subscribed: dict[bytes, Take] = {}

    def send(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> int:
        self.sent.append((subject.decode(), headers, payload))
        return 1

    def deliver(
        self,
        deliver_subject: bytes,
        message_subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        self.delivered.append(reply)
        return True

    def has_interest(self, subject: bytes) -> bool:
        return subject in self.interest or subject.startswith(b"_INBOX.")

    def is_subscribed(self, subject: bytes, group: bytes) -> bool:
        return self.has_interest(subject)

    def subscribe(self, subject: bytes, take: Take) -> object:
        self.subscribed[subject] = take
        return subject

    def unsubscribe(self, token: object) -> None:
        assert isinstance(token, bytes)
        del self.subscribed[token]

    def watch_interest(self, subject: bytes, changed: Any, group: bytes = b"") -> object:
        return None

    def unwatch_interest(self, token: object) -> None:
        return None


def header_block(headers: dict[str, str] | bytes | None) -> bytes | None:
    """Return a header block of the names and values."""
    if headers is None or isinstance(headers, bytes):
        return headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


class AccountRig:
    """An account whose streams are kept in memory, whatever their configuration says."""

    def __init__(
        self,
        domain: str = "",
        limits: JetStreamAccountLimits | None = None,
        server_limits: ServerLimits | None = None,
    ) -> None:
        self.clock = TurnedClock()
        self.outbox = Outbox()
        surroundings = Surroundings(self.outbox, self.clock, Random(1), domain)
        self.account = JetStreamAccount(
            "$G",
            surroundings,
            self._make_store,
            server_limits,
            {"": limits} if limits is not None else None,
        )
        self.account.server_name = "S"
        self.delivered = self.outbox.delivered

    def _make_store(self, config: StreamConfig) -> Store:
        return MemoryStore()

    def create(self, name: str = "A", **keys: Any) -> Stream:
        """Make a memory stream that takes ``a.>`` unless asked otherwise."""
        config = {"name": name, "subjects": ["a.>"], "storage": "memory", **keys}
        answer = self.api(f"STREAM.CREATE.{name}", config)
        assert "error" not in answer, answer
        return self.account.streams[name]

    def api(self, subject: str, body: Any = b"", headers: Any = None) -> dict[str, Any]:
        """Send a request to the API; return its answer."""
        sent = self.exchange("$JS.API." + subject, body, headers)
        assert len(sent) == 1, sent
        answer: dict[str, Any] = json.loads(sent[0][2])
        return answer

    def publish(
        self, subject: str, body: Any = b"", headers: Any = None, reply: str = REPLY
    ) -> dict[str, Any]:
        """Publish a message; return its ack."""
        sent = self.exchange(subject, body, headers, reply)
        acks = [payload for to, _, payload in sent if to == reply]
        assert len(acks) == 1, sent
        ack: dict[str, Any] = json.loads(acks[0]) if acks[0] else {}
        return ack

    def exchange(
        self, subject: str, body: Any = b"", headers: Any = None, reply: str = REPLY
    ) -> list[Sent]:
        """Send anything; return all that went out for it."""
        self.outbox.sent = []
        payload = body if isinstance(body, bytes) else _as_bytes(body)
        block = header_block(headers)
        raw = subject.encode()
        if raw.startswith((b"$JS.API.DIRECT.", b"$JS.API.CONSUMER.MSG.")):
            MessageRequests(self.account).take(raw, reply.encode(), block or b"", payload)
        elif raw.startswith(dispatch.PREFIX):
            dispatch.handle(
                self.account,
                raw,
                block or b"",
                payload,
                lambda answer: self._answer(reply, answer),
                is_wanted=lambda: self.outbox.has_interest(reply.encode()),
            )
        else:
            self._route(raw, payload, block, reply)
        return self.outbox.sent

    def _answer(self, reply: str, answer: bytes) -> None:
        self.outbox.send(reply.encode(), b"", b"", answer)

    def _route(self, subject: bytes, payload: bytes, block: bytes | None, reply: str) -> None:
        taken = False
        for stream in list(self.account.streams.values()):
            if any(matches(subject, one) for one in stream.subjects):
                taken = True
                stream.publish_frame(compose(subject, payload, reply.encode() or None, block))
        if not taken and reply:
            block = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
            self.outbox.send(reply.encode(), b"", block, b"")


class FileAccountRig(AccountRig):
    """An account whose file streams are kept on a simulated disk, which works on call."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.directory = StoreDirectory(self.disk, lambda: None)
        super().__init__()

    def _make_store(self, config: StreamConfig) -> Store:
        if config.storage == "memory":
            return MemoryStore()
        return self.directory.create_stream(b"$G", config.name.encode(), b"")

    def api(self, subject: str, body: Any = b"", headers: Any = None) -> dict[str, Any]:
        """Send a request to the API, and have the disk do its work; return the answer."""
        self.exchange("$JS.API." + subject, body, headers)
        self.settle()
        assert len(self.outbox.sent) == 1, self.outbox.sent
        answer: dict[str, Any] = json.loads(self.outbox.sent[0][2])
        return answer

    def hand_over(self) -> None:
        """Make the disk start to write the messages stored so far."""
        self.directory.flush()

    def settle(self) -> None:
        """Make all stored messages durable."""
        self.directory.flush()
        while self.disk.pump():
            self.directory.flush()


class ColdRig(FileAccountRig):
    """A file stream ``A`` of which nothing is in memory, on a disk that reads on call."""

    def store(self, count: int, size: int, headers: dict[str, str] | None = None) -> None:
        """Store messages of two subjects on the disk, 100 by one sync, and not in memory."""
        for number in range(count):
            self.exchange(f"a.{number % 2}", bytes(size), headers, reply="")
            if number % 100 == 99:
                self.settle()
        self.settle()
        self.exchange("a.last", bytes(2 << 20), reply="")  # messages in memory are dropped for it
        self.settle()

    def chill(self) -> None:
        """Drop everything from the page cache."""
        self.disk.drop_pages()
        self.disk.cold_reads = 0

    def advance(self, seconds: float) -> None:
        """Advance the time, and complete the pending work of the disk."""
        self.clock.advance(seconds)
        self.settle()
        while self.disk.pump_fetch():
            self.clock.advance(0.0)
            self.settle()

    def ask(self, subject: str, body: Any = b"") -> dict[str, Any]:
        """Send a request that has to wait for the disk; return its answer."""
        assert not self.exchange("$JS.API." + subject, body)
        self.advance(0.0)
        assert len(self.outbox.sent) == 1, self.outbox.sent
        answer: dict[str, Any] = json.loads(self.outbox.sent[0][2])
        return answer


def _as_bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
