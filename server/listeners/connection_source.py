"""Where a server's connections come from: its own listening sockets, or another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midge.server.listeners.sockets import listen

if TYPE_CHECKING:
    import socket

    from midge.server.listeners.tcp import Listener

Address = tuple[str, int]


class ConnectionSource(Protocol):
    """Opens the listeners of a server."""

    def open(self, kind: str, listener: Listener, host: str, port: int) -> Address:
        """Accept the connections of a kind for `listener`; return the address for clients.

        Raises:
            OSError: the address cannot be bound.
        """

    def listen(
        self, kind: str, host: str, port: int, backlog: int
    ) -> tuple[socket.socket, Address]:
        """Return a listening socket and its address.

        Raises:
            OSError: the address cannot be bound.
        """


class OwnSockets:
    """Every listener accepts on a socket of its own."""

    def open(self, kind: str, listener: Listener, host: str, port: int) -> Address:
        """Bind and accept."""
        return listener.open(host, port)

    def listen(
        self, kind: str, host: str, port: int, backlog: int
    ) -> tuple[socket.socket, Address]:
        """Bind and listen."""
        return listen(host, port, backlog)
