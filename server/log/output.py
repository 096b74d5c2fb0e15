"""Outputs of log lines: a stream, a syslog daemon, or a file that rotates by size.

A write error loses lines, which are counted; it never stops the server.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from midge.server.config.options import Logging

RETRY_AFTER_S = 1.0
"""Seconds before a log file that could not be opened is tried again."""


class StreamOutput:
    """Writes lines to a stream that it does not own, such as standard error."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`, which this object never closes."""
        self._stream = stream
        self.lost = 0
        self.events: list[tuple[str, dict[str, str]]] = []

    def write(self, line: str, _level: str = "info") -> None:
        """Write one line."""
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1

    def reopen(self) -> None:
        """Do nothing: a stream has no file to open."""

    def close(self) -> None:
        """Do nothing: the stream is not owned."""


class FileOutput:
    """Writes lines to a file, unbuffered, so that nothing is lost when the process is killed.

    `events` has what a rotation has to log; the caller formats and writes it.
    """

    def __init__(self, options: Logging, wall_clock: Callable[[], float] = time.time) -> None:
        """Append to `options.file`; while it cannot be opened, lines are lost and counted."""
        from pathlib import Path  # noqa: PLC0415 - most write to standard error

        self._path = Path(options.file)
        self._size_max_bytes = options.file_size_limit_bytes
        self._files_max = options.file_max_count
        self._wall_clock = wall_clock
        self._descriptor = -1
        self._size_bytes = 0
        self._retry_at_s = 0.0
        self.lost = 0
        self.events: list[tuple[str, dict[str, str]]] = []
        self._open()

    def write(self, line: str, _level: str = "info") -> None:
        """Write one line; rotate when the file exceeds the size limit then, as nats-server does."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        try:
            if self._descriptor < 0 and not self._open_again():
                self.lost += 1
                return
            self._size_bytes += os.write(self._descriptor, data)
            # The lines about a rotation cause no other one, however small the limit.
            if 0 < self._size_max_bytes < self._size_bytes and not self.events:
                self._rotate()
        except OSError:
            self.lost += 1

    def reopen(self) -> None:
        """Close the file and open its path again."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> bool:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._path, flags, 0o640)
            self._size_bytes = os.fstat(self._descriptor).st_size
        except OSError:
            return False
        return True

    def _open_again(self) -> bool:
        now = self._wall_clock()
        if abs(now - self._retry_at_s) < RETRY_AFTER_S:
            return False
        self._retry_at_s = now
        return self._open()

    def _rotate(self) -> None:
        """Rename the full file to `<file>.<time>`, as nats-server does, and start a new one."""
        now_s = self._wall_clock()
        moment = datetime.fromtimestamp(now_s, UTC).astimezone()
        stamp = f"{moment:%Y.%m.%d.%H.%M.%S}.{int(now_s * 1e9) % 1_000_000_000:09d}"
        full = self._path.with_name(f"{self._path.name}.{stamp}")
        self.close()
        self._path.rename(full)
        self._open()
        self.events.append(("log_rotated", {"file": str(full)}))
        if self._files_max > 0:
            self._prune()

    def _prune(self) -> None:
        pattern = f"{self._path.name}.[0-9][0-9][0-9][0-9].*"
        rotated = sorted(self._path.parent.glob(pattern))
        for old in rotated[: max(len(rotated) - self._files_max + 1, 0)]:
            old.unlink(missing_ok=True)
            self.events.append(("log_purged", {"file": old.name}))


class SyslogOutput:
    """Sends lines to a syslog daemon with nats-server's headers and priorities.

    Raises:
        OSError: the daemon cannot be reached.
        ValueError: the URL in `options` is not one of a daemon.
    """

    def __init__(self, options: Logging, wall_clock: Callable[[], float] = time.time) -> None:
        """Connect to the daemon of `options.remote_syslog`, or else to that of this machine."""
        from midge.server.log.syslog import SyslogHandler  # noqa: PLC0415 - few use it

        self._handler = SyslogHandler(options.remote_syslog, wall_clock)
        self.events: list[tuple[str, dict[str, str]]] = []

    @property
    def lost(self) -> int:
        """Count the lines that were not sent."""
        return self._handler.lost

    def write(self, line: str, level: str = "info") -> None:
        """Send one line."""
        self._handler.send(line, level)

    def reopen(self) -> None:
        """Do nothing: a daemon has no file to open."""

    def close(self) -> None:
        """Close the connection."""
        self._handler.close()
