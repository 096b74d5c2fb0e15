"""Accept connections on a listening socket, a turn's share at a time.

Running out of file descriptors closes nothing: accepting pauses, longer each time, and resumes.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from midge.platforms import add_reader, close_listener, remove_reader
from midge.server.listeners.sockets import accept, listen
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import socket

    from midge.server.clock import Clock, Timer
    from midge.server.config.options import Options
    from midge.server.listeners.proxy_header import AwaitedHeaders, Begin

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 64  # a storm of connections must not starve the existing ones
_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 1.0

log = get_logger()


class Acceptor:
    """A listening socket; a subclass says in `_begin` what becomes of an accepted connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._socket: socket.socket | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._resume_timer: Timer | None = None
        self._headers: AwaitedHeaders | None = None

    def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen on `host` and `port`, 0 or -1 for a free one; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        listener, bound = listen(host, port, _BACKLOG)
        self.adopt(listener)
        return bound

    def adopt(self, listener: socket.socket) -> None:
        """Accept on an already listening socket, which is closed with this acceptor."""
        self._socket = listener
        self._watch()

    def close(self) -> None:
        """Take no more connections; existing ones go on."""
        if self._resume_timer is not None:
            self._resume_timer.cancel()
            self._resume_timer = None
        if self._socket is not None:
            close_listener(asyncio.get_running_loop(), self._socket)
            self._socket = None
        if self._headers is not None:
            self._headers.close()

    def hold(self) -> None:
        """Accept nothing until `go_on`; the system queues connections meanwhile."""
        if self._socket is not None:
            remove_reader(asyncio.get_running_loop(), self._socket)

    def go_on(self) -> None:
        """Accept again behind `hold`."""
        self._watch()

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        """Take over a connection from `peer`: from here on only this class closes it."""
        raise NotImplementedError

    def _watch(self) -> None:
        self._resume_timer = None
        if self._socket is not None:
            add_reader(asyncio.get_running_loop(), self._socket, self._accept)

    def _accept(self) -> None:
        """Accept waiting connections, up to one turn's share."""
        for _ in range(self._room()):
            if self._socket is None:
                return
            try:
                accepted, peer = accept(self._socket)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._pause_s = _FIRST_PAUSE_S
            self._begin_behind_header(accepted, peer, self._begin)

    def _options_of_proxies(self) -> Options | None:
        """Return the settings where connections of proxies begin with a header, else None."""
        return None

    def _begin_behind_header(
        self, accepted: socket.socket, peer: tuple[str, int], begin: Begin
    ) -> None:
        """Begin a connection with the address of the client, which a proxy's header may name."""
        options = self._options_of_proxies()
        if options is not None:
            from midge.server.listeners.proxy_header import (  # noqa: PLC0415 - most do without
                AwaitedHeaders,
                is_proxy,
            )

            if is_proxy(peer[0], options.proxies.addresses):
                if self._headers is None:
                    self._headers = AwaitedHeaders(self._clock)
                self._headers.take(accepted, peer, begin, options.limits.max_connections)
                return
        begin(accepted, peer)

    def _room(self) -> int:
        """Return how many of the waiting connections to accept now."""
        return _ACCEPTS_PER_TURN

    def _pause(self, error: OSError) -> None:
        """Pause accepting: file descriptors, or memory, have run out."""
        log.error(
            "accept_failed", error=errno.errorcode.get(error.errno or 0, ""), delay_s=self._pause_s
        )
        self._stop_accepting(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _stop_accepting(self, delay_s: float) -> None:
        """Stop accepting for `delay_s`; the system queues connections meanwhile."""
        if self._socket is not None:
            remove_reader(asyncio.get_running_loop(), self._socket)
            self._resume_timer = self._clock.call_later(delay_s, self._watch)

    def _go_on_accepting(self) -> None:
        """Accept again before the pause is over."""
        if self._resume_timer is not None:
            self._resume_timer.cancel()
            self._watch()
