"""Streams and key-value buckets of a server in the process, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import midge
from midge.jetstream.errors import JetStreamError
from midge.protocol.errors import MidgeError
from midge.testing import ManualClock


@pytest.fixture(params=["memory", "file"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[midge.Server]:
    where = True if request.param == "memory" else str(tmp_path)
    async with midge.Server(port=-1, jetstream=where) as running:
        yield running


async def test_messages_are_stored_and_read(server: midge.Server) -> None:
    stream = await server.jetstream.add_stream("ORDERS", ["orders.>"])
    ack = await stream.publish("orders.eu", "one", {"A": "b"}, msg_id="1")
    assert ack == ("ORDERS", 1, False)
    assert (await stream.publish("orders.eu", "one", msg_id="1")).is_duplicate
    await stream.publish("orders.us", b"\xff", expected_last_seq=1)
    with pytest.raises(JetStreamError, match="wrong last sequence: 2"):
        await stream.publish("orders.us", b"", expected_last_seq=1)
    first = await stream.get(1)
    assert first is not None
    assert (first.subject, first.text, first.headers["A"]) == ("orders.eu", "one", ["b"])
    last = await stream.last("orders.*")
    assert last is not None
    assert (last.seq, last.payload) == (2, b"\xff")
    assert await stream.get(3) is None
    state = await stream.state()
    assert (state.messages, state.last_seq, state.subjects) == (2, 2, ("orders.>",))
    assert await server.jetstream.streams() == ["ORDERS"]


async def test_a_stream_is_iterated(server: midge.Server) -> None:
    stream = await server.jetstream.add_stream("S", ["s.*"])
    for number in range(600):
        await stream.publish(f"s.{number % 2}", str(number))
    assert [message.seq async for message in stream.messages()] == list(range(1, 601))
    even = [message.text async for message in stream.messages("s.0", start_seq=500)]
    assert even == [str(number) for number in range(500, 600, 2)]
    assert await stream.purge("s.1", keep=1) == 299
    assert [one.seq async for one in stream.messages("s.1")] == [600]
    await stream.delete()
    with pytest.raises(JetStreamError, match="stream not found"):
        await stream.state()


async def test_a_stream_is_followed(server: midge.Server) -> None:
    stream = await server.jetstream.add_stream("S", ["s"])
    await stream.publish("s", "0")
    seen: list[str] = []
    async for message in stream.messages(follow=True):
        seen.append(message.text)
        if len(seen) == 4:
            break
        await stream.publish("s", str(len(seen)))
    assert seen == ["0", "1", "2", "3"]


async def test_a_consumer_hands_out_and_is_acknowledged(server: midge.Server) -> None:
    stream = await server.jetstream.add_stream("S", ["s.*"])
    for number in range(4):
        await stream.publish(f"s.{number % 2}", str(number))
    async with stream.consume("C", "s.0", max_deliver=5) as messages:
        assert messages.pending == 2
        first = await messages.next()
        assert (first.text, first.seq, first.delivered) == ("0", 1, 1)
        await first.nak()
        again = [await messages.next(), await messages.next()]
        assert sorted((one.text, one.delivered) for one in again) == [("0", 2), ("2", 1)]
        await again[0].in_progress()
        await again[0].ack()
        await again[1].term()
        with pytest.raises(TimeoutError):
            await messages.next(timeout_s=0.05)
    assert (await stream.state()).consumers == 1


async def test_what_is_not_read_comes_again(server: midge.Server) -> None:
    stream = await server.jetstream.add_stream("S", ["s"])
    async with stream.consume("C") as messages:
        await stream.publish("s", "first")
        await (await messages.next()).ack()
        with pytest.raises(TimeoutError):
            await messages.next(timeout_s=0.05)
        await stream.publish("s", "second")
    async with stream.consume("C") as messages:
        message = await messages.next(timeout_s=60)
        assert message.text == "second"
        await message.ack()


async def test_a_deleted_consumer_ends_the_reading(server: midge.Server) -> None:
    stream = await server.jetstream.add_stream("S", ["s"])
    async with stream.consume("C") as messages:
        waiting = asyncio.ensure_future(messages.next())
        await asyncio.sleep(0)
        await server.jetstream.call("CONSUMER.DELETE.S.C")
        with pytest.raises(MidgeError, match="Consumer Deleted"):
            await waiting
        with pytest.raises(MidgeError, match="consumer 'C' of stream 'S' is gone"):
            await messages.next()


async def test_values_are_written_and_watched(server: midge.Server) -> None:
    prices = await server.jetstream.add_key_value("prices", history=5)
    assert await prices.put("apple", "3") == 1
    assert await prices.update("apple", "4", 1) == 2
    with pytest.raises(JetStreamError, match="wrong last sequence"):
        await prices.create("apple", "5")
    entry = await prices.get("apple")
    assert entry is not None
    assert (entry.text, entry.revision, entry.key) == ("4", 2, "apple")
    await prices.put("pear.green", "1")
    assert await prices.keys() == ["apple", "pear.green"]
    seen: list[tuple[str, str]] = []
    async for change in prices.watch("apple"):
        seen.append((change.operation, change.text))
        if len(seen) == 1:
            await prices.delete("apple")
        elif len(seen) == 2:
            assert await prices.create("apple", "6") == 5
        else:
            break
    assert seen == [("PUT", "4"), ("DEL", ""), ("PUT", "6")]
    assert [one.revision for one in await prices.history("apple")] == [1, 2, 4, 5]
    await prices.purge("apple")
    assert await prices.get("apple") is None
    assert await prices.keys("apple") == []


async def test_where_streams_are_off(tmp_path: Path) -> None:
    async with midge.Server(port=-1) as server:
        with pytest.raises(MidgeError, match="streams are off; start the server with"):
            _ = server.jetstream
    async with midge.Server(port=-1, jetstream=True) as server:
        with pytest.raises(ValueError, match="expected one of"):
            server.jetstream_of("NONE")
        with pytest.raises(JetStreamError, match="stream not found"):
            await server.jetstream.stream("NONE").state()


async def test_a_subject_that_no_stream_takes_is_told() -> None:
    async with midge.Server(port=-1, jetstream=True) as server:
        stream = await server.jetstream.add_stream("S", ["s"])
        with pytest.raises(MidgeError, match="no stream takes 'other'"):
            await stream.publish("other")


async def test_waits_run_on_the_servers_clock() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, jetstream=True, clock=clock) as server:
        stream = await server.jetstream.add_stream("S", ["s"])
        await stream.publish("s", "x")
        async with stream.consume("C", ack_wait=3600) as messages:
            assert (await messages.next()).delivered == 1
            waiting = asyncio.ensure_future(messages.next())
            await asyncio.sleep(0)
            for _ in range(125):
                clock.advance(30)
                await asyncio.sleep(0)
            assert (await waiting).delivered == 2


async def test_durations_are_in_seconds() -> None:
    async with midge.Server(port=-1, jetstream=True) as server:
        limits = {"inactive_threshold": 1.5, "max_ack_pending": 7}
        await server.jetstream.add_stream("S", ["s"], max_age=60, consumer_limits=limits)
        config = (await server.jetstream.call("STREAM.INFO.S"))["config"]
        assert config["max_age"] == 60 * 10**9
        assert config["consumer_limits"] == {**limits, "inactive_threshold": 1_500_000_000}
        stream = server.jetstream.stream("S")
        async with stream.consume("C", backoff=[1, 2.5], max_deliver=3, inactive_threshold=1):
            config = (await server.jetstream.call("CONSUMER.INFO.S.C"))["config"]
        assert (config["ack_wait"], config["backoff"]) == (10**9, [10**9, 25 * 10**8])


async def test_a_setting_that_does_not_exist_is_named() -> None:
    async with midge.Server(port=-1, jetstream=True) as server:
        with pytest.raises(MidgeError, match="unknown setting 'max_aeg'; did you mean 'max_age'"):
            await server.jetstream.add_stream("S", ["s"], max_aeg=60)
        stream = await server.jetstream.add_stream("S", ["s"])
        with pytest.raises(MidgeError, match="unknown setting 'ackwait'"):
            stream.consume("C", ackwait=60)


@pytest.mark.parametrize("key", ["", "a b", "*", "a.>", ".a", "a.", "a..b"])
async def test_what_no_client_takes_for_a_key_is_refused(key: str) -> None:
    async with midge.Server(port=-1, jetstream=True) as server:
        bucket = await server.jetstream.add_key_value("b")
        for asked in (bucket.get(key), bucket.put(key, "1"), bucket.history(key)):
            with pytest.raises(ValueError, match="key: expected letters"):
                await asked


@pytest.mark.parametrize("history", [0, 65])
async def test_a_history_that_no_client_makes_is_refused(history: int) -> None:
    async with midge.Server(port=-1, jetstream=True) as server:
        with pytest.raises(ValueError, match="history: expected 1 to 64"):
            await server.jetstream.add_key_value("b", history=history)
