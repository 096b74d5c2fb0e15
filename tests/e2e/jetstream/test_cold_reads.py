"""No client waits while the disk reads for a snapshot, a consumer, a mirror or a get."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import midge
from midge.jetstream.store.disk import DiskFile
from midge.protocol import client_side
from midge.testing import SimulatedDisk

_MESSAGES = 4_000
_BODY = b"x" * 1000  # together 4 MiB: several reads ahead
_LATENCY_S = 0.05


class ColdDisk(SimulatedDisk):
    """Counts the fetches."""

    def __init__(self) -> None:
        super().__init__(1)
        self.fetched = 0

    def fetch(self, file: DiskFile, position: int, size: int, done: Callable[[], object]) -> None:
        self.fetched += 1
        super().fetch(file, position, size, done)


class Client:
    """A connection."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = client_side.FrameReader()
        self._waiting: list[client_side.ReceivedMessage] = []

    async def message(self) -> client_side.ReceivedMessage:
        while not self._waiting:
            async with asyncio.timeout(60):
                self._waiting = list(self._frames.feed(await self._reader.read(1 << 18)))
        return self._waiting.pop(0)

    async def messages(self, count: int) -> None:
        for _ in range(count):
            assert (await self.message()).payload == _BODY

    def publish(self, subject: str, body: bytes, reply: bytes = b"") -> None:
        self._writer.write(client_side.publish_frame(subject.encode(), reply, b"", body))

    async def api(self, subject: str, **body: Any) -> dict[str, Any]:
        self.publish(f"$JS.API.{subject}", json.dumps(body).encode(), b"r")
        others = []
        while (message := await self.message()).sid != b"1":
            others.append(message)
        self._waiting = others + self._waiting
        answer: dict[str, Any] = json.loads(message.payload)
        assert "error" not in answer, answer
        return answer


@asynccontextmanager
async def cold(disk: ColdDisk) -> AsyncIterator[Client]:
    """Serve a stream of which nothing is in memory; see that its messages are fetched."""
    async with midge.Server(port=-1, jetstream=True, disk=disk) as server:
        host, port = server.url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
        await reader.readline()
        options = {"headers": True, "no_responders": True, "verbose": False}
        writer.write(client_side.connect_line(options) + b"SUB r 1\r\nSUB to 2\r\n")
        client = Client(reader, writer)
        config = {"name": "S", "subjects": ["s"], "allow_direct": True}
        await client.api("STREAM.CREATE.S", storage="file", **config)
        for _ in range(_MESSAGES // 50):  # in many groups, of which memory keeps only some
            writer.write(b"PUB s %d\r\n%b\r\n" % (len(_BODY), _BODY) * 50)
            await client.api("STREAM.PURGE.S", filter="none")  # answered when all is on the disk
        disk.drop_pages()
        await client.api("STREAM.INFO.S")  # of which the time of the first message is read at once
        disk.cold_reads = 0
        disk.latency_s = _LATENCY_S
        yield client
        assert disk.cold_reads == 0
        assert disk.fetched >= 3, "1 MiB each"
        disk.latency_s = 0.0
        writer.close()


async def test_a_snapshot_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        await client.api("STREAM.SNAPSHOT.S", deliver_subject="to")
        while (message := await client.message()).payload:
            if message.reply:
                client.publish(message.reply.decode(), b"")
        assert message.headers == b"NATS/1.0 204\r\n\r\n" or not message.headers


async def test_a_pull_consumer_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        config = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1}
        await client.api("CONSUMER.CREATE.S.C", stream_name="S", config=config)
        client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":%d}' % _MESSAGES, b"to")
        await client.messages(_MESSAGES)


async def test_who_wants_no_waiting_gets_what_there_is_all_the_same() -> None:
    async with cold(ColdDisk()) as client:
        config = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": -1}
        await client.api("CONSUMER.CREATE.S.C", stream_name="S", config=config)
        body = b'{"batch":%d,"no_wait":true}' % (_MESSAGES + 1)
        client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", body, b"to")
        await client.messages(_MESSAGES)
        assert (await client.message()).headers.startswith(b"NATS/1.0 404 No Messages")


async def test_a_push_consumer_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        config = {"deliver_subject": "to", "headers_only": False, "replay_policy": "instant"}
        await client.api("CONSUMER.CREATE.S.C", stream_name="S", config={"name": "C", **config})
        await client.messages(_MESSAGES)


