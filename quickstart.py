"""Serve on 127.0.0.1:4222 at once, interpreted until the modules are compiled: `make run`.

Then this program restarts the server as soon as no client is connected. It does not restart a
server with flags of the user, because that may hold a memory stream; it asks the user to do so.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = Path(os.path.relpath(Path(sys.executable).parent))
RUN = Path("build", "run")
POLL_S = 0.2
IDLE_POLL_S = 2.0
COMPILE = ("nice", sys.executable, "setup.py", "--quiet", "build_ext")
FLAGS = ("-a", "127.0.0.1", "-p", "4222", "-m", "8222")


def main(make: str, arguments: list[str]) -> int:
    """Serve until the server ends; return its exit code."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    if os.environ.get("MIDGE_PURE", "") in {"", "0"}:
        if not is_compiled():
            try:
                return serve_and_compile(make, arguments)
            except KeyboardInterrupt:  # the children have got it, too
                return 128 + signal.SIGINT
        build(make)
    with Server(arguments) as server:
        say(suggestions(server.urls(), str(PROGRAMS), server.token))
        return server.wait()


def is_compiled() -> bool:
    """Return whether extension modules lie beside the sources."""
    return next(Path("protocol").glob("parser.*.so"), None) is not None


def build(make: str) -> None:
    """Put the compiled modules in place; compile the changed ones."""
    subprocess.run([make, "--no-print-directory", "build"], check=True)  # noqa: S603 - $(MAKE)


def serve_and_compile(make: str, arguments: list[str]) -> int:
    """Serve interpreted, compile meanwhile, and restart when no client is connected."""
    with Server(arguments) as server:
        urls = server.urls()
        say(suggestions(urls, str(PROGRAMS), server.token))
        say("Compiling meanwhile, for a server several times as fast:")
        # Not in place: the running server imports modules of one kind only.
        with Child(COMPILE) as compiler:
            while compiler.poll() is None and server.poll() is None:
                time.sleep(POLL_S)
            if server.poll() is not None or compiler.poll() != 0:
                return server.wait()
        if arguments:
            say("Compiled. Ctrl-C and `make run` once more serve at full speed.")
            return server.wait()
        say("Compiled. The server restarts at full speed as soon as nobody is connected.")
        while server.poll() is None and connections(urls):
            time.sleep(IDLE_POLL_S)
        if server.poll() is not None:
            return server.wait()
    build(make)
    with Server(arguments, server.token) as server:
        server.urls()
        say("Restarted, compiled.")
        return server.wait()


class Child:
    """A child process that ends with the block."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(argv)  # noqa: S603 - ours, and flags of the user

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Wait for the end; return the exit code. Ctrl-C reaches the child by itself."""
        while True:
            try:
                return self._process.wait()
            except KeyboardInterrupt:
                continue


class Server(Child):
    """`midge-server` with monitoring pages, and a console unless the user has another file."""

    def __init__(self, arguments: list[str], token: str = "") -> None:
        self._ports = RUN / "ports"
        self._ports.mkdir(parents=True, exist_ok=True)
        for path in self._ports.iterdir():
            path.unlink()
        self.token = ""
        flags = [*FLAGS, "--ports_file_dir", str(self._ports)]
        if not any(word.lstrip("-").split("=")[0] in {"c", "config"} for word in arguments):
            self.token = token or secrets.token_urlsafe(9)
            config = RUN / "console.toml"
            config.write_text(f'[monitoring.console]\nenabled = true\ntoken = "{self.token}"\n')
            flags += ["-c", str(config)]
        super().__init__([str(PROGRAMS / "midge-server"), *flags, *arguments])

    def urls(self) -> dict[str, list[str]]:
        """Return its URLs by kind; an empty dict if it has ended before it listened."""
        while self.poll() is None:
            for path in self._ports.glob("*.ports"):
                found: dict[str, list[str]] = json.loads(path.read_text())
                return found
            time.sleep(POLL_S / 4)
        return {}


def connections(urls: dict[str, list[str]]) -> int:
    """Return the number of connected clients, 1 if the server does not answer."""
    try:
        varz = f"{urls['monitoring'][0]}/varz"
        with urllib.request.urlopen(varz, timeout=5) as page:  # noqa: S310 - our own server
            return int(json.load(page)["connections"])
    except (OSError, LookupError, ValueError):
        return 1


def suggestions(urls: dict[str, list[str]], programs: str, token: str) -> str:
    """Return suggestions for a server that listens at `urls`; "" if there are none."""
    if not urls:
        return ""
    nats = urls["nats"][0]
    server = "" if nats == "nats://127.0.0.1:4222" else f" --server {nats}"
    rows = [
        (f"{programs}/midge sub 'orders.>'{server}", "print what is published"),
        (f"{programs}/midge pub orders.new hello{server}", "publish, in another terminal"),
        (f"{programs}/midge bench pub hello --server {nats}", "how fast it is"),
        (f"{programs}/python", "for the programs in README.md: nats-py is installed"),
    ]
    for page in urls.get("monitoring", [])[:1]:
        rows.append((page, "monitoring pages"))
        if token:
            rows.append((f"{page}/console", f"rates, subjects, clients; its token is {token}"))
    width = max(len(what) for what, _why in rows)
    lines = [f"  {what:<{width}}  {why}" for what, why in rows]
    head = f"\nClients connect to {nats}. What to try next:\n"
    return "\n".join([head, *lines, "\nCtrl-C ends the server."])


def say(text: str) -> None:
    """Print `text` unless it is empty."""
    if text:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
