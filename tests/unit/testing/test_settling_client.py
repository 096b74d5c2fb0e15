"""The kit's client against a server that ends connections before they are of use."""

from __future__ import annotations

import asyncio
import gc
from urllib.parse import urlsplit

from midge.testing import SettlingClient
from tests.support.wires import Wire


async def test_an_attempt_that_fails_leaves_no_stream_open(nats_url: str) -> None:
    failures: list[Exception] = []
    back = asyncio.Event()
    async with Wire(urlsplit(nats_url).port or 0) as wire:

        async def note(failure: Exception) -> None:
            failures.append(failure)
            if len(failures) == 3:
                wire.mend()

        async def come_back() -> None:
            back.set()

        client = await SettlingClient.connected(
            f"nats://127.0.0.1:{wire.port}",
            reconnect_time_wait=0,
            max_reconnect_attempts=-1,
            error_cb=note,
            reconnected_cb=come_back,
        )
        wire.cut()
        await back.wait()
        await client.close()
    assert len(failures) >= 3
    gc.collect()  # a stream left open warns here, and a warning fails the test
