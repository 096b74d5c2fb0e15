"""The thin layer between a Connection and what a particular event loop calls."""

import asyncio
from typing import Any

from midge.server.clients.connection import Connection


class _BufferedProtocol(asyncio.BufferedProtocol):
    """A Connection for loops that know a buffered protocol by its class, as asyncio's own do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def forget(self) -> None:
        """Keep the connection no longer: asyncio keeps this after a failed TLS handshake."""
        del self._connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connection.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


def protocol_for(loop: asyncio.AbstractEventLoop, connection: Connection) -> Any:
    """Return the protocol that puts `connection` onto a transport of `loop`.

    uvloop goes by the methods, so that the compiled Connection is called without a step between.
    """
    if type(loop).__module__.partition(".")[0] == "uvloop":
        return connection
    return _BufferedProtocol(connection)


def forget(protocol: Any) -> None:
    """Have `protocol`, which never got a transport, keep its connection no longer."""
    if isinstance(protocol, _BufferedProtocol):
        protocol.forget()
