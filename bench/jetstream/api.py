"""Requests to `$JS.API` over a raw socket, for the work before and after the measured time."""

import itertools
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from bench import frames, wire
from bench.metrics import ScenarioError
from bench.servers import Server

Answer = Mapping[str, Any]

_NUMBERS = itertools.count(1)
_RECEIVE_BYTES = 64 * 1024


class Api:
    """One connection that asks and waits for the answer, one request at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._pending = b""
        # Each connection has its own inbox, because connections with one inbox get all its answers.
        self._inbox = b"_INBOX.benchApi.%d.%d" % (os.getpid(), next(_NUMBERS))
        sock.sendall(frames.sub(self._inbox, b"1"))
        wire.round_trip(sock)

    def ask(self, name: str, request: object = None) -> Answer:
        """Return the answer to `$JS.API.{name}`.

        Raises:
            ScenarioError: the server answers with an error.
        """
        payload = b"" if request is None else json.dumps(request).encode()
        self._sock.sendall(frames.pub(f"$JS.API.{name}".encode(), payload, reply=self._inbox))
        answer: Answer = json.loads(self._next_payload())
        if error := answer.get("error"):
            raise ScenarioError(f"$JS.API.{name}: {error}")
        return answer

    def create_stream(self, name: str, subjects: Sequence[str], **settings: object) -> None:
        """Create a stream, after deleting an existing one of that name.

        Raises:
            ScenarioError: the server refuses it.
        """
        if name in (self.ask("STREAM.NAMES")["streams"] or ()):
            self.ask(f"STREAM.DELETE.{name}")
        self.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": list(subjects), **settings})

    def create_consumer(self, stream: str, name: str, **settings: object) -> None:
        """Create a consumer that must not exist yet.

        Raises:
            ScenarioError: the server refuses it.
        """
        request = {"stream_name": stream, "config": {"name": name, **settings}, "action": "create"}
        self.ask(f"CONSUMER.CREATE.{stream}.{name}", request)

    def messages(self, stream: str) -> int:
        """Return the number of messages that a stream reports."""
        count: int = self.ask(f"STREAM.INFO.{stream}")["state"]["messages"]
        return count

    def _next_payload(self) -> bytes:
        while True:
            line, found, rest = self._pending.partition(frames.CRLF)
            if found and line == wire.PING.rstrip():
                self._sock.sendall(wire.PONG)
                self._pending = rest
            elif found and len(rest) >= (size := int(line.rpartition(b" ")[2])) + 2:
                self._pending = rest[size + 2 :]
                return rest[:size]
            else:
                self._pending += self._receive()

    def _receive(self) -> bytes:
        data = self._sock.recv(_RECEIVE_BYTES)
        if not data:
            raise ScenarioError("the server closed the connection that asks $JS.API")
        return data


@contextmanager
def asking(server: Server) -> Iterator[Api]:
    """Yield an `Api` on its own connection for the length of the block."""
    with closing(wire.connect(server.address)) as sock:
        yield Api(sock)
