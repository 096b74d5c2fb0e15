"""Latency at a rate that the server cannot influence: the scenarios of many small writers.

Every connection publishes to its neighbour's subject at fixed times, independent of arrivals. Each
message carries the time of its send call, so that delays of the generator do not count as the
server's, and no wait is missed because a slow answer delayed the next request.
"""

import array
import gc
import random
import select
import socket
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar, Protocol

from bench import frames, stats, wire
from bench.counters import Counters
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

WARM_UP_S = 0.5
SCRAPE_EVERY_S = 1.0
PAGES = ("/varz", "/connz", "/subsz")
"""The monitoring pages that both servers have; they are requested while messages flow."""

STAMP_BYTES = 16
"""Length of a payload, which is the time of sending in nanoseconds, as digits."""

_RECEIVE_BYTES = 64 * 1024
_POLL_S = 0.002


class Evenly(Protocol):
    """The messages to publish, and their rate."""

    @property
    def rate(self) -> int:
        """Return the number of messages a second."""

    def subjects(self) -> list[bytes]:
        """Return the subject of each connection, all of one length."""

    def order(self) -> list[int]:
        """Return the order in which the connections publish, each to the one before it."""


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """Connections that together publish a fixed number of messages a second, evenly."""

    fresh_server: ClassVar[bool] = False

    name: str
    title: str
    connections: int
    rate: int
    """Messages a second, of all connections together."""
    monitored: bool = True
    """Request monitoring pages meanwhile, as a scraper does."""

    def run(self, server: Server, seconds: float) -> Measurement:
        """Publish for the given time and return CPU and latency percentiles.

        Raises:
            ScenarioError: a message is missing.
        """
        with ExitStack() as stack:
            workers = stack.enter_context(staff())
            socks = connected(server, stack, self.subjects())
            counters = Counters(1, 1)
            receiver = Worker("the receiver", receive, socks, self.subjects()[0], counters)
            sender = Worker("the sender", send, self, socks, counters)
            workers += [receiver, sender]
            if self.monitored:
                workers.append(Worker("the scraper", _scrape, server.monitoring_port))
            self._exchange(workers, counters, WARM_UP_S)
            before = Reading.take(server, workers)
            started_s = time.monotonic()
            latencies = self._exchange(workers, counters, seconds)
            elapsed_s = time.monotonic() - started_s
            after = Reading.take(server, workers)
        used = figures(before, after, len(latencies), elapsed_s)
        return {**{name: used[name] for name in used if name != "rate"}, **percentiles(latencies)}

    def _exchange(
        self, workers: Sequence[Worker], counters: Counters, seconds: float
    ) -> Sequence[int]:
        """Send messages for a duration and receive all; return latencies in nanoseconds."""
        latencies = array.array("q")
        for of_connection in exchange(workers[0], workers[1], counters, seconds):
            latencies.extend(of_connection)
        return latencies

    def subjects(self) -> list[bytes]:
        """Return the subject of each connection, all of one length."""
        return frames.numbered(b"open", self.connections)

    def order(self) -> list[int]:
        """Return the order in which the connections publish: each once, then from the start."""
        numbers = list(range(self.connections))
        random.Random(self.name).shuffle(numbers)
        return numbers


def connected(server: Server, stack: ExitStack, subjects: Sequence[bytes]) -> list[socket.socket]:
    """Open a connection per subject, subscribed to that subject; `stack` closes them."""
    socks = []
    for subject in subjects:
        sock = stack.enter_context(closing(wire.connect(server.address)))
        sock.sendall(frames.sub(subject, b"1"))
        wire.round_trip(sock)
        sock.settimeout(None)
        socks.append(sock)
    return socks


