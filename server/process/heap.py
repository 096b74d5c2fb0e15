"""Give memory back to the system after connections have ended, and after a recovery.

uvloop gives each TLS connection a buffer of 256 KiB, of which a client touches some pages. The
first ones are mapped, and glibc learns from their end to take the next from its heap, which it
shrinks from the top only. So every crowd touches other pages of it, and nothing leaks, but 400
clients that come and go leave 3 to 9 MiB resident each time, until it is 256 KiB for each of the
most that there have been at a time. WebSocket clients that leave within a large command do the same
by its buffer of 128 KiB: 1,500 of them leave up to 17 MiB. `malloc_trim` returns all of it, in
1.6 ms beside 500,000 subscriptions. Four plain clients that never read, with queues of 14 MiB, left
up to 43 MiB.

JetStream reads the segments of a store one by one, 16 MiB each, and keeps an index of them:
from the second on they are read into the heap, below the index. That leaves 64 to 90 MiB, which
is as much as the index of a million keys takes; it is returned in 3 ms.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from midge.server.clock import LoopClock

if TYPE_CHECKING:
    from midge.server.clock import Clock
    from midge.server.server import Server

INTERVAL_S = 5.0
"""Seconds between looks at how many connections have ended; a look costs a microsecond."""

ENDED_MIN = 50
"""Ended connections that are worth a trim: what they leave is 1 MiB at most."""

LARGE_BYTES = 8 * 1024 * 1024
"""Free bytes in the heap for which the end of a single connection is worth a trim: a few clients
that never read leave their queues of 14 MiB each between other blocks."""

LOOKS = 3
"""Looks behind the end of a connection: its unsent output is kept for `write_deadline` after it,
10 s unless set, and is free only then."""

RECOVERED_S = 1.0
"""Seconds after the start at which what a recovery has left is given back."""


_FORDBLKS = 8  # the place of the free bytes in struct mallinfo2


class HeapTrimmer:
    """Calls `trim` soon after connections have ended, as `ended` counts them.

    `trim` gets the free bytes that the heap must have: none once `ENDED_MIN` connections have ended
    since the last such call, and `LARGE_BYTES` for fewer, in each of `LOOKS` looks behind an end.
    """

    def __init__(
        self, clock: Clock, ended: Callable[[], int], trim: Callable[[int], object]
    ) -> None:
        self._clock = clock
        self._ended = ended
        self._trim = trim
        self._trimmed_after = 0
        self._looked_after = 0
        self._looks_left = 0

    def start(self) -> None:
        """Look for the first time in `INTERVAL_S`, and go on until the loop ends."""
        self._clock.call_later(INTERVAL_S, self._look)

    def _look(self) -> None:
        ended = self._ended()
        if ended - self._trimmed_after >= ENDED_MIN:
            self._trimmed_after = ended
            self._trim(0)
        elif ended > self._looked_after or self._looks_left > 0:
            self._trim(LARGE_BYTES)
        self._looks_left = LOOKS - 1 if ended > self._looked_after else self._looks_left - 1
        self._looked_after = ended
        self.start()


def trim_heap(least_free_bytes: int = 0) -> None:
    """Return free memory to the system, where the C library can and has that much of it."""
    import ctypes  # noqa: PLC0415 - takes some milliseconds, here not of the loop

    library = ctypes.CDLL(None)
    trim = getattr(library, "malloc_trim", None)
    if trim is None:
        return
    if least_free_bytes:
        count = getattr(library, "mallinfo2", None)  # glibc 2.33
        if count is None:
            return

        class Info(ctypes.Structure):  # struct mallinfo2
            _fields_ = (("counts", ctypes.c_size_t * 10),)

        count.restype = Info
        if count().counts[_FORDBLKS] < least_free_bytes:
            return
    trim(0)


def trim_after_recovery() -> None:
    """Trim the heap once, in a thread, when the running loop has streams ready to be used."""

    def trim() -> None:
        threading.Thread(target=trim_heap, name="midge-heap", daemon=True).start()

    asyncio.get_running_loop().call_later(RECOVERED_S, trim)


def keep_heap_small(server: Server) -> None:
    """Trim the heap after the connections of `server`, in a thread, while the loop runs."""
    loop = asyncio.get_running_loop()
    broker = server.broker

    def ended() -> int:
        return broker.totals.connections - len(broker.clients)

    def trim(least_free_bytes: int) -> None:
        loop.run_in_executor(None, trim_heap, least_free_bytes)

    HeapTrimmer(LoopClock(), ended, trim).start()
