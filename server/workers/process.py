"""One worker process as the parent sees it: started by exec, spoken to, and watched."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from midge.server.log.logger import JOURNAL
from midge.server.workers import handover
from midge.server.workers.control import ControlChannel, GoneError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MODULE = "midge.server.process.worker"
"""The module that a worker runs."""

_LINE_MAX_BYTES = 1 << 20  # of a log line that never ends
_READ_BYTES = 1 << 16
_LOOK_AGAIN_S = 0.005  # a process that closes its sockets has all but ended
_PATIENCE_S = 5.0


class WorkerProcess:
    """The process of worker `index`.

    `answer` and `on_notice` take its questions and notices. `exited` is called once it has ended,
    for whatever reason, with its exit code; negative ones are signals.
    """

    def __init__(
        self,
        index: int,
        answer: Callable[[WorkerProcess, str, dict[str, Any]], Awaitable[Any]],
        on_notice: Callable[[WorkerProcess, str, dict[str, Any]], None],
        exited: Callable[[WorkerProcess, int], None],
    ) -> None:
        self.index = index
        self.unanswered = 0  # questions whether it is alive, since its last answer
        self.handed = 0  # sockets
        self.has_notice = False  # it is starting, or has started, with the first notice
        self._exited = exited
        self._has_ended = False
        self._patience_s = _PATIENCE_S
        self._log = bytearray()
        self.control = ControlChannel(
            lambda kind, body: answer(self, kind, body),
            lambda kind, body: on_notice(self, kind, body),
            self._look,
        )
        here, there = socket.socketpair()
        self._control_socket = here
        self._way, way_there = handover.make_pair()
        self._log_end, log_there = os.pipe()
        os.set_blocking(self._log_end, False)
        try:
            self._process = _start((there.fileno(), way_there.fileno()), log_there)
        finally:
            there.close()
            way_there.close()
            os.close(log_there)

    async def connect(self) -> None:
        """Listen to the process."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._log_end, self._read_log)
        await loop.create_unix_connection(lambda: self.control, sock=self._control_socket)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def hand_over(self, note: handover.Note, handed: socket.socket) -> bool:
        """Send a copy of a socket; False when it does not fit."""
        if self._has_ended or not handover.hand_over(self._way, note, handed):
            return False
        self.handed += 1
        return True

    def kill(self) -> None:
        """End the process at once."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)

    async def is_alive(self) -> None:
        """Ask whether it is alive, and note the answer."""
        self.unanswered += 1
        try:
            await self.control.ask("ping")
        except GoneError:
            return
        self.unanswered = 0

    # The end.

    def _look(self) -> None:
        """Look whether the process has ended, which says nothing any more."""
        code = self._process.poll()
        if code is None:
            self._patience_s -= _LOOK_AGAIN_S
            if self._patience_s <= 0:
                self.kill()
            asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look)
            return
        self._has_ended = True
        self._read_log()
        asyncio.get_running_loop().remove_reader(self._log_end)
        os.close(self._log_end)
        self._way.close()
        self._exited(self, code)

    # What it logs.

    def _read_log(self) -> None:
        """Pass on the lines that the process has written; they are whole log lines already."""
        while True:
            try:
                data = os.read(self._log_end, _READ_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            if not data:
                asyncio.get_running_loop().remove_reader(self._log_end)
                return
            self._log += data
            *lines, self._log = self._log.split(b"\n")
            if len(self._log) > _LINE_MAX_BYTES:
                lines.append(self._log)
                self._log = bytearray()
            for line in lines:
                JOURNAL.relay(line.decode("utf-8", "backslashreplace"))


def _start(descriptors: tuple[int, int], log: int) -> subprocess.Popen[bytes]:
    """Start a worker that has `descriptors` and writes its log to `log`.

    It imports from where this process does, and from nowhere else.
    """
    path = os.pathsep.join(entry or str(os.getcwd()) for entry in sys.path)  # noqa: PTH109 - text
    return subprocess.Popen(  # noqa: S603 - this very interpreter
        [sys.executable, "-P", "-m", MODULE, *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stderr=log,
        pass_fds=descriptors,
        env={**os.environ, "PYTHONPATH": path},
    )
