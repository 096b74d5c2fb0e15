"""Whether a small write can go to the disk without a thread and without the page cache."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

_IO_SETUP = {"x86_64": 206, "aarch64": 0}
_IO_DESTROY = {"x86_64": 207, "aarch64": 1}
_FILE_SYSTEMS = {"ef53", "58465342"}  # ext4 and XFS, as stat prints them


def can_write_direct(path: Path) -> bool:
    """Return whether the system has io_submit, and `path` is on a file system that is known."""
    number = _IO_SETUP.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return False
    context = ctypes.c_ulong(0)
    libc = ctypes.CDLL(None)
    if libc.syscall(number, 1, ctypes.byref(context)) != 0:
        return False
    libc.syscall(_IO_DESTROY[platform.machine()], context)
    command = ["stat", "--file-system", "--format=%t", str(path)]
    return subprocess.check_output(command, text=True).strip() in _FILE_SYSTEMS
