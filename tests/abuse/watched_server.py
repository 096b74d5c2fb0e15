"""A midge process that tells how long its loop was busy at a stretch.

Run as ``python -m tests.abuse.watched_server FILE FLAG...``, or with ``--asyncio-loop`` behind FILE
for that loop instead of uvloop's: it is midge-server, and keeps in FILE,
which holds two doubles, the most seconds of processor time that passed between two turns of the
loop, and the most that it waited for a processor between two. Nobody else was served in between.
Processor time and not time by the clock, so that what other processes do on a loaded machine does
not count; the second number tells how loaded it is.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from midge.server.process.cli import server_main

ASYNCIO_LOOP = "--asyncio-loop"
TURN_S = 0.002
SCHEDULING = Path("/proc/thread-self/schedstat")
LONGEST = struct.Struct("=dd")


class Watch:
    """Measures, at every turn of `loop`, what the last one took."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shared: mmap.mmap) -> None:
        self._loop = loop
        self._shared = shared
        self._before_s = time.thread_time()
        self._waited_s = waited_s()

    def turn(self) -> None:
        now_s, waited = time.thread_time(), waited_s()
        longest, starved = LONGEST.unpack_from(self._shared)
        busy = max(longest, now_s - self._before_s)
        LONGEST.pack_into(self._shared, 0, busy, max(starved, waited - self._waited_s))
        self._before_s, self._waited_s = now_s, waited
        self._loop.call_later(TURN_S, self.turn)


def waited_s() -> float:
    """Return how long this thread has waited for a processor; 0 where the kernel does not tell."""
    try:
        text = SCHEDULING.read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9


def main(path: str, flags: list[str]) -> int:
    with open(path, "r+b") as file:  # noqa: PTH123 - mmap wants a descriptor
        shared = mmap.mmap(file.fileno(), LONGEST.size)
    make_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    if flags[:1] == [ASYNCIO_LOOP]:
        make_loop = asyncio.new_event_loop
        del flags[0]

    def make_watched_loop() -> asyncio.AbstractEventLoop:
        loop = make_loop()
        loop.call_soon(Watch(loop, shared).turn)
        return loop

    uvloop.new_event_loop = make_watched_loop  # type: ignore[assignment]
    sys.argv = ["midge-server", *flags]
    return server_main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
