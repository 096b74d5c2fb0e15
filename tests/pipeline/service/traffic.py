"""The example of a FastStream service with its shops, for a recording: `traffic.py URL`.

It needs FastStream, which the tests of the examples and of the cluster install.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path

import nats
from nats.errors import NoRespondersError

sys.path.insert(0, str(Path(__file__).parents[3] / "examples" / "stream_service"))

from service import make_broker

ORDERS = 60
REFUSED = 6
"""Orders that are too large for the packers."""
TIMEOUT_S = 60


async def main(url):
    """Run the service and its shops, with clients that receive the orders in several ways."""
    names = ("shop", "board", "printer-1", "printer-2", "stock", "audit")
    clients = {name: await nats.connect(url, name=name) for name in names}
    broker = make_broker(url)
    await broker.start()
    packed = asyncio.Event()
    await listen(clients, packed)
    await place_orders(clients["shop"])
    await asyncio.wait_for(packed.wait(), TIMEOUT_S)
    await audit(clients["audit"])
    await until_settled(clients["audit"].jetstream())
    slow = await be_slow(url, clients["shop"])
    for client in clients.values():
        await client.drain()
    await broker.stop()
    slow.close()


async def listen(clients, packed):
    """Subscribe: twice to the same messages, in a queue group, in vain, and for requests."""
    seen = 0

    async def count(_message):
        nonlocal seen
        seen += 1
        if seen == ORDERS - REFUSED:
            packed.set()

    async def answer(message):
        await message.respond(b"12")

    async def ignore(_message):
        pass

    await clients["board"].subscribe("orders.packed", cb=count)
    await clients["board"].subscribe("orders.>", cb=ignore)
    await clients["board"].subscribe("orders.cancelled", cb=ignore)
    for printer in ("printer-1", "printer-2"):
        await clients[printer].subscribe("orders.packed", "printers", cb=ignore)
    await clients["stock"].subscribe("stock.get", cb=answer)
    for client in clients.values():
        await client.flush()


async def place_orders(shop):
    """Ask the stock before each order; every tenth one is too large, and shops complain in vain."""
    jetstream = shop.jetstream()
    for number in range(ORDERS):
        await shop.request("stock.get", b"%d" % number, timeout=TIMEOUT_S)
        is_large = number % (ORDERS // REFUSED) == 0
        order = {"number": number, "quantity": 1000 if is_large else 1 + number % 7}
        await jetstream.publish("orders.placed", json.dumps(order).encode(), timeout=TIMEOUT_S)
        if is_large:
            await shop.publish("complaints.large", b"%d" % number)
    try:
        await shop.request("stock.reserve", b"", timeout=TIMEOUT_S)
    except NoRespondersError:
        return
    raise AssertionError("somebody reserves")


async def audit(client):
    """Read some of the stream by a consumer of its own, and want a few once more."""
    jetstream = client.jetstream()
    orders = await jetstream.pull_subscribe("orders.>", "auditors", stream="ORDERS")
    for message in await orders.fetch(10, timeout=TIMEOUT_S):
        await (message.nak() if message.metadata.sequence.stream % 4 == 0 else message.ack())
    for message in await orders.fetch(30, timeout=TIMEOUT_S):
        await message.ack()


async def until_settled(jetstream):
    """Wait until the service has acknowledged or refused all orders."""
    async with asyncio.timeout(TIMEOUT_S):
        while (await jetstream.consumer_info("ORDERS", "packers")).num_ack_pending:
            await asyncio.sleep(0.05)


async def be_slow(url, shop):
    """Subscribe and read nothing, until the server ends the connection."""
    host, _, port = url.removeprefix("nats://").rpartition(":")
    slow = socket.create_connection((host, int(port)))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(b'CONNECT {"verbose":false,"name":"viewer"}\r\nSUB photos 1\r\nPING\r\n')
    while b"PONG" not in slow.recv(4096):
        pass
    for _ in range(60):
        await shop.publish("photos", bytes(120_000))
        await shop.flush()
    return slow


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
