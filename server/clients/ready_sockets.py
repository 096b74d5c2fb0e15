"""Which plain sockets can be read: all that can, in one call from the event loop.

A loop calls back for each socket that is ready: a handle, a context, the interpreter's lock. Here
the sockets have an epoll of their own, which the loop watches, and a call from it reads them all.
What that brings is written at its end, so that each receiver gets one write.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from midge.server.clients.busy_poll import BusyPoll
from midge.server.routing import plain_socket
from midge.server.routing.router import Router

if TYPE_CHECKING:
    import asyncio


class Readable:
    """Something with a socket."""

    __slots__ = ()

    def on_readable(self, is_ending: bool) -> None:
        """Called when there is more to be read than before; `is_ending`: to its end, or an error.

        It is not called again for what it leaves unread, unless `ReadySockets.look_again` is.
        """

    def read_next(self, others: int, longest_ns: int) -> int:
        """Wait for more without sleep, so long at most, and read it; see `receive_next`.

        Returns 1 if it has read; 0 when `others` can be read, or it does not read now, and -1 when
        nothing has come.
        """
        return 0


class ReadySockets:
    """Has `loop` tell which sockets can be read, and `router` write after each such call.

    `busy_poll` tells when to wait for more within the call: for the socket that was read alone, by
    reading it, and for the loop's descriptor, that all others are served as soon.
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
        self._last = -1  # the descriptor that was read alone
        self._lone = -1  # it, where it was so twice in a row
        self._is_closed = False
        # Each message is told of once: a loop's own epoll looks at the socket again after it.
        self._wanted = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
        self._epoll = select.epoll()
        self._descriptor = self._epoll.fileno()
        self._readers: list[Readable | None] = []  # by descriptor
        self._found = [0] * plain_socket.READY_MAX
        loop.add_reader(self._descriptor, self.read)

    def watch(self, descriptor: int, reader: Readable) -> None:
        """Have `reader` called when something comes, and if something is there already."""
        missing = descriptor + 1 - len(self._readers)
        if missing > 0:
            self._readers += [None] * missing
        self._epoll.register(descriptor, self._wanted)
        self._readers[descriptor] = reader

    def look_again(self, descriptor: int) -> None:
        """Have the reader called in the next turn if something is there that it has not read."""
        self._epoll.modify(descriptor, self._wanted)

    def forget(self, descriptor: int) -> None:
        """Call the reader no more; the socket is still open."""
        if not self._is_closed:
            self._readers[descriptor] = None
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Forget all sockets; a reader may call it, too."""
        self._is_closed = True
        self._loop.remove_reader(self._descriptor)
        self._epoll.close()
        self._readers = [None] * len(self._readers)

    def read(self) -> None:
        """Call the readers of the sockets that are ready, then have written what came of it."""
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
        """Wait for what comes next, and read it, unless it is the loop's."""
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
            self._read_ready()  # the epoll has something to tell: of what was read, if of no more

    def _read_ready(self) -> None:
        """Call the readers of the sockets that are ready, then have written what came of it."""
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
