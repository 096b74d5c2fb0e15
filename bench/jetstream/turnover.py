"""Consumers that are made and deleted, and the cost of idle ones."""

import json
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange, measure
from bench.connections import settled_rss_bytes
from bench.cycle import Cycle
from bench.jetstream.api import asking
from bench.jetstream.publish import WARM_UP_S, arrivals
from bench.metrics import Measurement
from bench.servers import Server
from bench.workers import Worker, staff

_STREAM = "TURN"
_INBOX = b"_INBOX.fAIwrFpQNsPhVcCdLbO4Xy"
_DELIVER = b"_INBOX.mWq0ZtKcRb3EoVh7PnLsXa"
_NAMES = 1_000
_THERE = 256
"""Consumers made ahead, because nats-server answers simultaneous requests in any order.

With other work, it answered a request after 70 later ones. A request that removes a consumer comes
513 requests after the one that makes it; before it, the server would refuse it (10014).
"""
_MARK = b'{"type":'
_ORDERED: Mapping[str, object] = {
    "deliver_subject": _DELIVER.decode(),
    "ack_policy": "none",
    "max_deliver": 1,
    "flow_control": True,
    "idle_heartbeat": 5_000_000_000,
    "inactive_threshold": 300_000_000_000,
    "mem_storage": True,
    "num_replicas": 1,
}
"""The configuration of clients' ordered consumers."""


@dataclass(frozen=True, kw_only=True)
class ConsumerTurnover:
    """Ordered consumers, each made and deleted, with `window` requests unanswered."""

    fresh_server: ClassVar[bool] = False
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    window: int

    def run(self, server: Server, seconds: float) -> Measurement:
        """Make and delete for the given time; return the figures of one consumer.

        Raises:
            ScenarioError: a request is refused.
        """
        with asking(server) as api, ExitStack() as stack:
            api.create_stream(_STREAM, ["turn.>"])
            workers = stack.enter_context(staff())
            sock = stack.enter_context(closing(wire.connect(server.address)))
            workers.append(Worker("the client", _make_and_delete, sock, self.window))
            measure(server, workers, WARM_UP_S)
            _, requests = measure(server, workers, seconds)
            api.ask(f"STREAM.DELETE.{_STREAM}")
        # A consumer takes two requests.
        each = {"rate": requests["rate"] / 2, "cpu_us": requests["cpu_us"] * 2}
        return {**requests, **each}


def _make_and_delete(pipe: Connection, sock: socket.socket, window: int) -> None:
    """Make and delete consumers for the requested seconds, until dismissed (client process)."""
    sock.sendall(frames.sub(_INBOX, b"1") + frames.sub(_DELIVER, b"2"))
    wire.round_trip(sock)
    sock.settimeout(None)
    made, deleted = zip(*(_pair(f"o{number:03d}") for number in range(_NAMES)), strict=True)
    answers = arrivals(sock, _MARK)
    exchange(sock, Cycle(made[:_THERE]), answers, _THERE, 0)
    pairs = zip(made[_THERE:] + made[:_THERE], deleted, strict=True)
    cycle = Cycle([request for pair in pairs for request in pair])
    while True:
        seconds: float = pipe.recv()
        pipe.send(exchange(sock, cycle, answers, window, time.monotonic_ns() + int(seconds * 1e9)))


def _pair(name: str) -> tuple[bytes, bytes]:
    """Return the requests that make a consumer and delete it."""
    config = {"name": name, "filter_subject": "turn.none", **_ORDERED}
    request = {"stream_name": _STREAM, "config": config, "action": "create"}
    created = f"$JS.API.CONSUMER.CREATE.{_STREAM}.{name}.turn.none".encode()
    deleted = f"$JS.API.CONSUMER.DELETE.{_STREAM}.{name}".encode()
    return (
        frames.pub(created, json.dumps(request).encode(), reply=_INBOX),
        frames.pub(deleted, b"", reply=_INBOX),
    )


@dataclass(frozen=True, kw_only=True)
class IdleConsumers:
    """Memory of an unused consumer, and the rate at which consumers are made."""

    fresh_server: ClassVar[bool] = True
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    count: int = 10_000
    streams: int = 10
    """nats-server allows a stream 1,000 consumers."""
    storage: str = "file"

    def run(self, server: Server, _seconds: float) -> Measurement:
        """Make durable pull consumers, each of one subject; the time does not matter.

        Raises:
            ScenarioError: the server refuses a consumer.
        """
        with asking(server) as api:
            for number in range(self.streams):
                api.create_stream(f"IDLE{number}", [f"idle.{number}.>"], storage=self.storage)
            before_bytes = settled_rss_bytes(server)
            for number in range(self.count):
                stream = number % self.streams
                api.create_consumer(
                    f"IDLE{stream}",
                    f"worker{number:05d}",
                    durable_name=f"worker{number:05d}",
                    filter_subject=f"idle.{stream}.{number:05d}",
                    ack_policy="explicit",
                )
            return {"rss_bytes": (settled_rss_bytes(server) - before_bytes) / self.count}
