"""A midge process that reports how long its loop was busy at a stretch.

Run as ``python -m tests.abuse.watched_server FILE FLAG...``. Behind FILE, ``--interpreted`` takes
midge's sources in place of its compiled modules, and ``--asyncio-loop`` that loop instead of
uvloop's. It is midge-server, and keeps in FILE, which holds a double, the most seconds of processor
time that passed between two turns of the loop. No client was served in between. It is processor
time and not time by the clock, so that other processes on a loaded machine do not count.
"""

from __future__ import annotations

import asyncio
import importlib.abc
import importlib.machinery
import mmap
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

ASYNCIO_LOOP = "--asyncio-loop"
INTERPRETED = "--interpreted"
TURN_S = 0.002
LONGEST = struct.Struct("=d")


class Watch:
    """Measures, at every turn of `loop`, what the last one took."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shared: mmap.mmap) -> None:
        self._loop = loop
        self._shared = shared
        self._before_s = time.thread_time()

    def turn(self) -> None:
        now_s = time.thread_time()
        (longest,) = LONGEST.unpack_from(self._shared)
        LONGEST.pack_into(self._shared, 0, max(longest, now_s - self._before_s))
        self._before_s = now_s
        self._loop.call_later(TURN_S, self.turn)


def use_sources_only() -> None:
    """Import every module of `midge` from its source, even where a compiled one exists."""
    own = Path(__file__).parents[2] / "midge"
    loaders = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
    find = importlib.machinery.FileFinder.path_hook(loaders)

    def hook(path: str) -> importlib.abc.PathEntryFinder:
        if not Path(path).is_relative_to(own):
            raise ImportError(path)
        return find(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()


def main(path: str, flags: list[str]) -> int:
    if flags[:1] == [INTERPRETED]:
        use_sources_only()
        del flags[0]
    from midge.server.process.cli import server_main

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
