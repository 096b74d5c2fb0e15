"""CPU use during a round: by the server, the load generator, and other processes."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench import procfs
from bench.metrics import Measurement
from bench.servers import Server
from bench.workers import Worker


@dataclass(frozen=True)
class Reading:
    """CPU seconds used so far."""

    at_s: float
    server_s: float
    workers_s: tuple[float, ...]
    ours_s: float
    """CPU seconds of the measuring process: next to nothing."""
    machine_s: float

    @classmethod
    def take(cls, server: Server, workers: Sequence[Worker]) -> "Reading":
        """Read the CPU times of the server and the generator's processes so far."""
        workers_s = tuple(worker.cpu_s() for worker in workers)
        at_s = time.monotonic()
        return cls(at_s, server.cpu_s(), workers_s, sum(os.times()[:2]), procfs.machine_busy_s())


def figures(before: Reading, after: Reading, count: int, elapsed_s: float) -> Measurement:
    """Return rate and CPU for `count` messages, or other units of the scenario."""
    server_s = after.server_s - before.server_s
    workers_s = [end - start for start, end in zip(before.workers_s, after.workers_s, strict=True)]
    machine_s = after.machine_s - before.machine_s
    window_s = after.at_s - before.at_s
    others_s = machine_s - server_s - sum(workers_s) - (after.ours_s - before.ours_s)
    return {
        "rate": count / elapsed_s,
        "cpu_us": server_s / count * 1e6,
        "server_busy": server_s / window_s,
        "generator_busy": max(workers_s, default=0.0) / window_s,
        "others_busy": max(others_s, 0.0) / window_s,
    }
