"""The waits of messages that are not involved in a stream's work.

While a stream is written, purged, expired, compacted or read as a snapshot, four other connections
publish and receive 2,000 messages a second at fixed times: half of them on subjects that the stream
also takes, the other half on other subjects.
"""

import itertools
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange
from bench.counters import Counters
from bench.cycle import Cycle
from bench.jetstream.api import Api, asking
from bench.jetstream.publish import arrivals
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.open_loop import connected, percentiles, receive, send
from bench.open_loop import exchange as probed
from bench.servers import Server
from bench.workers import Worker, staff

STREAM = "WORK"
MILLION = 1_000_000

_WARM_UP_S = 1.0
_READY_WITHIN_S = 120.0
_INBOX = b"_INBOX.Jq8sVb2nKfWm0tXcZr4LdY"
_MARK = b'"seq":'
_WINDOW = 2_000
_DISTINCT = 20_000
_FLOOD_FRAMES = 5_000
_BYTES_MIN, _BYTES_MAX = 64, 192
_EXPIRY_S = 4
_POLL_S = 0.02
_CHUNK_BYTES = 128 * 1024
_RECEIVE_BYTES = 1024 * 1024
_WITHOUT_REPLY = 3  # words of a MSG line without reply: subject, sid and size


@dataclass(frozen=True, kw_only=True)
class Bystanders:
    """Two pairs of connections beside a stream that does one kind of work all the time."""

    rate: ClassVar[int] = 2_000

    name: str
    title: str
    work: "Work"
    storage: str = "file"
    settings: Mapping[str, object]
    """Settings of the stream, besides its subjects."""

    def subjects(self) -> list[bytes]:
        """Return the subject of each connection: two that the stream takes, two elsewhere."""
        return [b"js.probe.0", b"js.probe.1", b"no.probe.0", b"no.probe.1"]

    def order(self) -> list[int]:
        """Return the order in which the connections publish, each to the one before it."""
        return [0, 1, 2, 3]

    def run(self, server: Server, seconds: float) -> Measurement:
        """Measure for the given time; return latencies of both halves, and the work done.

        Raises:
            ScenarioError: a message is missing, or the stream has not done its work.
        """
        with ExitStack() as stack:
            api = stack.enter_context(asking(server))
            api.create_stream(STREAM, ["js.>"], storage=self.storage, **self.settings)
            workers = stack.enter_context(staff())
            socks = connected(server, stack, self.subjects())
            counters = Counters(1, 1)
            workers.append(Worker("the receiver", receive, socks, self.subjects()[0], counters))
            workers.append(Worker("the sender", send, self, socks, counters))
            workers.append(Worker("the stream's client", _work, server, self.work))
            client = workers[2]
            client.answer(_READY_WITHIN_S)
            probed(workers[0], workers[1], counters, _WARM_UP_S)
            before = Reading.take(server, workers)
            started_s = time.monotonic()
            done = _count(client)
            latencies = probed(workers[0], workers[1], counters, seconds)
            done = _count(client) - done
            elapsed_s = time.monotonic() - started_s
            after = Reading.take(server, workers)
            used = figures(before, after, max(done, 1), elapsed_s)
        with asking(server) as api:  # the worker may have left an answer unread on its connection
            api.ask(f"STREAM.DELETE.{STREAM}")
        if done == 0:
            raise ScenarioError(f"within {seconds:g} s there was nothing of: {self.title}")
        within = percentiles([*latencies[0], *latencies[1]])
        outside = percentiles([*latencies[2], *latencies[3]])
        return {
            **{f"same_{name}": value for name, value in within.items()},
            **{f"other_{name}": value for name, value in outside.items()},
            "done": float(done),
            "others_busy": used["others_busy"],
            "server_busy": used["server_busy"],
        }


def _count(client: Worker) -> int:
    """Return the work that the stream has done so far."""
    client.raise_failure()
    client.ask("count")
    done: int = client.answer()
    return done


