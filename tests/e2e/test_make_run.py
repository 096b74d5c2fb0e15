"""`make run`: what it prints works, and it restarts compiled when no client is connected."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import snippets

START = """
import sys
sys.path.insert(0, {root!r})
import quickstart
quickstart.FLAGS = ("-a", "127.0.0.1", "-p", "-1", "-m", "-1")
sys.exit(quickstart.main({make!r}, {arguments!r}))
"""

pytestmark = pytest.mark.timeout(300)


class Run:
    """`make run` in a folder of its own, on free ports."""

    def __init__(
        self, root: Path, folder: Path, make: str, arguments: tuple[str, ...] = ()
    ) -> None:
        program = START.format(root=str(root), make=make, arguments=list(arguments))
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root), "MIDGE_PURE": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def until(self, last: str) -> str:
        """Return what it prints up to the line that contains `last`."""
        assert self._process.stdout is not None
        printed = ""
        for line in self._process.stdout:
            printed += line
            if last in line:
                return printed
        raise AssertionError(f"ended without {last!r}: {printed}")

    def stop(self) -> int:
        """End it as Ctrl-C does the wrapper; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout as `make run` sees it, of which nothing is compiled."""
    (tmp_path / "protocol").mkdir()
    (tmp_path / "setup.py").write_text("import sys\nsys.exit('cannot compile')\n")
    return tmp_path


@pytest.fixture
def compiled(root: Path, folder: Path) -> Iterator[str]:
    """What a compiled checkout prints."""
    (folder / "protocol" / "parser.abi.so").touch()
    run = Run(root, folder, "true")
    yield run.until("Ctrl-C ends the server")
    assert run.stop() == 128 + signal.SIGTERM


def suggested(printed: str) -> list[str]:
    """Return the commands and pages that are suggested, without what they are for."""
    rows = [line for line in printed.splitlines() if line.startswith("  ")]
    return [re.split(r"  +", row.strip())[0] for row in rows]


def test_every_suggestion_works(root: Path, folder: Path, compiled: str) -> None:
    subscribe, publish, bench, python, pages, console = suggested(compiled)
    (token,) = re.findall(r"its token is (\S+)", compiled)
    (nats,) = re.findall(r"Clients connect to (\S+)\. ", compiled)
    words = [shlex.split(line) for line in (subscribe, publish, bench)]
    assert [line[1:3] for line in words] == [
        ["sub", "orders.>"],
        ["pub", "orders.new"],
        ["bench", "pub"],
    ]
    for page in (console, f"{pages}/varz"):
        with urllib.request.urlopen(page) as answer:
            assert answer.status == 200
    printing = subprocess.Popen(
        [*words[0], "--count", "1"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    await_subscription(pages)
    subprocess.run(words[1], cwd=folder, check=True, timeout=60)
    assert "hello" in printing.communicate(timeout=60)[0]
    subprocess.run([*words[2], "--count", "1000"], cwd=folder, check=True, timeout=60)
    action = urllib.request.Request(
        f"{console}/publish",
        json.dumps({"subject": "orders.new", "payload": "hello"}).encode(),
        {"X-Console-Token": token},
    )
    with urllib.request.urlopen(action) as answer:
        assert answer.status == 200
    readme = snippets.parse((root / "README.md").read_text())
    program = next(block.body for block in readme if block.language == "python")
    first = subprocess.run(
        [python, "-c", program.replace("nats://127.0.0.1:4222", nats)],
        cwd=folder,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert first.stdout == "thanks for 42 midges\n"


def await_subscription(pages: str) -> None:
    """Return when a client has subscribed."""
    while True:
        with urllib.request.urlopen(f"{pages}/connz?subs=1") as page:
            if any(one["subscriptions"] for one in json.load(page)["connections"]):
                return


def test_a_compile_that_fails_leaves_the_interpreted_server_serving(
    root: Path, folder: Path
) -> None:
    run = Run(root, folder, "true")
    printed = run.until("Compiling meanwhile")
    greet(printed)
    assert run.stop() == 128 + signal.SIGTERM


def test_it_restarts_compiled_when_nobody_is_connected(root: Path, folder: Path) -> None:
    (folder / "setup.py").write_text("")
    make = folder / "make"
    make.write_text("#!/bin/sh\ntouch protocol/parser.abi.so\n")
    make.chmod(0o755)
    run = Run(root, folder, str(make))
    address = address_of(run.until("Compiling meanwhile"))
    with socket.create_connection(address, 5) as client:
        client.recv(5)
        run.until("as soon as nobody is connected")
        assert not (folder / "protocol" / "parser.abi.so").exists()
    run.until("Restarted, compiled.")
    assert (folder / "protocol" / "parser.abi.so").exists()
    assert run.stop() == 128 + signal.SIGTERM


def test_a_server_with_flags_is_not_restarted(root: Path, folder: Path) -> None:
    (folder / "setup.py").write_text("")
    run = Run(root, folder, "false", ("--name", "mine"))
    greet(run.until("Ctrl-C ends the server"))
    run.until("once more serve at full speed")
    assert run.stop() == 128 + signal.SIGTERM


def address_of(printed: str) -> tuple[str, int]:
    (port,) = re.findall(r"Clients connect to nats://127\.0\.0\.1:(\d+)\. ", printed)
    return "127.0.0.1", int(port)


def greet(printed: str) -> None:
    with socket.create_connection(address_of(printed), 5) as sock:
        assert sock.recv(5) == b"INFO "
