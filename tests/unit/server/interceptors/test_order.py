"""Commands that wait for interceptors keep their order, are bounded, and end."""

from __future__ import annotations

import asyncio

import pytest

from midge.server.interceptors import Publish
from midge.server.interceptors.calls import LOST_MAX
from midge.testing import ManualClock
from tests.support.interceptors import VIOLATION, Start, connected, passes_later, raises


class TestOrder:
    async def test_messages_and_commands_of_a_client_stay_in_order(self, start: Start) -> None:
        """The later a message comes, the sooner its answer; yet nothing overtakes."""
        gates: dict[str, asyncio.Event] = {}

        async def gated(event: Publish) -> Publish:
            gates[event.subject] = asyncio.Event()
            await gates[event.subject].wait()
            return event

        server = await start(interceptors={"publish": gated})
        client = await connected(server)
        client.send(
            *(b"PUB a.%d 0\r\n" % number for number in range(3)),
            b"SUB a.* 1",
            *(b"PUB a.%d 0\r\n" % number for number in range(3, 6)),
            b"UNSUB 1",
            b"PUB a.6 0\r\n",
            b"PING",
        )
        while len(gates) < 7:
            await asyncio.sleep(0)
        for number in reversed(range(7)):
            gates[f"a.{number}"].set()
            await asyncio.sleep(0)
        answer = await client.until_pong()
        assert answer == b"".join(b"MSG a.%d 1 0\r\n\r\n" % number for number in (3, 4, 5))

    async def test_other_clients_go_on(self, start: Start) -> None:
        forever = asyncio.Event()

        async def hold(event: Publish) -> Publish:
            if event.subject == "slow":
                await forever.wait()
            return event

        server = await start(interceptors={"publish": hold})
        slow, quick = await connected(server), await connected(server)
        slow.send(b"PUB slow 0\r\n")
        assert await quick.ask(b"SUB quick 1", b"PUB quick 0\r\n") == b"MSG quick 1 0\r\n\r\n"
        forever.set()

    async def test_a_full_queue_stops_parsing_and_goes_on_later(self, start: Start) -> None:
        begun: list[bytes] = []
        gate = asyncio.Event()

        async def hold(event: Publish) -> Publish:
            begun.append(event.payload)
            await gate.wait()
            return event

        server = await start(interceptors={"publish": hold, "max_pending": 4, "timeout_s": 30})
        client = await connected(server)
        client.send(b"SUB > 1", *(b"PUB a 3\r\n%03d" % number for number in range(200)))
        other = await connected(server)
        while len(begun) < 4:
            await asyncio.sleep(0)
        await other.ask()
        assert len(begun) == 4
        gate.set()
        answer = await client.ask()
        assert answer == b"".join(b"MSG a 1 3\r\n%03d\r\n" % number for number in range(200))

    async def test_large_messages_stop_parsing_by_their_bytes(self, start: Start) -> None:
        begun: list[int] = []
        gate = asyncio.Event()

        async def hold(event: Publish) -> Publish:
            begun.append(len(event.payload))
            await gate.wait()
            return event

        server = await start(interceptors={"publish": hold, "timeout_s": 30})
        client = await connected(server)
        payload = b"x" * (600 * 1024)
        client.send(*[b"PUB a %d\r\n%b" % (len(payload), payload)] * 6)
        other = await connected(server)
        while len(begun) < 2:
            await asyncio.sleep(0.001)
        await other.ask()
        assert len(begun) == 2
        gate.set()
        assert await client.ask() == b""
        assert len(begun) == 6

    async def test_what_was_sent_before_the_end_is_still_routed(self, start: Start) -> None:
        server = await start(interceptors={"publish": passes_later})
        receiver, sender = await connected(server), await connected(server)
        await receiver.ask(b"SUB > 1")
        sender.send(*(b"PUB a 1\r\n%d" % number for number in range(9)))
        await sender.close()
        assert (await receiver.until(b"8")).count(b"MSG a 1 1") == 9

    async def test_a_connect_waits_for_what_came_before_it(self, start: Start) -> None:
        seen: list[str] = []

        async def note(event: Publish) -> Publish:
            await asyncio.sleep(0)
            assert event.client is not None
            seen.append(event.client.name)
            return event

        server = await start(interceptors={"publish": note})
        client = await connected(server, name="before")
        client.send(b"PUB a 0\r\n", b'CONNECT {"verbose":false,"name":"after"}', b"PUB a 0\r\n")
        assert await client.ask() == b""
        assert seen == ["before", "after"]


class TestTime:
    async def test_a_function_that_hangs_refuses_when_its_time_is_up(self, start: Start) -> None:
        begun = asyncio.Event()

        async def hang(event: Publish) -> Publish:
            begun.set()
            await asyncio.Event().wait()
            return event

        clock = ManualClock()
        server = await start(clock=clock, interceptors={"publish": hang, "timeout_s": 5})
        client = await connected(server)
        client.send(b"SUB > 1", b"PUB a 0\r\n", b"PING")
        await begun.wait()
        clock.advance(4.9)
        assert not server.broker.interception.calls.failed
        clock.advance(0.2)
        assert VIOLATION % b"a" in await client.until_pong()

    async def test_calls_that_never_end_are_bounded(self, start: Start) -> None:
        release = asyncio.Event()
        calls: list[int] = []

        async def stubborn(event: Publish) -> Publish:
            calls.append(1)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return event

        clock = ManualClock()
        server = await start(
            clock=clock, interceptors={"publish": stubborn, "timeout_s": 1, "max_pending": 500}
        )
        client = await connected(server)
        client.send(*[b"PUB a 0\r\n"] * LOST_MAX, b"PING")
        while len(calls) < LOST_MAX:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock.advance(2)
        assert (await client.until_pong()).count(b"-ERR") == LOST_MAX
        assert (await client.ask(b"PUB a 0\r\n")).startswith(VIOLATION % b"a")
        assert len(calls) == LOST_MAX
        release.set()

    async def test_failures_do_not_flood_the_log(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = await start(clock=ManualClock(), interceptors={"publish": raises})
        client = await connected(server)
        await client.ask(*[b"PUB a 0\r\n"] * 300)
        lines = [one for one in caplog.messages if "interceptor_failed" in one]
        assert len(lines) == 10
        assert "Traceback" not in caplog.text
