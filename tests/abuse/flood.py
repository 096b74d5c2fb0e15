"""Clients that send one thing at a rate no read ever catches up with, in a process of their own.

Run as ``python -m tests.abuse.flood PLAN``, where PLAN is JSON: `flood` names one of `FLOODS`,
`clients` says how many send it, `transport` how (one of `TRANSPORTS`), `host` and `port` where to,
and `connect` what CONNECT says. "ready" is printed once all are connected. They send, and read
and drop their input, until standard input is closed; then the counts are printed as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import Any

TIMEOUT_S = 60.0
RESUMED = "_resumed"
"""Behind a kind of TLS: nothing but handshakes, each resuming the last one's session."""

_PIECE_BYTES = 256 * 1024
_MANY = 200_000
"""Subjects before the first comes again: more than any cache of the server remembers."""

_UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n%b\r\n"
)
_DEFLATE = (
    b"Sec-WebSocket-Extensions: permessage-deflate;"
    b" server_no_context_takeover; client_no_context_takeover\r\n"
)

Lines = Iterable[bytes]


def _publishes(subjects: Lines, reply: bytes = b"") -> bytes:
    return b"".join(b"PUB %b %b0\r\n\r\n" % (subject, reply) for subject in subjects)


def _deep(head: bytes) -> bytes:
    """A subject of as many tokens as a control line has room for."""
    return head + b".a" * 2_000


def _deep_subscriptions() -> bytes:
    return b"".join(b"SUB %b.%d.* %d\r\nUNSUB %d\r\n" % (_deep(b"d"), i, i, i) for i in range(200))


FLOODS: dict[str, tuple[bytes, Callable[[], bytes]]] = {
    "ping": (b"", lambda: b"PING\r\n" * 40_000),
    "pong": (b"", lambda: b"PONG\r\n" * 40_000),
    "ok": (b"", lambda: b"+OK\r\n" * 40_000),
    "blanks": (b"", lambda: b"PING" + b" " * 200_000 + b"\r\n"),
    "info": (b"", lambda: b'INFO {"a":[1,2,3]}\r\n' * 10_000),
    "connect": (b"", lambda: b"CONNECT {}\r\n" * 10_000),
    "one_subject": (b"", lambda: _publishes([b"same"] * 10_000)),
    "new_subjects": (b"", lambda: _publishes(b"n.%d" % i for i in range(_MANY))),
    "new_subjects_beside_wildcards": (
        b"SUB w.*.x 1\r\nSUB w.> 2\r\n",
        lambda: _publishes(b"n.%d" % i for i in range(_MANY)),
    ),
    "long_subjects": (
        b"SUB *.never.* 1\r\n",
        lambda: _publishes(b"n.%d.%b" % (i, b"x" * 300) for i in range(2_000)),
    ),
    "deep_subjects": (
        b"SUB *.never.* 1\r\n",
        lambda: _publishes(_deep(b"n%d" % i) for i in range(200)),
    ),
    "no_responders": (
        b"SUB inbox 1\r\n",
        lambda: _publishes((b"n.%d" % i for i in range(_MANY)), b"inbox "),
    ),
    "denied": (b"", lambda: _publishes(b"denied.%d" % i for i in range(_MANY))),
    "unknown_sids": (b"", lambda: b"".join(b"UNSUB %d\r\n" % i for i in range(_MANY))),
    "subscribing": (
        b"",
        lambda: b"".join(b"SUB s.%d %d\r\nUNSUB %d\r\n" % (i, i, i) for i in range(20_000)),
    ),
    "deep_subscriptions": (b"", _deep_subscriptions),
}
"""The bytes sent once, and a function that makes the bytes sent repeatedly."""

TRANSPORTS = ("tcp", "tls1.2", "tls1.3", "ws", "ws_tiny", "ws_deflated", "ws_pings")


def _header(opcode: int, length: int) -> bytes:
    """A masked, final frame's header; the mask is of zeros."""
    if length < 126:
        return struct.pack("!BB", opcode, 0x80 | length) + bytes(4)
    if length < 1 << 16:
        return struct.pack("!BBH", opcode, 0x80 | 126, length) + bytes(4)
    return struct.pack("!BBQ", opcode, 0x80 | 127, length) + bytes(4)


def _whole(data: bytes) -> bytes:
    """The first whole commands of `data`."""
    if len(data) <= _PIECE_BYTES:
        return data
    end = b"\r\n\r\n" if data.startswith(b"PUB ") else b"\r\n"
    return data[: data.rfind(end, 0, _PIECE_BYTES) + len(end)]


