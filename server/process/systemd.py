"""Report the server's state to systemd, by the datagrams of sd_notify(3)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping


class ServiceManager:
    """The service manager that started this process; without one, every call does nothing.

    Its variables are removed from `environment`, because programs that the server starts must
    not report in its name.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        path = environment.pop("NOTIFY_SOCKET", "")
        interval_us = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "") or str(os.getpid())
        self._address = "\0" + path[1:] if path.startswith("@") else path
        is_watched = interval_us.isdecimal() and pid == str(os.getpid())
        self._watchdog_s = int(interval_us) / 2e6 if is_watched else 0.0

    def ready(self) -> None:
        """Report that the server takes clients."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Report that a reload has begun; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the server stops."""
        self._send("STOPPING=1")

    def keep_alive(self) -> None:
        """Report, now and twice per watchdog interval, that the event loop runs."""
        if self._address and self._watchdog_s:
            self._send("WATCHDOG=1")
            asyncio.get_running_loop().call_later(self._watchdog_s, self.keep_alive)

    def _send(self, state: str) -> None:
        """Send `state`; a service manager that cannot take it must not stop the server."""
        if self._address:
            with (
                contextlib.suppress(OSError),
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
            ):
                sender.setblocking(False)
                sender.sendto(state.encode(), self._address)
