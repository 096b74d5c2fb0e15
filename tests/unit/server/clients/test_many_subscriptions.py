"""However many subscriptions a client has, one more, and its end, are little work at a time."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest

from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.config.options import Options
from midge.testing import ManualClock
from tests.support.transports import Transport

COUNT = 200_000
AT_ONCE = 500
STEP_BYTES = 6 * 1024 * 1024
"""What a few subscriptions may take at once: a dictionary of 180,000 that grows takes 10 MiB."""

END_BYTES = 512 * 1024
"""What the end of them may take: a list of all has 1.6 MB."""


@pytest.fixture
def client() -> Iterator[Connection]:
    client = Broker(Options(), ManualClock(), Random(1)).make_connection(("127.0.0.1", 1))
    client.channel.connection_made(Transport())
    client.channel.feed(b'CONNECT {"verbose":false}\r\n')
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield client
    tracemalloc.stop()
    gc.enable()


def taken_bytes() -> int:
    """Return the peak of the memory allocated since the last call."""
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    taken = peak - taken_bytes.before
    taken_bytes.before = now
    return taken


taken_bytes.before = 0


@pytest.mark.timeout(300)
def test_many_subscriptions_are_no_large_piece_of_work(client: Connection) -> None:
    largest = 0
    taken_bytes()
    for start in range(0, COUNT, AT_ONCE):
        for number in range(start, start + AT_ONCE):
            client.subscribe(b"held.%d.%d" % (number % 100, number), None, b"%d" % number)
        largest = max(largest, taken_bytes())
    assert len(client.subscriptions) == COUNT
    assert largest < STEP_BYTES

    client.close(ClosedReason.CLIENT_CLOSED)
    client.channel.connection_lost(None)
    assert taken_bytes() < END_BYTES
    assert len(client.subscriptions) == 0
    while len(client.account.sublist):
        client.broker.clock.advance(0)
        assert taken_bytes() < END_BYTES
