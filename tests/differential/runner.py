"""Play a script against a server and keep what every connection received.

No step sleeps for luck: a step is over when a PONG, the end of the stream or the bytes it
waits for have come. Only `Quiet` lets a moment pass, as there silence is the outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import re
import socket
from collections.abc import Callable, Iterable

from tests.support.processes import Server

from .frames import PING, mask, split_frames
from .script import (
    Await,
    AwaitClose,
    HalfClose,
    Open,
    Quiet,
    Respond,
    Script,
    Send,
    Signal,
    Step,
)
from .websocket import split_websocket

ANSWER_TIMEOUT_S = 6.0
"""Longest wait for one answer: above the three seconds that the stale-connection rule takes."""

BYTE_BY_BYTE_MAX = 12_000
"""Longer sends are cut at random places instead: a byte per packet would take seconds."""

Splitter = Callable[[bytes], Iterable[bytes]]

_OWN_PINGS = re.compile(rb"^PING[^\n]*\n", re.IGNORECASE | re.MULTILINE)
_WITH_REPLY = re.compile(rb"HMSG \S+ \S+ (\S+) \d+ \d+\r\n|(?<!H)MSG \S+ \S+ (\S+) \d+\r\n")


@dataclasses.dataclass(frozen=True)
class Received:
    """One piece of an outcome: a masked frame, or a note in brackets on what happened."""

    step: int
    frame: bytes


Outcome = dict[str, list[Received]]
"""The received bytes, by connection."""


def whole(data: bytes) -> Iterable[bytes]:
    """Send in one piece."""
    return (data,)


def byte_by_byte(data: bytes) -> Iterable[bytes]:
    """Send single bytes, or, where that would be slow, pieces of random size."""
    if len(data) <= BYTE_BY_BYTE_MAX:
        return (data[i : i + 1] for i in range(len(data)))
    return _random_pieces(data, random.Random(len(data)))


def _random_pieces(data: bytes, rng: random.Random) -> Iterable[bytes]:
    """Cut small pieces at both ends, where the frames' lines are, and large ones between."""
    at = 0
    while at < len(data):
        near_an_end = at < 64 or len(data) - at < 64
        size = 1 if near_an_end else min(rng.randrange(1, 60_000), len(data) - 63 - at)
        yield data[at : at + size]
        at += size


async def play(script: Script, server: Server, split: Splitter = whole) -> Outcome:
    """Play `script` and return what every connection received, masked."""
    player = _Player(server, split)
    try:
        for number, step in enumerate(script.steps, start=1):
            await player.take(number, step)
        await player.finish(len(script.steps) + 1, ping=script.final_ping)
    finally:
        await player.close()
    return {name: _outcome(wire, script) for name, wire in player.wires.items()}


class _Player:
    """The connections of one play, and the one that the script is at."""

    def __init__(self, server: Server, split: Splitter) -> None:
        self.wires: dict[str, _Wire] = {}
        self._server = server
        self._split = split
        self._current: _Wire | None = None

    async def take(self, number: int, step: Step) -> None:
        """Do one step; first settle the connection that the script leaves."""
        if isinstance(step, Signal):
            await self._leave(None, number)
            if step.config is None:
                self._server.signal(step.name)
            else:
                await asyncio.to_thread(self._server.reload, step.config)
            return
        if step.conn not in self.wires:
            await self._leave(None, number)
            await self._open(step if isinstance(step, Open) else Open(step.conn))
        wire = self.wires[step.conn]
        await self._leave(wire, number)
        match step:
            case Send():
                await wire.send(step.data, self._split)
                wire.unsettled = step.barrier
            case Respond():
                await wire.settle(number)
                await wire.send(step.data.replace(b"{reply}", wire.last_reply()), self._split)
                wire.unsettled = True
            case Quiet():
                await wire.listen(number, step.for_s)
            case Await():
                await wire.until(lambda: wire.received.count(step.data) >= step.times, number)
            case AwaitClose():
                await wire.until_end(number)
                wire.note(number, "closed by the server")
            case HalfClose():
                wire.shut()
                await wire.until_end(number)

    async def finish(self, number: int, *, ping: bool) -> None:
        """End every connection: each connection that is still served answers a PING."""
        if len(self.wires) > 1:
            await self._leave(None, number)
        for wire in self.wires.values():
            if not wire.shut_down:
                if ping:
                    await wire.send(PING, whole)
                wire.shut()
            await wire.until_end(number)
            wire.mark(number)

    async def close(self) -> None:
        """Free every socket."""
        for wire in self.wires.values():
            await wire.close()

    async def _open(self, step: Open) -> None:
        wire = self.wires[step.conn] = _Wire(split_websocket if step.websocket else split_frames)
        if not await wire.connect(*self._server.address(step.port)):
            wire.note(0, "refused")
        elif step.waits and not step.websocket:
            await wire.until(lambda: b"\n" in wire.received, 0)

    async def _leave(self, to: _Wire | None, number: int) -> None:
        if self._current is not to and self._current is not None and self._current.unsettled:
            await self._current.settle(number - 1)
        self._current = to or self._current


