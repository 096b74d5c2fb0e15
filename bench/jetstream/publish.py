"""Publishing into streams, with an acknowledgement of each message or without.

One process publishes with a window: a fixed number of messages is unacknowledged, and each
acknowledgement sends the next message. This is a closed loop, like that in client libraries: a
server that stalls gets less. At the end the streams must report every message that was sent.
"""

import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange, measure
from bench.cycle import ROUND, Cycle
from bench.jetstream.api import Api, asking
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import Worker, staff

WARM_UP_S = 0.3
STREAM = "BENCH"
_INBOX = b"_INBOX.fAIwrFpQNsPhVcCdLbO4Xy"
_DISTINCT = 20_000
"""Number of prepared frames with different subjects, ids or replies."""
_MARK = b'"seq":'
"""Bytes that occur once per acknowledgement, because the fields of a PubAck have a fixed order."""
_RECEIVE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class StreamPublish:
    """Messages into one stream or several, with `window` of them unacknowledged."""

    fresh_server: ClassVar[bool] = False
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    window: int
    storage: str = "file"
    bytes_min: int = 128
    bytes_max: int = 128
    subjects: int = 1
    streams: int = 1
    """Streams that are published to in turn, each with subjects of its own."""
    own_reply: bool = False
    """Each message has its own reply subject, under one wildcard inbox."""
    message_ids: bool = False
    """Each message has a `Nats-Msg-Id` of its own."""
    per_subject: int = -1
    """`max_msgs_per_subject` of the streams; -1 is unlimited."""
    sync_always: bool = False
    """Configure nats-server to sync before it acknowledges, as midge does by default."""

    @property
    def configuration(self) -> str:
        """Return the configuration file of both servers."""
        return "jetstream {sync_interval: always}\n" if self.sync_always else ""

    def run(self, server: Server, seconds: float) -> Measurement:
        """Publish for the given time and return rate, CPU and latency percentiles.

        Raises:
            ScenarioError: an acknowledgement is an error, or a message is not in its stream.
        """
        with asking(server) as api, ExitStack() as stack:
            self.prepare(api)
            workers = stack.enter_context(staff())
            sock = stack.enter_context(closing(wire.connect(server.address)))
            workers.append(Worker("the publisher", _publish, sock, self))
            warm, _ = measure(server, workers, WARM_UP_S)
            count, measurement = measure(server, workers, seconds)
            self.check(api, warm + count)
        return measurement

    def prepare(self, api: Api) -> None:
        """Create the streams."""
        for number, name in enumerate(self.names()):
            api.create_stream(
                name,
                [f"js.{number:03d}.>"],
                storage=self.storage,
                max_msgs_per_subject=self.per_subject,
            )

    def names(self) -> list[str]:
        """Return the names of the streams."""
        return [f"{STREAM}{number:03d}" for number in range(self.streams)]

    def check(self, api: Api, published: int) -> None:
        """Compare the contents of the streams with the published messages, and remove the streams.

        Raises:
            ScenarioError: there is a difference.
        """
        held = [api.ask(f"STREAM.INFO.{name}")["state"] for name in self.names()]
        taken = sum(state["last_seq"] for state in held)
        messages = sum(state["messages"] for state in held)
        expected = self.subjects if self.per_subject == 1 else published
        if taken != published or messages != expected:
            raise ScenarioError(f"{published} published, {taken} taken, {messages} held")
        for name in self.names():
            api.ask(f"STREAM.DELETE.{name}")

    def frames(self) -> list[bytes]:
        """Return the frames that the publisher sends repeatedly."""
        choose = random.Random(self.name)
        subjects = [
            subject
            for index in range(self.subjects)
            for subject in (b"js.%03d.%06d" % (n, index) for n in range(self.streams))
        ]
        varied = self.own_reply or self.message_ids or self.bytes_min != self.bytes_max
        count = max(_DISTINCT if varied else self.window, len(subjects), 2 * self.window)
        return [
            frames.pub(
                subjects[index % len(subjects)],
                b"x" * choose.randint(self.bytes_min, self.bytes_max),
                reply=_INBOX + (b".%06d" % index if self.own_reply else b""),
                headers=_message_id(index) if self.message_ids else b"",
            )
            for index in range(count)
        ]


def _message_id(index: int) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: %06d-%b\r\n\r\n" % (index, ROUND)


def _publish(pipe: Connection, sock: socket.socket, scenario: StreamPublish) -> None:
    """Publish for the requested seconds, until dismissed (publisher process)."""
    sock.sendall(frames.sub(_INBOX + (b".*" if scenario.own_reply else b""), b"1"))
    wire.round_trip(sock)
    sock.settimeout(None)
    cycle = Cycle(scenario.frames())
    answers = arrivals(sock, _MARK)
    while True:
        seconds: float = pipe.recv()
        end_ns = time.monotonic_ns() + int(seconds * 1e9)
        pipe.send(exchange(sock, cycle, answers, scenario.window, end_ns))


def arrivals(sock: socket.socket, mark: bytes) -> Iterator[int]:
    """Yield, read by read, the number of new answers; each has `mark` once.

    Raises:
        ScenarioError: one of them is an error, or the server closed the connection.
    """
    buffer = bytearray(_RECEIVE_BYTES)
    rest = b""
    while True:
        size = sock.recv_into(buffer)
        if not size:
            raise ScenarioError("the server closed a connection")
        data = rest + buffer[:size]
        error = data.find(b'"error"')
        if error >= 0:
            text = bytes(data[max(0, error - 150) : error + 150])
            raise ScenarioError(f"an acknowledgement is an error: {text!r}")
        if count := data.count(mark):
            yield count
        rest = _unmatched_tail(data, mark)


def _unmatched_tail(data: bytes, mark: bytes) -> bytes:
    """Return the end of `data` in which a mark may have begun; never a whole one."""
    return bytes(data[-(len(mark) - 1) :])
