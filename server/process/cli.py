"""Where `midge-server` begins; `commands.py` imports the rest, while an interrupt is quiet."""

from __future__ import annotations

import gc
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def server_main(arguments: Sequence[str] | None = None) -> int:
    """Be `midge-server` as a process of its own; return the exit code."""
    # Until the server handles signals, an interrupt ends the process as it does nats-server's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Nothing that is imported becomes garbage: looking for it takes 8 of 120 ms. A server collects
    # again from `shorten_pauses` on.
    gc.disable()
    from midge.server.process.commands import midge_server  # noqa: PLC0415 - after the above

    return midge_server(sys.argv[1:] if arguments is None else arguments)
