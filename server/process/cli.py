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
    import_msgspec()
    from midge.server.process.commands import midge_server  # noqa: PLC0415 - after the above

    return midge_server(sys.argv[1:] if arguments is None else arguments)


def import_msgspec() -> None:
    """Import msgspec without typing_extensions, which takes 3 of the 90 ms of a start.

    It takes three names from there where it is installed, and else the same from `typing`.
    """
    has_it = "typing_extensions" in sys.modules
    if not has_it:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # importing it fails
    import msgspec  # noqa: F401, PLC0415 - see above

    if not has_it:
        del sys.modules["typing_extensions"]
