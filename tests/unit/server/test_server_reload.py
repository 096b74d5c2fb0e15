"""What a reload does to clients that are there."""

import pytest

from midge.server.errors import ConfigError
from midge.server.options import Keepalive, Limits, Listen, Options
from midge.server.server import Server
from midge.testing import SettlingClient


async def test_limits_hold_for_those_who_are_there() -> None:
    server = Server(Options(listen=Listen(port=-1)))
    await server.start()
    url = server.urls()["nats"][0]
    closed = []

    async def note() -> None:
        closed.append(True)

    async def ignore(error: Exception) -> None:
        """The client logs it otherwise."""

    first = await SettlingClient.connected(url, allow_reconnect=False)
    second = await SettlingClient.connected(
        url, allow_reconnect=False, closed_cb=note, error_cb=ignore
    )
    try:
        await server.reload(
            Options(
                listen=Listen(port=-1),
                limits=Limits(max_connections=1, max_payload_bytes=100, max_closed_clients=7),
                keepalive=Keepalive(ping_interval_s=7, ping_max=9),
            )
        )
        (left,) = server.connections()
        assert left.cid == first._client_id
        assert left.parser.max_payload == 100
        assert (left.keepalive.interval_s, left.keepalive.ping_max) == (7, 9)
        assert server.hub.closed.maxlen == 7
        assert server.hub.closed[0].reason == "Maximum Connections Exceeded"
        await first.flush()
    finally:
        await first.close()
        await second.close()
        await server.stop()
    assert closed


async def test_what_must_stay_is_refused_and_nothing_changes() -> None:
    server = Server(Options(listen=Listen(port=-1)))
    await server.start()
    try:
        with pytest.raises(ConfigError, match=r"listen\.port"):
            await server.reload(Options(listen=Listen(port=4999), limits=Limits(max_connections=1)))
        assert server.options.limits.max_connections == 65536
    finally:
        await server.stop()
