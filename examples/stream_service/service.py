"""A FastStream service on a stream: each order is packed once, and announced once it is packed."""

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub


def make_broker(url: str) -> NatsBroker:
    """Make the service; `async with` starts it after `await broker.start()`."""
    broker = NatsBroker(url, logger=None)
    orders = JStream("ORDERS", subjects=["orders.>"])

    @broker.subscriber(
        "orders.placed",
        stream=orders,
        durable="packers",
        pull_sub=PullSub(batch_size=1),
        ack_policy=AckPolicy.MANUAL,
    )
    async def pack(order: dict, message: NatsMessage) -> None:
        if order["quantity"] > 100:
            await message.reject()
            return
        await broker.publish(
            order,
            "orders.packed",
            stream="ORDERS",
            headers={"Nats-Msg-Id": f"packed-{order['number']}"},
        )
        await message.ack()

    return broker
