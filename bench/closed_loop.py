"""Closed loops: a fixed number of messages is unanswered, and each answer sends the next one."""

import socket
import time
from collections.abc import Iterator, Sequence

from bench import stats
from bench.cycle import Cycle
from bench.meter import Reading, figures
from bench.metrics import Measurement
from bench.servers import Server
from bench.workers import STALL_TIMEOUT_S, Worker


def measure(server: Server, workers: Sequence[Worker], seconds: float) -> tuple[int, Measurement]:
    """Run the loop of the last worker for `seconds`; return the number of answers, and figures.

    The worker takes the seconds and answers with the result of `exchange`.
    """
    before = Reading.take(server, workers)
    workers[-1].ask(seconds)
    started = time.monotonic()
    latencies_ns: list[int] = workers[-1].answer(seconds + STALL_TIMEOUT_S)
    elapsed_s = time.monotonic() - started
    after = Reading.take(server, workers)
    count = len(latencies_ns)
    return count, {**figures(before, after, count, elapsed_s), **percentiles(latencies_ns)}


def percentiles(latencies_ns: Sequence[int]) -> Measurement:
    """Return the reported percentiles, in microseconds; none without a latency."""
    if not latencies_ns:
        return {}
    ordered = sorted(latencies_ns)
    return {
        "p50_us": stats.percentile(ordered, 50) / 1e3,
        "p99_us": stats.percentile(ordered, 99) / 1e3,
    }


def exchange(
    sock: socket.socket, cycle: Cycle, answers: Iterator[int], window: int, end_ns: int
) -> list[int]:
    """Keep `window` messages unanswered until the time is over; return every latency in ns."""
    latencies_ns: list[int] = []
    sent_ns = [time.monotonic_ns()] * window
    sock.sendall(cycle.take(window))
    answered = 0
    for count in answers:
        now_ns = time.monotonic_ns()
        latencies_ns.extend([now_ns - at_ns for at_ns in sent_ns[answered : answered + count]])
        answered += count
        if now_ns < end_ns:
            sent_ns.extend([now_ns] * count)
            sock.sendall(cycle.take(count))
        elif answered == len(sent_ns):
            break
    return latencies_ns
