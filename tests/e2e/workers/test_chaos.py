"""Workers that are killed at the worst of times, and what all others then still have."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from midge.testing import SettlingClient
from tests.support.processes import Server, midge_command
from tests.support.raw import Raw

TIMEOUT_S = 90  # a worker that keeps ending is started again after up to 30 s
PAUSES = 100
LONG = [pytest.mark.full, pytest.mark.timeout(1500)]
_STARTED = re.compile(r"Worker started: worker=(\d) worker_pid=(\d+)")
_WITHOUT_AN_ACK = (
    nats.errors.Error,
    nats.js.errors.Error,
    OSError,
)


def pids(server: Server) -> dict[int, int]:
    return {int(number): int(pid) for number, pid in _STARTED.findall(server.log)}


async def killed(server: Server, worker: int) -> None:
    """Kill a worker; return when another has taken its place."""
    before = pids(server)[worker]
    os.kill(before, signal.SIGKILL)
    await _replaced(server, worker, before)


async def _replaced(server: Server, worker: int, before: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while pids(server)[worker] == before:
            await asyncio.sleep(0.005)


def _reloads(server: Server) -> int:
    return server.log.count("Reloaded server configuration")


async def _ignore(_: Exception) -> None:
    """A client whose worker is killed has errors."""


class Crowd:
    """Clients that come back, subscribe to everything and publish without an end."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._stack = AsyncExitStack()
        self.clients: list[Client] = []
        self.found: list[Counter[bytes]] = []
        self.grouped: Counter[bytes] = Counter()
        self._stopped = False

    async def join(self, count: int) -> None:
        for number in range(count):
            client = await SettlingClient.connected(
                self._server.url,
                reconnect_time_wait=0.01,
                max_reconnect_attempts=-1,
                error_cb=_ignore,
            )
            self._stack.push_async_callback(client.close)
            found: Counter[bytes] = Counter()
            self.clients.append(client)
            self.found.append(found)

            async def take(message: Msg, found: Counter[bytes] = found) -> None:
                found[message.data] += 1

            async def take_alone(message: Msg) -> None:
                self.grouped[message.data] += 1

            await client.subscribe("all.>", cb=take)
            await client.subscribe("one.>", "group", cb=take_alone)
            load = asyncio.ensure_future(self._publish(client, number))
            self._stack.push_async_callback(self._end, load)

    async def _publish(self, client: Client, number: int) -> None:
        i = 0
        while not self._stopped:
            i += 1
            if client.is_connected:
                for kind in ("all", "one"):
                    await client.publish(f"{kind}.load.{i % 7}", b"%d %d" % (number, i))
            await asyncio.sleep(0.001)

    async def _end(self, load: asyncio.Future[None]) -> None:
        self._stopped = True
        await load

    async def whole(self) -> None:
        """Wait until every client is connected and subscribed."""
        async with asyncio.timeout(TIMEOUT_S):
            for client in self.clients:
                while True:
                    try:
                        await client.flush()
                        break
                    except nats.errors.Error:
                        await asyncio.sleep(0.01)

    async def judge(self, name: str) -> None:
        """Publish once by each client: all get it once, and one member of the group does."""
        wanted = [b"%b %d" % (name.encode(), number) for number in range(len(self.clients))]
        for data, client in zip(wanted, self.clients, strict=True):
            await client.publish("all.judged", data)
            await client.publish("one.judged", data)
        async with asyncio.timeout(TIMEOUT_S):
            while not all(self._has(data) for data in wanted):
                await asyncio.sleep(0.005)
        for client in self.clients:
            await client.flush()
        assert {found[data] for found in self.found for data in wanted} == {1}
        assert {self.grouped[data] for data in wanted} == {1}

    def _has(self, data: bytes) -> bool:
        return self.grouped[data] > 0 and all(found[data] for found in self.found)

    async def leave(self) -> None:
        await self._stack.aclose()


