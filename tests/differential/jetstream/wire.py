"""A connection that keeps every message, for programs that run on either server."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple, Self

from midge.protocol import client_side

_ANSWER_S = 5.0
"""Longest wait for an answer: servers of this kind answer within milliseconds."""

CONNECT = client_side.connect_line({"headers": True, "no_responders": True, "verbose": False})


class Message(NamedTuple):
    """A message that came: the subscription's name, subject, reply, header block, payload."""

    to: str
    subject: str
    reply: str
    headers: str
    payload: str


class Wire:
    """One connection; messages are kept by subscription, in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._requests = 0
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self._kept: dict[str, list[Message]] = {}
        self._pongs: list[asyncio.Future[None]] = []
        self._task = asyncio.create_task(self._read())
        self.arrived = 0

    @classmethod
    async def connect(cls, host: str, port: int) -> Self:
        """Connect, and subscribe to the answers of requests."""
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 24)
        await reader.readline()
        writer.write(CONNECT + b"SUB _R.> r\r\n")
        return cls(reader, writer)

    async def close(self) -> None:
        """Close the connection."""
        self._task.cancel()
        self._writer.close()

    def subscribe(self, name: str, subject: str) -> None:
        """Keep the messages to a subject under `name`."""
        self._writer.write(client_side.subscribe_line(subject.encode(), name.encode()))

    def unsubscribe(self, name: str) -> None:
        """End a subscription."""
        self._writer.write(client_side.unsubscribe_line(name.encode()))
        self._kept.pop(name, None)

    def taken(self, name: str) -> list[Message]:
        """Return the messages of a subscription since the last call."""
        return self._kept.pop(name, [])

    def publish(
        self, subject: str, payload: bytes = b"", headers: bytes = b"", reply: str = ""
    ) -> None:
        """Publish a message."""
        self._writer.write(
            client_side.publish_frame(subject.encode(), reply.encode(), headers, payload)
        )

    async def request(
        self, subject: str, payload: bytes = b"", headers: bytes = b"", wait_s: float = _ANSWER_S
    ) -> Message | None:
        """Publish a message; return its first answer, None if there is none in time."""
        self._requests += 1
        reply = f"_R.{self._requests}"
        answer = self._answers[reply] = asyncio.get_running_loop().create_future()
        self.publish(subject, payload, headers, reply)
        try:
            return await asyncio.wait_for(answer, wait_s)
        except TimeoutError:
            return None
        finally:
            del self._answers[reply]

    async def round_trip(self) -> None:
        """Wait until the server has read all commands, and its earlier messages have arrived."""
        pong = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self._writer.write(client_side.PING)
        await asyncio.wait_for(pong, _ANSWER_S)

    async def api(self, subject: str, body: Any = None) -> dict[str, Any]:
        """Return what JetStream's API answers."""
        text = b"" if body is None else json.dumps(body).encode()
        answer = await self.request("$JS.API." + subject, text)
        assert answer is not None, f"no answer to {subject}"
        found: dict[str, Any] = json.loads(answer.payload)
        return found

    async def _read(self) -> None:
        frames = client_side.FrameReader()
        while data := await self._reader.read(1 << 18):
            for message in frames.feed(data):
                self._keep(Message(*(part.decode() for part in _by_name(message))))
            for verb, _ in frames.controls:
                if verb == b"PING":
                    self._writer.write(client_side.PONG)
                elif verb == b"PONG" and not (pong := self._pongs.pop(0)).done():
                    pong.set_result(None)
            frames.controls.clear()

    def _keep(self, message: Message) -> None:
        self.arrived += 1
        if message.to != "r":
            self._kept.setdefault(message.to, []).append(message)
            return
        answer = self._answers.get(message.subject)
        if answer is not None and not answer.done():
            answer.set_result(message)


def _by_name(message: client_side.ReceivedMessage) -> tuple[bytes, ...]:
    """Return the parts of a delivery, the subscription's name first."""
    return (message.sid, message.subject, message.reply, message.headers, message.payload)
