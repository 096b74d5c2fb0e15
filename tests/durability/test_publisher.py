"""The client of the tests of durability waits for no answer that cannot come."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

from tests.durability.publisher import Publisher


async def test_what_is_asked_after_the_end_is_cancelled() -> None:
    reader = asyncio.StreamReader()
    publisher = Publisher(reader, create_autospec(asyncio.StreamWriter, instance=True))
    first = publisher.send("a", b"", "1")
    reader.feed_data(b"MSG _R.1 1 2\r\n{}\r\n")
    reader.feed_eof()
    assert await first == b"{}"  # the end has come in the same turn

    assert publisher.send("a", b"", "2").cancelled()
