"""A nats-server and a midge side by side, with one configuration."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from tests.servers import Server, midge_command, nats_server_command

from .runner import Outcome, Splitter, play
from .script import Script, ServerConfig

NAMES = ("nats-server", "midge")


class ServerPair(contextlib.ExitStack):
    """Both servers; disposable configurations get fresh ones for every play."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__()
        self._config = config
        self._owned: list[Server] = []
        if not config.disposable:
            self._real = self._own(nats_server_command())
            self._midge = self._own(midge_command())

    def __enter__(self) -> Self:
        try:
            for server in self._owned:
                server.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    async def real(self, script: Script, split: Splitter) -> Outcome:
        """What nats-server does when the bytes arrive as `split` cuts them."""
        server = None if self._config.disposable else self._real
        return await self._play(script, nats_server_command(), server, split)

    async def midge(self, script: Script, split: Splitter) -> Outcome:
        """What midge does when the bytes arrive as `split` cuts them."""
        server = None if self._config.disposable else self._midge
        return await self._play(script, midge_command(), server, split)

    async def _play(
        self, script: Script, command: list[str], server: Server | None, split: Splitter
    ) -> Outcome:
        if server is not None:
            return await play(script, server, split)
        fresh = self._start(command)
        try:
            await asyncio.to_thread(fresh.wait_ready)
            return await play(script, fresh, split)
        finally:
            await asyncio.to_thread(fresh.stop)

    def _own(self, command: list[str]) -> Server:
        server = self._start(command)
        self.callback(server.stop)
        self._owned.append(server)
        return server

    def _start(self, command: list[str]) -> Server:
        return Server(command, self._config.text)
