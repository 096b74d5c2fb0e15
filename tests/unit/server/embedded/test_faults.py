"""Faults on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import nats.errors
import pytest

import midge
from midge.testing import ManualClock, SettlingClient


@pytest.fixture
async def server() -> AsyncIterator[midge.Server]:
    async with midge.Server(port=-1, clock=ManualClock()) as running:
        yield running


@pytest.fixture
async def client(server: midge.Server) -> AsyncIterator[SettlingClient]:
    async def ignore(_: Exception) -> None:
        pass

    connected = await SettlingClient.connected(
        server.url, name="till", allow_reconnect=False, error_cb=ignore
    )
    yield connected
    await connected.close()


def texts(subscription: midge.DirectSubscription) -> list[str]:
    """Take the waiting messages."""
    found = [message.text for message in subscription._waiting]
    subscription._waiting.clear()
    return found


async def publish(client: SettlingClient, count: int) -> None:
    for i in range(1, count + 1):
        await client.publish("a.b", b"%d" % i)
    await client.flush()


async def test_drop_the_nth_within_the_block(server: midge.Server, client: SettlingClient) -> None:
    heard = server.subscribe("a.*")
    with server.faults.drop("a.>", nth=2) as fault:
        await publish(client, 3)
    assert (texts(heard), fault.hits) == (["1", "3"], 1)
    await publish(client, 3)
    assert texts(heard) == ["1", "2", "3"]


async def test_nothing_is_looked_at_without_a_fault(
    server: midge.Server, client: SettlingClient
) -> None:
    (connection,) = server.broker.clients.values()
    before = (connection.commands.publish_checks, connection.deliver_checks)
    with server.faults.drop("x"):
        assert (connection.commands.publish_checks, connection.deliver_checks) != before
    assert (connection.commands.publish_checks, connection.deliver_checks) == before
    assert not server.broker.screens


async def test_duplicate(server: midge.Server, client: SettlingClient) -> None:
    heard = server.subscribe("a.*")
    with server.faults.duplicate("a.b", nth={1, 3}, copies=2):
        await publish(client, 3)
    assert texts(heard) == ["1", "1", "2", "3", "3"]


async def test_reorder(server: midge.Server, client: SettlingClient) -> None:
    heard = server.subscribe("a.*")
    with server.faults.reorder("a.b", nth=1, by=2):
        await publish(client, 4)
    assert texts(heard) == ["2", "3", "1", "4"]
    with server.faults.reorder("a.b", nth=2):
        await publish(client, 2)
    assert texts(heard) == ["1", "2"]


async def test_delay_by_the_clock(server: midge.Server, client: SettlingClient) -> None:
    clock = server.broker.clock
    assert isinstance(clock, ManualClock)
    heard = server.subscribe("a.*")
    with server.faults.delay(10, "a.b", jitter_s=5):
        await publish(client, 2)
        clock.advance(9)
        assert texts(heard) == []
        clock.advance(6)
    assert sorted(texts(heard)) == ["1", "2"]


async def test_chance_is_seeded(server: midge.Server) -> None:
    heard = server.subscribe("a")
    rounds = []
    for _ in range(2):
        server.faults.seed(3)
        with server.faults.drop("a", probability=0.5):
            for i in range(50):
                server.publish("a", str(i))
        rounds.append(texts(heard))
    assert rounds[0] == rounds[1]
    assert 10 < len(rounds[0]) < 40


async def test_only_deliveries_to_one_client(server: midge.Server, client: SettlingClient) -> None:
    subscription = await client.subscribe("a.*")
    await client.flush()
    heard = server.subscribe("a.*")
    with server.faults.drop(to="till", nth=1), server.faults.reorder(to="till", nth=1):
        await publish(client, 4)
    await client.flush()
    assert texts(heard) == ["1", "2", "3", "4"]
    received = [(await subscription.next_msg(timeout=30)).data for _ in range(3)]
    assert sorted(received) == [b"2", b"3", b"4"]


async def test_no_responders(server: midge.Server, client: SettlingClient) -> None:
    server.subscribe("svc", lambda message: message.respond(b"ok") and None)
    with server.faults.no_responders("svc"), pytest.raises(nats.errors.NoRespondersError):
        await client.request("svc", timeout=30)
    with server.faults.no_responders("svc"), pytest.raises(midge.NoRespondersError):
        await server.request("svc", timeout_s=60)
    assert (await client.request("svc", timeout=30)).data == b"ok"


async def raw(server: midge.Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict]:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    info = await reader.readline()
    writer.write(b'CONNECT {"verbose":false,"name":"raw"}\r\nSUB a 1\r\nPING\r\n')
    assert await reader.readline() == b"PONG\r\n"
    return reader, writer, {"info": info}


@pytest.mark.parametrize("after", [0, 1, 5, 14])
async def test_cut_in_the_middle_of_a_message(server: midge.Server, after: int) -> None:
    reader, writer, _ = await raw(server)
    server.faults.cut("raw", after_bytes=after)
    server.publish("a", b"12345")
    try:
        received = await reader.read()
    except ConnectionResetError:
        received = b""
    assert received == b"MSG a 1 5\r\n12345\r\n"[:after]
    writer.close()


async def test_stop_reading_and_go_on(server: midge.Server) -> None:
    reader, writer, _ = await raw(server)
    with server.faults.stop_reading("raw"):
        writer.write(b"PING\r\n")
        for _ in range(20):
            await asyncio.sleep(0)
        assert server.connections[0].in_messages == 0
        waiting = asyncio.ensure_future(reader.readline())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == b"PONG\r\n"
    writer.close()


async def test_refuse_accepts_and_go_on(server: midge.Server) -> None:
    host, port = server.host, server.port
    with server.faults.refuse_accepts(), pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    _, writer, _ = await raw(server)
    writer.close()


async def test_nobody_gets_the_port_while_accepts_are_refused(server: midge.Server) -> None:
    address = server.host, server.port
    with (
        server.faults.refuse_accepts(),
        socket.socket() as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(address)
    _, writer, _ = await raw(server)
    writer.close()
    with server.faults.refuse_accepts():
        await server.stop()


async def test_slow_consumer(server: midge.Server) -> None:
    reader, writer, _ = await raw(server)
    server.faults.slow_consumer("raw")
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    assert server.stats.slow_consumers == 1
    writer.close()


async def test_info_tells_something_else(server: midge.Server) -> None:
    with server.faults.info(max_payload=10):
        _, writer, told = await raw(server)
    assert b'"max_payload":10,' in told["info"]
    with pytest.raises(ValueError, match="max_payload"):
        server.faults.info(max_payloads=1)
    writer.close()


async def test_lame_duck_now_goes_by_the_clock(server: midge.Server) -> None:
    clock = server.broker.clock
    assert isinstance(clock, ManualClock)
    host, port = server.host, server.port
    reader, writer, _ = await raw(server)
    await server.faults.lame_duck()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    await asyncio.sleep(0)
    clock.advance(9)
    await asyncio.sleep(0)
    assert len(server.connections) == 1
    while server.connections:
        clock.advance(1)
        await asyncio.sleep(0)
    assert clock.monotonic() == 10  # the default grace period
    assert (await reader.read()).count(b"PING") <= 1  # the early one, which was due on the way
    writer.close()


async def test_jitter_is_repeatable(server: midge.Server) -> None:
    clock = server.broker.clock
    assert isinstance(clock, ManualClock)
    heard = server.subscribe("a")
    orders = []
    for _ in range(2):
        server.faults.seed(5)
        with server.faults.delay(1, "a", jitter_s=10):
            for i in range(8):
                server.publish("a", str(i))
            clock.advance(11)
        orders.append(texts(heard))
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == [str(i) for i in range(8)] != orders[0]


async def test_a_script_decides(server: midge.Server) -> None:
    clock = server.broker.clock
    assert isinstance(clock, ManualClock)
    heard = server.subscribe("a")

    def script(message: midge.Message, send: Callable[..., None]) -> None:
        if message.text == "late":
            clock.call_later(5, send)
        elif message.text == "twice":
            send()
            send(b"again")
        elif message.text != "never":
            send()

    with server.faults.script(script, "a") as fault:
        for text in ("late", "twice", "never", "plain"):
            server.publish("a", text, {"k": "v"})
        assert texts(heard) == ["twice", "again", "plain"]
        clock.advance(5)
        assert texts(heard) == ["late"]
    assert fault.hits == 4


async def test_a_script_for_one_client(server: midge.Server) -> None:
    reader, writer, _ = await raw(server)
    with server.faults.script(lambda _, send: send(b"changed"), to="raw"):
        server.publish("a", b"as it is")
        assert await reader.readline() == b"MSG a 1 7\r\n"
        assert await reader.readline() == b"changed\r\n"
    writer.close()


async def test_delay_for_one_client(server: midge.Server) -> None:
    clock = server.broker.clock
    assert isinstance(clock, ManualClock)
    reader, writer, _ = await raw(server)
    heard = server.subscribe("a")
    with server.faults.delay(1, to="raw"):
        server.publish("a", b"late")
        assert texts(heard) == ["late"]
        writer.write(b"PING\r\n")
        assert await reader.readline() == b"PONG\r\n"
        clock.advance(1)
        assert await reader.readline() == b"MSG a 1 4\r\n"
    writer.close()


async def test_one_fault_strikes_and_the_others_count_what_it_lets_pass(
    server: midge.Server,
) -> None:
    heard = server.subscribe("a")
    faults = server.faults
    with faults.drop("a", nth=1), faults.duplicate("a", nth=2), faults.reorder("a", nth=1):
        for text in "1234":
            server.publish("a", text)
    assert texts(heard) == ["3", "3", "4", "2"]


async def test_faults_end_in_any_order_and_with_the_server() -> None:
    async with midge.Server(port=-1, clock=ManualClock()) as server:
        heard = server.subscribe("a")
        first, second = server.faults.drop("a"), server.faults.duplicate("a")
        first.end()
        first.end()
        server.publish("a", "1")
        assert texts(heard) == ["1", "1"]
        assert second.hits == 1
        server.faults.reorder("a", nth=1, by=5)
    assert not server._core.broker.screens


def test_faults_from_another_thread() -> None:
    with midge.run_in_thread(port=-1, seed=1) as server:
        heard: list[str] = []
        server.subscribe("a", lambda message: heard.append(message.text))
        with server.faults.drop("a", nth=1) as fault:
            assert server.publish("a", "1") == 1
            assert server.publish("a", "2") == 1
            assert fault.hits == 1
        with pytest.raises(ValueError, match="pattern"):
            server.faults.drop("a..b")
        with pytest.raises(AttributeError):
            server.faults.explode()  # type: ignore[attr-defined]
        server.faults.lame_duck()
        server.call(lambda _: None)  # earlier messages have been received by now
    assert heard == ["2"]


async def test_mistakes_are_named(server: midge.Server) -> None:
    with pytest.raises(ValueError, match="client: nobody is connected, got 'x'"):
        server.faults.cut("x")
    with pytest.raises(ValueError, match="pattern"):
        server.faults.drop("a..b")
    with pytest.raises(ValueError, match="probability"):
        server.faults.drop(probability=0)
    with pytest.raises(ValueError, match="nth: expected 1 or more, for it counts from 1, got 0"):
        server.faults.drop(nth=0)
