"""Read all plain sockets that are ready in one call from the event loop.

A loop calls back for each socket that is ready, with a handle, a context and the interpreter's
lock. Here the sockets have their own epoll, which the loop watches, and one call from the loop
reads all ready sockets. The output is written at its end, so that each receiver gets one write.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from midge.server.channels.busy_poll import BusyPoll
from midge.server.routing import plain_socket
from midge.server.routing.router import Router

if TYPE_CHECKING:
    import asyncio


class Readable:
    """The reader of one socket."""

    __slots__ = ()

    def on_readable(self, is_ending: bool) -> None:
        """Called when new input has arrived; with `is_ending`, it ends with EOF or an error.

        It is called again for input that it leaves unread only after `ReadySockets.look_again`.
        """

    def read_next(self, others: int, longest_ns: int) -> int:
        """Wait for input without sleep, up to `longest_ns`, and read it; see `receive_next`.

        Returns 1 if it has read, 0 if `others` can be read or reading is paused, and -1 if nothing
        has come.
        """
        return 0


class ReadySockets:
    """Calls the readers of the ready sockets from `loop`, and then lets `router` write.

    `busy_poll` decides when to wait for more input within the call. The wait reads the socket that
    was the only ready one, and watches the loop's descriptor, so that all others are served as
    soon.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        router: Router,
        busy_poll: BusyPoll | None = None,
    ) -> None:
        self._loop = loop
        self._router = router
        self.busy_poll = busy_poll
        self._last = -1  # the descriptor that was the only ready one last time
        self._lone = -1  # the descriptor that was the only ready one twice in a row
        self._is_closed = False
        # Edge-triggered: one event per arrival. A loop's own epoll checks a socket again after it.
        self._wanted = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
        self._epoll = select.epoll()
        self._descriptor = self._epoll.fileno()
        self._readers: list[Readable | None] = []  # by descriptor
        self._found = [0] * plain_socket.READY_MAX
        loop.add_reader(self._descriptor, self.read)

    def watch(self, descriptor: int, reader: Readable) -> None:
        """Call `reader` when input comes, and at once if there is some already."""
        missing = descriptor + 1 - len(self._readers)
        if missing > 0:
            self._readers += [None] * missing
        self._epoll.register(descriptor, self._wanted)
        self._readers[descriptor] = reader

    def look_again(self, descriptor: int) -> None:
        """Call the reader in the next turn if the socket has unread input."""
        self._epoll.modify(descriptor, self._wanted)

    def forget(self, descriptor: int) -> None:
        """Stop calling the reader; the socket must still be open."""
        if not self._is_closed:
            self._readers[descriptor] = None
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Forget all sockets; readers may call this as well."""
        self._is_closed = True
        self._loop.remove_reader(self._descriptor)
        self._epoll.close()
        self._readers = [None] * len(self._readers)

    def read(self) -> None:
        """Call the readers of the ready sockets, write the output, and wait for more input."""
        busy_poll = self.busy_poll
        if busy_poll is None:
            self._read_ready()
            return
        busy_poll.enter()
        try:
            self._read_ready()
            while not self._is_closed and busy_poll.stays():
                self._read_next(busy_poll)
        finally:
            busy_poll.leave()

    def _read_next(self, busy_poll: BusyPoll) -> None:
        """Wait for the next input, and read it unless it is the loop's."""
        reader = self._readers[self._lone] if self._lone >= 0 else None
        outcome = 0
        if reader is not None:
            is_postponed = self._router.postpone()
            try:
                outcome = reader.read_next(busy_poll.descriptor, busy_poll.longest_ns)
            finally:
                if is_postponed:
                    self._router.flush_postponed()
        if outcome == 0 and not plain_socket.wait_for_input(
            busy_poll.descriptor, busy_poll.longest_ns
        ):
            outcome = -1
        if outcome < 0:
            busy_poll.miss()
        elif not self._is_closed:
            self._read_ready()  # drain the epoll: it has an event at least for the socket just read

    def _read_ready(self) -> None:
        """Call the readers of the ready sockets, then write the output."""
        is_postponed = self._router.postpone()
        try:
            found = self._found
            count = plain_socket.ready(self._epoll, self._descriptor, found)
            if count > 0:
                last, self._last = self._last, found[0] if count == 1 else -1
                self._lone = last if last == self._last else -1
            for i in range(count):
                number = found[i]
                is_ending = number < 0
                reader = self._readers[~number if is_ending else number]
                if reader is not None:
                    reader.on_readable(is_ending)
        finally:
            if is_postponed:
                self._router.flush_postponed()
