"""A nats-server and a midge side by side, with one configuration."""

from __future__ import annotations

import asyncio
import functools

from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command, nats_server_command

from .runner import Outcome, Splitter, play
from .script import Script, ServerConfig

NAMES = ("nats-server", "midge")


class ServerPair:
    """Both servers; disposable configurations get fresh ones for every play."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._commands = dict(zip(NAMES, (nats_server_command(), midge_command()), strict=True))
        self._running: dict[str, Server] = {}

    def start(self) -> None:
        """Start both at once and wait until they are ready.

        Raises:
            RuntimeError: one does not start; its log is in the message, and neither is left.
        """
        if self._config.disposable:
            return
        self._running = {name: self._start(name) for name in NAMES}
        try:
            for server in self._running.values():
                server.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the running servers."""
        for server in self._running.values():
            server.stop()

    async def play(self, name: str, script: Script, split: Splitter) -> Outcome:
        """The outcome of the server of that name for bytes that are split by `split`."""
        if name in self._running:
            return await play(script, self._running[name], split)
        fresh = self._start(name)
        try:
            await asyncio.to_thread(fresh.wait_ready)
            return await play(script, fresh, split)
        finally:
            await asyncio.to_thread(fresh.stop)

    def _start(self, name: str) -> Server:
        files = certificates() if self._config.tls else {}
        return Server(self._commands[name], self._config.text, files=files)


@functools.cache
def certificates() -> dict[str, bytes]:
    """Files of a TLS server, made for this run."""
    authority = Authority()
    certificate, key = authority.issue("CN=127.0.0.1")
    return {
        "server.pem": pem(certificate),
        "server-key.pem": key,
        "authority.pem": authority.pem,
    }


class Arena:
    """The pair with the current configuration; scripts come sorted by configuration."""

    def __init__(self) -> None:
        self._config: ServerConfig | None = None
        self._pair: ServerPair | None = None
        self._error: RuntimeError | None = None

    def pair(self, config: ServerConfig) -> ServerPair:
        """Return the running pair of `config`, after stopping that of another one.

        Raises:
            RuntimeError: a server does not start; it is tried once, not for every script.
        """
        if config is not self._config:
            self.close()
            self._config = config
            pair = ServerPair(config)
            try:
                pair.start()
                self._pair = pair
            except RuntimeError as error:
                self._error = error
        if self._pair is None:
            raise RuntimeError(str(self._error))
        return self._pair

    def close(self) -> None:
        """Stop the running servers."""
        if self._pair is not None:
            self._pair.stop()
        self._config = self._pair = self._error = None