def _framed(data: bytes, transport: str) -> bytes:
    """Put `data` into the frames of `transport`."""
    if transport == "ws_pings":
        return _header(0x89, 0) * 40_000
    if transport == "ws_tiny":
        lines = _whole(data).splitlines(keepends=True)
        return b"".join(_header(0x82, len(line)) + line for line in lines)
    if transport == "ws_deflated":
        deflate = zlib.compressobj(1, zlib.DEFLATED, -15)
        data = deflate.compress(_whole(data)) + deflate.flush(zlib.Z_SYNC_FLUSH)
        data = data.removesuffix(b"\0\0\xff\xff")
        return _header(0xC2, len(data)) + data
    pieces = [data[i : i + 60_000] for i in range(0, len(data), 60_000)]
    return b"".join(_header(0x82, len(piece)) + piece for piece in pieces)


def _tls_context(transport: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    version = ssl.TLSVersion.TLSv1_2 if transport == "tls1.2" else ssl.TLSVersion.TLSv1_3
    context.minimum_version = context.maximum_version = version
    return context


def _read_until(client: socket.socket, end: bytes) -> None:
    got = b""
    while end not in got:
        piece = client.recv(4096)
        assert piece, got
        got = got[-len(end) :] + piece


def dial(plan: dict[str, Any]) -> socket.socket:
    """Connect by the plan's transport, say CONNECT and the flood's first lines."""
    transport = plan["transport"]
    client = socket.create_connection((plan["host"], plan["port"]), TIMEOUT_S)
    first = (
        b"CONNECT " + plan["connect"].encode() + b"\r\n" + FLOODS[plan["flood"]][0] + b"PING\r\n"
    )
    if transport.startswith("ws"):
        client.sendall(_UPGRADE % (_DEFLATE if transport == "ws_deflated" else b""))
        _read_until(client, b"\r\n\r\n")
        first = _header(0x82, len(first)) + first
    elif transport.startswith("tls"):
        _read_until(client, b"\r\n")
        client = _tls_context(transport).wrap_socket(client)
    client.sendall(first)
    _read_until(client, b"PONG")
    client.setblocking(False)
    return client


class Flooder:
    """One client; `step` sends and reads as much as goes at once."""

    def __init__(self, client: socket.socket, data: bytes) -> None:
        self.client = client
        self.sent_bytes = 0
        self._data = memoryview(data)
        self._at = 0

    def step(self) -> None:
        """Send a piece, and drop the input. Raises: OSError at the end."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while True:
                if not self.client.recv(_PIECE_BYTES):
                    raise ConnectionResetError
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            count = self.client.send(self._data[self._at : self._at + _PIECE_BYTES])
            self.sent_bytes += count
            self._at = (self._at + count) % len(self._data)


def _resume(plan: dict[str, Any], is_over: threading.Event, counts: list[int]) -> None:
    """Come and go by TLS, each time with the session of the last; count both."""
    context = _tls_context(plan["transport"].removesuffix(RESUMED))
    session = None
    line = b"CONNECT " + plan["connect"].encode() + b"\r\nPING\r\n"
    while not is_over.is_set():
        plain = socket.create_connection((plan["host"], plan["port"]), TIMEOUT_S)
        _read_until(plain, b"\r\n")
        with context.wrap_socket(plain, session=session) as client:
            client.sendall(line)
            _read_until(client, b"PONG")
            session = client.session
            counts[0] += 1
            counts[1] += bool(client.session_reused)


def resume(plan: dict[str, Any]) -> dict[str, int]:
    """Shake hands again and again until standard input is closed; give how often."""
    is_over = threading.Event()
    counts = [[0, 0] for _ in range(plan["clients"])]
    threads = [threading.Thread(target=_resume, args=(plan, is_over, one)) for one in counts]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    _wait_for_the_end(is_over)
    for thread in threads:
        thread.join()
    came, resumed = (sum(one[i] for one in counts) for i in range(2))
    # All but the first of each had a session to resume.
    return {"sent_bytes": came, "cut": came - resumed - plan["clients"]}


def _wait_for_the_end(is_over: threading.Event) -> None:
    sys.stdin.read()
    is_over.set()


def flood(plan: dict[str, Any]) -> dict[str, int]:
    """Follow `plan` until standard input is closed; return the counts and the aborted clients."""
    data = FLOODS[plan["flood"]][1]()
    if plan["transport"].startswith("ws"):
        data = _framed(data, plan["transport"])
    flooders = [Flooder(dial(plan), data) for _ in range(plan["clients"])]
    is_over = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(is_over,), daemon=True).start()
    print("ready", flush=True)
    selector = selectors.DefaultSelector()
    for flooder in flooders:
        selector.register(flooder.client, selectors.EVENT_READ | selectors.EVENT_WRITE, flooder)
    cut = 0
    while not is_over.is_set():
        for key, _ in selector.select(0.05):
            try:
                key.data.step()
            except OSError:
                selector.unregister(key.data.client)
                cut += 1
    return {"sent_bytes": sum(flooder.sent_bytes for flooder in flooders), "cut": cut}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps((resume if asked["transport"].endswith(RESUMED) else flood)(asked)))
    sys.stdout.flush()
    os._exit(0)  # do not wait for clients that still wait for an answer
