"""A minute of clients that come, talk and go, some of them rudely; nothing of them remains."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command

SOAK_S = 60.0
WARM_UP_S = 5.0
"""Long enough for allocators, caches and buffers to reach their working size."""

SETTLE_TIMEOUT_S = 60.0
RSS_MARGIN_BYTES = 16 * 1024 * 1024
"""How far an allocator's keep varies; thousands of connections kept alive would need far more."""

CONFIG = "max_closed_clients: 50\n"
"""The list of closed connections is bounded; it is full before the measurement."""

WORKERS = 6

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


class Footprint:
    """What a process holds, read from /proc."""

    def __init__(self, pid: int) -> None:
        self._root = Path(f"/proc/{pid}")

    def fds(self) -> int:
        """Open file descriptors."""
        return len(list((self._root / "fd").iterdir()))

    def threads(self) -> int:
        """Running threads."""
        return len(list((self._root / "task").iterdir()))

    def rss_bytes(self) -> int:
        """Resident memory."""
        for line in (self._root / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(midge_command(), CONFIG) as running:
        yield running


@pytest.mark.parametrize(
    "duration_s", [5.0, pytest.param(SOAK_S, marks=pytest.mark.full)], ids=["short", "long"]
)
async def test_soak(server: Server, duration_s: float) -> None:
    footprint = Footprint(server.pid)
    idle_fds = await _fds_without_clients(server, footprint)
    await _load(server, WARM_UP_S, seed=1)
    await _settled(footprint, idle_fds)
    threads, rss = footprint.threads(), footprint.rss_bytes()

    exchanged = await _load(server, duration_s, seed=2)

    await _settled(footprint, idle_fds)
    assert exchanged > 100
    assert footprint.threads() <= threads
    grown = footprint.rss_bytes() - rss
    assert grown < RSS_MARGIN_BYTES, f"{grown / 2**20:.1f} MiB more than after the warm-up"
    assert "Traceback" not in server.log
    assert server.process.poll() is None


async def _fds_without_clients(server: Server, footprint: Footprint) -> int:
    """Count descriptors once a first client has made the server open what it opens late."""
    client = await SettlingClient.connected(server.url, allow_reconnect=False)
    with_client = footprint.fds()
    await client.close()
    await _settled(footprint, with_client - 1)
    return with_client - 1


async def _settled(footprint: Footprint, fds: int) -> None:
    """Wait until the server has closed what clients have left behind."""
    async with asyncio.timeout(SETTLE_TIMEOUT_S):
        while footprint.fds() > fds:
            await asyncio.sleep(0.05)


async def _load(server: Server, duration_s: float, seed: int) -> int:
    """Keep several workers busy; return how many messages came back to them."""
    deadline = asyncio.get_running_loop().time() + duration_s
    scenes = (_talk, _request, _churn_subscriptions, _leave_rudely, _large_messages)
    counts = [0] * WORKERS

    async def worker(index: int) -> None:
        rng = random.Random(seed * 1000 + index)
        while asyncio.get_running_loop().time() < deadline:
            counts[index] += await rng.choice(scenes)(server, rng)

    async with asyncio.TaskGroup() as group:
        for index in range(WORKERS):
            group.create_task(worker(index))
    return sum(counts)


async def _talk(server: Server, rng: random.Random) -> int:
    """Two clients, plain and queue subscriptions, a burst of messages."""
    clients = [await SettlingClient.connected(server.url, allow_reconnect=False) for _ in range(2)]
    subject = f"soak.talk.{rng.randrange(10**9)}"
    got = 0

    async def count(message: Msg) -> None:
        nonlocal got
        got += 1

    await clients[0].subscribe(f"{subject}.*", cb=count)
    await clients[0].subscribe(f"{subject}.>", queue="q", cb=count)
    await clients[0].flush()
    for i in range(50):
        await clients[1].publish(f"{subject}.{i}", bytes(rng.randrange(200)), headers={"N": str(i)})
    await clients[1].flush()
    await clients[0].flush()
    await _leave(clients, rng)
    return got


async def _request(server: Server, rng: random.Random) -> int:
    """A service and its client."""
    service = await SettlingClient.connected(server.url, allow_reconnect=False)
    client = await SettlingClient.connected(server.url, allow_reconnect=False)
    subject = f"soak.service.{rng.randrange(10**9)}"

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await service.subscribe(subject, queue="q", cb=answer)
    await service.flush()
    for _ in range(20):
        await client.request(subject, b"?", timeout=30)
    await _leave([client, service], rng)
    return 20


async def _churn_subscriptions(server: Server, rng: random.Random) -> int:
    """Subscriptions that come and go without a message."""
    client = await SettlingClient.connected(server.url, allow_reconnect=False)
    subscriptions = [
        await client.subscribe(f"soak.{rng.randrange(1000)}.{rng.choice('*>ab')}")
        for _ in range(100)
    ]
    for subscription in subscriptions[::2]:
        await subscription.unsubscribe()
    await client.flush()
    await _leave([client], rng)
    return 0


async def _large_messages(server: Server, rng: random.Random) -> int:
    """A few payloads near the limit."""
    client = await SettlingClient.connected(server.url, allow_reconnect=False)
    subject = f"soak.large.{rng.randrange(10**9)}"
    subscription = await client.subscribe(subject)
    for _ in range(3):
        await client.publish(subject, bytes(rng.randrange(1_000_000)))
    for _ in range(3):
        await subscription.next_msg(timeout=30)
    await _leave([client], rng)
    return 3


async def _leave_rudely(server: Server, rng: random.Random) -> int:
    """Raw sockets that stop in the middle of a frame, send nonsense, or reset."""
    endings = (
        b"",
        b"PUB soak.cut 100\r\nhalf",
        b"SUB soak.rude 1\r\nSUB soak.* 2\r\nPING\r\n",
        b"nonsense\r\n",
        b"SUB " + b"x" * 5000,
    )
    sock = socket.create_connection(server.address())
    with sock:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_recv(sock, 4096)
        await loop.sock_sendall(sock, b'CONNECT {"verbose":false}\r\n' + rng.choice(endings))
        if rng.random() < 0.5:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return 0


async def _leave(clients: list[Client], rng: random.Random) -> None:
    for client in clients:
        await (client.drain() if rng.random() < 0.5 else client.close())
