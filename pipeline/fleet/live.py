"""The fleet as live traffic: every member is a real connection to a real server.

Fleet time runs `speed` times as fast as the clock, so that twenty minutes of fleet time take half a
minute. Replies are not sped up.
"""

import asyncio
import heapq
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from midge.client.errors import ServerError, reason_of
from midge.pipeline.fleet.fleet import (
    CLIENT_CLOSED,
    SLOW_CONSUMER,
    Listening,
    Member,
    Publication,
    Truth,
    ticks,
)
from midge.protocol.client_side import (
    PING,
    PONG,
    FrameReader,
    ReceivedMessage,
    connect_line,
    publish_frame,
    subscribe_line,
)

_CONNECT_TIMEOUT_S = 10.0
_SETTLE_S = 1.0
_STALLED_RECEIVE_BYTES = 16 * 1024


@dataclass(order=True)
class _Step:
    """An event of the fleet; `order` keeps events of equal times as planned."""

    time_s: float
    order: int
    member: int
    publication: Publication | None = None
    """None when the member joins."""
    leaves: bool = False


class FleetConnection(asyncio.Protocol):
    """One member on the wire: publishes on demand, and answers requests by itself."""

    def __init__(self, member: Member, truth: Truth, rng: random.Random) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_open = False
        self._member = member
        self._truth = truth
        self._rng = rng
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._listens = {str(sid).encode(): each for sid, each in enumerate(member.listens, 1)}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect the member and make its subscriptions."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_open = True
        hello = {
            "verbose": False,
            "pedantic": False,
            "name": self._member.name,
            "lang": self._member.lang,
            "version": "1.0",
            "protocol": 1,
            "headers": True,
        }
        lines = [connect_line(hello)]
        for sid, each in self._listens.items():
            lines.append(subscribe_line(each.subject.encode(), sid, (each.queue or "").encode()))
        transport.write(b"".join([*lines, PING]))

    def data_received(self, data: bytes) -> None:
        """Answer pings and requests."""
        for message in self._reader.feed(data):
            self._receive(message)
        for verb, argument in self._reader.controls:
            if verb == b"PING":
                self._write(PONG)
            elif verb == b"PONG" and not self.ready.done():
                self.ready.set_result(None)
                if self._member.reason == SLOW_CONSUMER:
                    self._stall()
            elif verb == b"-ERR" and not self.ready.done():
                self.ready.set_exception(ServerError(argument.decode(errors="replace")))
        self._reader.controls.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the end of a connection, closed by either side."""
        self.is_open = False
        if not self.ready.done():
            self.ready.set_exception(ServerError(f"{self._member.name}: connection lost: {exc}"))

    def publish(self, publication: Publication, number: int) -> None:
        """Publish once."""
        size = self._rng.randint(publication.size_min, publication.size_max)
        reply = f"{publication.inbox}.{number}" if publication.inbox else ""
        headers = (
            f"NATS/1.0\r\norigin: {self._member.name}\r\n\r\n" if publication.has_headers else ""
        )
        self._send(publication.subject, reply, headers.encode(), size)

    def close(self) -> None:
        """Disconnect cleanly, or abruptly, as in a tunnel."""
        if self._transport is None:
            return
        if self._member.reason == CLIENT_CLOSED:
            self._transport.close()
        else:
            self._transport.abort()

    def _receive(self, message: ReceivedMessage) -> None:
        listening = self._listens.get(bytes(message.sid))
        if listening is not None and listening.answer_ms is not None and message.reply:
            self._answer_later(listening, bytes(message.reply).decode())

    def _answer_later(self, listening: Listening, reply: str) -> None:
        assert listening.answer_ms is not None
        delay_s = self._rng.lognormvariate(0, 0.5) * listening.answer_ms / 1000
        asyncio.get_running_loop().call_later(delay_s, self._send, reply, "", b"", 48)

    def _send(self, subject: str, reply: str, headers: bytes, size: int) -> None:
        if self.is_open:
            self._write(publish_frame(subject.encode(), reply.encode(), headers, bytes(size)))
            self._truth.sent(self._member.name, subject, size + len(headers))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _stall(self) -> None:
        """Stop reading, like a client whose screen cannot keep up."""
        if self._transport is not None:
            self._transport.pause_reading()


async def perform(
    members: Sequence[Member],
    address: tuple[str, int],
    duration_s: float,
    speed: float = 1.0,
    seed: int = 1,
    progress: Callable[[float, Truth], None] = lambda *_: None,
) -> Truth:
    """Run the fleet against a server for `duration_s` of fleet time; return its counts.

    Raises:
        ServerError: the server cannot be reached or refused a member.
    """
    truth = Truth()
    rng = random.Random(seed)
    connections: dict[int, FleetConnection] = {}
    numbers = count()
    begun_s = time.monotonic()
    for step in heapq.merge(*_scripts(members, duration_s, rng)):
        wait_s = begun_s + step.time_s / speed - time.monotonic()
        if wait_s > 0:
            progress(step.time_s / duration_s, truth)
            await asyncio.sleep(wait_s)
        if step.leaves:
            connections.pop(step.member).close()
        elif step.publication is None:
            member = members[step.member]
            connections[step.member] = await _connect(member, address, truth, rng)
        else:
            connections[step.member].publish(step.publication, next(numbers))
            if truth.total % 64 == 0:
                await asyncio.sleep(0)
    await asyncio.sleep(_SETTLE_S)
    for connection in connections.values():
        connection.close()
    progress(1.0, truth)
    return truth


def _scripts(
    members: Sequence[Member], duration_s: float, rng: random.Random
) -> Iterator[Iterator[_Step]]:
    """Yield the steps of each member, in order of time."""
    for index, member in enumerate(members):
        begin_s, end_s = member.joins * duration_s, member.leaves * duration_s
        order = count(index * 1_000_000_000)
        yield iter([_Step(begin_s, next(order), index)])
        for publication in member.publishes:
            own = random.Random(rng.random())
            yield _publishing(publication, index, begin_s, end_s, own, order)
        if member.leaves < 1.0:
            yield iter([_Step(end_s, next(order), index, leaves=True)])


def _publishing(
    publication: Publication,
    index: int,
    begin_s: float,
    end_s: float,
    rng: random.Random,
    order: Iterator[int],
) -> Iterator[_Step]:
    for time_s in ticks(publication, begin_s, end_s, rng):
        yield _Step(time_s, next(order), index, publication)


async def _connect(
    member: Member, address: tuple[str, int], truth: Truth, rng: random.Random
) -> FleetConnection:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            sock = await _open_socket(member, address)
            _, connection = await loop.create_connection(
                lambda: FleetConnection(member, truth, rng), sock=sock
            )
            await connection.ready
    except (OSError, TimeoutError) as error:
        host, port = address
        why = f"cannot connect to {host}:{port}: {reason_of(error)}"
        raise ServerError(f"{member.name} {why}") from error
    return connection


async def _open_socket(member: Member, address: tuple[str, int]) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setblocking(False)
        if member.reason == SLOW_CONSUMER:
            # Its own buffer is small, so the server's buffer fills up.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _STALLED_RECEIVE_BYTES)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
