"""What a second worker adds: messages a second, and the wait for an answer that crosses.

    python -m bench.second_worker [--rounds N] [--seconds S] [--server COMMAND]

Two publishers send prepared lines with different subjects and without subscribers. That costs the
server several times as much CPU as it costs them, so the server is the bottleneck. With one worker,
both are its clients; with two workers, each has one. The latency is measured with one request at a
time, from a client of one worker to a client of the other, and within a single process.
"""

import argparse
import random
import shlex
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bench import frames, latency, servers, stats, wire
from bench.meter import Reading, figures
from bench.metrics import Measurement
from bench.workers import STALL_TIMEOUT_S, Worker, staff

PUBLISHERS = 2
SUBJECTS = 400_000
"""Subjects of one publisher: many times the server's cache of matched subjects."""

MIN_RATE = 1.4
MAX_P50 = 1.5
MIN_COST = 3.0
"""Least CPU time of the server, relative to its clients, for the rate to be the server's."""

_PAYLOAD = b"x" * 16
_CHUNK_BYTES = 64 * 1024
_SEAT_S = 0.2


@dataclass(frozen=True)
class Result:
    """One measurement with one worker and with two: all rounds of each."""

    title: str
    metric: str
    one: Sequence[Measurement]
    two: Sequence[Measurement]

    def ratio(self) -> float:
        """Return the median with two workers over the median with one."""
        one, two = (
            statistics.median(round_[self.metric] for round_ in rounds)
            for rounds in (self.one, self.two)
        )
        return stats.ratio(two, one)

    def cost(self) -> float:
        """Return the CPU time of the server over its clients' CPU time, with one worker."""
        return statistics.median(
            stats.ratio(round_["server_busy"], round_["clients_busy"]) for round_ in self.one
        )


def chunks(publisher: int) -> list[frames.Chunk]:
    """Return the chunks that a publisher sends repeatedly: each subject once, shuffled."""
    numbers = list(range(SUBJECTS))
    random.Random(publisher).shuffle(numbers)
    lines = [frames.pub(b"ever.%d.new.%d" % (publisher, number), _PAYLOAD) for number in numbers]
    return frames.packed(lines, _CHUNK_BYTES)


def publish(server: servers.Server, seconds: float) -> Measurement:
    """Publish with all publishers for `seconds`; return the rate and the CPU use of both sides."""
    with staff() as workers:
        for number in range(PUBLISHERS):
            sock = wire.connect(server.address)  # goes to the worker with the fewest clients
            workers.append(Worker(f"publisher {number}", _publish, number, sock))
            sock.close()  # the process has it
        for worker in workers:
            worker.answer()
        _play(workers, seconds / 4)  # until everything is warm
        before = Reading.take(server, workers)
        count, elapsed_s = _play(workers, seconds)
        after = Reading.take(server, workers)
    used_s = sum(after.workers_s) - sum(before.workers_s)
    found = figures(before, after, count, elapsed_s)
    return {**found, "clients_busy": used_s / (after.at_s - before.at_s)}


def _play(workers: Sequence[Worker], seconds: float) -> tuple[int, float]:
    started = time.monotonic()
    for worker in workers:
        worker.ask(seconds)
    count: int = sum(worker.answer(seconds + STALL_TIMEOUT_S) for worker in workers)
    return count, time.monotonic() - started


def _publish(pipe: Connection, number: int, sock: socket.socket) -> None:
    """Publish for the requested seconds, until dismissed; answer with the count (a process)."""
    prepared = chunks(number)
    pipe.send("ready")
    at = 0
    while True:
        end = time.monotonic() + pipe.recv()
        count = 0
        while time.monotonic() < end:
            chunk = prepared[at]
            at = (at + 1) % len(prepared)
            sock.sendall(chunk.data)
            count += chunk.messages
        wire.round_trip(sock)
        pipe.send(count)


def request(server: servers.Server, seconds: float) -> Measurement:
    """Send one request at a time; with two workers, requester and responder have one each."""
    return latency.RequestReply(name="crossing", title="", in_flight=1).run(server, seconds)


@contextmanager
def _served(
    command: servers.Command, workers: int, flags: Sequence[str], tls: ssl.SSLContext | None
) -> Iterator[servers.Server]:
    more = ("--workers", str(workers)) if workers > 1 else ()
    with servers.running(command, (*flags, *more), tls) as server:
        time.sleep(_SEAT_S)  # by then, the connection that checked the start is no longer counted
        yield server


def run(command: servers.Command, rounds: int, seconds: float) -> list[Result]:
    """Measure all cases alternately with one worker and two."""
    with tempfile.TemporaryDirectory() as name:
        certificate, key = servers.make_certificate(Path(name))
        secured = ("--tls", "--tlscert", str(certificate), "--tlskey", str(key))
        tls = ssl.create_default_context(cafile=certificate)
        cases = (
            ("two publishers, no two subjects alike", "rate", publish, (), None),
            ("the same over TLS", "rate", publish, secured, tls),
            ("request and reply, one at a time", "p50_us", request, (), None),
        )
        found = []
        for title, metric, play, flags, context in cases:
            sides: tuple[list[Measurement], list[Measurement]] = ([], [])
            for number in range(2 * rounds):
                side = (number + number // 2) % 2  # 1 2, 2 1, 1 2 …: drift of the machine hits both
                with _served(command, side + 1, flags, context) as server:
                    sides[side].append(play(server, seconds))
            found.append(Result(title, metric, *sides))
        return found


def report(results: Sequence[Result]) -> Iterator[str]:
    """Yield the ratios beside their targets."""
    yield "| | one worker | two workers | two / one | target | server / clients |\n"
    yield "|---|---:|---:|---:|---|---:|\n"
    for result in results:
        one, two = (
            statistics.median(round_[result.metric] for round_ in rounds)
            for rounds in (result.one, result.two)
        )
        ratio = result.ratio()
        if result.metric == "rate":
            figures_ = f"{one:,.0f}/s | {two:,.0f}/s"
            judged = _judged(f"≥ {MIN_RATE}", ratio >= MIN_RATE)
            cost = f"{result.cost():.1f}"
            if result.cost() < MIN_COST:
                judged = f"not judged: the server costs less than {MIN_COST:g} times its clients"
        else:
            figures_ = f"{one:.1f} µs | {two:.1f} µs"
            judged, cost = _judged(f"≤ {MAX_P50}", ratio <= MAX_P50), ""
        yield f"| {result.title} | {figures_} | {ratio:.2f} | {judged} | {cost} |\n"


def _judged(target: str, reached: bool) -> str:
    return f"{target} {'reached' if reached else '**missed**'}"


def main() -> int:
    """Measure, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    default = f"{shlex.quote(sys.executable)} -m midge.server"
    parser.add_argument("--server", default=default)
    arguments = parser.parse_args()
    servers.unwind_on_sigterm()
    command = servers.Command.parse(arguments.server, "midge")
    print("".join(report(run(command, arguments.rounds, arguments.seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
