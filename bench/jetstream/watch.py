"""Watching a large key-value bucket: the times of the first and last key, and others' waits."""

import socket
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import ClassVar

from bench import frames, wire
from bench.closed_loop import exchange
from bench.cycle import Cycle
from bench.jetstream.api import Api, asking
from bench.jetstream.consume import FLOW_CONTROL, deliveries
from bench.jetstream.publish import arrivals
from bench.meter import Reading, figures
from bench.metrics import Measurement, ScenarioError
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker, staff

_INBOX = b"_INBOX.fAIwrFpQNsPhVcCdLbO4Xy"
_FILL_WINDOW = 2_000
_FILL_PIECE = 100_000
_PING_EVERY_S = 0.001
_SETTLE_S = 0.2


@dataclass(frozen=True, kw_only=True)
class BucketWatch:
    """A watcher of all keys, as clients make it, while another connection sends PINGs.

    The bucket is filled once per server. `first_us` is the time from the request to the first key,
    and `max_us` the longest wait for a PONG meanwhile.
    """

    fresh_server: ClassVar[bool] = False
    jetstream: ClassVar[bool] = True

    name: str
    title: str
    history: int
    values: int = 1
    """The number of puts of each key."""
    keys: int = 1_000_000
    storage: str = "file"

    @property
    def bucket(self) -> str:
        """Return the name of the stream."""
        return f"KV_watch{self.history}"

    def run(self, server: Server, seconds: float) -> Measurement:
        """Watch until the last key has come and return the figures of a key.

        Raises:
            ScenarioError: keys are missing.
        """
        with asking(server) as api, ExitStack() as stack:
            self._fill(api, server)
            watcher, other = (
                stack.enter_context(closing(wire.connect(server.address))) for _ in range(2)
            )
            workers = stack.enter_context(staff())
            workers.append(Worker("the watcher", _watch, watcher, self.keys))
            workers.append(Worker("the other client", _ping, other))
            workers[0].answer()
            workers[1].answer()
            before = Reading.take(server, workers)
            started_ns = time.monotonic_ns()
            workers[0].ask("watch")
            self._create(api)
            first_ns, last_ns = workers[0].answer(seconds + STALL_TIMEOUT_S)
            after = Reading.take(server, workers)
            workers[1].ask("stop")
            longest_ns = workers[1].answer()
            api.ask(f"CONSUMER.DELETE.{self.bucket}.watcher")
        return {
            **figures(before, after, self.keys, (last_ns - started_ns) / 1e9),
            "first_us": (first_ns - started_ns) / 1e3,
            "max_us": longest_ns / 1e3,
        }

    def _create(self, api: Api) -> None:
        pending = api.ask(
            f"CONSUMER.CREATE.{self.bucket}.watcher.$KV.>",
            {
                "stream_name": self.bucket,
                "action": "create",
                "config": {
                    "name": "watcher",
                    "deliver_subject": _INBOX.decode(),
                    "deliver_policy": "last_per_subject",
                    "filter_subject": "$KV.>",
                    "ack_policy": "none",
                    "max_deliver": 1,
                    "flow_control": True,
                    "idle_heartbeat": 5_000_000_000,
                    "mem_storage": True,
                    "num_replicas": 1,
                },
            },
        )["num_pending"]
        if pending > self.keys:
            raise ScenarioError(f"{self.keys} keys, and {pending} are pending")

    def _fill(self, api: Api, server: Server) -> None:
        """Make the bucket with its keys, unless it exists."""
        if self.bucket in (api.ask("STREAM.NAMES")["streams"] or ()):
            return
        api.create_stream(
            self.bucket,
            [f"$KV.{self.bucket[3:]}.>"],
            storage=self.storage,
            max_msgs_per_subject=self.history,
            discard="new",
            allow_rollup_hdrs=True,
            allow_direct=True,
            deny_delete=True,
        )
        with closing(wire.connect(server.address)) as sock:
            sock.sendall(frames.sub(_INBOX, b"1"))
            wire.round_trip(sock)
            answers = arrivals(sock, b'"seq":')
            for _ in range(self.values):
                for start in range(0, self.keys, _FILL_PIECE):
                    cycle = Cycle(self._puts(start))
                    for _ in range(_FILL_PIECE // _FILL_WINDOW):
                        exchange(sock, cycle, answers, _FILL_WINDOW, 0)
        if api.messages(self.bucket) != self.keys * self.values:
            raise ScenarioError(f"{api.messages(self.bucket)} values are there")
        time.sleep(_SETTLE_S)

    def _puts(self, start: int) -> list[bytes]:
        prefix = f"$KV.{self.bucket[3:]}.key".encode()
        return [
            frames.pub(b"%b.%07d" % (prefix, number), b"x" * 32, reply=_INBOX)
            for number in range(start, start + _FILL_PIECE)
        ]


def _watch(pipe: Connection, sock: socket.socket, keys: int) -> None:
    """Receive `keys` keys; report the times of the first and the last (watcher process)."""
    sock.sendall(frames.sub(_INBOX, b"1"))
    wire.round_trip(sock)
    sock.settimeout(None)
    pipe.send("subscribed")
    pipe.recv()
    got, first_ns = 0, 0
    for count, data in deliveries(sock):
        first_ns = first_ns or time.monotonic_ns()
        got += count
        for reply in FLOW_CONTROL.findall(data):
            sock.sendall(frames.pub(reply, b""))
        if got >= keys:
            break
    pipe.send((first_ns, time.monotonic_ns()))


def _ping(pipe: Connection, sock: socket.socket) -> None:
    """Send PINGs until stopped; report the longest wait for a PONG (other client's process)."""
    wire.round_trip(sock)
    pipe.send("ready")
    longest_ns = 0
    while not pipe.poll(_PING_EVERY_S):
        asked_ns = time.monotonic_ns()
        wire.round_trip(sock)
        longest_ns = max(longest_ns, time.monotonic_ns() - asked_ns)
    pipe.send(longest_ns)
