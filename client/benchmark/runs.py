"""The three measurements of `midge bench`: publish, subscribe, request."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midge.client.benchmark.counting_client import BenchError, CountingClient
from midge.protocol.client_side import publish_frame, subscribe_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence

    from midge.client.benchmark.busy import CpuUsage
    from midge.client.options import ClientOptions

CHUNK_BYTES = 64 * 1024
"""Bytes that a publisher writes at once: enough to make the calls cheap, few enough for the other
clients to get their turn."""

WINDOW_BYTES = 8 * 1024 * 1024
"""How far publishers may be ahead of the subscribers, which a server would otherwise close as slow
consumers."""

_WINDOW_POLL_S = 0.001


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of one measurement."""

    options: ClientOptions
    subject: bytes
    messages: int
    """Messages of all publishers or requesters together, or per subscriber without queue group."""
    clients: int = 1
    payload_bytes: int = 0
    subscribers: int = 0
    """Clients that subscribe while others publish."""
    queue: bytes = b""
    responders: int = 0
    reply_bytes: int = 0
    in_flight: int = 1

    def shares(self) -> list[int]:
        """Distribute the messages over the clients as evenly as possible."""
        share, rest = divmod(self.messages, self.clients)
        return [share + (number < rest) for number in range(self.clients)]


@dataclass
class Tally:
    """One client's progress."""

    expected: int
    messages: int = 0
    payload_bytes: int = 0
    started_s: float = 0.0
    finished_s: float = 0.0

    def count(self, messages: int, payload_bytes: int) -> None:
        """Add messages; the first ones start the clock."""
        self.finished_s = time.monotonic()
        self.started_s = self.started_s or self.finished_s
        self.messages += messages
        self.payload_bytes += payload_bytes


@dataclass
class Outcome:
    """All tallies by role, and the latencies of requests."""

    roles: dict[str, list[Tally]] = field(default_factory=dict)
    latencies_ns: list[int] = field(default_factory=list)
    usage: CpuUsage | None = None
    """CPU time of both sides; None until the end."""

    def add(self, role: str, expected: int) -> Tally:
        """Add the tally of one more client."""
        tally = Tally(expected)
        self.roles.setdefault(role, []).append(tally)
        return tally

    def progress(self) -> tuple[int, int]:
        """Return how many messages are done, and how many there will be in total."""
        tallies = list(itertools.chain.from_iterable(self.roles.values()))
        return sum(t.messages for t in tallies), sum(t.expected for t in tallies)


async def publish(plan: Plan, outcome: Outcome) -> None:
    """Publish with all clients at once; wait until any subscribers have all messages.

    Raises:
        BenchError: a connection broke or was refused.
    """
    async with _clients(plan) as clients:
        reception = _Reception()
        for _ in range(plan.subscribers):
            await reception.add(plan, clients, outcome.add("subscribe", plan.messages))
        jobs = []
        for share in plan.shares():
            client = await clients.connect(CountingClient())
            jobs.append(_publish(client, plan, outcome.add("publish", share), reception))
        await clients.finish([*jobs, reception.complete()])


async def subscribe(plan: Plan, outcome: Outcome) -> None:
    """Receive with all clients; clients in a queue group share the messages.

    Raises:
        BenchError: a connection broke or was refused.
    """
    async with _clients(plan) as clients:
        reception = _Reception()
        for share in plan.shares():
            expected = share if plan.queue else plan.messages
            await reception.add(plan, clients, outcome.add("subscribe", expected))
        await clients.finish([reception.complete()])


async def request(plan: Plan, outcome: Outcome) -> None:
    """Send requests with all clients, several in flight per client, and time the replies.

    Raises:
        BenchError: a connection broke or was refused, or nothing responds.
    """
    async with _clients(plan) as clients:
        for _ in range(plan.responders):
            await _Responder(plan).start(clients)
        requesters = [
            _Requester(plan, outcome.add("request", share), outcome.latencies_ns)
            for share in plan.shares()
        ]
        for requester in requesters:
            await clients.connect(requester.client)
        await clients.finish([requester.run() for requester in requesters])


class _Clients:
    """The open connections of a measurement, which fails as soon as one connection fails."""

    def __init__(self, plan: Plan) -> None:
        self._options = plan.options
        self._largest_bytes = max(plan.payload_bytes, plan.reply_bytes)
        self._open: list[CountingClient] = []

    async def connect(self, client: CountingClient) -> CountingClient:
        """Connect `client`. Raises: BenchError, also if the server refuses such payloads."""
        self._open.append(client)
        await client.connect(self._options)
        if 0 < client.max_payload < self._largest_bytes:
            most = f"the server takes at most {client.max_payload} bytes"
            raise BenchError(f"{most}, and the payload has {self._largest_bytes}")
        return client

    async def finish(self, jobs: Sequence[Coroutine[None, None, None]]) -> None:
        """Wait for all jobs, or raise the first error of a job or a connection."""
        work = asyncio.gather(*jobs)
        broken = [client.failed for client in self._open]
        either: list[asyncio.Future[Any]] = [work, *broken]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for future in broken:
                if future.done():
                    future.result()
            await work
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await work

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._open))


