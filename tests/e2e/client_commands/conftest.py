"""Each command against midge and against nats-server, in-process, over a real socket."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from midge import cli
from tests.support.processes import Server, midge_command, nats_server_command


class Done(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture(scope="session", params=["midge", "nats-server"])
def jetstream_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    command = midge_command() if request.param == "midge" else nats_server_command()
    store = tmp_path_factory.mktemp("store")
    with Server(command, flags=("-js", "-sd", str(store))) as running:
        yield running


@pytest.fixture
def run(
    jetstream_server: Server, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: Any
) -> Run:
    """Run a command and return what it printed; `stdin` is what it reads.

    It asks the server of this module, unless `-s` names another one.
    """

    # Without a context of the nats tool, which a developer may have selected.
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    for name in [name for name in os.environ if name.startswith("NATS_")]:
        monkeypatch.delenv(name)

    def act(*words: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        texts = [str(word) for word in words]
        try:
            where = [] if "-s" in texts else ["--server", jetstream_server.url]
            code = cli.main([*texts, *where])
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capsysbinary.readouterr()
        return Done(code, out.decode(errors="backslashreplace"), err.decode())

    return act


def until_shown(run: Run, words: tuple[object, ...], lines: int) -> tuple[Done, str]:
    """Run a command that ends by its `--timeout`, with longer ones until it shows `lines` lines.

    Return what it did, and the time-out as messages have it. A busy machine needs longer ones, to
    connect as well.
    """
    for timeout_s in ("0.1", "1", "5", "30"):
        done = run(*words, "--timeout", f"{timeout_s}s")
        if done.out.count("\n") >= lines and "cannot connect" not in done.out + done.err:
            break
    return done, f"{timeout_s} s"


@pytest.fixture
def ok(run: Run) -> Run:
    """Run a command that must succeed without a complaint."""

    def act(*words: object, stdin: bytes = b"") -> Done:
        done = run(*words, stdin=stdin)
        assert (done.code, done.err) == (0, ""), done
        return done

    return act


@pytest.fixture
def stream(run: Run, ok: Run, request: pytest.FixtureRequest) -> Iterator[str]:
    """Make a stream for subjects below its name in small letters."""
    name = "T" + str(abs(hash(request.node.name)) % 10**9)
    ok("stream", "add", name, "--subjects", f"{name}.>", "--storage", "file")
    yield name
    run("stream", "rm", name, "--yes")


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change into an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
