"""Run what a documentation page shows.

The conventions, block by block:

- A `python` block is a program of its own. A `text` block right below it is what it prints.
- In a `console` block a line that starts with `$ ` is a command and the lines below it are what it
  prints; `...` matches any text, line ends included. A command that ends in `&` goes on until
  the page ends. `$ make TARGET` is only checked to have such a target.
- A block with a file name behind its language (`toml midge.toml`, `python hello.py`) is written to
  that file in the page's folder, for the blocks below it.
- Other `toml` and `json` blocks must parse. `text`, `mermaid`, `conf`, `sql` and `yaml` are only
  shown.
- `<!-- no-run: REASON -->` above a block is for what cannot run here.

All blocks of a page run in one scratch folder, in order. The default ports are replaced by free
ones, so that pages neither collide with each other nor with a server of the reader's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = frozenset({"text", "mermaid", "conf", "sql", "yaml"})
DEFAULT_PORTS = ("4222", "4223", "4443", "6222", "8222", "8443", "9222")
COMMAND_TIMEOUT_S = 150

FENCE = re.compile(
    r"(?:<!--\s*no-run:(?P<reason>[^>]*?)-->\s*\n+)?"
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)


class SnippetError(AssertionError):
    """A page shows something that does not hold; says the page, the line and the difference."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    filename: str
    body: str
    line: int
    no_run: str | None


def parse(text: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    blocks = []
    for match in FENCE.finditer(text):
        language, _, filename = match["info"].strip().partition(" ")
        indent = len(match["indent"])
        body = "".join(line[indent:] for line in match["body"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("info")) + 1
        blocks.append(Block(language, filename.strip(), body, line, match["reason"]))
    return blocks


def commands(body: str) -> list[tuple[str, str]]:
    """Split a console block into pairs of command and expected output."""
    found: list[tuple[str, str]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0][:-1] + line.removeprefix("> "), "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


def output_matches(expected: str, actual: str) -> bool:
    """Compare two outputs except blanks at line ends; `...` in `expected` matches any text."""
    shown, printed = (
        "\n".join(line.rstrip() for line in text.strip().splitlines())
        for text in (expected, actual)
    )
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def free_port() -> int:
    """Return a port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Page:
    """Run the blocks of one page in `folder`; `programs` comes first on the search path."""

    name: str
    folder: Path
    programs: Path
    root: Path
    ports: dict[str, int] = field(
        default_factory=lambda: {port: free_port() for port in DEFAULT_PORTS}
    )
    _background: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, text: str) -> int:
        """Run every block; return how many ran. Raises: SnippetError."""
        blocks, ran = parse(text), 0
        followers = [*blocks, None][1:]
        try:
            for block, follower in zip(blocks, followers, strict=True):
                if block.no_run is not None:
                    self._require(bool(block.no_run.strip()), block.line, "no-run gives no reason")
                    continue
                shows = follower is not None and follower.language == "text"
                self._run_block(block, follower.body if shows and follower else "")
                ran += block.language not in SHOWN
        finally:
            self._end_background()
        return ran

    def _run_block(self, block: Block, output: str) -> None:
        if block.filename:
            (self.folder / block.filename).write_text(self._local(block.body))
        elif block.language == "python":
            self._run_python(block, output)
        elif block.language == "console":
            self._run_console(block)
        elif block.language in {"toml", "json"}:
            self._parse_data(block)
        else:
            known = block.language in SHOWN
            self._require(known, block.line, f"unknown block language {block.language!r}")

    def _run_python(self, block: Block, output: str) -> None:
        program = self.folder / f"line_{block.line}.py"
        program.write_text(self._local(block.body))
        actual = self._execute([sys.executable, str(program)], block.line)
        self._compare(output, actual, block.line)

    def _run_console(self, block: Block) -> None:
        for command, expected in commands(block.body):
            if command.startswith("make "):
                self._execute(["make", "--dry-run", *command.split()[1:]], block.line, self.root)
            elif command.endswith("&"):
                self._start(self._local(command[:-1]))
            else:
                actual = self._execute(["bash", "-ec", self._local(command)], block.line)
                self._compare(expected, actual, block.line)

    def _parse_data(self, block: Block) -> None:
        load = tomllib.loads if block.language == "toml" else json.loads
        try:
            load(block.body)
        except ValueError as error:
            raise SnippetError(f"{self.name}:{block.line}: {error}") from error

    def _local(self, text: str) -> str:
        """Put the page's own ports in place of the default ones, written down or not."""
        text = re.sub(r"\bmidge-server (?=-js )", "midge-server -p 4222 ", text)
        return re.sub(
            r"\b(" + "|".join(DEFAULT_PORTS) + r")\b", lambda match: str(self.ports[match[0]]), text
        )

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(
            [str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        own = {"PATH": path, "PYTHONPATH": str(self.root), "NO_COLOR": "1"}
        return os.environ | own | {"NATS_URL": f"nats://127.0.0.1:{self.ports['4222']}"}

    def _execute(self, command: list[str], line: int, folder: Path | None = None) -> str:
        try:
            done = subprocess.run(
                command,
                cwd=folder or self.folder,
                env=self._environment(),
                check=False,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except subprocess.TimeoutExpired as error:
            raise SnippetError(f"{self.name}:{line}: {command} did not end") from error
        shown = f"{command} gave {done.returncode}:\n{done.stdout}"
        self._require(done.returncode == 0, line, shown)
        return done.stdout

    def _start(self, command: str) -> None:
        log = (self.folder / f"background_{len(self._background)}.log").open("wb")
        with log:
            self._background.append(
                subprocess.Popen(
                    ["bash", "-c", f"exec {command}"],
                    cwd=self.folder,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _end_background(self) -> None:
        for process in self._background:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._background.clear()

    def _compare(self, expected: str, actual: str, line: int) -> None:
        local = self._local(expected)
        shown = f"shown:\n{local}\nprinted:\n{actual}"
        self._require(not expected.strip() or output_matches(local, actual), line, shown)

    def _require(self, holds: bool, line: int, what: str) -> None:
        if not holds:
            raise SnippetError(f"{self.name}:{line}: {what}")