def exchange(
    receiver: Worker, sender: Worker, counters: Counters, seconds: float
) -> list["array.array[int]"]:
    """Send and receive messages for a duration; return the latencies of each connection in ns.

    Raises:
        ScenarioError: a message is missing.
    """
    sender.ask(seconds)
    sender.answer(seconds + STALL_TIMEOUT_S)
    stalled_at = time.monotonic() + STALL_TIMEOUT_S
    while counters.outstanding_bytes():
        receiver.raise_failure()
        if time.monotonic() > stalled_at:
            raise ScenarioError(f"{counters.outstanding_bytes()} messages never arrived")
        time.sleep(_POLL_S)
    receiver.ask("latencies")
    latencies: list[array.array[int]] = receiver.answer()
    return latencies


def percentiles(latencies_ns: Sequence[int]) -> Measurement:
    """Return the reported percentiles, in microseconds."""
    ordered = sorted(latencies_ns)
    ranks = {"p50_us": 50, "p99_us": 99, "p999_us": 99.9, "max_us": 100}
    return {name: stats.percentile(ordered, rank) / 1e3 for name, rank in ranks.items()}


def stamps(data: bytes, frame_bytes: int) -> list[int]:
    """Return the times that whole MSG frames of equal length carry."""
    end = STAMP_BYTES + len(frames.CRLF)
    return [
        int(data[at - end : at - len(frames.CRLF)])
        for at in range(frame_bytes, len(data) + 1, frame_bytes)
    ]


def send(pipe: Connection, scenario: Evenly, socks: list[socket.socket], sent: Counters) -> None:
    """Publish for the requested seconds, until dismissed (sender process)."""
    gc.disable()
    subjects = scenario.subjects()
    heads = [b"PUB %b %d\r\n" % (subject, STAMP_BYTES) for subject in subjects]
    turns = [(socks[number], heads[number - 1]) for number in scenario.order()]
    while True:
        seconds: float = pipe.recv()
        started_ns = time.monotonic_ns()
        for number in range(int(seconds * scenario.rate)):
            due_ns = started_ns + number * 1_000_000_000 // scenario.rate
            if (ahead_ns := due_ns - time.monotonic_ns()) > 0:
                time.sleep(ahead_ns / 1e9)
            sock, head = turns[number % len(turns)]
            sock.sendall(b"%b%016d\r\n" % (head, time.monotonic_ns()))
            sent.offered[0] += 1
        pipe.send(None)


def receive(
    pipe: Connection, socks: list[socket.socket], subject: bytes, counters: Counters
) -> None:
    """Record the arrivals of messages; on request, answer with all latencies (receiver process).

    All subjects are as long as `subject`; the answer has an array for each connection.
    """
    gc.disable()
    frame_bytes = len(frames.msg(subject, b"1", b"0" * STAMP_BYTES))
    by_fd = {sock.fileno(): sock for sock in socks}
    rests = dict.fromkeys(by_fd, b"")
    poller = select.epoll()
    for fd in (pipe.fileno(), *by_fd):
        poller.register(fd, select.EPOLLIN)
    latencies = {fd: array.array("q") for fd in by_fd}
    while True:
        for fd, _ in poller.poll():
            if fd == pipe.fileno():
                pipe.recv()
                pipe.send(list(latencies.values()))
                latencies = {fd: array.array("q") for fd in by_fd}
                continue
            data = rests[fd] + by_fd[fd].recv(_RECEIVE_BYTES)
            now_ns = time.monotonic_ns()
            if len(data) % frame_bytes:
                data = _without_pings(data, len(rests[fd]))
            whole = len(data) // frame_bytes * frame_bytes
            rests[fd] = data[whole:]
            found = stamps(data[:whole], frame_bytes)
            latencies[fd].extend([now_ns - stamp for stamp in found])
            counters.received[0] += len(found)


def _without_pings(data: bytes, known: int) -> bytes:
    if len(data) == known:
        raise ScenarioError("the server closed a connection")
    return data.replace(wire.PING, b"")


def _scrape(_pipe: Connection, port: int) -> None:
    """Request the pages repeatedly until dismissed (scraper process)."""
    while True:
        for page in PAGES:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=30) as answer:
                answer.read()
        time.sleep(SCRAPE_EVERY_S)
