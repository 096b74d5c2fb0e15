"""Start and stop of monitoring: the listener at once, the HTTP server soon after.

Importing the HTTP server takes about as long as the rest of a start. So the socket listens first, a
thread imports while clients are being served, and early requests wait in the socket's backlog.
"""

import asyncio
import contextlib
import importlib
import socket
import sys
from typing import TYPE_CHECKING

from midge.server.listeners.connection_source import ConnectionSource
from midge.server.listeners.sockets import host_in_url
from midge.server.monitoring.state import State

if TYPE_CHECKING:
    from midge.server.histogram import LoopDelay
    from midge.server.listeners.tls import TlsContexts
    from midge.server.monitoring.http import Monitor

_BACKLOG = 128
_HTTP = "midge.server.monitoring.http"


class MonitoringService:
    """The monitoring of one server: over HTTPS with `tls`, over HTTP without."""

    def __init__(self, state: State, tls: "TlsContexts | None", source: ConnectionSource) -> None:
        self._state = state
        self._source = source
        self._tls = tls
        self._listener: socket.socket | None = None
        self._url = ""
        self._serving: asyncio.Task[None] | None = None
        self._monitor: Monitor | None = None
        self._loop_delay: LoopDelay | None = None

    def open(self) -> None:
        """Open the listener that the options ask for.

        Raises:
            OSError: the address cannot be bound.
        """
        options = self._state.broker.options
        host = options.monitoring.host or options.listen.host
        port = options.monitoring.https_port if self._tls else options.monitoring.http_port
        kind = "monitoring_https" if self._tls else "monitoring_http"
        self._listener, bound = self._source.listen(kind, host, port, _BACKLOG)
        if self._tls is None:
            self._state.http_address = bound
        else:
            self._state.https_port = bound[1]
        self._url = f"{'https' if self._tls else 'http'}://{host_in_url(bound[0])}:{bound[1]}"

    def serve(self) -> None:
        """Begin to answer."""
        self._serving = asyncio.ensure_future(self._serve())

    async def stop(self) -> None:
        """Close the listener and its connections."""
        if self._serving is not None:
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
            self._serving = None
        if self._loop_delay is not None:
            self._loop_delay.stop()
            self._loop_delay = None
        if self._monitor is not None:
            await self._monitor.stop()
            self._monitor = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def urls(self) -> list[str]:
        """Return the URL of the listener, if it is open."""
        return [self._url] if self._url else []

    async def _serve(self) -> None:
        assert self._listener is not None
        if _HTTP not in sys.modules:
            await asyncio.to_thread(importlib.import_module, _HTTP)
        from midge.server.monitoring.http import Monitor  # noqa: PLC0415 - imported by now

        self._monitor = Monitor(self._state)
        if self._state.broker.options.monitoring.console.enabled:
            from midge.server.monitoring.console import add_console  # noqa: PLC0415 - if enabled

            add_console(self._monitor)
        await self._monitor.start(self._listener, self._tls)
        from midge.server.histogram import LoopDelay  # noqa: PLC0415 - as above

        self._loop_delay = LoopDelay()
        self._loop_delay.start()
        self._state.loop_delay = self._loop_delay.seconds
