"""A victim: one midge process, with bystanders that must not notice the attacks on it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.abuse.watched_server import ASYNCIO_LOOP, INTERPRETED, LONGEST
from tests.support.processes import CHECKOUT, Server
from tests.support.scheduling import slowness

TIMEOUT_S = 60.0
MIB = 1 << 20

BUSY_S = 0.1
"""Longest time that the server's loop may be busy at a stretch, times `slowness`."""

GROWTH_BYTES = 16 * MIB
"""What an attack may leave behind in the server's memory: an allocator's pools, no more."""

REMEMBERED_BYTES = 8 * 1024
"""What a closed connection may take in the ring of those that monitoring remembers."""

INTERPRETED_FACTOR = 10
"""How much longer all that may take where nothing is compiled."""

WALL_S = 30.0
"""No bystander may wait so long, whatever the reason."""

Victim = Callable[..., "AbstractContextManager[Target]"]


class Target:
    """The server under attack, and what may be asked about it."""

    def __init__(self, server: Server, connect: str, watched: Path) -> None:
        self.server = server
        self.connect_line = f"CONNECT {connect}\r\n".encode()
        self._watched = watched
        self._before_bytes = 0
        self._before_peak_bytes = 0
        self._opened: list[socket.socket] = []

    def open(
        self, listener: str = "nats", *, source: str = "127.0.0.1", receive_bytes: int = 0
    ) -> socket.socket:
        """Open a connection from `source`, and close it when the attack is over.

        `receive_bytes` is the size of the buffer for unread input, if not the usual.
        """
        client = socket.socket()
        self._opened.append(client)
        client.settimeout(TIMEOUT_S)
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source != "127.0.0.1":
            client.bind((source, 0))
        client.connect(self.server.address(listener))
        return client

    def close_all(self) -> None:
        """Close every connection."""
        for client in self._opened:
            client.close()

    def dial_listener(self, listener: str) -> socket.socket:
        """Open a connection; INFO has been read."""
        client = self.open(listener)
        assert read_until(client, b"\r\n").startswith(b"INFO ")
        return client

    def dial(self, *, is_connected: bool = True, connect: bytes = b"") -> socket.socket:
        """Open a connection; INFO has been read, and CONNECT sent unless that is not wanted.

        `connect` is the line to send instead of the bystanders'.
        """
        client = self.dial_listener("nats")
        if is_connected:
            client.sendall(connect or self.connect_line)
            ask(client)
        return client

    def rss_bytes(self) -> int:
        """Return the resident memory of the server."""
        pages = Path(f"/proc/{self.server.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def subscriptions(self) -> int:
        """Return the number of subscriptions that the server has, by its monitoring."""
        host, port = self.server.address("monitoring")
        with urllib.request.urlopen(f"http://{host}:{port}/subsz", timeout=TIMEOUT_S) as page:
            return int(json.load(page)["num_subscriptions"])

    def forget_peak(self) -> None:
        """Measure `peak_growth_bytes` from now on."""
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5", encoding="ascii")
        self._before_peak_bytes = self.rss_bytes()

    def peak_growth_bytes(self) -> int:
        """Return by how much the memory has grown at most."""
        status = Path(f"/proc/{self.server.pid}/status").read_text(encoding="ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024 - self._before_peak_bytes

    def busy_s(self) -> float:
        """Return the longest time, of the processor, that the loop was busy at a stretch."""
        seconds: float = LONGEST.unpack(self._watched.read_bytes())[0]
        return seconds

    def forget_busy(self) -> None:
        """Measure `busy_s` from now on."""
        with self._watched.open("r+b") as file:
            file.write(LONGEST.pack(0.0))

    def growth_bytes(self) -> int:
        """Return by how much the resident memory has grown, in bytes."""
        return self.rss_bytes() - self._before_bytes

    def forget_growth(self) -> None:
        """Measure `growth_bytes` from now on."""
        self._before_bytes = self.rss_bytes()

    def descriptors(self) -> int:
        """Return the number of open files of the server."""
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))

    def sockets(self) -> int:
        """Return the number of open sockets of the server, which also opens files for a moment."""
        count = 0
        for entry in Path(f"/proc/{self.server.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                count += str(entry.readlink()).startswith("socket:")
        return count

    def descriptors_after(self, connect: Callable[[], socket.socket]) -> int:
        """Return the number of open files once what `connect` opens has come and gone.

        A loop opens a file of its own with its first stream, which it keeps.
        """
        at_first = self.descriptors()
        connect().close()
        self.wait_for_descriptors(at_first + 1)
        return self.descriptors()

    def wait_for_descriptors(self, count: int) -> None:
        """Wait until the server has let go of all files but `count`."""
        wait_until(lambda: self.descriptors() <= count, f"{count} open files")


class _Closer:
    """Closes a target's connections, whatever happened."""

    def __init__(self, target: Target) -> None:
        self.close = target.close_all


@pytest.fixture
def victim(tmp_path: Path, request: pytest.FixtureRequest) -> Victim:
    """Start a server with bystanders; when the block ends, hear the bystanders.

    The bystanders must have got everything in time, the loop must never have been busy for long,
    and the memory must be back: `growth_bytes` above what it was, at most.
    """

    @contextlib.contextmanager
    def start(
        config: str = "",
        flags: tuple[str, ...] = (),
        connect: str = '{"verbose":false}',
        *,
        files: Mapping[str, bytes] = MappingProxyType({}),
        is_encrypted: bool = False,
        growth_bytes: int = GROWTH_BYTES,
        on_asyncio: bool = False,
        is_interpreted: bool = False,
        by_websocket: bool = False,
    ) -> Iterator[Target]:
        factor = INTERPRETED_FACTOR if is_interpreted else 1
        watched = tmp_path / "busy"
        watched.write_bytes(LONGEST.pack(0.0))
        command = [sys.executable, "-m", "tests.abuse.watched_server", str(watched)]
        command += [INTERPRETED] if is_interpreted else []
        command += [ASYNCIO_LOOP] if on_asyncio else []
        with Server(command, config, flags, files=files) as server:
            way = "--ws" if by_websocket else "--tls" if is_encrypted else ""
            with _bystanders(server, connect, way) as hear:
                target = Target(server, connect, watched)
                target.forget_busy()
                target.forget_growth()
                slow = slowness()
                with contextlib.closing(_Closer(target)):
                    yield target
                assert server.process.poll() is None, server.log
                seen = hear()
                figures = summary(seen) | {"busy_s": target.busy_s()}
                request.node.user_properties.append(("bystanders", figures))
                slow = factor * max(slow, slowness())
                check_bystanders(seen, figures, slow)
                assert figures["busy_s"] < BUSY_S * slow, figures
                wait_until(
                    lambda: target.growth_bytes() < growth_bytes,
                    f"the memory to go back to {growth_bytes >> 10} KiB more than before",
                )
                figures["left_bytes"] = target.growth_bytes()
            assert "Traceback" not in server.log

    return start


@contextlib.contextmanager
def _bystanders(server: Server, connect: str, way: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Start bystanders by `way`; yield the function that ends them and returns their results."""
    host, port = server.address("websocket" if way == "--ws" else "nats")
    command = [sys.executable, "-m", "tests.abuse.bystander", host, str(port), connect]
    command.append(str(server.pid))
    pair = subprocess.Popen(
        [*command, way] if way else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        assert pair.stdout is not None
        assert pair.stdout.readline() == "ready\n"
        yield lambda: json.loads(pair.communicate(timeout=TIMEOUT_S)[0])
    finally:
        pair.kill()
        pair.wait()
        for stream in (pair.stdin, pair.stdout):
            if stream is not None:
                stream.close()


def summary(seen: dict[str, Any]) -> dict[str, float]:
    """Return the p99 of the bystanders' delays during the attack, in the server's time."""
    return {name: p99(seen[name]) for name in ("delays_s", "wall_s")}


def check_bystanders(seen: dict[str, Any], figures: dict[str, float], slow: float) -> None:
    """Assert that the bystanders got everything, in order and soon.

    Soon is within 100 ms of the server's processor time, `slow` times as long by `slowness` or
    where nothing is compiled.
    """
    assert seen["in_order"], f"{len(seen['delays_s'])} of {seen['sent']} messages"
    assert figures["delays_s"] < slow * BUSY_S, figures
    assert figures["wall_s"] < WALL_S, figures


def p99(delays_s: list[float]) -> float:
    """Return what 99 of 100 do not exceed."""
    ordered = sorted(delays_s)
    return ordered[int(len(ordered) * 0.99)] if ordered else 0.0


def ask(client: socket.socket, *lines: bytes) -> bytes:
    """Send `lines` and a PING; return the input until PONG, or the end."""
    with contextlib.suppress(OSError):
        client.sendall(b"".join(line + b"\r\n" for line in lines) + b"PING\r\n")
    # The server's own early PING may come in between, or right behind.
    return read_until(client, b"PONG\r\n").replace(b"PING\r\n", b"")


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Return the input until `end` has come, or until the server closes.

    More may follow `end`, for instance messages of a client that goes on publishing.
    """
    got = bytearray()
    seen = 0
    while got.find(end, seen) < 0:
        seen = max(len(got) - len(end), 0)
        try:
            piece = client.recv(1 << 16)
        except ConnectionError:
            break
        if not piece:
            break
        got += piece
    return bytes(got)


def read_to_end(client: socket.socket) -> bytes:
    """Return the input until the server closes."""
    return read_until(client, b"\0never\0")


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
