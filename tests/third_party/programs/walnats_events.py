"""walnats: events, actors that fail and are tried again, delays, and request and reply."""

import asyncio
import logging
import sys

import walnats

logging.disable(logging.CRITICAL)
CREATED = walnats.Event("user.created", str, limits=walnats.Limits(messages=100))
SUMMED = walnats.Event("numbers.summed", dict).with_response(dict)
tries: dict[str, int] = {}
seen: list[str] = []


def greet(name: str) -> None:
    seen.append(f"greet {name}")


def flaky(name: str) -> None:
    tries[name] = tries.get(name, 0) + 1
    if tries[name] < 3:
        raise ValueError(name)
    seen.append(f"flaky {name} {tries[name]}")


def total(numbers: dict) -> dict:
    return {"total": sum(numbers["numbers"])}


async def main() -> None:
    server = sys.argv[1]
    events = walnats.Events(CREATED, SUMMED)
    actors = walnats.Actors(
        walnats.Actor("greet", CREATED, greet),
        walnats.Actor("flaky", CREATED, flaky, retry_delay=[0.05], max_attempts=5),
        walnats.Actor("total", SUMMED, total),
    )
    async with events.connect(server) as publisher, actors.connect(server) as subscriber:
        await events_registered(publisher, subscriber)
        listening = asyncio.create_task(subscriber.listen())
        for name in ("ann", "bob", "cleo"):
            await publisher.emit(CREATED, name, uid=name)
            await publisher.emit(CREATED, name, uid=name)
        await publisher.emit(CREATED, "dora", delay=0.3)
        print(await publisher.request(SUMMED, {"numbers": [1, 2, 3]}, timeout=30))
        async with asyncio.timeout(60):
            while len(seen) < 8:
                await asyncio.sleep(0.05)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    print("\n".join(sorted(seen)))


async def events_registered(publisher: object, subscriber: object) -> None:
    await publisher.register()
    await subscriber.register()


asyncio.run(main())
