"""taskiq-nats: tasks through a pull and a push broker, results in an object store."""

import asyncio
import sys

from taskiq.api import run_receiver_task
from taskiq_nats import (
    NATSObjectStoreResultBackend,
    PullBasedJetStreamBroker,
    PushBasedJetStreamBroker,
)


async def run(kind: type, name: str) -> None:
    results: NATSObjectStoreResultBackend = NATSObjectStoreResultBackend(servers=sys.argv[1])
    broker = kind(
        servers=[sys.argv[1]],
        subject=f"tasks.{name}",
        stream_name=f"tasks_{name}",
        durable=f"worker_{name}",
        queue=f"queue_{name}",
    ).with_result_backend(results)

    @broker.task
    async def multiply(left: int, right: int) -> int:
        return left * right

    @broker.task
    async def fail() -> None:
        raise ValueError("on purpose")

    await broker.startup()
    worker = asyncio.create_task(run_receiver_task(broker))
    tasks = [await multiply.kiq(number, 7) for number in range(10)]
    print(name, [(await task.wait_result(timeout=20)).return_value for task in tasks])
    failed = await (await fail.kiq()).wait_result(timeout=20)
    print(name, failed.is_err, failed.error)
    info = await broker.js.stream_info(f"tasks_{name}")
    print(name, info.state.messages)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await broker.shutdown()


async def main() -> None:
    await run(PullBasedJetStreamBroker, "pull")
    await run(PushBasedJetStreamBroker, "push")


asyncio.run(main())
