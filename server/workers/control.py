"""Messages between the parent and a worker: questions with an answer, and notices without.

Each is a length of four bytes and a map in MessagePack. Both ends trust each other: they are one
program, and the socket between them has no name.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec

from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_LENGTH_BYTES = 4

Body = dict[str, Any]
Answering = "Callable[[str, Body], Awaitable[Any]]"


class GoneError(MidgeError):
    """The process at the other end has ended, or is about to."""


class ControlChannel(asyncio.Protocol):
    """One end: `answer` answers questions, `on_notice` gets notices, `ended` is called at the end.

    An exception of `answer` is raised at the other end as MidgeError.
    """

    def __init__(
        self,
        answer: Callable[[str, Body], Awaitable[Any]],
        on_notice: Callable[[str, Body], None],
        ended: Callable[[], None],
    ) -> None:
        self._answer = answer
        self._on_notice = on_notice
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._last_id = 0
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, kind: str, **body: Any) -> None:
        """Send a notice."""
        self._send({"kind": kind, "body": body})

    async def ask(self, kind: str, **body: Any) -> Any:
        """Send a question and return the answer.

        Raises:
            GoneError: there will be none.
            MidgeError: what the other end raised.
        """
        if self._transport is None:
            raise GoneError("the other process has ended")
        self._last_id += 1
        number = self._last_id
        answered = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send({"kind": kind, "body": body, "id": number})
        try:
            return await answered
        finally:
            self._asked.pop(number, None)

    def close(self) -> None:
        """Close the connection; questions without an answer fail."""
        if self._transport is not None:
            self._transport.close()

    # Called by the loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start on `transport`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take messages apart."""
        received = self._received
        received += data
        while len(received) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
            if len(received) < end:
                return
            message = msgspec.msgpack.decode(bytes(received[_LENGTH_BYTES:end]))
            del received[:end]
            self._take(message)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the open questions, and call `ended`."""
        self._transport = None
        for answered in self._asked.values():
            if not answered.done():
                answered.set_exception(GoneError("the other process has ended"))
        for task in list(self._tasks):
            task.cancel()
        self._ended()

    def _take(self, message: Body) -> None:
        kind, number = message["kind"], message.get("id")
        if kind == "answer":
            self._conclude(message)
        elif number is None:
            self._on_notice(kind, message["body"])
        else:
            task = asyncio.ensure_future(self._give_answer(kind, message["body"], number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _conclude(self, message: Body) -> None:
        answered = self._asked.get(message["id"])
        if answered is None or answered.done():
            return
        if "error" in message:
            answered.set_exception(MidgeError(message["error"]))
        else:
            answered.set_result(message["answer"])

    async def _give_answer(self, kind: str, body: Body, number: int) -> None:
        try:
            answer = await self._answer(kind, body)
        except Exception as error:  # noqa: BLE001 - the other end waits for an answer
            self._send({"kind": "answer", "id": number, "error": _text_of(error)})
        else:
            self._send({"kind": "answer", "id": number, "answer": answer})

    def _send(self, message: Body) -> None:
        if self._transport is not None:
            packed = msgspec.msgpack.encode(message)
            self._transport.write(len(packed).to_bytes(_LENGTH_BYTES, "big") + packed)


def _text_of(error: Exception) -> str:
    """Return the text of an error as the parent shows it."""
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).lower()
        return f"{error.filename}: {reason}" if error.filename else reason
    return str(error) if isinstance(error, MidgeError) else f"{type(error).__name__}: {error}"
