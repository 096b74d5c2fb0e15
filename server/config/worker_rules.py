"""What a server of several workers cannot do, in one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.config.type_check import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midge.server.config.options import Options

SINGLE = "set server.workers = 1 to use it"


def find_worker_problems(options: Options) -> Iterator[Problem]:
    """Yield the settings that need a single process, where there are to be several."""
    if options.server.workers == 1:
        return
    single = {
        ("monitoring", "console", "enabled"): options.monitoring.console.enabled,
    }
    reason = f"several workers do not support this; {SINGLE}"
    yield from (Problem(path, reason) for path, is_set in single.items() if is_set)
