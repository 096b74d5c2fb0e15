"""A FastAPI service that takes orders over HTTP and announces them over NATS."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel


class Order(BaseModel):
    """An order as a customer sends it."""

    item: str
    quantity: int = 1


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """Keep one NATS connection for the life of the service."""
    url = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
    app.state.nats = await nats.connect(url, name="web")
    yield
    await app.state.nats.drain()


app = FastAPI(lifespan=connected)


@app.post("/orders", status_code=202)
async def place(order: Order) -> dict[str, str]:
    """Announce an order."""
    await app.state.nats.publish("orders.placed", order.model_dump_json().encode())
    return {"status": "placed"}


@app.get("/prices/{item}")
async def price(item: str) -> dict[str, int]:
    """Ask the price service; without one there is no price."""
    try:
        answer = await app.state.nats.request(f"prices.{item}", b"", timeout=1)
    except nats.errors.NoRespondersError:
        raise HTTPException(503, "no price service") from None
    return {"price": json.loads(answer.data)["price"]}
