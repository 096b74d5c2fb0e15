"""A nats-server and a midge side by side, with one configuration."""

from __future__ import annotations

import contextlib

from tests.servers import Server, midge_command, nats_server_command

from .runner import Outcome, Splitter, play, whole
from .script import Script, ServerConfig

NAMES = ("nats-server", "midge")


class ServerPair(contextlib.ExitStack):
    """Both servers; disposable configurations get fresh ones for every play."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__()
        self._config = config
        self._expected: dict[str, Outcome] = {}
        if not config.disposable:
            started = self._start(nats_server_command()), self._start(midge_command())
            self._real, self._midge = (self.enter_context(server) for server in started)

    async def expected(self, script: Script) -> Outcome:
        """What nats-server does; asked once per script."""
        if script.name not in self._expected:
            server = None if self._config.disposable else self._real
            self._expected[script.name] = await self._play(
                script, nats_server_command(), server, whole
            )
        return self._expected[script.name]

    async def actual(self, script: Script, split: Splitter) -> Outcome:
        """What midge does when the bytes arrive as `split` cuts them."""
        server = None if self._config.disposable else self._midge
        return await self._play(script, midge_command(), server, split)

    async def _play(
        self, script: Script, command: list[str], server: Server | None, split: Splitter
    ) -> Outcome:
        if server is not None:
            return await play(script, server, split)
        with self._start(command) as fresh:
            return await play(script, fresh, split)

    def _start(self, command: list[str]) -> Server:
        return Server(command, self._config.text)
