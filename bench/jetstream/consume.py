"""Reading a stream: pull with and without acknowledgements, push, ordered, and one at a time.

The stream is filled once per server; each round makes a consumer, reads all messages and deletes
it. A delivery is counted by its reply subject, `$JS.ACK.…`, which every one has exactly once.
"""

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange, measure, percentiles
from bench.cycle import Cycle
from bench.jetstream.api import Api, asking
from bench.jetstream.publish import arrivals
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

STREAM = "READ"
_INBOX = b"_INBOX.fAIwrFpQNsPhVcCdLbO4Xy"
_MARK = b" $JS.ACK."
_FILL_WINDOW = 2_000
_RECEIVE_BYTES = 1024 * 1024
_ACK = b" 4\r\n+ACK\r\n"
_REPLY = re.compile(rb" (\$JS\.ACK\.[^ ]+) ")
FLOW_CONTROL = re.compile(rb" (\$JS\.FC\.[^ ]+) ")
_BATCHES_AHEAD = 2
"""Pull requests that wait at a time, so that the consumer is never without one."""


@dataclass(frozen=True, kw_only=True)
class StreamRead:
    """One consumer that reads a stream from its first message to its last."""

    fresh_server: ClassVar[bool] = False
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    messages: int = 500_000
    payload_bytes: int = 128
    storage: str = "file"
    batch: int = 0
    """Messages per pull request; 0 is a push consumer."""
    acks: bool = False
    """Acknowledge each message."""
    ordered: bool = False
    """Flow control, heartbeats and replicas in memory, like ordered consumers."""
    max_messages: int = 0
    """End a round after this many messages; 0 reads all."""

    def run(self, server: Server, seconds: float) -> Measurement:
        """Read the stream and return the figures.

        Raises:
            ScenarioError: messages are missing, or come twice.
        """
        with asking(server) as api, ExitStack() as stack:
            fill(api, server, self)
            sock = stack.enter_context(closing(wire.connect(server.address)))
            workers = stack.enter_context(staff())
            workers.append(Worker("the reader", _read, sock, self))
            consumer = f"c{time.monotonic_ns()}"
            workers[0].ask("subscribe")
            workers[0].answer()
            before = Reading.take(server, workers)
            started_ns = time.monotonic_ns()
            if not self.batch:  # pushed messages come at once
                workers[0].ask(consumer)
            api.create_consumer(STREAM, consumer, **self.settings())
            if self.batch:
                workers[0].ask(consumer)
            ended_ns, waits_ns = workers[0].answer(seconds + STALL_TIMEOUT_S)
            after = Reading.take(server, workers)
            self._check(api, consumer)
            api.ask(f"CONSUMER.DELETE.{STREAM}.{consumer}")
        elapsed_s = (ended_ns - started_ns) / 1e9
        return {**figures(before, after, self.count, elapsed_s), **percentiles(waits_ns)}

    @property
    def count(self) -> int:
        """Return the number of messages in a round."""
        return self.max_messages or self.messages

    def settings(self) -> Mapping[str, object]:
        """Return the configuration of the consumer."""
        found: dict[str, object] = {"ack_policy": "explicit" if self.acks else "none"}
        if self.acks:
            found["max_ack_pending"] = -1
        if not self.batch:
            found["deliver_subject"] = _INBOX.decode()
        if self.ordered:
            found |= {"flow_control": True, "idle_heartbeat": 5_000_000_000, "mem_storage": True}
            found |= {"num_replicas": 1, "max_deliver": 1}
        return found

    def _check(self, api: Api, consumer: str) -> None:
        info = api.ask(f"CONSUMER.INFO.{STREAM}.{consumer}")
        if info["delivered"]["consumer_seq"] != self.count or info["num_redelivered"]:
            raise ScenarioError(f"{self.count} messages expected, the consumer says {info}")


