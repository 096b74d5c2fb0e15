"""The thin layer between a Channel and a particular event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from midge.server.channels.channel import Channel
    from midge.server.channels.transports import Transport


class _BufferedProtocol(asyncio.BufferedProtocol):
    """A Channel for loops that recognize a buffered protocol by its class, as asyncio's do."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def forget(self) -> None:
        """Drop the channel, because asyncio keeps this object after a failed TLS handshake."""
        del self._channel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._channel.connection_made(cast("Transport", transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._channel.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self._channel.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        return self._channel.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._channel.connection_lost(exc)

    def pause_writing(self) -> None:
        self._channel.pause_writing()

    def resume_writing(self) -> None:
        self._channel.resume_writing()


def protocol_for(loop: asyncio.AbstractEventLoop, channel: Channel) -> Any:
    """Return the protocol that connects `channel` to a transport of `loop`.

    uvloop recognizes a buffered protocol by its methods, so it calls the compiled Channel directly.
    """
    if type(loop).__module__.partition(".")[0] == "uvloop":
        return channel
    return _BufferedProtocol(channel)


def forget(protocol: Any) -> None:
    """Drop the channel of `protocol`, which never got a transport."""
    if isinstance(protocol, _BufferedProtocol):
        protocol.forget()
