"""Request and reply through the server: the scenarios that measure latency.

The loop is closed: each reply sends a new request. Requester and responder have one connection
each, so replies come in the order of the requests and need no parsing. Every request has its own
reply subject under the requester's inbox, as in client libraries.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange, measure
from bench.cycle import Cycle
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import Worker, staff

WARM_UP_S = 0.3
_INBOX = b"_INBOX.fAIwrFpQNsPhVcCdLbO4Xy"
_SUBJECT = b"load.service"
_PAYLOAD = b"x" * 16
_DISTINCT_REPLIES = 10_000
_RECEIVE_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class RequestReply:
    """Requests with a fixed number in flight."""

    fresh_server: ClassVar[bool] = False

    name: str
    title: str
    in_flight: int

    def run(self, server: Server, seconds: float) -> Measurement:
        """Send requests for the given time and return rate, CPU and latency percentiles.

        Raises:
            ScenarioError: a reply is missing.
        """
        with (
            staff() as workers,
            closing(wire.connect(server.address)) as responder,
            closing(wire.connect(server.address)) as requester,
        ):
            responder.sendall(frames.sub(_SUBJECT, b"1"))
            wire.round_trip(responder)
            requester.sendall(frames.sub(_INBOX + b".*", b"1"))
            wire.round_trip(requester)
            for sock in (responder, requester):
                sock.settimeout(None)
            workers.append(Worker("the responder", _respond, responder))
            workers.append(Worker("the requester", _request, requester, self.in_flight))
            measure(server, workers, WARM_UP_S)
            _, measurement = measure(server, workers, seconds)
        return measurement


def _reply_subjects() -> list[bytes]:
    return frames.numbered(_INBOX, _DISTINCT_REPLIES)


def _respond(_pipe: Connection, sock: socket.socket) -> None:
    """Answer every request until dismissed (responder process)."""
    subjects = _reply_subjects()
    replies = Cycle([frames.pub(subject, _PAYLOAD) for subject in subjects])
    request_bytes = len(frames.msg(_SUBJECT, b"1", _PAYLOAD, reply=subjects[0]))
    for count in _arrivals(sock, request_bytes):
        sock.sendall(replies.take(count))


def _request(pipe: Connection, sock: socket.socket, in_flight: int) -> None:
    """Send requests for the requested seconds, until dismissed (requester process)."""
    subjects = _reply_subjects()
    requests = Cycle([frames.pub(_SUBJECT, _PAYLOAD, reply=name) for name in subjects])
    arrivals = _arrivals(sock, len(frames.msg(subjects[0], b"1", _PAYLOAD)))
    while True:
        seconds: float = pipe.recv()
        end_ns = time.monotonic_ns() + int(seconds * 1e9)
        pipe.send(exchange(sock, requests, arrivals, in_flight, end_ns))


def _arrivals(sock: socket.socket, frame_bytes: int) -> Iterator[int]:
    """Yield, read by read, the number of whole frames since the last time."""
    buffer = memoryview(bytearray(_RECEIVE_BYTES))
    partial_bytes = 0
    while True:
        count_bytes = sock.recv_into(buffer)
        if not count_bytes:
            raise ScenarioError("the server closed a connection")
        # The server's own PING, which measures the round trip, is no message. If a read cuts one in
        # two, every later frame counts as whole six bytes early, which has no effect.
        pings = bytes(buffer[:count_bytes]).count(wire.PING)
        count, partial_bytes = divmod(
            partial_bytes + count_bytes - pings * len(wire.PING), frame_bytes
        )
        if count:
            yield count
