"""A process that starts writers of tables by forking, so that a kill costs no start of Python.

Each line of its input is a writer to run, one at a time: the settings of a table's job, and where
the writer kills itself. The answers are the writer's process id, and its end.
"""

import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FAIL_POINTS = (
    "between quarantine and commit",
    "after the commit",
    "commit",
    "compaction",
    "vacuum",
    "schema change",
    "checkpoint",
    "rebuild",
)
_FULL_DISK_S = 0.2


def compile_kill_points(directory: Path) -> Path:
    """Compile kill_points.c, and return the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None, "the compiled build needs a C compiler, too"
    library = directory / "kill_points.so"
    source = Path(__file__).with_name("kill_points.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Workers:
    """Starts writers, and kills them; one is alive at a time."""

    def __init__(self, library: Path) -> None:
        command = [sys.executable, "-m", "tests.pipeline.tables.workers", str(library)]
        pipe = subprocess.PIPE
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment
        )
        self._pid = 0

    def start(self, **asked: Any) -> None:
        """Start a writer of `job`; `fail` is one of `FAIL_POINTS`, `at` the number of a change."""
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._pid = int(self._process.stdout.readline())

    def wait(self) -> int:
        """Return the signal that ended the writer."""
        code = int(self._process.stdout.readline())
        self._pid = 0
        return code

    def kill(self) -> int:
        """Kill the writer with SIGKILL, unless it has ended; return the signal that ended it."""
        if not self._pid:
            return 0
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        return self.wait()

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


def _serve(library: ctypes.CDLL) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                _write(library, **asked)
            finally:
                os._exit(1)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _write(library: ctypes.CDLL, job: dict[str, Any], fail: str = "", at: int = 0) -> None:
    """Serve a table until something kills this process."""
    from midge.pipeline.tables.rebuilding import rebuild
    from midge.pipeline.tables.serving import Job, TableServer

    _arm(library, fail, at)
    if fail == "rebuild":
        library.kill_points(at, b"")
        rebuild(job["url"], **job["columns"])
        os.kill(os.getpid(), signal.SIGKILL)
    if fail == "full disk":
        threading.Thread(target=_fill_and_free, args=(library,), daemon=True).start()
    TableServer().change({"t": Job(**job)})
    signal.pause()


def _fill_and_free(library: ctypes.CDLL) -> None:
    chosen = random.Random(time.monotonic())
    while True:
        for is_full in (1, 0):
            library.full_disk(0 if is_full else -1)
            time.sleep(chosen.random() * _FULL_DISK_S)


def _arm(library: ctypes.CDLL, fail: str, at: int) -> None:
    """Put the kill where it is asked for."""
    import deltalake
    from deltalake.table import TableOptimizer

    from midge.pipeline.tables import table_handle

    def before(owner: Any, name: str, applies: Any = lambda _: True) -> None:
        """Count the changes of files from a call on; with its end ends the process."""
        real = getattr(owner, name)

        def counting(*args: Any, **named: Any) -> Any:
            is_it = applies(named)
            if is_it:
                library.kill_points(at, b"")
            result = real(*args, **named)
            if is_it:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, counting)

    real_append = table_handle._append

    def append(url: str, *args: Any) -> bool:
        is_table = not url.endswith(table_handle.QUARANTINE_SUFFIX)
        if fail == "commit" and is_table:
            library.kill_points(at, b"")
        done = real_append(url, *args)
        if (fail, is_table) in {(FAIL_POINTS[0], False), (FAIL_POINTS[1], True), ("commit", True)}:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    table_handle._append = append
    if fail == "compaction":
        before(TableOptimizer, "compact")
    elif fail == "vacuum":
        before(deltalake.DeltaTable, "vacuum")
    elif fail == "schema change":
        before(deltalake, "write_deltalake", lambda named: named.get("schema_mode") == "merge")
    elif fail == "checkpoint":
        library.kill_points(at, b"checkpoint")


if __name__ == "__main__":
    import deltalake  # noqa: F401 - for the writers, which are forked
    import pyarrow.dataset  # noqa: F401

    import midge.pipeline.tables.rebuilding
    import midge.pipeline.tables.serving  # noqa: F401

    _serve(ctypes.CDLL(sys.argv[1]))
