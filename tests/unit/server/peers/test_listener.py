"""The port that other servers connect to, closed while one of them comes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509

from midge.server.peers.link import Link
from midge.server.peers.listener import LinkListener, PortRules
from midge.server.peers.route_end import AcceptedRoute
from tests.support.keys import Authority, pem
from tests.support.routes import World

WAIT_S = 20.0


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest):
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


def port_of(world: World, rules: PortRules, opened: Callable[[], object]) -> LinkListener:
    """A port for routes, which calls `opened` in `connection_made` of each connection."""

    def make_link(peer: tuple[str, int]) -> Link:
        end = AcceptedRoute(world.cluster, None)
        begin: Callable[[Any], None] = end.opened

        def begin_and_call(link: Any) -> None:
            begin(link)
            opened()

        end.opened = begin_and_call
        return end.link_to(peer)

    return LinkListener(world.broker, "route_connections", lambda _: rules, make_link, ())


def test_a_link_that_comes_as_the_port_closes_is_not_waited_for_in_vain(
    runner: asyncio.Runner,
) -> None:
    async def play() -> None:
        world = World()
        listener = port_of(world, PortRules(None, None, 0.0), lambda: listener.close())
        reader, writer = await asyncio.open_connection(*listener.open("127.0.0.1", 0))
        async with asyncio.timeout(WAIT_S):
            assert (await reader.read()).startswith(b"INFO ")
            await world.broker.emptied()
        writer.close()
        await writer.wait_closed()

    runner.run(play())


def test_a_tls_handshake_ends_with_the_port(runner: asyncio.Runner, tmp_path: Path) -> None:
    authority = Authority()
    certificate, key = authority.issue(alternatives=[x509.IPAddress(ip_address("127.0.0.1"))])
    for name, content in (("cert", pem(certificate)), ("key", key)):
        (tmp_path / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")

    async def play() -> None:
        listener = port_of(World(), PortRules(None, context, 2 * WAIT_S), lambda: None)
        address = listener.open("127.0.0.1", 0)
        before = asyncio.all_tasks()
        reader, writer = await asyncio.open_connection(*address)
        async with asyncio.timeout(WAIT_S):
            while not (connecting := asyncio.all_tasks() - before):
                await asyncio.sleep(0)
            listener.close()
            assert not await reader.read()
            await asyncio.gather(*connecting)
        writer.close()
        await writer.wait_closed()

    runner.run(play())
