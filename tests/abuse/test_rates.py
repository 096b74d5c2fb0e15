"""Abuse by rate: allowed input, sent so fast that no read ever catches up with it.

The senders are a process of their own (`flood.py`) and never stop. The tests measure the longest
time that the server's loop was busy at a stretch, and the delays of the bystanders' messages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.abuse.conftest import MIB, TIMEOUT_S, Target, Victim, ask
from tests.abuse.flood import FLOODS, RESUMED, TRANSPORTS
from tests.support.keys import Authority, pem
from tests.support.processes import CHECKOUT

FLOOD_S = 1.5
CLIENTS = {"ping": 30, "new_subjects": 5, "no_responders": 20}
GROWTH_BYTES = 128 * MIB
"""Memory that the allocator keeps of the buffers of clients that were not read any further."""

CONNECT = '{"verbose":false,"headers":true,"no_responders":true}'
RULES = ", ".join(f'"r.{i}.*.x"' for i in range(100))
RESTRICTED = (
    "authorization { users = [ {user: u, password: p, permissions: {publish: {"
    f' allow: ["bystander.>", "n.>", "same", {RULES}], deny: ["denied.>"]}}}}}} ] }}\n'
)
MAPPED = 'mappings = { "n.*": "mapped.$1", "n.*.*": "mapped.$2.$1" }\n'
AS_USER = '{"verbose":false,"user":"u","pass":"p"}'


@contextmanager
def flooded(
    target: Target, flood: str, *, clients: int, transport: str = "tcp", connect: str = CONNECT
) -> Iterator[None]:
    """Flood the target, from its start until the block ends."""
    host, port = target.server.address("websocket" if transport.startswith("ws") else "nats")
    plan = {
        "flood": flood,
        "clients": clients,
        "transport": transport,
        "host": host,
        "port": port,
        "connect": connect,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.abuse.flood", json.dumps(plan)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
        out, _ = process.communicate(timeout=TIMEOUT_S)
        assert json.loads(out)["sent_bytes"] > 0
        assert json.loads(out)["cut"] == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_makes_nobody_wait(victim: Victim, flood: str) -> None:
    with (
        victim(connect=CONNECT, growth_bytes=GROWTH_BYTES) as target,
        flooded(target, flood, clients=CLIENTS.get(flood, 3)),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize(
    "flood", ["one_subject", "new_subjects", "long_subjects", "deep_subjects", "denied"]
)
def test_a_flood_under_permissions_makes_nobody_wait(victim: Victim, flood: str) -> None:
    with (
        victim(RESTRICTED, connect=AS_USER, growth_bytes=GROWTH_BYTES) as target,
        flooded(target, flood, clients=CLIENTS.get(flood, 2), connect=AS_USER),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize(
    "flood",
    ["new_subjects", *(pytest.param(one, marks=pytest.mark.full) for one in FLOODS)],
)
def test_a_flood_on_the_loop_of_asyncio_makes_nobody_wait(victim: Victim, flood: str) -> None:
    with (
        victim(connect=CONNECT, growth_bytes=GROWTH_BYTES, on_asyncio=True) as target,
        flooded(target, flood, clients=min(CLIENTS.get(flood, 3), 5)),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize(
    "flood",
    ["new_subjects", *(pytest.param(one, marks=pytest.mark.full) for one in FLOODS)],
)
def test_a_flood_of_an_interpreted_server_makes_nobody_wait_long(
    victim: Victim, flood: str
) -> None:
    with (
        victim(connect=CONNECT, growth_bytes=GROWTH_BYTES, is_interpreted=True) as target,
        flooded(target, flood, clients=min(CLIENTS.get(flood, 3), 5)),
    ):
        assert "interpreted" in target.server.log
        time.sleep(FLOOD_S)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("count", "flood"),
    [
        (50_000, "new_subjects"),
        *(pytest.param(1_000_000, one, marks=pytest.mark.full) for one in ("ping", "new_subjects")),
    ],
)
def test_a_flood_of_a_server_with_many_subscriptions_makes_nobody_wait(
    victim: Victim, count: int, flood: str
) -> None:
    growth_bytes = GROWTH_BYTES + 1_000 * count  # as many as are there go away in the end
    with victim(connect=CONNECT, growth_bytes=growth_bytes) as target:
        holder = target.dial()
        for start in range(0, count, 10_000):
            numbers = range(start, min(start + 10_000, count))
            ask(holder, *(b"SUB held.%d.%d %d" % (n % 100, n, n) for n in numbers))
        with flooded(target, flood, clients=CLIENTS.get(flood, 3)):
            time.sleep(FLOOD_S)


@pytest.mark.parametrize("flood", ["new_subjects", "long_subjects"])
def test_a_flood_through_mappings_makes_nobody_wait(victim: Victim, flood: str) -> None:
    with (
        victim(MAPPED, growth_bytes=GROWTH_BYTES) as target,
        flooded(target, flood, clients=3),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize("flood", ["ping", "new_subjects"])
@pytest.mark.parametrize("transport", [name for name in TRANSPORTS if name.startswith("tls")])
def test_a_flood_by_tls_makes_nobody_wait(victim: Victim, flood: str, transport: str) -> None:
    certificate, key = Authority().issue("CN=localhost")
    files = {"cert.pem": pem(certificate), "key.pem": key}
    config = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem" }\n'
    with (
        victim(config, files=files, is_encrypted=True, growth_bytes=GROWTH_BYTES) as target,
        flooded(target, flood, clients=3, transport=transport),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize("transport", ["tls1.2", "tls1.3"])
def test_handshakes_that_resume_sessions_make_nobody_wait(victim: Victim, transport: str) -> None:
    certificate, key = Authority().issue("CN=localhost")
    files = {"cert.pem": pem(certificate), "key.pem": key}
    config = 'tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem" }\n'
    with (
        victim(config, files=files, is_encrypted=True, growth_bytes=GROWTH_BYTES) as target,
        flooded(target, "ping", clients=3, transport=transport + RESUMED),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize(
    ("transport", "flood"),
    [
        ("tcp", "new_subjects"),
        *(pytest.param("tcp", one, marks=pytest.mark.full) for one in FLOODS),
        *(pytest.param("ws_deflated", one, marks=pytest.mark.full) for one in ("ping", "connect")),
    ],
)
def test_a_flood_makes_nobody_wait_who_came_by_websocket(
    victim: Victim, flood: str, transport: str
) -> None:
    config = "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true }\n"
    with (
        victim(config, growth_bytes=GROWTH_BYTES, by_websocket=True) as target,
        flooded(target, flood, clients=3, transport=transport),
    ):
        time.sleep(FLOOD_S)


@pytest.mark.parametrize(
    ("transport", "flood"),
    [
        ("ws", "ping"),
        ("ws", "new_subjects"),
        ("ws_tiny", "ping"),
        ("ws_tiny", "new_subjects"),
        ("ws_pings", "ping"),
        ("ws_deflated", "ping"),
        ("ws_deflated", "new_subjects"),
    ],
)
def test_a_flood_by_websocket_makes_nobody_wait(victim: Victim, flood: str, transport: str) -> None:
    config = "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true }\n"
    with (
        victim(config, growth_bytes=GROWTH_BYTES) as target,
        flooded(target, flood, clients=3, transport=transport),
    ):
        time.sleep(FLOOD_S)
