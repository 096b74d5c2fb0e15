"""Report the server's state to systemd, by sd_notify(3), and take the sockets that it passes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

from midge.server.listeners.sockets import INHERITED, TcpSocket

if TYPE_CHECKING:
    from collections.abc import MutableMapping


_FIRST_PASSED = 3
"""The first descriptor of sd_listen_fds(3)."""


def inherit_sockets(environment: MutableMapping[str, str]) -> None:
    """Keep the TCP sockets that systemd listens on for this process, for `sockets.listen`.

    Their variables are removed from `environment`, because programs that the server starts do not
    get the sockets.
    """
    count = environment.pop("LISTEN_FDS", "")
    pid = environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", "")
    if pid != str(os.getpid()) or not count.isdecimal():
        return
    for descriptor in range(_FIRST_PASSED, _FIRST_PASSED + int(count)):
        passed = TcpSocket(fileno=descriptor)
        if passed.family in (socket.AF_INET, socket.AF_INET6):
            passed.set_inheritable(False)
            passed.setblocking(False)
            INHERITED[passed.getsockname()[1]] = passed


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
