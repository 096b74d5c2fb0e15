"""Publish to a subscriber within the server, in process; print figures as JSON.

python internal_run.py nobody|compiled|python|client equal|unequal|js SECONDS

It runs on the midge that `import midge` finds, of any version. Therefore it imports nothing of
bench and names no module of the server, but reaches the parts that it needs through public names.
"""

import asyncio
import functools
import importlib
import json
import random
import sys
import time
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import uvloop

import midge

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":0,"headers":true}\r\nPING\r\n'
PAYLOAD = b"x" * 16

DRAIN = """
import socket, sys
receiver = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
receiver.sendall({connect!r} + b"SUB > 1\\r\\n")
while receiver.recv(1 << 20):
    pass
"""
"""A client in its own process that subscribes to everything and drops all messages."""

AHEAD_BYTES = 1 << 20
"""Most bytes that wait for that client."""

COMPILED = """
# cython: language_level=3
from {module} cimport RoutedSubscription
from {package}.client cimport Client
from midge.protocol.frame cimport Frame

cdef class Counting(RoutedSubscription):
    cdef public long long messages

    cpdef bint receive(self, Client publisher, Frame frame) except -1:
        self.messages += 1
        return True
"""

COMPILED_RUNS = """
    cpdef bint takes_runs(self) noexcept:
        return True

    cpdef Py_ssize_t receive_run(self, Client publisher, Frame frame, Py_ssize_t count) except -1:
        self.messages += count
        return count
"""


def routed_subscription() -> Any:
    """Return the class that the router delivers to."""
    bases = midge.DirectSubscription.__mro__
    return next(base for base in bases if base.__name__ == "RoutedSubscription")


def compiled_class() -> Any:
    """Build the compiled subscriber against the imported midge, once per source text."""
    base = routed_subscription()
    text = COMPILED.format(module=base.__module__, package=base.__module__.rpartition(".")[0])
    text += COMPILED_RUNS if hasattr(base, "receive_run") else ""
    root = Path(midge.__file__).parents[1]
    headers = sorted((root / "midge" / "server").rglob("*.pxd"))
    made_of = "".join([text, str(root), *(f"{path.stat().st_mtime_ns}" for path in headers)])
    name = f"counting_{sha256(made_of.encode()).hexdigest()[:16]}"
    folder = Path(gettempdir()) / "midge-bench" / name
    sys.path.insert(0, str(folder))
    if not list(folder.glob("*.so")):
        _compile(name, text, folder, root)
    importlib.invalidate_caches()
    return importlib.import_module(name).Counting


def _compile(name: str, text: str, folder: Path, root: Path) -> None:
    from Cython.Build import cythonize  # noqa: PLC0415 - only where something is compiled
    from setuptools import Distribution, Extension  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.pyx"
    source.write_text(text)
    modules = cythonize(  # type: ignore[no-untyped-call]
        [Extension(name, [str(source)])], include_path=[str(root)], quiet=True
    )
    command = Distribution({"name": name, "ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib = command.build_temp = str(folder)
    command.ensure_finalized()
    command.run()


def python_class() -> Any:
    """Return the same subscriber in Python."""

    class Counting(routed_subscription()):  # type: ignore[misc]  # known at run time only
        def __init__(self, subject: bytes) -> None:
            super().__init__(subject)
            self.messages = 0

        def receive(self, publisher: object, frame: object) -> bool:
            self.messages += 1
            return True

        def takes_runs(self) -> bool:
            return True

        def receive_run(self, publisher: object, frame: object, count: int) -> int:
            self.messages += count
            return count

    return Counting


def frames(lines: str) -> list[bytes]:
    """Return the PUB frames of one cycle."""
    if lines != "unequal":
        subject = b"$JS.load.subject" if lines == "js" else b"load.some.subject"
        return [b"PUB %b %d\r\n%b\r\n" % (subject, len(PAYLOAD), PAYLOAD)] * 20_000
    choose = random.Random(lines)
    numbers = [choose.randrange(600) for _ in range(20_000)]
    return [
        b"PUB load.device%d.state %d\r\n%b\r\n" % (number, size, b"x" * size)
        for at, number in enumerate(numbers)
        for size in [8 + (at * 7 + number) % 25]
    ]


def packed(sequence: list[bytes], room: int) -> list[tuple[bytes, int]]:
    """Pack whole frames into pieces of at most `room` bytes; return each with its frames."""
    pieces, batch, size = [], [], 0
    for frame in sequence:
        if size + len(frame) > room:
            pieces.append((b"".join(batch), len(batch)))
            batch, size = [], 0
        batch.append(frame)
        size += len(frame)
    return [*pieces, (b"".join(batch), len(batch))]


async def measure(subscriber: str, lines: str, seconds: float) -> dict[str, float]:
    """Publish for `seconds`; return the figures."""
    receiver: Any = None
    async with midge.Server(port=-1) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(CONNECT)
        await reader.readuntil(b"PONG\r\n")
        (connection,) = server.hub.clients.values()
        subscription = _subscribed(connection.account, subscriber)
        if subscriber == "client":
            receiver = await _started_client(server)
        protocol = getattr(connection, "channel", connection)
        pieces = packed(frames(lines), len(protocol.get_buffer(-1)))
        publish = functools.partial(_publish, connection, receiver, protocol, pieces)
        await publish(seconds / 10)
        before = connection.in_messages
        started_s, cpu_s = time.monotonic(), time.process_time()
        await publish(seconds)
        cpu_s, elapsed_s = time.process_time() - cpu_s, time.monotonic() - started_s
        count = connection.in_messages - before
        if subscription is not None and subscription.messages != connection.in_messages:
            raise RuntimeError(f"{subscription.messages} of {connection.in_messages} messages")
        writer.close()
    return {"rate": count / cpu_s, "cpu_us": cpu_s / count * 1e6, "server_busy": cpu_s / elapsed_s}


def _subscribed(account: Any, subscriber: str) -> Any:
    if subscriber in {"nobody", "client"}:
        return None
    made = (compiled_class() if subscriber == "compiled" else python_class())(b">")
    (account.add if hasattr(account, "add") else account.sublist.insert)(made)
    return made


async def _started_client(server: Any) -> Any:
    """Start the client that drops all messages; return its connection within the server."""
    known = set(server.hub.clients)
    drain = DRAIN.format(connect=CONNECT)
    await asyncio.create_subprocess_exec(sys.executable, "-c", drain, str(server.port))
    while not server.stats.subscriptions:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.01)
    return next(one for cid, one in server.hub.clients.items() if cid not in known)


async def _publish(
    connection: Any,
    receiver: Any,
    protocol: Any,
    pieces: list[tuple[bytes, int]],
    seconds: float,
) -> None:
    """Pass on the pieces one by one; wait for the loop when the connection's turn is over."""
    end_s = time.monotonic() + seconds
    expected = connection.in_messages
    while time.monotonic() < end_s:
        for piece, count in pieces:
            protocol.get_buffer(-1)[: len(piece)] = piece
            protocol.buffer_updated(len(piece))
            expected += count
            while connection.in_messages < expected:  # noqa: ASYNC110 - turns have no event
                await asyncio.sleep(0)
            while receiver and receiver.outbound.pending_bytes() > AHEAD_BYTES:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    print(json.dumps(result))
