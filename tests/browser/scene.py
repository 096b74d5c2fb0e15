"""A small harbour of clients, so that the console has something to show."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self

from midge.testing import SettlingClient

if TYPE_CHECKING:
    from types import TracebackType

    from nats.aio.client import Client
    from nats.aio.msg import Msg

NAMES = ("cranes", "pilots", "customs", "berths")
EVENTS = ("arrived", "moored", "cleared", "left")


class Scene:
    """Clients in a thread that talk about ships until they are stopped."""

    def __init__(self, url: str, *, pause_s: float = 0.02) -> None:
        self._url = url
        self._pause_s = pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    async def _play(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await self._enter(stack, name) for name in NAMES]
            for client in clients:
                await client.subscribe("ships.>", cb=_heed)
                await client.subscribe("berths.assign", queue="berths", cb=_heed)
            number = 0
            while not self._over.is_set():
                number += 1
                for client, event in zip(clients, EVENTS, strict=True):
                    await client.publish(f"ships.{event}", b'{"ship": %d}' % number)
                await clients[0].publish("berths.assign", b"%d" % (number % 12))
                await asyncio.sleep(self._pause_s)

    async def _enter(self, stack: contextlib.AsyncExitStack, name: str) -> Client:
        client = await SettlingClient.connected(self._url, name=name)
        stack.push_async_callback(client.close)
        return client


async def _heed(message: Msg) -> None:
    """Record the message."""
