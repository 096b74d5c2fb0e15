"""The thin layer between a Connection and what a particular event loop calls."""

import asyncio
from collections.abc import Callable
from typing import Any

from midge.server.connection import Connection


class _BufferedProtocol(asyncio.BufferedProtocol):
    """A Connection for loops that know a buffered protocol by its class, as asyncio's own do."""

    def __init__(self, connection: Connection) -> None:
        self.connection_made = connection.connection_made
        self.get_buffer = connection.get_buffer
        self.buffer_updated = connection.buffer_updated
        self.eof_received = connection.eof_received
        self.connection_lost = connection.connection_lost
        self.pause_writing = connection.pause_writing
        self.resume_writing = connection.resume_writing


def protocol_for(loop: asyncio.AbstractEventLoop, connection: Connection) -> Callable[[], Any]:
    """Give the protocol factory that puts `connection` onto a transport of `loop`.

    uvloop goes by the methods, so that the compiled Connection is called without a step between.
    """
    if type(loop).__module__.partition(".")[0] == "uvloop":
        return lambda: connection
    return lambda: _BufferedProtocol(connection)