async def test_a_consumer_of_headers_only_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        config = {"name": "C", "deliver_subject": "to", "headers_only": True}
        await client.api("CONSUMER.CREATE.S.C", stream_name="S", config=config)
        for _ in range(_MESSAGES):
            assert b"Nats-Msg-Size: 1000" in (await client.message()).headers


async def test_a_mirror_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        await client.api("STREAM.CREATE.M", name="M", storage="memory", mirror={"name": "S"})
        async with asyncio.timeout(60):
            while (await client.api("STREAM.INFO.M"))["state"]["messages"] < _MESSAGES:
                await asyncio.sleep(0.02)


async def test_a_direct_get_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        for seq in (7, 2_000, 3_000):
            client.publish("$JS.API.DIRECT.GET.S", b'{"seq":%d}' % seq, b"to")
        client.publish("$JS.API.DIRECT.GET.S.s", b"", b"to")
        client.publish("$JS.API.DIRECT.GET.S", b'{"seq":1000,"next_by_subj":"s"}', b"to")
        seqs = []
        for _ in range(5):
            message = await client.message()
            assert message.payload == _BODY
            _, _, behind = message.headers.partition(b"Nats-Sequence: ")
            seqs.append(int(behind.split(b"\r")[0]))
        assert seqs[0] == _MESSAGES, "it is in memory"
        assert sorted(seqs) == [7, 1_000, 2_000, 3_000, _MESSAGES]


async def test_a_batch_of_direct_gets_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        client.publish("$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":%d}' % _MESSAGES, b"to")
        await client.messages(_MESSAGES)
        assert b"EOB" in (await client.message()).headers


async def test_a_get_of_the_newest_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        for upto in (10, 2_000, 3_000):
            body = b'{"multi_last":["s"],"up_to_seq":%d}' % upto
            client.publish("$JS.API.DIRECT.GET.S", body, b"to")
            await client.messages(1)
            assert b"Nats-UpTo-Sequence: %d\r\n" % upto in (await client.message()).headers


async def test_a_get_in_json_waits_alone() -> None:
    async with cold(ColdDisk()) as client:
        for seq in (10, 2_000, 3_000):
            answer = await client.api("STREAM.MSG.GET.S", seq=seq)
            assert answer["message"]["seq"] == seq
            assert b64decode(answer["message"]["data"]) == _BODY


async def test_a_message_that_goes_before_it_is_fetched_is_not_found() -> None:
    async with cold(ColdDisk()) as client:
        for seq in (10, 2_000, 3_000):
            client.publish("$JS.API.DIRECT.GET.S", b'{"seq":%d}' % seq, b"to")
            await client.api("STREAM.MSG.DELETE.S", seq=seq, no_erase=True)
            assert (await client.message()).headers == b"NATS/1.0 404 Message Not Found\r\n\r\n"


async def test_a_stream_that_goes_before_its_message_is_fetched_has_none() -> None:
    async with cold(ColdDisk()) as client:
        for seq in (10, 2_000, 3_000):
            client.publish("$JS.API.DIRECT.GET.S", b'{"seq":%d}' % seq, b"to")
        await client.api("STREAM.DELETE.S")
        for _ in range(3):
            assert (await client.message()).headers == b"NATS/1.0 404 Message Not Found\r\n\r\n"


async def test_what_is_gone_again_is_read_all_the_same() -> None:
    """All requests make progress even if the page cache keeps nothing for lack of memory."""
    disk = ColdDisk()
    fetch = disk.fetch

    def fetched(file: DiskFile, position: int, size: int, done: Callable[[], object]) -> None:
        def forgotten() -> None:
            disk.drop_pages()
            done()

        fetch(file, position, size, forgotten)

    disk.fetch = fetched  # type: ignore[method-assign]
    async with cold(disk) as client:
        disk.latency_s = 0.001
        config = {"deliver_subject": "to"}
        await client.api("CONSUMER.CREATE.S.C", stream_name="S", config={"name": "C", **config})
        await client.messages(_MESSAGES)
        for seq in range(1, 100):
            client.publish("$JS.API.DIRECT.GET.S", b'{"seq":%d}' % seq, b"to")
        await client.messages(99)
        assert disk.cold_reads > 0
        disk.cold_reads = 0
