"""The build and `make run`, as far as that takes no minute."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest


def build(root: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build the extension modules; the tests here fail before that."""
    words = ["setup.py", "--quiet", "build_ext", "--build-lib", folder, "--build-temp", folder]
    known = {name: value for name, value in os.environ.items() if name != "MIDGE_PURE"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env=known | environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_without_a_compiler_one_line_says_what_to_do(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path, CC="no-such-compiler -O2")
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith("midge: cannot compile without the C compiler 'no-such-compiler': ")
    assert "apt install gcc" in line
    assert "MIDGE_PURE=1" in line


def test_only_the_user_decides_to_do_without(root: Path, tmp_path: Path) -> None:
    done = build(root, tmp_path, CC="no-such-compiler", MIDGE_PURE="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_make_run_ends_in_what_to_try_next(root: Path, tmp_path: Path) -> None:
    ports = tmp_path / "midge-server_1.ports"
    urls = {"nats": ["nats://127.0.0.1:4"], "monitoring": ["http://127.0.0.1:8"]}
    ports.write_text(json.dumps(urls))
    program = subprocess.run(
        ["make", "--no-print-directory", "--eval", 'shown:;@printf "%s\\n" "$$TRY_NEXT"', "shown"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    ).stdout
    said = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), ".venv/bin"],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    ).stdout
    for part in ("nats://127.0.0.1:4", "http://127.0.0.1:8/console", "midge bench pub hello"):
        assert part in said


@pytest.mark.parametrize("page", ["README.md"])
def test_the_speed_table_is_of_code_that_there_is(root: Path, page: str) -> None:
    assert "uncommitted" not in (root / page).read_text()


def test_a_generated_file_goes_with_the_headers_that_it_inlines(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = runpy.run_path(str(root / "setup.py"))
    monkeypatch.chdir(root)
    headers = setup["headers_by_module"]()
    router = setup["headers_of"]("midge.server.routing.router", headers)
    named = {str(path) for path in router}
    assert "midge/protocol/frame.pxd" in named  # by way of others
    assert "midge/protocol/memory.pxd" in named  # cimported from its package
    assert "midge/server/clients/channel.pxd" not in named
    generated = tmp_path / "midge" / "server" / "routing" / "router.c"
    generated.parent.mkdir(parents=True)
    newest = max(path.stat().st_mtime for path in (*router, root / "setup.py"))
    for made, stays in ((newest + 1, True), (newest - 1, False)):
        generated.touch()
        os.utime(generated, (made, made))
        setup["drop_outdated"](tmp_path)
        assert generated.exists() is stays
