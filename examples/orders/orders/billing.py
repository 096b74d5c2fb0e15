"""Write an invoice for every placed order, with FastStream."""

from faststream.nats import NatsBroker

PRICE = 3


def make_broker(url: str) -> NatsBroker:
    """Make the billing service; `async with` starts it after `await broker.start()`."""
    broker = NatsBroker(url, logger=None)

    @broker.subscriber("orders.placed", queue="billing")
    @broker.publisher("invoices.written")
    async def bill(order: dict) -> dict:
        return {"order": order["number"], "amount": PRICE * order["quantity"]}

    return broker
