"""Monitoring as the server starts and stops it: listeners at once, the HTTP behind them soon after.

Importing the HTTP server takes about as long as everything else that a start needs. So the sockets
listen first, a thread imports while clients are being served, and who asks for a page in the
meantime waits in the socket's backlog.
"""

import asyncio
import contextlib
import importlib
import socket
import ssl
import sys
from typing import TYPE_CHECKING

from midge.server.binding import listen
from midge.server.monitoring.state import State

if TYPE_CHECKING:
    from midge.server.monitoring.http import Monitor

_BACKLOG = 128
_HTTP = "midge.server.monitoring.http"


class MonitoringService:
    """The monitoring of one server; `tls` is for the HTTPS listener, when there is one."""

    def __init__(self, state: State, tls: ssl.SSLContext | None = None) -> None:
        self._state = state
        self._tls = tls
        self._listeners: list[tuple[socket.socket, ssl.SSLContext | None]] = []
        self._urls: list[str] = []
        self._serving: asyncio.Task[None] | None = None
        self._monitor: Monitor | None = None

    def open(self) -> None:
        """Open the listeners that the options ask for.

        Raises:
            OSError: an address cannot be bound; what was opened is closed by `stop`.
        """
        options = self._state.hub.options
        host = options.monitoring.host or options.listen.host
        if options.monitoring.http_port:
            self._state.http_address = self._listen(host, options.monitoring.http_port, None)
        if options.monitoring.https_port and self._tls is not None:
            _, port = self._listen(host, options.monitoring.https_port, self._tls)
            self._state.https_port = port

    def serve(self, websocket_url: str) -> None:
        """Begin to answer; the console finds the WebSocket listener at `websocket_url`."""
        self._serving = asyncio.ensure_future(self._serve(websocket_url))

    async def stop(self) -> None:
        """Close the listeners and what is open."""
        if self._serving is not None:
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
            self._serving = None
        if self._monitor is not None:
            await self._monitor.stop()
            self._monitor = None
        for listener, _ in self._listeners:
            listener.close()
        self._listeners.clear()

    def urls(self) -> list[str]:
        """Give the URLs of the listeners."""
        return list(self._urls)

    async def _serve(self, websocket_url: str) -> None:
        if _HTTP not in sys.modules:
            await asyncio.to_thread(importlib.import_module, _HTTP)
        from midge.server.monitoring.http import Monitor  # noqa: PLC0415 - imported by now

        self._monitor = Monitor(self._state)
        if self._state.hub.options.monitoring.console.enabled:
            from midge.server.console import add_console  # noqa: PLC0415 - only who wants it

            add_console(self._monitor, websocket_url)
        await self._monitor.start(self._listeners)

    def _listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> tuple[str, int]:
        listener, bound = listen(host, port, _BACKLOG)
        self._listeners.append((listener, tls))
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self._urls.append(f"{'https' if tls else 'http'}://{shown}:{bound[1]}")
        return bound
