"""Acks find the consumer that their subject names, whichever consumer the last one was for."""

from collections.abc import AsyncIterator

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.js import JetStreamContext

import midge


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with midge.Server(port=-1, jetstream=True) as server:
        client = await nats.connect(server.url)
        yield client
        await client.close()


@pytest.fixture
async def js(client: Client) -> JetStreamContext:
    js = client.jetstream(timeout=30)
    await js.add_stream(name="S", subjects=["s"])
    for number in range(4):
        await js.publish("s", b"%d" % number)
    return js


async def floor(js: JetStreamContext, consumer: str) -> int:
    info = await js.consumer_info("S", consumer)
    seq: int = info.ack_floor.stream_seq
    return seq


async def test_acks_of_two_consumers_in_turn(js: JetStreamContext) -> None:
    fetched = [
        await (await js.pull_subscribe("s", durable=name)).fetch(4, timeout=30)
        for name in ("A", "AB")
    ]
    for one, other in zip(*fetched, strict=True):
        await one.ack_sync()
        await other.ack_sync()

    assert (await floor(js, "A"), await floor(js, "AB")) == (4, 4)


async def test_an_ack_of_a_deleted_consumer_has_no_responder(
    client: Client, js: JetStreamContext
) -> None:
    messages = await (await js.pull_subscribe("s", durable="A")).fetch(4, timeout=30)
    await messages[0].ack_sync()
    await js.delete_consumer("S", "A")

    with pytest.raises(NoRespondersError):
        await client.request(messages[1].reply, b"+ACK", timeout=30)


async def test_an_ack_goes_to_the_consumer_that_has_the_name_now(js: JetStreamContext) -> None:
    messages = await (await js.pull_subscribe("s", durable="A")).fetch(4, timeout=30)
    await messages[0].ack_sync()
    await js.delete_consumer("S", "A")
    again = await (await js.pull_subscribe("s", durable="A")).fetch(2, timeout=30)
    await messages[1].ack_sync()

    assert (await js.consumer_info("S", "A")).num_ack_pending == 1
    assert len(again) == 2


async def test_an_ack_that_names_too_little_is_not_taken(
    client: Client, js: JetStreamContext
) -> None:
    messages = await (await js.pull_subscribe("s", durable="A")).fetch(1, timeout=30)
    await messages[0].ack_sync()

    for subject in ("$JS.ACK.S", "$JS.ACK.S.B.1.1.1.1.1", "$JS.ACK.T.A.1.1.1.1.1"):
        with pytest.raises(NoRespondersError):
            await client.request(subject, b"", timeout=30)


@pytest.mark.parametrize("numbers", ["", ".1", ".1.1.1", ".1.1.1.1", ".1.1.1.1.0.0"])
@pytest.mark.parametrize("body", [b"", b"+ACK", b"-NAK", b"+TERM"])
async def test_an_ack_with_another_number_of_tokens_has_no_responder(
    client: Client, js: JetStreamContext, numbers: str, body: bytes
) -> None:
    """nats-server subscribes to nine tokens; nothing is acknowledged, though all are numbers."""
    await (await js.pull_subscribe("s", durable="A")).fetch(4, timeout=30)
    with pytest.raises(NoRespondersError):
        await client.request(f"$JS.ACK.S.A{numbers}", body, timeout=30)
    info = await js.consumer_info("S", "A")
    assert (info.num_ack_pending, info.ack_floor.stream_seq) == (4, 0)
