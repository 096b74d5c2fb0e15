"""The name and the versions of this program."""

from __future__ import annotations

import os
import sys

from midge.protocol import COMPATIBLE_VERSION
from midge.version import __version__, is_compiled

PROGRAM = "midge-server"
REAL = "nats-server"
"""Under this name the program answers as the one that it stands in for."""


def executable_name() -> str:
    """Return the name under which this program was started.

    That is the script's, or a link's to it, unless the interpreter itself was given another name,
    as by `exec -a nats-server python -m midge.server`. A script's own name cannot be changed by
    `exec -a`: the system replaces it by the interpreter's.
    """
    given = _last_part(sys.orig_argv[0]) if sys.orig_argv else ""
    if given and not given.lower().startswith(("python", "pypy")):
        return given
    name = _last_part(sys.argv[0]) if sys.argv else ""
    return PROGRAM if not name or name.endswith(".py") or name == "-c" else name


def _last_part(path: str) -> str:
    return path.rpartition(os.sep)[2]


def version_line() -> str:
    """Return what `-v` prints: nats-server's line under its name, and both versions else."""
    if executable_name() == REAL:
        return f"{REAL}: v{COMPATIBLE_VERSION}"
    build = "compiled" if is_compiled() else "pure"
    return f"{PROGRAM}: v{__version__} ({build}), compatible with {REAL} v{COMPATIBLE_VERSION}"
