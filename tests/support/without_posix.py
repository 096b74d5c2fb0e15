"""A pytest plugin that hides what Windows lacks; it must be imported before midge.

`python -m pytest -p tests.support.without_posix FILE...` runs the tests on plain asyncio.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import sys
from asyncio import selector_events, unix_events
from enum import IntEnum
from typing import Any

ABSENT_SIGNALS = {"SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"}

_socketpair = socket.socketpair
_family = socket.AF_UNIX


def _refuse(*_: Any) -> None:
    raise NotImplementedError


def hide() -> None:
    """Remove the names from this process's modules."""
    sys.modules.update({"uvloop": None, "fcntl": None})  # type: ignore[dict-item]
    selectors.DefaultSelector = selectors.SelectSelector  # type: ignore[misc]  # Windows' own
    for name in [name for name in dir(select) if name.startswith(("epoll", "EPOLL"))]:
        delattr(select, name)
    del os.fdatasync, socket.AF_UNIX
    socket.socketpair = lambda *_: _socketpair(_family)  # type: ignore[assignment]  # of asyncio
    for name in ABSENT_SIGNALS:
        delattr(signal, name)
    kept = {one.name: one.value for one in signal.Signals if one.name not in ABSENT_SIGNALS}
    signal.Signals = IntEnum("Signals", kept)  # type: ignore[misc, assignment]
    loop = selector_events.BaseSelectorEventLoop
    loop.add_reader = loop.remove_reader = _refuse  # type: ignore[assignment]
    unix_events._UnixSelectorEventLoop.add_signal_handler = _refuse  # type: ignore[attr-defined]


hide()

if __name__ == "__main__":
    from midge.server.process.cli import server_main

    sys.exit(server_main())
