"""What midge does in another way where the operating system is not Linux.

macOS has no epoll: there the event loop's own transports read the clients' sockets. Windows has no
uvloop, `flock`, AF_UNIX and epoll, lacks three signals, and its usual loop has no `add_reader`.
tests/e2e/test_without_posix.py runs servers that have none of these.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

HAS_EPOLL = hasattr(select, "epoll")
HAS_LOCKS = fcntl is not None


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of uvloop, or of asyncio where uvloop is not installed."""
    try:
        import uvloop  # noqa: PLC0415 - absent on Windows
    except ImportError:
        import asyncio  # noqa: PLC0415 - for servers only

        return asyncio.SelectorEventLoop()  # which has `add_reader` on Windows as well
    return uvloop.new_event_loop()


def lock(descriptor: int, *, shared: bool = False) -> None:
    """Lock a file, in this process alone or shared with others that read it.

    Raises:
        BlockingIOError: another process has a lock that excludes this one.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind | fcntl.LOCK_NB)


def sync(descriptor: int) -> None:
    """Return once the contents of a file are on the medium, for which macOS has its own call."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
        except OSError:  # a network file system has only fsync
            os.fsync(descriptor)
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def handle_signals(
    loop: asyncio.AbstractEventLoop,
    numbers: Iterable[signal.Signals],
    receive: Callable[[signal.Signals], object],
) -> None:
    """Call `receive` on `loop` for each of these signals of the process."""
    for number in numbers:
        try:
            loop.add_signal_handler(number, receive, number)
        except NotImplementedError:
            signal.signal(number, lambda *_, it=number: loop.call_soon_threadsafe(receive, it))


def add_reader(
    loop: asyncio.AbstractEventLoop, watched: socket.socket, callback: Callable[[], object]
) -> None:
    """Call `callback` on `loop` as long as the socket can be read, until `remove_reader`."""
    try:
        loop.add_reader(watched, callback)
    except NotImplementedError:
        with _lock:
            watcher = _watchers.setdefault(loop, SocketWatcher(loop))
            watcher.callbacks[watched] = callback
            watcher.start()


def remove_reader(loop: asyncio.AbstractEventLoop, watched: socket.socket) -> None:
    """End the calls for a socket, which is still open."""
    try:
        loop.remove_reader(watched)
    except NotImplementedError:
        with _lock:
            if loop in _watchers:
                _watchers[loop].callbacks.pop(watched, None)


def close_listener(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
    """End the calls for a listening socket, and close it: from now on connections are refused.

    A thread that looks at the socket keeps it open for `_LOOK_S`, and where the system cannot shut
    it down, it takes connections meanwhile.
    """
    remove_reader(loop, listener)
    if loop in _watchers:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    listener.close()


class SocketWatcher:
    """Watches listening sockets in a thread, for a loop that cannot; the thread ends with the last.

    `callbacks` has one for each watched socket.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.callbacks: dict[socket.socket, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="midge-watch", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        """Wait for the sockets and have the loop call back, one round after the other."""
        while True:
            with _lock:
                watched = [*self.callbacks]
                if not watched or self._loop.is_closed():
                    _watchers.pop(self._loop, None)
                    return
            try:
                found = select.select(watched, [], [], _LOOK_S)[0]
                if found:
                    served = threading.Event()
                    self._loop.call_soon_threadsafe(self._serve, found, served)
                    served.wait(_SERVED_S)
            except (OSError, ValueError, RuntimeError):  # a socket or the loop was closed meanwhile
                continue

    def _serve(self, found: list[socket.socket], served: threading.Event) -> None:
        """Call back for the sockets in the loop's thread."""
        try:
            for one in found:
                if one in self.callbacks:
                    self.callbacks[one]()
        finally:
            served.set()


_LOOK_S = 0.05
"""Seconds until a new socket is watched, or a removed one no longer."""

_SERVED_S = 1.0
"""Seconds after which the thread looks again, because a loop that has ended calls nothing back."""

_lock = threading.Lock()
_watchers: dict[asyncio.AbstractEventLoop, SocketWatcher] = {}
