"""Measure the file store alone: messages appended and durable, rate and CPU per message.

A publisher appends until `window` messages are not yet durable, and waits: `python -m bench.store`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.interface import GroupListener, StreamStore
from midge.jetstream.store.memory import MemoryStore
from midge.jetstream.store.real_disk import RealDisk
from midge.protocol.frame import compose

WINDOWS = (2000, 100, 1)
SIZES = (128, 1024)
SECONDS = 3.0


class Publisher(GroupListener):
    """Keeps a window of messages that are not yet durable."""

    def __init__(self, stream: StreamStore, size: int, window: int) -> None:
        self.stream = stream
        self.frame = compose(b"orders.new", b"x" * size)
        self.window = window
        self.until = time.perf_counter() + SECONDS
        self.done = asyncio.Event()

    def fill(self) -> None:
        stream, frame = self.stream, self.frame
        now = time.time_ns()
        for _ in range(self.window - (stream.last_seq - stream.visible_seq)):
            stream.append_frame(frame, now)

    def durable(self, group: int) -> None:
        if time.perf_counter() < self.until:
            self.fill()
        elif self.stream.visible_seq == self.stream.last_seq:
            self.done.set()


async def measure_file(size: int, window: int) -> None:
    loop = asyncio.get_running_loop()
    path = tempfile.mkdtemp(dir=os.environ.get("BENCH_DIRECTORY", "."))
    try:
        disk = RealDisk(path, loop.add_reader, loop.remove_reader)
        directory = StoreDirectory(disk, lambda: loop.call_soon(directory.flush))
        stream = directory.create_stream(b"$G", b"S", b"{}")
        publisher = Publisher(stream, size, window)
        directory.log.listen(publisher)
        before, start = cpu_s(), time.perf_counter()
        publisher.fill()
        await publisher.done.wait()
        elapsed, cpu = time.perf_counter() - start, cpu_s() - before
        groups = directory.log.written_groups
        report(f"file {size:5} B, window {window:5}", stream.last_seq, elapsed, cpu, groups)
        directory.close()
    finally:
        shutil.rmtree(path)


def measure_memory(size: int) -> None:
    store = MemoryStore()
    frame = compose(b"orders.new", b"x" * size)
    before, start = cpu_s(), time.perf_counter()
    for now in range(500_000):
        store.append_frame(frame, now)
    report(f"memory {size:5} B", store.last_seq, time.perf_counter() - start, cpu_s() - before, 0)


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def report(what: str, messages: int, elapsed: float, cpu: float, groups: int) -> None:
    per_group = f", {messages / groups:.0f} a group" if groups else ""
    rate, each = messages / elapsed, cpu / messages * 1e6
    print(f"{what}: {rate:12,.0f}/s, {each:6.2f} µs CPU a message{per_group}")


def main() -> int:
    for size in SIZES:
        measure_memory(size)
        for window in WINDOWS:
            asyncio.run(measure_file(size, window))
    return 0


if __name__ == "__main__":
    sys.exit(main())
