"""Messages from publishers to subscribers: the scenarios that measure a rate.

Each publisher connection has its own process, which sends prebuilt chunks; one more process
receives for all subscriber connections and counts bytes. They share byte counters, which keep the
publishers within a window: a server that queues much looks fast until it closes the slow
subscriber, so no server under test ever has to queue much more than `WINDOW_BYTES`.
"""

import itertools
import json
import random
import select
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.counters import Counters
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

WINDOW_BYTES = 16 * 1024 * 1024
"""A quarter of the 64 MiB at which nats-server closes a slow consumer, and well below the three
quarters where it starts to stall producers."""

CHUNK_BYTES = 256 * 1024
WARM_UP_S = 0.3
MAX_PINGS = 2
"""A server pings some seconds after the handshake and then every two minutes."""
_RECEIVE_BYTES = 1024 * 1024
_POLL_S = 0.0005


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One pattern of publishers and subscribers."""

    fresh_server: ClassVar[bool] = False

    name: str
    title: str
    payload_bytes: int = 16
    groups: int = 1
    """Independent groups of one publisher and its subscribers, each on subjects of its own."""
    subscribers: int = 1
    """Subscriber connections in each group; with none, the scenario only publishes."""
    queue: bytes = b""
    """The queue group that the subscribers join, so that one of them gets each message."""
    subjects: int = 1
    """Distinct subjects that the publisher goes through, in a fixed shuffled order."""
    prefix: bytes = b"load"
    """Prefix of the subjects."""
    wildcard: bool = False
    """Subscribe with one `>` instead of one subscription per subject."""
    headers: bytes = b""
    rules: int = 0
    """Permission rules of the user of all connections; a multiple of four."""
    tls: bool = False
    """Encrypt all connections; the load generator's part of that work is not the server's."""
    chunk_bytes: int = CHUNK_BYTES
    linked: str = ""
    """Over a leaf node link, "out" to the hub or "in" from it; without it there is one server."""
    documents: bool = False
    """Publish JSON documents of 300 bytes, which differ from subject to subject."""
    rate_max: float = 0.0
    """Messages a second of each publisher; 0 means as many as the server takes."""

    @property
    def copies(self) -> int:
        """Return the number of deliveries of one published message."""
        return 1 if self.queue else self.subscribers

    @property
    def configuration(self) -> str:
        """Return the configuration file of both servers; empty for their defaults."""
        if not self.rules:
            return ""
        each = self.rules // 4
        allow = [f"other.{number}.>" for number in range(each - 1)] + ["load.>"]
        # A denial makes the server check every delivery again.
        deny = [f"load.secret{number}.*" for number in range(each)]
        side = f"{{allow: {_words(allow)}, deny: {_words(deny)}}}"
        permissions = f"{{publish: {side}, subscribe: {side}}}"
        user = f'{{user: "bench", password: "bench", permissions: {permissions}}}'
        return f"authorization {{users: [{user}]}}\nno_auth_user: bench\n"

    def run(self, server: Server, seconds: float) -> Measurement:
        """Publish for the given time, wait for the last byte and return the figures.

        Raises:
            ScenarioError: a message was lost or doubled, or the server stalled.
        """
        with _cast(self, server) as cast:
            cast.publish(WARM_UP_S)
            measurement = cast.publish(seconds)
            cast.check_exactness()
        return measurement

    def settle(self, server: Server, messages: int) -> Measurement:
        """Wait until the server has processed `messages` messages; return further figures.

        Raises:
            ScenarioError: the server has not processed exactly these messages.
        """
        return {}

    def subject_names(self, group: int) -> list[bytes]:
        """Return the subjects that one group publishes to, in the order of their sids."""
        return frames.numbered(self._prefix(group), self.subjects)

    def chunks(self, group: int) -> list[frames.Chunk]:
        """Build the chunks that one publisher sends repeatedly."""
        subjects = self.subject_names(group)
        random.Random(self.name).shuffle(subjects)
        payload = b"x" * self.payload_bytes
        return frames.chunks(
            [
                frames.pub(subject, self._document(i) or payload, headers=self.headers)
                for i, subject in enumerate(subjects)
            ],
            self.chunk_bytes,
        )

    def _document(self, number: int) -> bytes:
        """Return a JSON document as long as a payload; nothing where there are to be none."""
        if not self.documents:
            return b""
        chosen = random.Random(number)
        fields = {
            "vehicle": f"WDB-{chosen.randrange(10_000):04}",
            "door": chosen.choice(("front left", "front right", "rear")),
            "state": chosen.choice(("open", "closed")),
            "lat": round(chosen.uniform(47, 54), 6),
            "lon": round(chosen.uniform(6, 15), 6),
            "text": "position and speed at the last stop",
        }
        text = json.dumps(fields)
        return f'{text[:-1]}, "note": "'.encode().ljust(self.payload_bytes - 2, b".") + b'"}'

    def subscriptions(self, group: int) -> list[bytes]:
        """Build the SUB lines of one subscriber connection."""
        if self.wildcard:
            return [frames.sub(self._prefix(group) + b".>", b"1", self.queue)]
        return [
            frames.sub(subject, sid, self.queue)
            for subject, sid in zip(self.subject_names(group), self._sids(), strict=True)
        ]

    def delivered_frame_bytes(self) -> int:
        """Return the length of every MSG frame that the subscribers receive."""
        sid = b"1" if self.wildcard else self._sids()[0]
        payload = b"x" * self.payload_bytes
        return len(frames.msg(self.subject_names(0)[0], sid, payload, headers=self.headers))

    def delivered_bytes(self, chunk: frames.Chunk) -> int:
        """Return the number of bytes that a subscriber receives for a chunk.

        A delivered frame is the published frame with MSG in place of PUB, a sid and a blank.
        """
        sid = b"1" if self.wildcard else self._sids()[0]
        return len(chunk.data) + chunk.messages * (len(sid) + 1)

    def check(self, totals: Sequence[int], offered: Sequence[int]) -> None:
        """Compare the bytes that every subscriber received with the bytes offered to its group.

        Raises:
            ScenarioError: there is a difference.
        """
        frame_bytes = self.delivered_frame_bytes()
        for group in range(self.groups):
            received = [whole_frames(n, frame_bytes) for n in totals[self.members(group)]]
            expected = offered[group] // frame_bytes
            even = self.queue or len(set(received)) == 1
            if sum(received) != expected or not even:
                raise ScenarioError(f"{expected} deliveries expected, got {received}")

    def members(self, group: int) -> slice:
        """Return the slice of the subscriber connections of a group."""
        return slice(group * self.subscribers, (group + 1) * self.subscribers)

    def _prefix(self, group: int) -> bytes:
        return frames.numbered(self.prefix, self.groups)[group]

    def _sids(self) -> list[bytes]:
        width = len(str(self.subjects))
        return [b"%0*d" % (width, number) for number in range(1, self.subjects + 1)]


@dataclass(frozen=True)
class _Report:
    """A publisher's counts for one request."""

    messages: int
    started_ns: int
    finished_ns: int


