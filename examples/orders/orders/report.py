"""Print the day's figures: python -m orders.report nats://127.0.0.1:4222"""

import asyncio
import json
import sys

import nats


async def report(url: str) -> str:
    """Request the figures from the desk and return them as a sentence."""
    client = await nats.connect(url, name="report")
    answer = await client.request("orders.figures", timeout=5)
    await client.close()
    figures = json.loads(answer.data)
    return f"{figures['orders']} orders, {figures['pieces']} pieces"


if __name__ == "__main__":
    print(asyncio.run(report(sys.argv[1])))