def fill(api: Api, server: Server, scenario: StreamRead) -> None:
    """Make the stream with its messages, unless it exists.

    Raises:
        ScenarioError: not all of them could be published.
    """
    wanted = {"messages": scenario.messages, "size": scenario.payload_bytes}
    names = api.ask("STREAM.NAMES")["streams"] or ()
    if STREAM in names:
        config = api.ask(f"STREAM.INFO.{STREAM}")["config"]
        if config.get("description") == json.dumps(wanted):
            return
    api.create_stream(STREAM, ["rd.>"], storage=scenario.storage, description=json.dumps(wanted))
    with closing(wire.connect(server.address)) as sock:
        sock.sendall(frames.sub(_INBOX, b"1"))
        wire.round_trip(sock)
        pub = frames.pub(b"rd.a", b"x" * scenario.payload_bytes, reply=_INBOX)
        cycle = Cycle([pub] * 2 * _FILL_WINDOW)
        answers = arrivals(sock, b'"seq":')
        for _ in range(scenario.messages // _FILL_WINDOW):
            exchange(sock, cycle, answers, _FILL_WINDOW, 0)
    if api.messages(STREAM) != scenario.messages:
        raise ScenarioError(f"{api.messages(STREAM)} of {scenario.messages} messages are there")


def _read(pipe: Connection, sock: socket.socket, scenario: StreamRead) -> None:
    """Subscribe on request, then read from the named consumer (reader process)."""
    pipe.recv()
    sock.sendall(frames.sub(_INBOX, b"1"))
    wire.round_trip(sock)
    sock.settimeout(None)
    pipe.send("subscribed")
    consumer: str = pipe.recv()
    reads = _one_at_a_time if scenario.batch == 1 else _pushed if not scenario.batch else _pulled
    waits_ns = reads(sock, scenario, consumer)
    ended_ns = time.monotonic_ns()
    if scenario.acks:
        wire.round_trip(sock)
    pipe.send((ended_ns, waits_ns))


def _pulled(sock: socket.socket, scenario: StreamRead, consumer: str) -> list[int]:
    request = _next_request(consumer, scenario.batch)
    sock.sendall(request * _BATCHES_AHEAD)
    asked = _BATCHES_AHEAD * scenario.batch
    got = 0
    for count, data in deliveries(sock):
        got += count
        if scenario.acks:
            sock.sendall(acknowledgements(data))
        if got >= scenario.count:
            break
        while asked - got < _BATCHES_AHEAD * scenario.batch and asked < scenario.count:
            sock.sendall(request)
            asked += scenario.batch
    return _finished(got, scenario)


def _pushed(sock: socket.socket, scenario: StreamRead, _consumer: str) -> list[int]:
    got = 0
    for count, data in deliveries(sock):
        got += count
        if scenario.acks:
            sock.sendall(acknowledgements(data))
        if scenario.ordered:
            for reply in FLOW_CONTROL.findall(data):
                sock.sendall(frames.pub(reply, b""))
        if got >= scenario.count:
            break
    return _finished(got, scenario)


def _one_at_a_time(sock: socket.socket, scenario: StreamRead, consumer: str) -> list[int]:
    request = _next_request(consumer, 1)
    found = deliveries(sock)
    waits_ns = []
    for _ in range(scenario.count):
        asked_ns = time.monotonic_ns()
        sock.sendall(request)
        _, data = next(found)
        waits_ns.append(time.monotonic_ns() - asked_ns)
        if scenario.acks:
            sock.sendall(acknowledgements(data))
    return waits_ns


def _finished(got: int, scenario: StreamRead) -> list[int]:
    if got != scenario.count:
        raise ScenarioError(f"{scenario.count} messages expected, got {got}")
    return []


def _next_request(consumer: str, batch: int) -> bytes:
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}".encode()
    return frames.pub(subject, b'{"batch":%d}' % batch, reply=_INBOX)


def acknowledgements(data: bytes) -> bytes:
    """Return the acks for all messages whose first line is in `data`."""
    replies = _REPLY.findall(data)
    return b"PUB " + (_ACK + b"PUB ").join(replies) + _ACK if replies else b""


def deliveries(sock: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Yield the number of deliveries that a read completed, and the bytes with their first lines.

    Raises:
        ScenarioError: the server closed the connection.
    """
    buffer = bytearray(_RECEIVE_BYTES)
    rest = b""
    while True:
        size = sock.recv_into(buffer)
        if not size:
            raise ScenarioError("the server closed a connection")
        # A first line that is not whole waits for its end.
        data = rest + buffer[:size]
        whole = data.rfind(b"\n") + 1
        data, rest = data[:whole], data[whole:]
        if count := data.count(_MARK):
            yield count, data


@dataclass(frozen=True, kw_only=True)
class DirectGet:
    """Direct gets of the last message of a subject, one at a time."""

    fresh_server: ClassVar[bool] = False
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    subjects: int = 1_000

    def run(self, server: Server, seconds: float) -> Measurement:
        """Ask for the given time and return rate, CPU and latency percentiles.

        Raises:
            ScenarioError: an answer is missing.
        """
        with asking(server) as api, ExitStack() as stack:
            api.create_stream("DIRECT", ["dg.>"], allow_direct=True)
            sock = stack.enter_context(closing(wire.connect(server.address)))
            workers = stack.enter_context(staff())
            workers.append(Worker("the reader", _get_directly, sock, self))
            measure(server, workers, seconds)  # the warm-up
            _, measurement = measure(server, workers, seconds)
            api.ask("STREAM.DELETE.DIRECT")
        return measurement


def _get_directly(pipe: Connection, sock: socket.socket, scenario: DirectGet) -> None:
    """Send direct gets for the requested seconds, until dismissed (reader process)."""
    sock.sendall(frames.sub(_INBOX, b"1"))
    wire.round_trip(sock)
    sock.settimeout(None)
    subjects = frames.numbered(b"dg", scenario.subjects)
    stored = [frames.pub(name, b"x" * 128, reply=_INBOX) for name in subjects]
    exchange(sock, Cycle(stored), arrivals(sock, b'"seq":'), len(stored), 0)
    asked = [
        frames.pub(b"$JS.API.DIRECT.GET.DIRECT." + name, b"", reply=_INBOX) for name in subjects
    ]
    cycle, answers = Cycle(asked), arrivals(sock, b"Nats-Sequence:")
    while True:
        seconds: float = pipe.recv()
        pipe.send(exchange(sock, cycle, answers, 1, time.monotonic_ns() + int(seconds * 1e9)))
