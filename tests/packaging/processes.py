"""Run builds and the servers that came out of them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

START_TIMEOUT_S = 60


def run(
    command: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run `command` and return its output; fail with that output when it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}"
    return done.stdout


def python_environment(folder: Path, wheel: Path, constraints: Path, *others: str) -> Path:
    """Make a virtual environment with `wheel` and `others`; return its folder of programs."""
    run([sys.executable, "-m", "venv", folder])
    programs = folder / "bin"
    pip = [programs / "python", "-m", "pip", "install", "--quiet"]
    run([*pip, "--constraint", constraints, wheel, *others])
    return programs


@contextlib.contextmanager
def started_server(
    command: Sequence[str | Path], folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a server on a free port; yield its process and port, and leave none behind."""
    flags = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", folder]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *flags], cwd=folder, stderr=output, stdout=output)
    try:
        yield process, announced_port(process, folder, log)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def announced_port(process: subprocess.Popen[bytes], folder: Path, log: Path) -> int:
    """Return the client port from the ports file, once the server has written it."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"server ended at once:\n{log.read_text()}"
        for path in folder.glob("[!.]*.ports"):
            with contextlib.suppress(json.JSONDecodeError):
                url: str = json.loads(path.read_text())["nats"][0]
                return int(url.rsplit(":", maxsplit=1)[1])
        time.sleep(0.02)  # another process: there is nothing to wait on but its file
    raise AssertionError(f"no ports file after {START_TIMEOUT_S} s:\n{log.read_text()}")
