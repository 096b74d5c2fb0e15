"""A victim: one midge process, with bystanders that must not notice what is done to it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.servers import CHECKOUT, Server, midge_command

P99_S = 1.0
"""Far above what a quiet machine shows (1 to 5 ms), far below any time-out of a client."""

TIMEOUT_S = 20.0

Victim = Callable[..., "AbstractContextManager[Target]"]


class Target:
    """The server under attack, and what may be asked about it."""

    def __init__(self, server: Server, connect: str) -> None:
        self.server = server
        self.connect_line = f"CONNECT {connect}\r\n".encode()
        self._opened: list[socket.socket] = []

    def open(self) -> socket.socket:
        """Open a connection, and close it when the attack is over."""
        client = socket.create_connection(self.server.address(), timeout=TIMEOUT_S)
        self._opened.append(client)
        return client

    def close_all(self) -> None:
        """Close every connection."""
        for client in self._opened:
            client.close()

    def dial(self, *, is_connected: bool = True) -> socket.socket:
        """Open a connection; INFO has been read, and CONNECT sent unless that is not wanted."""
        client = self.open()
        assert read_until(client, b"\r\n").startswith(b"INFO ")
        if is_connected:
            client.sendall(self.connect_line)
            ask(client)
        return client

    def rss_bytes(self) -> int:
        """Return the resident memory of the server."""
        pages = Path(f"/proc/{self.server.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Return the number of open files of the server."""
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))

    def wait_for_descriptors(self, count: int) -> None:
        """Wait until the server has let go of all files but `count`."""
        wait_until(lambda: self.descriptors() <= count, f"{count} open files")


class _Closer:
    """Closes a target's connections, whatever happened."""

    def __init__(self, target: Target) -> None:
        self.close = target.close_all


@pytest.fixture
def victim() -> Victim:
    """Start a server with bystanders; when the block ends, hear the bystanders."""

    @contextlib.contextmanager
    def start(
        config: str = "", flags: tuple[str, ...] = (), connect: str = '{"verbose":false}'
    ) -> Iterator[Target]:
        with Server(midge_command(), config, flags) as server:
            host, port = server.address()
            command = [sys.executable, "-m", "tests.abuse.bystander", host, str(port), connect]
            pair = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
            )
            try:
                assert pair.stdout is not None
                assert pair.stdout.readline() == "ready\n"
                target = Target(server, connect)
                with contextlib.closing(_Closer(target)):
                    yield target
                assert server.process.poll() is None, server.log
                out, _ = pair.communicate(timeout=TIMEOUT_S)
            finally:
                pair.kill()
                pair.wait()
                for stream in (pair.stdin, pair.stdout):
                    if stream is not None:
                        stream.close()
            check_bystanders(json.loads(out))
            assert "Traceback" not in server.log

    return start


def check_bystanders(seen: dict[str, object]) -> None:
    """Assert that the bystanders got everything, in order and soon."""
    delays = sorted(seen["delays_s"])  # type: ignore[call-overload]
    assert seen["in_order"], f"{len(delays)} of {seen['sent']} messages"
    p99 = delays[int(len(delays) * 0.99)] if delays else 0.0
    assert p99 < P99_S, f"p99 of {len(delays)} messages is {p99:.3f} s"


def ask(client: socket.socket, *lines: bytes) -> bytes:
    """Send `lines` and a PING; return what comes until PONG, or the end."""
    with contextlib.suppress(OSError):
        client.sendall(b"".join(line + b"\r\n" for line in lines) + b"PING\r\n")
    # The server's own early PING may come in between.
    return read_until(client, b"PONG\r\n").replace(b"PING\r\n", b"")


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Return what comes up to `end`, or until the server closes."""
    got = b""
    while not got.endswith(end):
        try:
            piece = client.recv(1 << 16)
        except ConnectionError:
            return got
        if not piece:
            return got
        got += piece
    return got


def read_to_end(client: socket.socket) -> bytes:
    """Return what comes until the server closes."""
    return read_until(client, b"\0never\0")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
