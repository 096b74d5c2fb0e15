"""The cost of connections and subscriptions: churn, and the memory of idle ones."""

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.meter import Reading, figures
from bench.metrics import Measurement
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

CHURN_BATCH = 32
_SETTLE_S = 1.0
_SUB_BATCH = 10_000
_SOURCE_HOSTS = 200


@dataclass(frozen=True, kw_only=True)
class Churn:
    """Connect, shake hands and close, as often as the server allows."""

    fresh_server: ClassVar[bool] = False

    name: str
    title: str

    def run(self, server: Server, seconds: float) -> Measurement:
        """Open and close connections for the given time."""
        with staff() as workers:
            worker = Worker("the connector", _churn, server.address)
            workers.append(worker)
            worker.ask(0.3)
            worker.answer()
            before = Reading.take(server, workers)
            worker.ask(seconds)
            connections, elapsed_s = worker.answer(seconds + STALL_TIMEOUT_S)
            time.sleep(0.05)  # the server is still processing the last closes
            return figures(before, Reading.take(server, workers), connections, elapsed_s)


def _churn(pipe: Connection, address: wire.Address) -> None:
    """Connect and close for the requested seconds, until dismissed (connector process).

    Connections are opened in batches, so that both sides always have something to do, and from
    many loopback addresses, so that ports in TIME_WAIT never run out.
    """
    hosts = itertools.cycle(f"127.0.1.{number}" for number in range(1, _SOURCE_HOSTS))
    while True:
        seconds: float = pipe.recv()
        connections = 0
        started = time.monotonic()
        while time.monotonic() < started + seconds:
            with ExitStack() as stack:
                socks = [
                    stack.enter_context(closing(wire.dial(address, source_host=next(hosts))))
                    for _ in range(CHURN_BATCH)
                ]
                for sock in socks:
                    wire.send_connect(sock)
                for sock in socks:
                    wire.read_until_pong(sock)
            connections += CHURN_BATCH
        pipe.send((connections, time.monotonic() - started))


@dataclass(frozen=True, kw_only=True)
class IdleConnections:
    """Memory of an idle connection."""

    fresh_server: ClassVar[bool] = True

    name: str
    title: str
    count: int = 5_000

    def run(self, server: Server, _seconds: float) -> Measurement:
        """Open all connections and compare the server's memory; the time does not matter."""
        with ExitStack() as stack:
            with closing(wire.connect(server.address)):
                before_bytes = settled_rss_bytes(server)
            for _ in range(self.count):
                stack.enter_context(closing(wire.connect(server.address)))
            return {"rss_bytes": (settled_rss_bytes(server) - before_bytes) / self.count}


@dataclass(frozen=True, kw_only=True)
class HeldSubscriptions:
    """Memory per subscription, and the rate at which one connection makes them."""

    fresh_server: ClassVar[bool] = True

    name: str
    title: str
    count: int = 1_000_000

    def run(self, server: Server, _seconds: float) -> Measurement:
        """Subscribe to `count` literal subjects; the time does not matter."""
        with closing(wire.connect(server.address)) as sock:
            sock.settimeout(120)
            before_bytes = settled_rss_bytes(server)
            batches = list(self._batches())
            before = Reading.take(server, ())
            started = time.monotonic()
            for batch in batches:
                sock.sendall(batch)
            wire.round_trip(sock)
            elapsed_s = time.monotonic() - started
            after = Reading.take(server, ())
            return {
                **figures(before, after, self.count, elapsed_s),
                "rss_bytes": (settled_rss_bytes(server) - before_bytes) / self.count,
            }

    def _batches(self) -> Iterator[bytes]:
        # Three levels, like "city.street.house": 100 x 100 x the rest.
        numbers = list(range(self.count))
        random.Random(1).shuffle(numbers)
        for start in range(0, self.count, _SUB_BATCH):
            yield b"".join(
                frames.sub(b"load.%d.%d.%d" % (n % 100, n // 100 % 100, n // 10_000), b"%d" % n)
                for n in numbers[start : start + _SUB_BATCH]
            )


def settled_rss_bytes(server: Server) -> int:
    """Return the server's resident memory, a moment after the last request."""
    time.sleep(_SETTLE_S)
    return server.rss_bytes()
