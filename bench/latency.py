"""Request and reply through the server: the scenarios that measure latency.

The loop is closed: a new request leaves when a reply comes in. Requester and responder are one
connection each, so replies come in the order of the requests and need no parsing. Every
request has a reply subject of its own under the requester's inbox, as client libraries do it.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, stats, wire
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

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
            _measure(server, workers, WARM_UP_S)
            return _measure(server, workers, seconds)


def _measure(server: Server, workers: list[Worker], seconds: float) -> Measurement:
    before = Reading.take(server, workers)
    workers[-1].ask(seconds)
    started = time.monotonic()
    latencies_ns: list[int] = sorted(workers[-1].answer(seconds + STALL_TIMEOUT_S))
    elapsed_s = time.monotonic() - started
    after = Reading.take(server, workers)
    return {
        **figures(before, after, len(latencies_ns), elapsed_s),
        "p50_us": stats.percentile(latencies_ns, 50) / 1e3,
        "p99_us": stats.percentile(latencies_ns, 99) / 1e3,
    }


def _reply_subjects() -> list[bytes]:
    return frames.numbered(_INBOX, _DISTINCT_REPLIES)


class _Endless:
    """Equally long frames in a row, taken in turns and from the start again at the end."""

    def __init__(self, sequence: list[bytes]) -> None:
        self._count = len(sequence)
        self._frame_bytes = len(sequence[0])
        # Twice in a row, so that what runs over the end is still one slice.
        self._data = memoryview(b"".join(sequence) * 2)
        self._next = 0

    def take(self, count: int) -> memoryview:
        start = self._next
        self._next = (start + count) % self._count
        return self._data[start * self._frame_bytes : (start + count) * self._frame_bytes]


def _respond(_pipe: Connection, sock: socket.socket) -> None:
    """Answer every request until dismissed (responder process)."""
    subjects = _reply_subjects()
    replies = _Endless([frames.pub(subject, _PAYLOAD) for subject in subjects])
    request_bytes = len(frames.msg(_SUBJECT, b"1", _PAYLOAD, reply=subjects[0]))
    for count in _arrivals(sock, request_bytes):
        sock.sendall(replies.take(count))


def _request(pipe: Connection, sock: socket.socket, in_flight: int) -> None:
    """Serve "request for so many seconds" until dismissed (requester process)."""
    subjects = _reply_subjects()
    requests = _Endless([frames.pub(_SUBJECT, _PAYLOAD, reply=name) for name in subjects])
    arrivals = _arrivals(sock, len(frames.msg(subjects[0], b"1", _PAYLOAD)))
    while True:
        seconds: float = pipe.recv()
        end_ns = time.monotonic_ns() + int(seconds * 1e9)
        pipe.send(_exchange(sock, requests, arrivals, in_flight, end_ns))


def _exchange(
    sock: socket.socket, requests: _Endless, arrivals: Iterator[int], in_flight: int, end_ns: int
) -> list[int]:
    """Keep requests in flight until the time is over; return every latency in nanoseconds."""
    latencies_ns: list[int] = []
    sent_ns = [time.monotonic_ns()] * in_flight
    sock.sendall(requests.take(in_flight))
    answered = 0
    for count in arrivals:
        now_ns = time.monotonic_ns()
        latencies_ns.extend(now_ns - start_ns for start_ns in sent_ns[answered : answered + count])
        answered += count
        if now_ns < end_ns:
            sent_ns.extend([now_ns] * count)
            sock.sendall(requests.take(count))
        elif answered == len(sent_ns):
            break
    return latencies_ns


def _arrivals(sock: socket.socket, frame_bytes: int) -> Iterator[int]:
    """Yield, read by read, how many whole frames have come in since the last time."""
    buffer = memoryview(bytearray(_RECEIVE_BYTES))
    partial_bytes = 0
    while True:
        count_bytes = sock.recv_into(buffer)
        if not count_bytes:
            raise ScenarioError("the server closed a connection")
        # The server's own PING, which measures the round trip, is no message. Should a read cut
        # one in two, every later frame counts as whole six bytes early, which changes nothing.
        pings = bytes(buffer[:count_bytes]).count(wire.PING)
        count, partial_bytes = divmod(
            partial_bytes + count_bytes - pings * len(wire.PING), frame_bytes
        )
        if count:
            yield count
