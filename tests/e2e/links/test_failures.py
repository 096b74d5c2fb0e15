"""A link that does not come up: one sentence in the log names the cause, then every so often."""

from __future__ import annotations

import asyncio
import re
import socket
from ipaddress import ip_address

import pytest
from cryptography import x509

from tests.support.clusters import route_port
from tests.support.keys import Authority, pem
from tests.support.leafnodes import leaf_port
from tests.support.linked import ACCEPTING
from tests.support.processes import Server, command_of, midge_command

ROUTES = 'cluster { name: C, listen: "127.0.0.1:-1", %s }\n'
TLS = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem"'
VERIFY = f'{TLS}, ca_file: "@directory@/ca.pem", verify: true }}'
LOGIN = "authorization { user: a, password: b }"
WAIT_S = 60.0


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The certificate, the key and the authority of the far server."""
    authority = Authority()
    here: list[x509.GeneralName] = [x509.IPAddress(ip_address("127.0.0.1"))]
    certificate, key = authority.issue(alternatives=here)
    return {"cert.pem": pem(certificate), "key.pem": key, "ca.pem": authority.pem}


def remote(url: str, more: str = "") -> str:
    """Write the block of a leaf."""
    return f'leafnodes {{ reconnect: 50ms, remotes: [ {{ url: "{url}"{more} }} ] }}\n'


def route(url: str) -> str:
    """Write the block of a server with a route."""
    return ROUTES % f'routes: ["{url}"]'


async def fails_with(config: str, cause: str, files: dict[str, bytes], causes: int = 1) -> None:
    """Start a midge by `config`; expect one error that has `cause`, and more attempts."""
    server = Server(midge_command(), config, ("-D",), files=files)
    try:
        await asyncio.to_thread(server.wait_ready)
        async with asyncio.timeout(WAIT_S):
            while "(attempt 4)" not in server.log:
                await asyncio.sleep(0.01)
        errors = re.findall(r"\[ERR\] (.*)", server.log)
        assert len(errors) == causes
        assert cause in errors[0]
        assert "(attempt 1)" in errors[0]
        assert "Traceback" not in server.log
    finally:
        await asyncio.to_thread(server.stop)


def closed_port() -> int:
    """Return a port at which no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.parametrize("far", ["real", "midge"])
async def test_a_leaf_that_the_hub_refuses(far: str, files: dict[str, bytes]) -> None:
    authority = ', tls { ca_file: "@directory@/ca.pem" }'
    with Server(command_of(far), ACCEPTING % (-1, VERIFY), files=files) as hub:
        url = f"tls://127.0.0.1:{leaf_port(hub)}"
        await fails_with(remote(url, authority), "a client certificate", files)
        await fails_with(remote(url), "the certificate of the other server is not valid", files)
    with Server(command_of(far), ACCEPTING % (-1, LOGIN)) as hub:
        port, client_port = leaf_port(hub), hub.address()[1]
        url = f"nats-leaf://a:c@127.0.0.1:{port}"
        await fails_with(remote(url), "Authorization Violation", files)
        url = f"tls://127.0.0.1:{port}"
        await fails_with(remote(url, authority), "does not speak TLS", files)
        url = f"nats-leaf://127.0.0.1:{client_port}"
        await fails_with(remote(url), "attempted to connect to wrong port", files)


async def test_a_leaf_whose_hub_is_away() -> None:
    url = f"nats-leaf://127.0.0.1:{closed_port()}"
    await fails_with(remote(url), "connection refused", {})
    every = "connect_error_reports: 2\n"
    await fails_with(every + remote(url), "connection refused", {}, causes=3)


@pytest.mark.parametrize("far", ["real", "midge"])
async def test_a_route_that_the_other_server_refuses(far: str, files: dict[str, bytes]) -> None:
    with Server(command_of(far), ROUTES % VERIFY, files=files) as server:
        url = f"nats-route://127.0.0.1:{route_port(server)}"
        await fails_with(route(url), "no INFO, as where a server expects TLS first", files)
    with Server(command_of(far), ROUTES % LOGIN) as server:
        port, client_port = route_port(server), server.address()[1]
        url = f"nats-route://a:c@127.0.0.1:{port}"
        await fails_with(route(url), "Authorization Violation", files)
        url = f"nats-route://127.0.0.1:{client_port}"
        await fails_with(route(url), "attempted to connect to wrong port", files)


async def test_a_hub_that_goes_away_is_an_error_each_time_by_default() -> None:
    with Server(midge_command(), ACCEPTING % (-1, "")) as hub:
        leaf = Server(midge_command(), remote(f"nats-leaf://127.0.0.1:{leaf_port(hub)}"))
        try:
            await asyncio.to_thread(leaf.wait_ready)
            async with asyncio.timeout(WAIT_S):
                while "Leafnode connection created" not in leaf.log:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(hub.stop)
                while "(attempt 3)" not in leaf.log:
                    await asyncio.sleep(0.01)
            attempts = re.findall(r"\[ERR\] Error trying .*attempt (\d+)\)", leaf.log)
            assert attempts[:3] == ["1", "2", "3"]
        finally:
            await asyncio.to_thread(leaf.stop)