@dataclass
class Client:
    """The client that gives a stream work: two connections, and a count of the work so far."""

    api: Api
    sock: socket.socket
    answers: Iterator[int]
    done: int = 0

    def publish(self, cycle: Cycle, count: int) -> None:
        """Publish `count` messages, a window of them at a time, each acknowledged."""
        for _ in range(count // _WINDOW):
            exchange(self.sock, cycle, self.answers, _WINDOW, 0)

    def held(self) -> int:
        """Return the number of messages in the stream."""
        return self.api.messages(STREAM)


Work = Callable[[Client], Iterator[None]]
"""Does a piece of work at each step, of some seconds at most, and counts the work."""


def lines(subjects: int, count: int = _DISTINCT, reply: bytes = _INBOX) -> list[bytes]:
    """Return messages; no two neighbours are alike."""
    choose = random.Random(subjects)
    return [
        frames.pub(
            b"js.%06d" % choose.randrange(subjects),
            b"x" * choose.randint(_BYTES_MIN, _BYTES_MAX),
            reply=reply,
        )
        for _ in range(count)
    ]


def flooded(client: Client) -> Iterator[None]:
    """Publish without asking for acknowledgements, as much as the server reads."""
    data = b"".join(lines(1_000, _FLOOD_FRAMES, b""))
    while True:
        client.sock.sendall(data)
        client.done += _FLOOD_FRAMES
        yield


def written(client: Client) -> Iterator[None]:
    """Publish with 2,000 messages unacknowledged."""
    cycle = Cycle(lines(1_000))
    while True:
        client.publish(cycle, _DISTINCT)
        client.done += _DISTINCT
        yield


def purged(client: Client) -> Iterator[None]:
    """Store a million messages and purge them; count the purges."""
    cycle = Cycle(lines(1_000))
    while True:
        client.publish(cycle, MILLION)
        if client.api.ask(f"STREAM.PURGE.{STREAM}")["purged"] < MILLION:
            raise ScenarioError("a purge has not met a million messages")
        client.done += 1
        yield


def expired(client: Client) -> Iterator[None]:
    """Store a million messages and wait until they have expired; count how often."""
    cycle = Cycle(lines(1_000))
    while True:
        client.publish(cycle, MILLION)
        while client.held() > MILLION // 10:  # the bystanders' own messages stay
            time.sleep(_POLL_S)
        client.done += 1
        yield


def compacted(client: Client) -> Iterator[None]:
    """Replace the messages of 100,000 subjects at random, which leaves each file mostly dead."""
    cycle = Cycle(lines(100_000, 200_000))
    while True:
        client.publish(cycle, _DISTINCT)
        client.done += _DISTINCT
        yield


def snapshotted(client: Client) -> Iterator[None]:
    """Read a stream of a million messages as a snapshot; count them."""
    client.publish(Cycle(lines(1_000)), MILLION)
    chunks = Chunks(client.sock)
    for number in itertools.count():
        inbox = b"%b.chunks.%d" % (_INBOX, number)
        client.sock.sendall(frames.sub(inbox, b"%d" % (number + 2)))
        wire.round_trip(client.sock)
        request = {"deliver_subject": inbox.decode(), "chunk_size": _CHUNK_BYTES}
        client.api.ask(f"STREAM.SNAPSHOT.{STREAM}", request)
        for reply in chunks.until_end():
            if reply:
                client.sock.sendall(frames.pub(reply, b""))
            yield
        client.sock.sendall(b"UNSUB %d\r\n" % (number + 2))
        client.done += 1


class Chunks:
    """The pieces of snapshots, as they come in."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = bytearray()

    def until_end(self) -> Iterator[bytes]:
        """Yield the ack subject of each piece, up to the empty message behind the last.

        The last piece may have none, which is b"".
        """
        while True:
            line, found, _ = self._data.partition(frames.CRLF)
            if found and bytes(line) == wire.PING.rstrip():
                self._sock.sendall(wire.PONG)
                del self._data[: len(wire.PING)]
                continue
            verb, *tokens = bytes(line).split(b" ")
            size = int(tokens[-1]) if found else 0
            end = len(line) + size + 2 * len(frames.CRLF)
            if not found or len(self._data) < end:
                self._receive()
                continue
            del self._data[:end]
            headers = int(tokens.pop(-2)) if verb == b"HMSG" else 0
            if size == headers:
                return
            yield tokens[2] if len(tokens) > _WITHOUT_REPLY else b""

    def _receive(self) -> None:
        data = self._sock.recv(_RECEIVE_BYTES)
        if not data:
            raise ScenarioError("the server closed the connection that reads a snapshot")
        self._data += data


def _work(pipe: Connection, server: Server, work: Work) -> None:
    """Work until the end; report the work done on request (process of the stream's client)."""
    with asking(server) as api, closing(wire.connect(server.address)) as sock:
        sock.sendall(frames.sub(_INBOX, b"1"))
        wire.round_trip(sock)
        sock.settimeout(None)
        client = Client(api, sock, arrivals(sock, _MARK))
        for number, _ in enumerate(work(client)):
            if number == 0:
                pipe.send("ready")
            while pipe.poll():
                pipe.recv()
                pipe.send(client.done)


CASES = (
    Bystanders(
        name="flooded",
        title="written at full rate, no acks asked for",
        work=flooded,
        settings={"max_msgs": 2 * MILLION},
    ),
    Bystanders(
        name="written",
        title="written with 2,000 messages on their way",
        work=written,
        settings={"max_msgs": 2 * MILLION},
    ),
    Bystanders(
        name="written_memory",
        title="the same, in memory",
        work=written,
        storage="memory",
        settings={"max_msgs": MILLION},
    ),
    Bystanders(name="purged", title="purged of a million messages", work=purged, settings={}),
    Bystanders(
        name="expired",
        title="a million messages expire",
        work=expired,
        settings={"max_age": _EXPIRY_S * 1_000_000_000},
    ),
    Bystanders(
        name="compacted",
        title="compacted: 100,000 subjects, the last of each",
        work=compacted,
        settings={"max_msgs_per_subject": 1},
    ),
    Bystanders(
        name="snapshotted",
        title="snapshots of a million messages",
        work=snapshotted,
        settings={},
    ),
)
