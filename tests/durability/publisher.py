"""A client of few lines that records its answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any


class Publisher:
    """A connection that publishes and asks; every answer resolves the future of its reply."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self.task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, url: str) -> Publisher:
        host, port = url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _R.> 1\r\n')
        return cls(reader, writer)

    def send(
        self, subject: str, body: bytes, reply: str, headers: bytes = b""
    ) -> asyncio.Future[bytes]:
        """Publish; the future is done with the answer, or cancelled when the server is gone."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self.task.done():  # nothing would end a request now
            answer.cancel()
            return answer
        inbox = b"_R." + reply.encode()
        self.waiting[inbox] = answer
        if headers:
            block = b"NATS/1.0\r\n" + headers + b"\r\n"
            line = b"HPUB %b %b %d %d\r\n" % (
                subject.encode(), inbox, len(block), len(block) + len(body)
            )  # fmt: skip
            self.writer.write(line + block + body + b"\r\n")
        else:
            self.writer.write(b"PUB %b %b %d\r\n" % (subject.encode(), inbox, len(body)))
            self.writer.write(body + b"\r\n")
        return answer

    async def ask(self, subject: str, body: Any, reply: str, headers: bytes = b"") -> Any:
        """Publish, and return the answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return json.loads(await self.send(subject, data, reply, headers) or b"{}")

    async def close(self) -> None:
        self.task.cancel()
        self.writer.close()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while line := await self.reader.readline():
                if line.startswith(b"PING"):
                    self.writer.write(b"PONG\r\n")
                elif line.startswith((b"MSG", b"HMSG")):
                    words = line.split()
                    body = await self.reader.readexactly(int(words[-1]) + 2)
                    start = int(words[-2]) if line.startswith(b"HMSG") else 0
                    answer = self.waiting.pop(words[1], None)
                    if answer is not None and not answer.done():
                        answer.set_result(body[start:-2])
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for answer in self.waiting.values():
                answer.cancel()
            self.waiting.clear()
