"""Threads that wait for the disk in place of the event loop: they read files and close them."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local

_THREADS = 4
"""Requests that the disk has at once: it takes them in the order that suits it."""

_PIECE_BYTES = 1024 * 1024
"""Read by one call: after each of them a thread waits for the interpreter, or holds it up."""


class DiskThreads:
    """Reads pieces of files, or lets go of files, and tells the event loop when that is done.

    `add_reader` and `remove_reader` are those of `RealDisk`.
    """

    def __init__(
        self,
        add_reader: Callable[[int, Callable[[], None]], object],
        remove_reader: Callable[[int], object],
    ) -> None:
        self._remove_reader = remove_reader
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._finished: deque[Callable[[], object]] = deque()
        self._is_closed = False
        self._buffers = local()
        self._threads = ThreadPoolExecutor(_THREADS, "midge-disk", self._begin)
        add_reader(self._wake_in, self._woken)

    def fetch(self, file: int, position: int, size: int, done: Callable[[], object]) -> None:
        """Read `size` bytes into the page cache, then call `done` on the event loop.

        They are those from `position` on. `file` may be closed meanwhile.
        """
        # Without this the system marks a page from which to read further ahead, and a reader of
        # that page starts that: 4 ms of the event loop beside a busy disk, instead of 0.3.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        self._threads.submit(self._read, os.dup(file), position, size, done)

    def release(self, file: int, done: Callable[[], object]) -> None:
        """Close a file, then call `done` on the event loop."""
        self._threads.submit(self._close, file, done)

    def close(self) -> None:
        """End the threads; drop unfinished reads."""
        self._is_closed = True
        self._threads.shutdown()
        self._remove_reader(self._wake_in)
        os.close(self._wake_in)
        os.close(self._wake_out)

    def _begin(self) -> None:
        """Prepare a thread."""
        self._buffers.one = memoryview(bytearray(_PIECE_BYTES))

    def _read(self, file: int, position: int, size: int, done: Callable[[], object]) -> None:
        """Read, in a thread."""
        buffer = self._buffers.one
        end = position + size
        with contextlib.suppress(OSError):  # the later read fails in the same way
            while position < end and not self._is_closed:
                count = os.preadv(file, [buffer[: end - position]], position)
                if not count:
                    break
                position += count
        self._close(file, done)

    def _close(self, file: int, done: Callable[[], object]) -> None:
        """Close a file, in a thread."""
        with contextlib.suppress(OSError):  # a network file system may report an earlier write
            os.close(file)
        self._finished.append(done)
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes the loop, too
            os.write(self._wake_out, b"\0")

    def _woken(self) -> None:
        """Call the callbacks of finished work, on the event loop."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 4096)
        for _ in range(len(self._finished)):
            if self._is_closed:
                return
            self._finished.popleft()()
