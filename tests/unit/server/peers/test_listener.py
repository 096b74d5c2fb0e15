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

from midge.server.peers.cluster_service import RouteListener
from midge.server.peers.link import Link
from tests.support.keys import Authority, pem
from tests.support.routes import World

WAIT_S = 20.0


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest):
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner


class Closing(RouteListener):
    """A port that closes while the transport of the first connection calls `connection_made`."""

    links: list[Link]

    def make_link(self, peer: tuple[str, int]) -> Link:
        link = RouteListener.make_link(self, peer)
        self.links = [link]
        opened: Callable[[Any], None] = link.side.opened

        def close_then(of: Any) -> None:
            opened(of)
            self.close()

        link.side.opened = close_then
        return link


def test_a_link_that_comes_as_the_port_closes_is_not_waited_for_in_vain(
    runner: asyncio.Runner,
) -> None:
    async def play() -> None:
        world = World()
        listener = Closing(world.cluster)
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
        listener = RouteListener(World().cluster)
        listener.tls, listener.tls_timeout_s = context, 2 * WAIT_S
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
