"""No message goes round the interceptors, wherever it comes from."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import midge
from midge.server.config.options import (
    Account,
    Export,
    Import,
    ImportSource,
    Mapping,
    MappingDestination,
    User,
)
from midge.server.interceptors import Deliver, Publish, Refuse
from tests.support.interceptors import Start, connected, passes_later


class TestWaysRound:
    """Each way that a message can take, and what interceptors see of it."""

    async def test_mappings_come_after(self, start: Start) -> None:
        seen: list[tuple[str, str]] = []
        server = await start(
            mappings=(Mapping(source="a", destinations=(MappingDestination(destination="b"),)),),
            interceptors={
                "publish": lambda one: seen.append(("publish", one.subject)) or one,
                "deliver": lambda one: seen.append(("deliver", one.subject)) or one,
            },
        )
        client = await connected(server)
        assert await client.ask(b"SUB b 1", b"PUB a 0\r\n") == b"MSG b 1 0\r\n\r\n"
        assert seen == [("publish", "a"), ("deliver", "b")]

    async def test_imports_are_published_once_and_every_delivery_is_seen(
        self, start: Start
    ) -> None:
        seen: list[tuple[str, str, str]] = []

        def publish(event: Publish) -> Publish:
            assert event.client is not None
            seen.append(("publish", event.client.account, event.subject))
            return event

        def deliver(event: Deliver) -> Deliver | Refuse:
            assert event.client is not None
            seen.append(("deliver", event.client.account, event.subject))
            return Refuse()

        server = await start(
            accounts=(
                Account(
                    name="A",
                    users=(User(user="a", password="p"),),
                    exports=(Export(stream="s"),),
                ),
                Account(
                    name="B",
                    users=(User(user="b", password="p"),),
                    imports=(Import(stream=ImportSource(account="A", subject="s"), to="t"),),
                ),
            ),
            interceptors={"publish": publish, "deliver": deliver},
        )
        a = await connected(server, user="a", **{"pass": "p"})
        b = await connected(server, user="b", **{"pass": "p"})
        await b.ask(b"SUB t 1")
        assert await a.ask(b"PUB s 0\r\n") == b""
        assert await b.ask() == b""
        assert seen == [("publish", "A", "s"), ("deliver", "B", "t")]

    async def test_the_process_itself_is_intercepted(self, start: Start) -> None:
        seen: list[Any] = []

        def some(event: Publish) -> Any:
            seen.append(event.client)
            return Refuse() if event.subject == "b" else replace(event, payload=b"changed")

        server = await start(interceptors={"publish": some})
        client = await connected(server)
        await client.ask(b"SUB > 1")
        assert server.publish("a") == 1
        assert server.publish("b") == 0
        assert await client.ask() == b"MSG a 1 7\r\nchanged\r\n"
        assert seen == [None, None]
        with pytest.raises(midge.NoRespondersError):
            await server.request("b")

    async def test_async_answers_keep_the_process_in_order(self, start: Start) -> None:
        server = await start(interceptors={"publish": passes_later})
        client = await connected(server)
        await client.ask(b"SUB > 1")
        for number in range(20):
            assert server.publish("a", b"%02d" % number) == 1
        answer = await client.until(b"19")
        assert answer == b"".join(b"MSG a 1 2\r\n%02d\r\n" % number for number in range(20))

    async def test_what_the_process_publishes_cannot_fill_the_memory(self, start: Start) -> None:
        async def hang(event: Publish) -> Publish:
            await asyncio.Event().wait()
            return event

        server = await start(interceptors={"publish": hang, "max_pending": 2})
        taken = [server.publish("a") for _ in range(100)]
        assert sum(taken) == 32
        assert taken[-1] == 0

    async def test_system_events_are_seen_when_delivered(self, start: Start) -> None:
        seen: list[str] = []
        server = await start(
            accounts=(Account(name="$SYS", users=(User(user="s", password="p"),)),),
            interceptors={"deliver": lambda one: seen.append(one.subject) or one},
        )
        watcher = await connected(server, user="s", **{"pass": "p"})
        await watcher.ask(b"SUB $SYS.> 1")
        await connected(server, user="s", **{"pass": "p"})
        assert any(subject.endswith(".CONNECT") for subject in seen)

    async def test_faults_act_on_what_interceptors_let_pass(self, start: Start) -> None:
        server = await start(
            interceptors={
                "publish": lambda one: Refuse() if one.subject == "no" else one,
                "deliver": lambda one: replace(one, payload=b"seen"),
            }
        )
        client = await connected(server)
        await client.ask(b"SUB > 1")
        with server.faults.duplicate("a") as fault:
            answer = await client.ask(b"PUB a 0\r\n", b"PUB no 0\r\n")
            assert fault.hits == 1
        assert answer.count(b"MSG a 1 4\r\nseen") == 2
        assert b"MSG no" not in answer
        assert await client.ask(b"PUB a 0\r\n") == b"MSG a 1 4\r\nseen\r\n"
