"""An edge device that stores its readings at once, and forwards them when it reaches the hub.

A midge server within the device's own program has the stream. A reading leaves it only after the
hub's stream has confirmed it, and the hub drops duplicates by the message's id.
"""

import asyncio
from os import PathLike
from typing import Self

import nats
import nats.errors

import midge


class Device:
    """Readings of one device, in a stream on its own disk; `async with` opens and closes it."""

    def __init__(self, name: str, directory: str | PathLike[str]) -> None:
        self.name = name
        self._server = midge.Server(port=-1, jetstream=directory)

    async def __aenter__(self) -> Self:
        await self._server.start()
        subjects = ["readings.>"]
        jetstream = self._server.jetstream
        self._stream = await jetstream.add_stream("READINGS", subjects, retention="workqueue")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def read(self, value: float) -> None:
        """Store a reading; returns when it is on the disk."""
        await self._stream.publish(f"readings.{self.name}", str(value))

    async def waiting(self) -> int:
        """Return the number of readings that the hub has not confirmed."""
        return (await self._stream.state()).messages

    async def forward(self, hub: str) -> None:
        """Forward readings to the stream of the hub, for ever."""
        client = await nats.connect(hub, reconnect_time_wait=0.05, max_reconnect_attempts=-1)
        try:
            streams = client.jetstream()
            async with self._stream.consume("forwarder") as readings:
                async for reading in readings:
                    headers = {"Nats-Msg-Id": f"{self.name}-{reading.time_ns}-{reading.seq}"}
                    while True:
                        try:
                            await streams.publish(
                                reading.subject, reading.payload, timeout=1, headers=headers
                            )
                            break
                        except nats.errors.Error:  # the hub is away: it stays stored here
                            await asyncio.sleep(0.05)
                    await reading.ack()
        finally:
            await client.close()
