"""Many consumers of one stream: the cost of a message that a tenth of them gets."""

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange
from bench.cycle import Cycle
from bench.jetstream.api import asking
from bench.jetstream.publish import arrivals
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

_INBOX = b"_INBOX.fAIwrFpQNsPhVcCdLbO4Xy"
_WINDOW = 100
_MARK = b" $JS.ACK."
_RECEIVE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ManyConsumers:
    """Push consumers, each with its own filter, while messages are published."""

    fresh_server: ClassVar[bool] = False
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    consumers: int = 1_000
    shares: int = 10
    """Parts of the subjects; each consumer's filter matches one part."""
    subjects: int = 1_000
    messages: int = 4_000

    @property
    def deliveries(self) -> int:
        """Return the number of deliveries in a round."""
        return self.messages * (self.consumers // self.shares)

    def run(self, server: Server, seconds: float) -> Measurement:
        """Publish and wait for the last delivery; return the figures of a delivery.

        Raises:
            ScenarioError: deliveries are missing.
        """
        with asking(server) as api, ExitStack() as stack:
            api.create_stream("CROWD", ["crowd.>"], storage="memory")
            receiver, sender = (
                stack.enter_context(closing(wire.connect(server.address))) for _ in range(2)
            )
            # Only a subscription to the very subject counts as interest for a consumer.
            receiver.sendall(
                b"".join(frames.sub(b"deliver.%d" % n, b"%d" % n) for n in range(self.consumers))
            )
            wire.round_trip(receiver)
            for number in range(self.consumers):
                api.create_consumer(
                    "CROWD",
                    f"c{number}",
                    deliver_subject=f"deliver.{number}",
                    filter_subject=f"crowd.{number % self.shares}.>",
                    ack_policy="none",
                )
            workers = stack.enter_context(staff())
            workers.append(Worker("the receiver", _count, receiver, self.deliveries))
            workers.append(Worker("the publisher", _publish, sender, self))
            before = Reading.take(server, workers)
            started_ns = time.monotonic_ns()
            workers[1].ask("publish")
            ended_ns = workers[0].answer(seconds + 3 * STALL_TIMEOUT_S)
            after = Reading.take(server, workers)
            api.ask("STREAM.DELETE.CROWD")
        return figures(before, after, self.deliveries, (ended_ns - started_ns) / 1e9)

    def frames(self) -> Sequence[bytes]:
        """Return the messages of a round."""
        each = self.subjects // self.shares
        return [
            frames.pub(
                b"crowd.%d.%d" % (index % self.shares, index // self.shares % each),
                b"x" * 128,
                reply=_INBOX,
            )
            for index in range(self.messages)
        ]


def _publish(pipe: Connection, sock: socket.socket, scenario: ManyConsumers) -> None:
    sock.sendall(frames.sub(_INBOX, b"1"))
    wire.round_trip(sock)
    sock.settimeout(None)
    cycle, answers = Cycle(scenario.frames()), arrivals(sock, b'"seq":')
    pipe.recv()
    for _ in range(scenario.messages // _WINDOW):
        exchange(sock, cycle, answers, _WINDOW, 0)


def _count(pipe: Connection, sock: socket.socket, expected: int) -> None:
    sock.settimeout(None)
    buffer = bytearray(_RECEIVE_BYTES)
    rest, got = b"", 0
    while got < expected:
        size = sock.recv_into(buffer)
        if not size:
            raise ScenarioError("the server closed the receiver")
        data = rest + buffer[:size]
        got += data.count(_MARK)
        rest = data[-(len(_MARK) - 1) :]
    pipe.send(time.monotonic_ns())
