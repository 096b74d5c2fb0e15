"""Sockets from one process to another, each with a note about what it is.

Both go in one message over a pair of unix sockets that keeps messages apart. Nothing here blocks: a
message for which the receiver has no room is refused, and the sender still has its socket.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

NOTE_MAX_BYTES = 1024
"""Longest note: a kind, an address and a few numbers."""

_RECEIVED_PER_TURN = 64

Note = dict[str, Any]


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a way for sockets; they do not block."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setblocking(False)
    return pair


def hand_over(way: socket.socket, note: Note, handed: socket.socket) -> bool:
    """Send a copy of the socket `handed`; False when it does not fit, or the other end is gone."""
    try:
        socket.send_fds(way, [msgspec.msgpack.encode(note)], [handed.fileno()])
    except OSError:
        return False
    return True


class HandoverReceiver:
    """Takes the sockets that come over `way`, and gives each with its note to `take`."""

    def __init__(self, way: socket.socket, take: Callable[[Note, socket.socket], None]) -> None:
        self._way = way
        self._take = take
        self._way.setblocking(False)
        self._count = 0
        self._more = asyncio.Event()

    def start(self) -> None:
        """Begin to receive sockets."""
        asyncio.get_running_loop().add_reader(self._way, self._receive)

    async def received(self, count: int) -> None:
        """Wait until `count` sockets have arrived in all."""
        while self._count < count:
            self._more.clear()
            await self._more.wait()

    def close(self) -> None:
        """Take nothing more."""
        asyncio.get_running_loop().remove_reader(self._way)
        self._way.close()

    def _receive(self) -> None:
        for _ in range(_RECEIVED_PER_TURN):
            try:
                note, descriptors, _flags, _address = socket.recv_fds(self._way, NOTE_MAX_BYTES, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                note, descriptors = b"", []
            if not note:
                asyncio.get_running_loop().remove_reader(self._way)  # the other end has gone
                return
            self._count += 1
            self._more.set()
            if descriptors:  # else this process had no descriptor left for it
                self._take(msgspec.msgpack.decode(note), socket.socket(fileno=descriptors[0]))
