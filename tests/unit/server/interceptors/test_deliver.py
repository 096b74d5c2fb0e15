"""Interceptors of deliveries."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from midge.server.config.options import Authorization, Permissions, SubjectPermissions, User
from midge.server.interceptors import Deliver, Refuse
from tests.support.interceptors import PASSING, REFUSING, Start, connected, passes_later, refuses


class TestDeliver:
    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_but_the_event_drops_the_delivery(
        self, start: Start, function: Any
    ) -> None:
        server = await start(interceptors={"deliver": function})
        client = await connected(server)
        assert await client.ask(b"SUB a 1", b"PUB a 2\r\nhi") == b""
        await asyncio.sleep(0.01)
        assert await client.ask() == b""
        assert server.stats.out_messages == 0

    @pytest.mark.parametrize("function", PASSING)
    async def test_deliveries_stay_in_order_and_complete(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"deliver": function, "max_pending": 4})
        receiver, sender = await connected(server), await connected(server)
        await receiver.ask(b"SUB > 1")
        sender.send(*(b"PUB a 3\r\n%03d" % number for number in range(300)))
        answer = await receiver.until(b"299")
        assert answer == b"".join(b"MSG a 1 3\r\n%03d\r\n" % number for number in range(300))

    async def test_a_changed_subject_needs_the_receivers_permission(self, start: Start) -> None:
        rules = Permissions(subscribe=SubjectPermissions(allow=("a", "b")))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={
                "deliver": lambda one: replace(one, subject=one.payload.decode(), payload=b"")
            },
        )
        client = await connected(server, user="u", **{"pass": "p"})
        answer = await client.ask(b"SUB a 1", b"PUB a 1\r\nc", b"PUB a 1\r\nb")
        assert answer == b"MSG b 1 0\r\n\r\n"

    async def test_a_queue_group_passes_a_refused_message_on(self, start: Start) -> None:
        def by_name(event: Deliver) -> Any:
            return event if event.client is not None and event.client.name == "good" else Refuse()

        server = await start(interceptors={"deliver": by_name})
        good, bad = await connected(server, name="good"), await connected(server, name="bad")
        await good.ask(b"SUB a q 1")
        await bad.ask(b"SUB a q 1")
        server_count = 10
        for _ in range(server_count):
            assert server.publish("a") == 1
        assert (await good.ask()).count(b"MSG") == server_count
        assert await bad.ask() == b""

    async def test_a_request_that_nobody_may_have_gets_no_responders(self, start: Start) -> None:
        server = await start(interceptors={"deliver": refuses})
        worker = await connected(server)
        client = await connected(server, no_responders=True)
        await worker.ask(b"SUB a 1")
        answer = await client.ask(b"SUB r 1", b"PUB a r 0\r\n")
        assert b"NATS/1.0 503" in answer

    async def test_a_limited_subscription_gets_as_many_as_it_asked_for(self, start: Start) -> None:
        server = await start(interceptors={"deliver": passes_later})
        client = await connected(server)
        client.send(b"SUB a 1", b"UNSUB 1 3", *[b"PUB a 0\r\n"] * 10, b"PUB end 0\r\n")
        await client.ask()
        await asyncio.sleep(0.01)
        await client.ask()
        assert client.received.count(b"MSG a 1") == 3
        assert not server.subscriptions

    async def test_a_denial_that_came_meanwhile_counts(self, start: Start) -> None:
        gate = asyncio.Event()

        async def hold(event: Deliver) -> Deliver:
            await gate.wait()
            return event

        def users(*deny: str) -> Authorization:
            rules = Permissions(subscribe=SubjectPermissions(deny=("never", *deny)))
            return Authorization(users=(User(user="u", password="p", permissions=rules),))

        server = await start(authorization=users(), interceptors={"deliver": hold})
        client = await connected(server, user="u", **{"pass": "p"})
        await client.ask(b"SUB > 1", b"PUB a 0\r\n", b"PUB b 0\r\n")
        await server.reload(authorization=users("a"))
        gate.set()
        await client.until(b"MSG b")
        assert b"MSG a" not in client.received

    async def test_publishers_are_let_go_when_the_receiver_leaves(self, start: Start) -> None:
        async def hang(event: Deliver) -> Deliver:
            await asyncio.Event().wait()
            return event

        server = await start(interceptors={"deliver": hang, "max_pending": 2, "timeout_s": 60})
        receiver, sender = await connected(server), await connected(server)
        await receiver.ask(b"SUB a 1")
        sender.send(*[b"PUB a 0\r\n"] * 100, b"PING")
        await receiver.ask()
        await receiver.close()
        assert await sender.until_pong() == b""