@pytest.mark.parametrize(
    "rounds",
    [3, pytest.param(100, marks=LONG)],
)
async def test_workers_are_killed_under_load(rounds: int) -> None:
    chosen = random.Random(rounds)
    with Server(midge_command(), "", ("--workers", "3")) as server:
        crowd = Crowd(server)
        await crowd.join(6)
        try:
            for number in range(rounds):
                await killed(server, chosen.randrange(3))
                await crowd.whole()
                await crowd.judge(f"round {number}")
        finally:
            await crowd.leave()
        for found in (*crowd.found, crowd.grouped):
            assert max(found.values()) == 1  # a worker's loss may lose messages; none comes twice
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text()
        assert len(children.split()) == 3


@pytest.mark.full
@pytest.mark.timeout(1500)
async def test_workers_are_paused_under_load() -> None:
    chosen = random.Random(1)
    with Server(midge_command(), 'write_deadline: "2s"\n', ("--workers", "3")) as server:
        crowd = Crowd(server)
        await crowd.join(6)
        try:
            for number in range(PAUSES):
                worker = chosen.randrange(3)
                before = pids(server)[worker]
                os.kill(before, signal.SIGSTOP)
                if number % 10:
                    await asyncio.sleep(chosen.uniform(0, 0.3))  # requests that wait for it wait on
                    os.kill(before, signal.SIGCONT)
                else:
                    await _replaced(server, worker, before)  # it has answered nothing for too long
                await crowd.whole()
                await crowd.judge(f"round {number}")
        finally:
            await crowd.leave()
        for found in (*crowd.found, crowd.grouped):
            assert max(found.values()) == 1


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=LONG)])
async def test_what_was_acknowledged_outlives_the_first_worker(rounds: int) -> None:
    config = 'jetstream { store_dir: "@directory@/js", sync_interval: always }\n'
    with Server(midge_command(), config, ("--workers", "2")) as server:
        others, clients = [], []
        for _ in range(3):  # the clients are in the other worker, which stays
            others.append(await Raw.open(server.url))
            clients.append(await SettlingClient.connected(server.url, allow_reconnect=False))
        streams = [client.jetstream(timeout=2) for client in clients]
        await streams[0].add_stream(name="S", subjects=["s"])
        acknowledged: set[bytes] = set()
        numbers = itertools.count()
        without_an_ack: list[bytes] = []

        async def publish(stream: Any) -> None:
            while not without_an_ack:
                data = b"%d" % next(numbers)
                try:
                    await stream.publish("s", data)
                    acknowledged.add(data)
                except _WITHOUT_AN_ACK:
                    without_an_ack.append(data)

        for _ in range(rounds):
            without_an_ack.clear()
            before = len(acknowledged)
            under_way = [asyncio.ensure_future(publish(streams[i % 3])) for i in range(200)]
            async with asyncio.timeout(TIMEOUT_S):
                while len(acknowledged) < before + 400:
                    await asyncio.sleep(0)
            await killed(server, 0)
            await asyncio.gather(*under_way)
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    state = (await streams[1].stream_info("S")).state
                    break
                except _WITHOUT_AN_ACK:
                    await asyncio.sleep(0.01)
        reader = await streams[2].subscribe("s", ordered_consumer=True)
        stored = [(await reader.next_msg(timeout=30)).data for _ in range(state.messages)]
        assert len(set(stored)) == len(stored)
        assert acknowledged <= set(stored)
        for client in (*clients, *others):
            await client.close()


@pytest.mark.parametrize("rounds", [3, pytest.param(10, marks=LONG)])
async def test_a_worker_killed_during_a_reload_starts_with_what_is_in_force(rounds: int) -> None:
    chosen = random.Random(rounds)
    with Server(midge_command(), "max_payload: 1000\n", ("--workers", "2")) as server:
        for number in range(rounds):
            wanted = 2000 + number
            before = pids(server)[1]
            server.signal("SIGHUP", f"max_payload: {wanted}\n")
            await asyncio.sleep(chosen.uniform(0, 0.05))  # anywhere in the two phases of a reload
            os.kill(before, signal.SIGKILL)
            async with asyncio.timeout(TIMEOUT_S):
                while pids(server)[1] == before or _reloads(server) <= number:
                    await asyncio.sleep(0.005)
            raws = [await Raw.open(server.url) for _ in range(4)]
            assert {raw.info["max_payload"] for raw in raws} == {wanted}
            for raw in raws:
                await raw.close()