@asynccontextmanager
async def _clients(plan: Plan) -> AsyncIterator[_Clients]:
    clients = _Clients(plan)
    try:
        yield clients
    finally:
        await clients.close()


class _Reception:
    """All subscribers of a measurement."""

    def __init__(self) -> None:
        self._tallies: list[Tally] = []
        self._missing = 0
        self._everything = asyncio.Event()
        self.published = 0
        """Messages published so far, by all publishers of the measurement."""

    def outstanding(self) -> int:
        """Return how many messages the slowest subscriber is behind; 0 without subscribers."""
        received = min((tally.messages for tally in self._tallies), default=self.published)
        return self.published - received

    async def add(self, plan: Plan, clients: _Clients, tally: Tally) -> None:
        """Subscribe one more client and count its messages."""

        def on_message(_subject: bytes, _reply: bytes, size: int) -> None:
            tally.count(1, size)
            self._missing -= 1
            if self._missing <= 0:
                self._everything.set()

        self._tallies.append(tally)
        self._missing += tally.expected
        client = await clients.connect(CountingClient(on_message))
        client.write(subscribe_line(plan.subject, b"1", plan.queue))
        await client.flush()

    async def complete(self) -> None:
        """Wait until all subscribers together have received as many messages as expected."""
        if self._tallies:
            await self._everything.wait()


async def _publish(client: CountingClient, plan: Plan, tally: Tally, reception: _Reception) -> None:
    frame = _frame(plan.subject, b"", plan.payload_bytes)
    per_chunk = max(CHUNK_BYTES // len(frame), 1)
    chunk = frame * per_chunk
    # Counted in whole frames, because messages with empty payloads also fill a server's memory.
    window = max(WINDOW_BYTES // len(frame), per_chunk)
    tally.count(0, 0)
    while left := tally.expected - tally.messages:
        count = min(per_chunk, left)
        while reception.outstanding() > window:  # noqa: ASYNC110 - an event would cost per message
            await asyncio.sleep(_WINDOW_POLL_S)
        client.write(chunk if count == per_chunk else frame * count)
        tally.count(count, count * plan.payload_bytes)
        reception.published += count
        await client.drain()
        await asyncio.sleep(0)  # give other clients a turn even if the server takes everything
    await client.flush()
    tally.count(0, 0)


class _Responder:
    """A client that answers every request."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._answers: list[bytes] = []
        self._tail = b" %d\r\n%b\r\n" % (plan.reply_bytes, b"x" * plan.reply_bytes)
        self._client = CountingClient(self._answer, self._send)

    async def start(self, clients: _Clients) -> None:
        """Connect and wait until the server knows the subscription."""
        await clients.connect(self._client)
        self._client.write(subscribe_line(self._plan.subject, b"1", b"midge-bench"))
        await self._client.flush()

    def _answer(self, _subject: bytes, reply: bytes, _size: int) -> None:
        if reply:
            self._answers.append(b"PUB " + reply + self._tail)

    def _send(self) -> None:
        if self._answers:
            self._client.write(b"".join(self._answers))
            self._answers.clear()


class _Requester:
    """A client that sends requests, each with a reply subject of its own under one inbox."""

    def __init__(self, plan: Plan, tally: Tally, latencies_ns: list[int]) -> None:
        self._plan = plan
        self._tally = tally
        self._latencies_ns = latencies_ns
        self._inbox = b"_INBOX." + secrets.token_hex(11).encode()
        self._sent = 0
        self._sent_ns: dict[int, int] = {}
        self._done = asyncio.Event()
        self.client = CountingClient(self._take_reply, self._send)

    async def run(self) -> None:
        """Send and wait until every request is answered."""
        self.client.write(subscribe_line(self._inbox + b".*", b"1"))
        await self.client.flush()
        self._tally.count(0, 0)
        self._send()
        if self._tally.expected:
            await self._done.wait()

    def _send(self) -> None:
        if not self._tally.started_s:
            return  # messages so far belong to the handshake
        now_ns = time.monotonic_ns()
        frames = []
        while len(self._sent_ns) < self._plan.in_flight and self._sent < self._tally.expected:
            reply = b"%s.%d" % (self._inbox, self._sent)
            frames.append(_frame(self._plan.subject, reply, self._plan.payload_bytes))
            self._sent_ns[self._sent] = now_ns
            self._sent += 1
        if frames:
            self.client.write(b"".join(frames))

    def _take_reply(self, subject: bytes, _reply: bytes, _size: int) -> None:
        number = int(subject[len(self._inbox) + 1 :])
        sent_ns = self._sent_ns.pop(number, None)
        if sent_ns is None:
            return  # a second reply, from a further responder
        self._latencies_ns.append(time.monotonic_ns() - sent_ns)
        self._tally.count(1, self._plan.payload_bytes)
        if self._tally.messages == self._tally.expected:
            self._done.set()


def _frame(subject: bytes, reply: bytes, payload_bytes: int) -> bytes:
    return publish_frame(subject, reply, b"", b"x" * payload_bytes)
