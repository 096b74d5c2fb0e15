"""Lines for a syslog daemon, by the standard library's handler (RFC 3164).

nats-server's priorities: `info` and `trace` are notices. A line to the daemon of this machine has
the facility `daemon`, and one to a remote daemon has none and names the host.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from datetime import UTC, datetime
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

SOCKETS = ("/dev/log", "/var/run/syslog", "/var/run/log")
"""Where a daemon of this machine listens."""

TIMEOUT_S = 1.0
"""Longest time that a TCP connection to a daemon, or a write to it, may hold the server up."""

RETRY_AFTER_S = 10.0
"""Seconds before a daemon that was lost is connected to again; lines are lost meanwhile."""


def daemon_at(url: str) -> tuple[str | tuple[str, int], socket.SocketKind | None]:
    """Return address and kind of socket of the daemon at `url`; empty means this machine's.

    Raises:
        OSError: this machine has no daemon.
        ValueError: the URL is not one of a daemon.
    """
    if not url:
        local = next((path for path in SOCKETS if Path(path).is_socket()), None)
        if local is None:
            raise OSError("Unix syslog delivery error")
        return local, None
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not Path(parts.path).is_socket():
            raise OSError(f"{parts.path} is no socket")
        return parts.path, None
    kinds = {"udp": socket.SOCK_DGRAM, "tcp": socket.SOCK_STREAM}
    if parts.scheme not in kinds:
        raise ValueError(f'invalid network type: "{parts.scheme}"')
    if not parts.hostname or parts.port is None:
        raise ValueError(f"expected host and port of a syslog daemon, got {url!r}")
    return (parts.hostname, parts.port), kinds[parts.scheme]


class SyslogHandler(SysLogHandler):
    """Sends lines; counts those that cannot be sent in `lost`."""

    append_nul = False
    priority_map = {  # noqa: RUF012 - as the standard library has it
        "trace": "notice",
        "debug": "debug",
        "info": "notice",
        "warning": "warning",
        "error": "err",
        "fatal": "crit",
    }

    def __init__(self, url: str, wall_clock: Callable[[], float] = time.time) -> None:
        """Connect to the daemon at `url`; empty means this machine's.

        Raises:
            OSError: it cannot be reached.
            ValueError: the URL is not one of a daemon.
        """
        self.lost = 0
        self._wall_clock = wall_clock
        self._retry_at_s = 0.0
        self._is_connected = True
        self._is_local = not url
        program = sys.argv[0].rpartition(os.sep)[2]
        self._tag = f"{program}[{os.getpid()}]"
        self._host = socket.gethostname()
        address, kind = daemon_at(url)
        SysLogHandler.__init__(self, address, 0 if url else SysLogHandler.LOG_DAEMON, kind)

    def createSocket(self) -> None:  # noqa: N802 - the standard library's name
        """Connect; a TCP connection for a limited time."""
        if self.socktype == socket.SOCK_STREAM and isinstance(self.address, tuple):
            self.unixsocket = False
            self.socket = socket.create_connection(self.address, TIMEOUT_S)
        else:
            SysLogHandler.createSocket(self)

    def send(self, line: str, level: str) -> None:
        """Send one line, unless the daemon was lost a moment ago."""
        if not self._is_connected and self._wall_clock() < self._retry_at_s:
            self.lost += 1
            return
        now = datetime.fromtimestamp(self._wall_clock(), UTC)
        stamp = f"{now.astimezone():%b %e %T}" if self._is_local else f"{now:%Y-%m-%dT%H:%M:%SZ}"
        host = "" if self._is_local else f"{self._host} "
        text = f"{stamp} {host}{self._tag}: {line}\n"
        self._is_connected = True
        self.emit(logging.makeLogRecord({"msg": text, "levelname": level}))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as above
        """Count the line as lost, and connect again later."""
        self.lost += 1
        if self.socktype == socket.SOCK_STREAM:
            self._retry_at_s = self._wall_clock() + RETRY_AFTER_S
            self._is_connected = False
            self.close()  # the next line connects again
