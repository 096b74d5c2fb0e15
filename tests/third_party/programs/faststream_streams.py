"""FastStream: publishers and subscribers of a stream, push, pull, batches, buckets and objects."""

import asyncio
import logging
import sys

from faststream import AckPolicy, FastStream
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from nats.js.api import DeliverPolicy

broker = NatsBroker(sys.argv[1], logger=None)
app = FastStream(broker, logger=logging.getLogger("quiet"))
stream = JStream("faststream", subjects=["fs.>"])
seen: dict[str, list[str]] = {}
done = asyncio.Event()


def note(where: str, what: object) -> None:
    seen.setdefault(where, []).append(str(what))
    if sum(len(one) for one in seen.values()) == 28:
        done.set()


@broker.subscriber("fs.push", stream=stream, durable="push", deliver_policy=DeliverPolicy.ALL)
async def push(body: str) -> None:
    note("push", body)


@broker.subscriber("fs.group", "workers", stream=stream)
async def group(body: str) -> None:
    note("group", body)


@broker.subscriber("fs.pull", stream=stream, durable="pull", pull_sub=PullSub(batch_size=3))
async def pull(body: str) -> None:
    note("pull", body)


@broker.subscriber(
    "fs.batch", stream=stream, durable="batch", pull_sub=PullSub(batch_size=5, batch=True)
)
async def batch(bodies: list[str]) -> None:
    for body in bodies:
        note("batch", body)


@broker.subscriber("fs.retry", stream=stream, durable="retry", ack_policy=AckPolicy.MANUAL)
async def retry(body: str, message: NatsMessage) -> None:
    count = message.raw_message.metadata.num_delivered
    note("retry", f"{body} {count}")
    if count < 3:
        await message.nack()
    else:
        await message.ack()


@broker.subscriber("fs.chain", stream=stream, durable="chain")
@broker.publisher("fs.chained", stream="faststream")
async def chain(body: str) -> str:
    return body.upper()


@broker.subscriber("fs.chained", stream=stream, durable="chained")
async def chained(body: str) -> None:
    note("chained", body)


@broker.subscriber("watched", kv_watch="faststream_kv")
async def watched(body: str) -> None:
    note("watched", body)


async def main() -> None:
    async with broker:
        await broker.start()
        for number in range(5):
            for name in ("push", "group", "pull", "batch", "chain"):
                await broker.publish(f"{name} {number}", f"fs.{name}", stream="faststream")
        await broker.publish("again", "fs.retry", stream="faststream")
        bucket = await broker.key_value(bucket="faststream_kv")
        await bucket.put("watched", b"a value")
        store = await broker.object_storage("faststream_obj")
        await store.put("file", b"x" * 300_000)
        found = await store.get("file")
        async with asyncio.timeout(60):
            await done.wait()
        print("object", len(found.data or b""))
    for where in sorted(seen):
        print(where, sorted(seen[where]))


asyncio.run(main())
