"""Take orders over NATS: a request on `orders.place` is answered with a number or an error."""

import json

from nats.aio.client import Client
from nats.aio.msg import Msg


class Desk:
    """The order desk. `client` is connected; the caller closes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._count = 0
        self._total = 0

    async def open(self) -> None:
        """Listen for orders and for questions."""
        await self._client.subscribe("orders.place", queue="desk", cb=self._place)
        await self._client.subscribe("orders.figures", queue="desk", cb=self._figures)
        await self._client.flush()

    async def _place(self, message: Msg) -> None:
        order = json.loads(message.data)
        if order["quantity"] < 1:
            await message.respond(b'{"error": "quantity: expected 1 or more"}')
            return
        self._count += 1
        self._total += order["quantity"]
        placed = {"number": self._count, **order}
        await self._client.publish("orders.placed", json.dumps(placed).encode())
        await message.respond(json.dumps(placed).encode())

    async def _figures(self, message: Msg) -> None:
        figures = {"orders": self._count, "pieces": self._total}
        await message.respond(json.dumps(figures).encode())
