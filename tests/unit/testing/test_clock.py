"""The clock that tests turn, alone and under a server."""

from __future__ import annotations

import asyncio

import pytest

import midge
from midge.testing import ManualClock


def test_timers_fire_in_order_of_time_and_not_before() -> None:
    clock = ManualClock()
    fired: list[str] = []
    clock.call_later(2, fired.append, "late")
    clock.call_later(1, lambda: clock.call_later(0.5, fired.append, "nested"))
    clock.call_later(1, fired.append, "never").cancel()
    clock.advance(1.4)
    assert fired == []
    clock.advance(0.6)
    assert fired == ["nested", "late"]
    assert clock.monotonic() == 2.0
    with pytest.raises(ValueError, match="0 or more"):
        clock.advance(-1)


def test_time_goes_by_between_timers_whatever_is_rounded() -> None:
    clock = ManualClock()
    fired: list[float] = []

    def again() -> None:
        fired.append(clock.monotonic())
        clock.call_later(1e-15, again)

    again()
    clock.advance(3e-9)
    assert fired == [0.0, 1e-9, 2e-9, 3e-9]


async def connect(server: midge.Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as a client that says nothing by itself."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    assert (await reader.readline()).startswith(b"INFO")
    writer.write(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n')
    assert await reader.readline() == b"PONG\r\n"
    assert (await reader.readline()).startswith(b"INFO")
    return reader, writer


async def test_pings_and_staleness_go_by_the_clock() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, clock=clock, ping_interval=60, ping_max=2) as server:
        reader, writer = await connect(server)
        clock.advance(3)
        assert await reader.readline() == b"PING\r\n"
        writer.write(b"PONG\r\nPING\r\n")
        assert await reader.readline() == b"PONG\r\n"
        clock.advance(60 * 5)
        assert await reader.read() == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"
        assert server.stats.stale_connections == 1
        writer.close()


async def test_a_request_times_out_by_the_clock() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, clock=clock) as server:
        server.subscribe("silent")
        waiting = asyncio.ensure_future(server.request("silent", timeout_s=3600))
        await asyncio.sleep(0)
        clock.advance(3599)
        await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(1)
        with pytest.raises(TimeoutError):
            await waiting


async def test_lame_duck_goes_by_the_clock() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, clock=clock) as server:
        reader, writer = await connect(server)
        leaving = asyncio.ensure_future(server.lame_duck())
        assert b'"ldm":true' in await reader.readline()
        while not leaving.done():
            clock.advance(11)
            await asyncio.sleep(0)
        assert await reader.read() == b"PING\r\n"  # the early one, which was due on the way
        writer.close()


ANSWERER = {
    "user": "svc",
    "password": "p",
    "permissions": {
        "publish": {"allow": ["never"]},
        "subscribe": {"allow": ["svc"]},
        "allow_responses": {"max": 5, "expires_s": 30},
    },
}


async def test_leave_to_answer_expires_by_the_clock() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, clock=clock, users=[ANSWERER]) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        await reader.readline()
        writer.write(b'CONNECT {"verbose":false,"user":"svc","pass":"p"}\r\nSUB svc 1\r\nPING\r\n')
        assert await reader.readline() == b"PONG\r\n"
        answers = server.subscribe("answer")
        server.publish("svc", reply="answer")
        assert await reader.readline() == b"MSG svc 1 answer 0\r\n"
        clock.advance(29)
        writer.write(b"PUB answer 2\r\nok\r\n")
        assert (await answers.next()).text == "ok"
        clock.advance(2)
        writer.write(b"PUB answer 4\r\nlate\r\nPING\r\n")
        seen = [await reader.readline() for _ in range(4)]
        assert b"-ERR 'Permissions Violation for Publish to \"answer\"'\r\n" in seen
        assert answers.pending() == 0
        writer.close()


async def test_the_time_to_log_in_runs_out_by_the_clock() -> None:
    clock = ManualClock()
    async with midge.Server(port=-1, clock=clock, token="t", auth_timeout=5) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        assert (await reader.readline()).startswith(b"INFO")
        clock.advance(4.9)
        assert len(server.connections) == 1
        clock.advance(0.2)
        assert await reader.read() == b"-ERR 'Authentication Timeout'\r\n"
        writer.close()


async def choices(seed: int) -> list[int]:
    """Return the member of a queue group that got each of twenty messages."""
    options = {"port": -1, "seed": seed, "queue_selection": "random"}
    async with midge.Server(**options) as server:  # type: ignore[arg-type]
        members = [server.subscribe("job", queue="w") for _ in range(3)]
        found = []
        for _ in range(20):
            before = [member.pending() for member in members]
            server.publish("job")
            after = [member.pending() for member in members]
            found.append([a - b for a, b in zip(after, before, strict=True)].index(1))
        return found


async def test_a_seed_repeats_the_choices_of_queue_groups() -> None:
    assert await choices(7) == await choices(7)
    assert len(set(await choices(7))) == 3