@dataclass
class _Cast:
    """The running generator of one flow: its processes and their shared counters."""

    flow: Flow
    server: Server
    counters: Counters
    publishers: list[Worker] = field(default_factory=list)
    subscriber: Worker | None = None

    def publish(self, seconds: float) -> Measurement:
        """Publish for the given time and wait until everything has arrived."""
        workers = [*self.publishers, *([self.subscriber] if self.subscriber else [])]
        before = Reading.take(self.server, workers)
        for publisher in self.publishers:
            publisher.ask(seconds)
        reports: list[_Report] = [
            publisher.answer(seconds + STALL_TIMEOUT_S) for publisher in self.publishers
        ]
        self._await_last_byte()
        published = sum(report.messages for report in reports)
        shown = self.flow.settle(self.server, published)
        after = Reading.take(self.server, workers)
        elapsed_s = (self._end_ns(reports) - min(r.started_ns for r in reports)) / 1e9
        messages = published * max(self.flow.copies, 1)
        return {**figures(before, after, messages, elapsed_s), **shown}

    def _end_ns(self, reports: Sequence[_Report]) -> int:
        if self.subscriber:
            return self.counters.last_byte_ns
        return max(report.finished_ns for report in reports)

    def _await_last_byte(self) -> None:
        stalled_at = time.monotonic() + STALL_TIMEOUT_S
        while self.subscriber and (missing := self.counters.outstanding_bytes()) > 0:
            self.subscriber.raise_failure()
            if time.monotonic() > stalled_at:
                raise ScenarioError(f"{self.server.name}: {missing} bytes never arrived")
            time.sleep(_POLL_S)

    def check_exactness(self) -> None:
        """Compare the messages that every connection received with the published ones.

        Raises:
            ScenarioError: there is a difference.
        """
        if self.subscriber is None:
            return
        self.subscriber.ask("settle")
        try:
            self.flow.check(self.subscriber.answer(), self.counters.offered)
        except ScenarioError as error:
            raise ScenarioError(f"{self.server.name}: {error}") from None


