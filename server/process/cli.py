"""Where `midge-server` begins; `commands.py` imports the rest, while an interrupt is quiet."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

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
    """Import msgspec without what it can do without, which takes 4 of the 90 ms of a start.

    From typing_extensions it takes three names where that is installed, and else the same ones from
    `typing`. It imports `uuid`, which asks `platform` once for the system and nothing more.
    """
    stand_ins: dict[str, Any] = {"typing_extensions": None}  # importing None fails
    stand_ins["platform"] = SimpleNamespace(system=lambda: os.uname().sysname)
    missing = {name: one for name, one in stand_ins.items() if name not in sys.modules}
    sys.modules.update(missing)
    try:
        import msgspec  # noqa: F401, PLC0415 - see above
    finally:
        for name in missing:
            del sys.modules[name]
