"""Pack orders: a worker on the stream ORDERS, which keeps an order until it is packed."""

import json

import nats.errors
from nats.aio.msg import Msg
from nats.js.client import JetStreamContext


class Packer:
    """Packs one order at a time. It refuses orders that are too large; a failed one comes again."""

    def __init__(self, streams: JetStreamContext) -> None:
        self._streams = streams
        self.packed: list[int] = []

    async def open(self) -> None:
        """Start packing; all workers share the consumer `packers`."""
        self._orders = await self._streams.pull_subscribe_bind("packers", "ORDERS")

    async def pack(self) -> bool:
        """Pack the next order; False when there is none now."""
        try:
            (message,) = await self._orders.fetch(1, timeout=0.2)
        except nats.errors.TimeoutError:
            return False
        await self._take(message)
        return True

    async def _take(self, message: Msg) -> None:
        order = json.loads(message.data)
        if order["quantity"] > 100:
            await message.term()
            return
        if order["number"] not in self.packed:  # it may come twice, when the ack was lost
            self.packed.append(order["number"])
        await message.ack()
