"""Requests of a test to the JetStream API of its server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from typing import TYPE_CHECKING, Any

from midge.jetstream.store.interface import StoreError
from midge.protocol.errors import MidgeError
from midge.server.config.account_names import GLOBAL_ACCOUNT

if TYPE_CHECKING:
    from midge.protocol.headers import Headers
    from midge.server.embedded.server import Server
    from midge.server.embedded.threaded import ThreadedServer

_ANSWER_MAX_S = 5.0
_FOREVER_S = 1e9


class StreamRefusedError(MidgeError):
    """JetStream has refused a request; `err_code` is nats-server's error code."""

    __module__ = "midge.testing"

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('description')} ({error.get('err_code')})")
        self.err_code = int(error.get("err_code", 0))


class Api:
    """Requests to the JetStream API of one account of a server."""

    def __init__(self, server: ThreadedServer) -> None:
        self._server = server

    def ask(self, subject: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request. Raises: StreamRefusedError."""
        __tracebackhide__ = True
        asked = json.dumps(body) if body is not None else b""
        return self.request(f"$JS.API.{subject}", asked)

    def publish(self, subject: str, payload: bytes | str, headers: Headers | None) -> int:
        """Publish to a stream and return the sequence. Raises: StreamRefusedError."""
        __tracebackhide__ = True
        return int(self.request(subject, payload, headers)["seq"])

    def delete(self, stream: str) -> None:
        """Delete a stream, if it still exists, without waiting for the disk."""

        def delete(server: Server) -> None:
            engine = server.jetstream_engine
            streams = None if engine is None else engine.accounts[GLOBAL_ACCOUNT].streams
            if streams is not None and stream in streams.streams:
                streams.delete(streams.lookup(stream))

        with contextlib.suppress(MidgeError, StoreError):  # it has stopped, or its disk has failed
            self._server.call(delete)

    def snapshot(self, name: str) -> tuple[dict[str, Any], bytes]:
        """Return the answer and the data of a snapshot of a stream. Raises: StreamRefusedError."""
        __tracebackhide__ = True
        inbox = f"_INBOX.{secrets.token_hex(12)}"

        async def receive(server: Server) -> tuple[dict[str, Any], bytes]:
            async with asyncio.timeout(_ANSWER_MAX_S):
                with server.subscribe(inbox) as chunks:
                    body = json.dumps({"deliver_subject": inbox})
                    subject = f"$JS.API.STREAM.SNAPSHOT.{name}"
                    answer = _checked((await server.request(subject, body, _FOREVER_S)).payload)
                    data = bytearray()
                    async for chunk in chunks:
                        if not chunk.payload:
                            break
                        data += chunk.payload
                        if chunk.reply is not None:
                            chunk.respond()
                    return answer, bytes(data)

        return self._server.wait(receive)

    def request(
        self, subject: str, payload: bytes | str, headers: Headers | None = None
    ) -> dict[str, Any]:
        """Return the JSON of the answer to a request, or an empty object for an empty answer.

        Raises:
            StreamRefusedError: the answer is an error.
        """
        __tracebackhide__ = True

        async def request(server: Server) -> bytes:
            # In real time, because the server's own clock may stand still.
            async with asyncio.timeout(_ANSWER_MAX_S):
                return (await server.request(subject, payload, _FOREVER_S, headers)).payload

        return _checked(self._server.wait(request))


def _checked(payload: bytes) -> dict[str, Any]:
    """Return the JSON of an answer. Raises: StreamRefusedError if it is an error."""
    __tracebackhide__ = True
    answer: dict[str, Any] = json.loads(payload or b"{}")
    if "error" in answer:
        raise StreamRefusedError(answer["error"])
    return answer
