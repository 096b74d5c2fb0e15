"""The name of the program, and its version line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import midge
from midge.server.process import names

SCRIPT = "import sys; from midge.server.process.cli import server_main; sys.exit(server_main())\n"


@pytest.mark.parametrize(
    ("interpreter", "script", "name"),
    [
        ("python3", "/x/nats-server", "nats-server"),
        ("/usr/bin/python3.11", "/x/__main__.py", "midge-server"),
        ("/x/pypy3", "", "midge-server"),
        ("nats-server", "/x/__main__.py", "nats-server"),
        ("/x/nats-server", "/x/midge-server", "nats-server"),
        ("", "/x/midge-server", "midge-server"),
    ],
)
def test_executable_name(
    monkeypatch: pytest.MonkeyPatch, interpreter: str, script: str, name: str
) -> None:
    monkeypatch.setattr(sys, "orig_argv", [interpreter])
    monkeypatch.setattr(sys, "argv", [script])
    assert names.executable_name() == name


@pytest.mark.parametrize(("compiled", "word"), [(True, "compiled"), (False, "pure")])
def test_one_line_has_both_versions_and_the_build(
    monkeypatch: pytest.MonkeyPatch, *, compiled: bool, word: str
) -> None:
    monkeypatch.setattr(names, "is_compiled", lambda: compiled)
    line = f"midge-server: v{midge.__version__} ({word}), compatible with nats-server v2.15.1"
    assert names.version_line() == line


def test_under_nats_servers_name_the_line_is_its_own(tmp_path: Path, root: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(root)}
    script = tmp_path / "midge-server"
    script.write_text(f"#!{sys.executable}\n{SCRIPT}")
    script.chmod(0o755)
    link = tmp_path / "nats-server"
    link.symlink_to(script)
    renamed = f"exec -a {sys.executable.rpartition('/')[0]}/nats-server {sys.executable} "
    for command in ([str(link), "-v"], ["bash", "-c", f"{renamed} -m midge.server -v"]):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=30
        )
        assert done.stdout == "nats-server: v2.15.1\n"
    done = subprocess.run(
        [str(script), "-v"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{names.version_line()}\n"