def _words(subjects: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"


def whole_frames(total_bytes: int, frame_bytes: int) -> int:
    """Return the number of frames in a stream of MSG frames, which may contain PINGs.

    Raises:
        ScenarioError: the stream has other contents.
    """
    count, rest = divmod(total_bytes, frame_bytes)
    if rest not in range(0, (MAX_PINGS + 1) * len(wire.PING), len(wire.PING)):
        raise ScenarioError(f"{rest} bytes that are no message arrived at a subscriber")
    return count


@contextmanager
def _cast(flow: Flow, server: Server) -> Iterator[_Cast]:
    with ExitStack() as stack:
        workers = stack.enter_context(staff())
        subscribers = [
            stack.enter_context(closing(wire.connect(server.subscriber_address)))
            for _ in range(flow.groups * flow.subscribers)
        ]
        for index, sock in enumerate(subscribers):
            sock.sendall(b"".join(flow.subscriptions(index // flow.subscribers)))
            wire.round_trip(sock)
        server.settle()
        for sock in subscribers:
            wire.drain(sock)
        cast = _Cast(flow, server, Counters(flow.groups, len(subscribers)))
        if subscribers:
            cast.subscriber = Worker("the subscriber", _receive, subscribers, cast.counters)
            workers.append(cast.subscriber)
        for group in range(flow.groups):
            sock = stack.enter_context(closing(wire.connect(server.address)))
            publisher = Worker("a publisher", _publish, sock, flow, group, cast.counters)
            cast.publishers.append(publisher)
            workers.append(publisher)
        yield cast


def _publish(
    pipe: Connection, sock: socket.socket, flow: Flow, group: int, counters: Counters
) -> None:
    """Publish for the requested seconds, until dismissed (publisher process)."""
    sock.settimeout(None)  # with a time-out, Python polls the socket before every call
    endless = itertools.cycle(
        [(chunk, flow.delivered_bytes(chunk) * flow.copies) for chunk in flow.chunks(group)]
    )
    while True:
        seconds: float = pipe.recv()
        messages = 0
        started_ns = time.monotonic_ns()
        end_ns = started_ns + int(seconds * 1e9)
        while time.monotonic_ns() < end_ns:
            chunk, delivered_bytes = next(endless)
            if flow.rate_max:
                _await_turn(started_ns, messages / flow.rate_max)
            _await_window(counters, group, flow.members(group))
            counters.offered[group] += delivered_bytes
            sock.sendall(chunk.data)
            messages += chunk.messages
        wire.round_trip(sock)
        pipe.send(_Report(messages, started_ns, time.monotonic_ns()))


def _await_turn(started_ns: int, due_s: float) -> None:
    """Sleep until `due_s` after the start, if that is still to come."""
    time.sleep(max(0.0, due_s - (time.monotonic_ns() - started_ns) / 1e9))


def _await_window(counters: Counters, group: int, subscribers: slice) -> None:
    stalled_at = time.monotonic() + STALL_TIMEOUT_S
    while counters.group_outstanding_bytes(group, subscribers) > WINDOW_BYTES:
        if time.monotonic() > stalled_at:
            raise ScenarioError("the subscribers have stopped receiving")
        time.sleep(_POLL_S)


def _receive(pipe: Connection, socks: Sequence[socket.socket], counters: Counters) -> None:
    """Count bytes until dismissed; on request, settle and answer (subscriber process)."""
    buffer = memoryview(bytearray(_RECEIVE_BYTES))
    by_fd = {sock.fileno(): (index, sock) for index, sock in enumerate(socks)}
    poller = select.epoll()
    poller.register(pipe.fileno(), select.EPOLLIN)
    for fd, (_, sock) in by_fd.items():
        sock.settimeout(None)
        poller.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poller.poll():
            if fd == pipe.fileno():
                pipe.recv()
                pipe.send(
                    [counters.received[index] + wire.drain(sock) for index, sock in by_fd.values()]
                )
                continue
            index, sock = by_fd[fd]
            counters.received[index] += _receive_some(sock, buffer)
        counters.last_byte_ns = time.monotonic_ns()


def _receive_some(sock: socket.socket, buffer: memoryview) -> int:
    count = sock.recv_into(buffer)
    if not count:
        raise ScenarioError("the server closed a subscriber")
    if isinstance(sock, ssl.SSLSocket):
        # Decrypted bytes inside the TLS socket would not wake the poller.
        while pending := sock.pending():
            count += sock.recv_into(buffer, pending)
    return count
