"""A wire between two servers that a test cuts, pauses and mends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self


class Wire:
    """Passes connections on to a port of this machine; `port` is its own, `target` the other one.

    `passed_bytes` counts the bytes of both directions.

    While it is cut, connections are closed at once, those that are there and those that come. While
    it is paused, nothing passes, and the ends notice nothing.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._may_pass = asyncio.Event()
        self._may_pass.set()
        self._is_cut = False
        self._ended: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.passed_bytes = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await self._server.wait_closed()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cut(self) -> None:
        """Close all connections, and every new one."""
        self._is_cut = True
        self.resume()
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Allow connections again."""
        self._is_cut = False

    def pause(self) -> None:
        """Block all data, without closing connections."""
        self._may_pass.clear()

    def half_close(self, writer: asyncio.StreamWriter) -> None:
        """End one direction of a connection, which passes nothing more then."""
        self._ended.add(writer)
        writer.write_eof()

    @property
    def writers(self) -> list[asyncio.StreamWriter]:
        """Return the open writers, for both directions of each connection."""
        return [one for one in self._writers if one not in self._ended]

    def resume(self) -> None:
        """End a pause."""
        self._may_pass.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, onward[1]), (onward[0], writer)):
            self._writers.add(sink)
            task = asyncio.create_task(self._pass(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._may_pass.wait()
                self.passed_bytes += len(data)
                if sink not in self._ended:
                    sink.write(data)
                    await sink.drain()
        self._writers.discard(sink)
        self._ended.discard(sink)
        sink.transport.abort()
