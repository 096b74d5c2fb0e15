"""Streams of all kinds for a while, consumers that come and go, restarts and kills: nothing lost.

`pytest --full` runs it, for some seconds and for ten minutes; the latter compares the memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import pytest
from nats.errors import Error as NatsError

from tests.e2e.jetstream.ledger import Ledger
from tests.e2e.jetstream.pulling import LoopClock, PullingClient
from tests.support.processes import Server, midge_command

ACK_WAIT_S = 2.0
KEPT = 2_000
"""Few enough to be reached before memory is compared, where 50 messages a second reach a stream."""

GROWTH_MAX = 1.05

SEGMENT_BYTES = 16 * 1024 * 1024
"""What a segment of the log takes before the next one is begun."""

FILL = 300
FILL_BYTES = 60_000
"""Payloads that fill a segment at once, which the other messages do in five minutes."""

STREAMS: dict[str, dict[str, Any]] = {
    "WORK": {"retention": "workqueue"},
    "LOG": {"max_msgs": KEPT},
    "MEMORY": {"max_msgs": KEPT, "storage": "memory"},
    "INTEREST": {"retention": "interest"},
    "KEYS": {"max_msgs_per_subject": 1},
}
DURABLE = {"WORK": ["worker"], "LOG": ["slow", "quick"], "INTEREST": ["first", "second"]}


class Soak:
    """One run over the lives of a server whose store stays."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.random = random.Random(seed)
        self.ledger = Ledger(ACK_WAIT_S)
        self.numbers = itertools.count()
        self.ordered = 0
        self._client: Any = None
        self._js: Any = None
        self._clock: Any = None

    @contextlib.asynccontextmanager
    async def life(self, *, is_killed: bool, is_last: bool = False) -> AsyncIterator[Server]:
        """Run a server, with everything that goes on, until it is stopped or killed.

        In the last life nothing is published any more.
        """
        server = Server(midge_command(), f'jetstream {{ store_dir: "{self.directory}" }}')
        tasks: list[asyncio.Task[None]] = []
        try:
            await asyncio.to_thread(server.wait_ready)
            self._client = await nats.connect(server.url, allow_reconnect=False)
            self._js = self._client.jetstream(timeout=30)
            await self._make()
            self._clock = LoopClock()
            port = urlsplit(server.url).port or 0
            works = [self._publish, self._publish_again, self._come_and_go]
            tasks = [asyncio.create_task(self._ending(work)) for work in works if not is_last]
            for stream, names in DURABLE.items():
                tasks += [asyncio.create_task(self._consume(port, stream, name)) for name in names]
            yield server
            if is_killed:
                server.process.kill()
            await asyncio.to_thread(server.stop)
        finally:
            if self._clock is not None:
                self._clock.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(NatsError):
                await self._client.close()
            await asyncio.to_thread(server.stop)
        for task in tasks:
            if not task.cancelled() and task.exception() is not None:
                raise task.exception() or AssertionError
        self.ledger.life += 1

    async def _make(self) -> None:
        for name, keys in STREAMS.items():
            body = {"name": name, "subjects": [f"{name}.*"], "duplicate_window": 10**10, **keys}
            await self._js._api_request(f"$JS.API.STREAM.CREATE.{name}", _json(body), timeout=30)
        for stream, names in DURABLE.items():
            for name in names:
                config = {
                    "durable_name": name,
                    "ack_policy": "explicit",
                    "ack_wait": round(ACK_WAIT_S * 1e9),
                    "max_ack_pending": 200,
                }
                body = {"stream_name": stream, "config": config}
                subject = f"$JS.API.CONSUMER.CREATE.{stream}.{name}"
                await self._js._api_request(subject, _json(body), timeout=30)

    async def _ending(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something until the server goes."""
        with contextlib.suppress(NatsError, TimeoutError, ConnectionError):
            while not self._client.is_closed:
                await work()

    async def _publish(self) -> None:
        """Publish a few messages to each stream at once; each has an id of its own."""
        for stream in STREAMS:
            await asyncio.gather(*(self._publish_one(stream, f"{next(self.numbers)}")
                                   for _ in range(20)))  # fmt: skip
        await asyncio.sleep(0.3)

    async def _publish_one(self, stream: str, message_id: str) -> None:
        subject = f"{stream}.{self.random.randrange(50)}"
        ack = await self._js.publish(
            subject, message_id.encode(), headers={"Nats-Msg-Id": message_id}
        )
        self.ledger.published(stream, message_id, ack.seq)

    async def _publish_again(self) -> None:
        """Publish a stored message once more: the ack has the sequence that it already has."""
        await asyncio.sleep(0.5)
        for stream in ("LOG", "WORK"):
            for message_id in list(self.ledger.stored[stream])[-5:]:
                await self._publish_one(stream, message_id)

    async def fill_segment(self) -> None:
        """Fill a segment of the log, and wait until its room has been given back.

        Rewriting a segment takes 1 MiB in two pieces. The first time glibc maps them, and
        learns from that to take the next ones from the heap, which keeps the room.
        """
        for _ in range(FILL):
            await self._js.publish("KEYS.0", bytes(FILL_BYTES))
        async with asyncio.timeout(60):
            while log_bytes(self.directory) >= SEGMENT_BYTES:
                await asyncio.sleep(0.2)

    async def _consume(self, port: int, stream: str, name: str) -> None:
        """Take messages until the server goes."""
        client = PullingClient(stream, name, self.ledger, self._clock, self.random)
        with contextlib.suppress(ConnectionError):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: client, "127.0.0.1", port
            )
            try:
                await client.ended.wait()
            finally:
                transport.close()

    async def _come_and_go(self) -> None:
        """Read the end of a stream by a consumer for that alone: one after the other, no gap."""
        info = await self._js.stream_info("LOG")
        start = max(info.state.last_seq - 300, info.state.first_seq, 1)
        subscription = await self._js.subscribe(
            "LOG.*",
            ordered_consumer=True,
            config=nats.js.api.ConsumerConfig(
                deliver_policy=nats.js.api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=start
            ),
        )
        seqs = []
        while not seqs or seqs[-1] < info.state.last_seq:
            message = await subscription.next_msg(timeout=30)
            seqs.append(message.metadata.sequence.stream)
        await subscription.unsubscribe()
        if seqs != list(range(seqs[0], seqs[0] + len(seqs))):
            self.ledger.faults.append(f"a reader of LOG saw {seqs}")
        self.ordered += 1
        await asyncio.sleep(0.2)

    async def check(self) -> None:
        """See that everything acknowledged is there, or has been settled."""
        ledger = self.ledger
        async with self.life(is_killed=False, is_last=True):
            for stream in ("WORK", "INTEREST"):
                await self._drained(stream)
            for stream in ("LOG", "KEYS"):
                await self._check_contents(stream)
        assert ledger.faults == []
        for stream, name in (("WORK", "worker"), ("INTEREST", "first"), ("INTEREST", "second")):
            assert ledger.never_delivered(stream, f"{stream}.{name}") == set()

    async def _drained(self, stream: str) -> None:
        """Wait until all messages of a stream have been settled."""
        async with asyncio.timeout(50):
            while (await self._js.stream_info(stream)).state.messages:
                await asyncio.sleep(0.1)

    async def _check_contents(self, stream: str) -> None:
        """See that every message of the ledger that limits have not removed is stored."""
        info = await self._js.stream_info(stream)
        newest = sorted(self.ledger.stored[stream].items(), key=lambda one: -one[1])[:200]
        for message_id, seq in newest if stream == "LOG" else newest[:1]:
            if seq >= info.state.first_seq:
                found = await self._js.get_msg(stream, seq)
                if found.data.decode() != message_id:
                    self.ledger.faults.append(f"{stream} {seq} is not {message_id}")
        if stream == "KEYS" and info.state.messages > 50:
            self.ledger.faults.append(f"{info.state.messages} messages of 50 keys")


def _json(body: Any) -> bytes:
    return nats.js.client.json.dumps(body).encode()


def log_bytes(directory: Path) -> int:
    """Return how long the segments of a store's log are together."""
    total = 0
    for path in directory.rglob("*.log"):
        with contextlib.suppress(FileNotFoundError):  # it has just been given back
            total += path.stat().st_size
    return total


def resident_kib(server: Server) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.full
@pytest.mark.soak
async def test_streams_through_restarts(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "store", 1)
    for is_killed in (True, False):
        async with soak.life(is_killed=is_killed):
            await asyncio.sleep(1.2)
    await soak.check()
    assert soak.ledger.deliveries > 100


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_streams_for_ten_minutes(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "store", 2)
    for is_killed in (True, False, True, False):
        async with soak.life(is_killed=is_killed):
            await asyncio.sleep(20)
    async with soak.life(is_killed=False) as server:
        await asyncio.sleep(40)
        for _ in range(2):  # the second time leaves the heap as large as it stays
            await soak.fill_segment()
        await asyncio.sleep(20)
        before = resident_kib(server)
        await asyncio.sleep(450)
        after = resident_kib(server)
    await soak.check()
    ledger = soak.ledger
    print(
        f"{sum(map(len, ledger.stored.values())):,} stored, {ledger.deliveries:,} deliveries, "
        f"again for {dict(ledger.again)}, {soak.ordered} readers, {before} and {after} KiB"
    )
    assert after <= before * GROWTH_MAX
