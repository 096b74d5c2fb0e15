"""Servers whose calls are logged by file_calls.c."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.processes import Server, midge_command


def compile_shim(directory: Path) -> Path:
    """Compile the log of calls, and return the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "the compiled build needs a C compiler, too"
    library = directory / "file_calls.so"
    source = Path(__file__).with_name("file_calls.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def preloaded(shim: Path, log: Path, store: Path, fault: str = "0", sync_ms: int = 0) -> Server:
    """Start a server on `store` that logs to `log`; the others are variables of file_calls.c."""
    command = ["env", f"LD_PRELOAD={shim}", f"MIDGE_CALLS={log}"]
    command += [f"MIDGE_NO_SYNC={fault}", f"MIDGE_SYNC_MS={sync_ms}"]
    return Server([*command, *midge_command()], flags=("-js", "-sd", str(store)))