class _Wire:
    """One client connection: sends given bytes and keeps all answers.

    It works on the bare socket, as asyncio's transports forget received bytes when a later
    send fails, which is what happens when a server closes upon an error.
    """

    def __init__(self, split_stream: Callable[[bytes], list[bytes]]) -> None:
        self.received = bytearray()
        self.ended = False
        self.shut_down = False
        self.unsettled = False
        self.marks: list[tuple[int, int, bytes]] = []
        self.split_stream = split_stream
        self._sock = socket.socket()
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = bytearray()
        self._changed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def connect(self, host: str, port: int) -> bool:
        """Connect and start to read; False when the server refuses."""
        try:
            await asyncio.get_running_loop().sock_connect(self._sock, (host, port))
        except ConnectionRefusedError:
            self.ended = self.shut_down = True
            return False
        self._reading = asyncio.create_task(self._read())
        return True

    async def send(self, data: bytes, split: Splitter) -> None:
        """Send in the pieces that `split` makes; a server that has closed is no error."""
        loop = asyncio.get_running_loop()
        self._sent += data
        try:
            for piece in split(data):
                await loop.sock_sendall(self._sock, piece)
                await asyncio.sleep(0)
        except OSError:  # reset while we were writing: what it had sent still arrives
            await self.until(lambda: self.ended, 0)

    async def settle(self, number: int) -> None:
        """Send PING and wait for its PONG: all that went before has been acted upon."""
        await self.send(PING, whole)
        pings = len(_OWN_PINGS.findall(self._sent))
        await self.until(lambda: self.ended or self.received.count(b"PONG\r\n") >= pings, number)
        self.unsettled = False

    async def listen(self, number: int, for_s: float) -> None:
        """Wait a moment, then note whether the server has closed; frames may arrive meanwhile."""
        try:
            async with asyncio.timeout(for_s):
                await self._until(lambda: self.ended)
        except TimeoutError:
            self.note(number, "still open")
        else:
            self.note(number, "closed by the server")

    async def until(self, reached: Callable[[], bool], number: int) -> None:
        """Wait for a condition or the stream's end; a time-out is noted and shows as an outcome."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._until(lambda: reached() or self.ended)
        except TimeoutError:
            self.note(number, "no answer in time")
        self.mark(number)

    async def until_end(self, number: int) -> None:
        """Wait until the server has closed the connection."""
        await self.until(lambda: self.ended, number)

    def note(self, number: int, text: str) -> None:
        """Put a note into the outcome at this place of the stream."""
        self.marks.append((len(self.received), number, f"[{text}]".encode()))

    def mark(self, number: int) -> None:
        """Remember that all bytes so far had come by this step."""
        self.marks.append((len(self.received), number, b""))

    def last_reply(self) -> bytes:
        """The reply subject of the newest message."""
        replies = _WITH_REPLY.findall(self.received)
        return b"".join(replies[-1]) if replies else b"no.reply.was.seen"

    def shut(self) -> None:
        """Shut down the sending side."""
        self.shut_down = True
        with contextlib.suppress(OSError):  # the server may have gone first
            self._sock.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Stop reading and free the socket."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._sock.close()

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._sock, 1 << 20):
                self.received += data
                self._changed.set()
        except ConnectionError:
            pass  # a reset ends the stream like a close
        finally:
            self.ended = True
            self._changed.set()


def _outcome(wire: _Wire, script: Script) -> list[Received]:
    """Turn raw bytes and notes into one list in stream order.

    Under WebSocket framing the notes come last: decoded frames have no place in the raw stream.
    """
    pieces: list[Received] = []
    end = 0
    notes = [m for m in wire.marks if m[2]]
    if wire.split_stream is not split_frames:
        notes = [(len(wire.received) + 1, *note[1:]) for note in notes]
    for frame in wire.split_stream(bytes(wire.received)):
        while notes and notes[0][0] <= end:
            pieces.append(Received(notes[0][1], notes[0][2]))
            notes.pop(0)
        end += len(frame)
        if frame != PING or script.config.early_ping:
            step = next((m[1] for m in wire.marks if m[0] >= end), 0)
            pieces.append(Received(step, mask(frame)))
    pieces += [Received(note[1], note[2]) for note in notes]
    return pieces
