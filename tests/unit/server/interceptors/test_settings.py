"""How interceptors are named, found and changed."""

from __future__ import annotations

import pytest

import midge
from tests.support.interceptors import Start, connected, passes, refuses


class TestSettings:
    async def test_names_are_imported(self, start: Start) -> None:
        server = await start(interceptors={"publish": "tests.support.interceptors:refuses"})
        client = await connected(server)
        assert b"not today" in await client.ask(b"PUB a 0\r\n")

    def test_unknown_events_are_refused(self) -> None:
        with pytest.raises(midge.ConfigError, match=r"interceptors\.publsh"):
            midge.Server(port=-1, interceptors={"publsh": passes})

    async def test_missing_functions_are_refused(self) -> None:
        server = midge.Server(port=-1, interceptors={"publish": "no_such_module:function"})
        with pytest.raises(midge.ConfigError, match=r"interceptors\.publish"):
            await server.start()

    async def test_a_reload_changes_those_of_the_settings(self, start: Start) -> None:
        server = await start()
        client = await connected(server)
        name = "tests.support.interceptors:refuses"
        await server.reload(interceptors={"publish": name})
        assert b"-ERR" in await client.ask(b"PUB a 0\r\n")
        with pytest.raises(midge.ConfigError, match=r"interceptors\.publish"):
            await server.reload(interceptors={"publish": "no_such_module:function"})
        assert b"-ERR" in await client.ask(b"PUB a 0\r\n")
        await server.reload(interceptors={"publish": ""})
        assert await client.ask(b"PUB a 0\r\n") == b""

    async def test_functions_can_be_changed_while_serving(self, start: Start) -> None:
        server = await start()
        client = await connected(server)
        server.intercept(publish=refuses)
        assert b"-ERR" in await client.ask(b"PUB a 0\r\n")
        server.intercept()
        assert await client.ask(b"PUB a 0\r\n") == b""

    async def test_without_interceptors_no_connection_is_screened(self, start: Start) -> None:
        server = await start()
        await connected(server)
        (connection,) = server.broker.clients.values()
        assert server.broker.interception is None
        assert connection.commands.publish_checks == 0
        assert connection.deliver_checks == 0
