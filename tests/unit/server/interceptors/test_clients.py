"""Interceptors that decide on clients and on what these subscribe to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from midge.server.config.options import (
    Account,
    Authorization,
    Permissions,
    SubjectPermissions,
    User,
)
from midge.server.interceptors import Connect, Refuse, Subscribe
from tests.support.interceptors import (
    PASSING,
    REFUSING,
    VIOLATION,
    Start,
    connected,
    opened,
    passes,
)


class TestConnect:
    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_but_the_event_refuses(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"connect": function})
        client = await opened(server)
        client.send(b"CONNECT {}", b"SUB > 1", b"PUB a 0\r\n")
        assert await client.until_end() == b"-ERR 'Authorization Violation'\r\n"
        assert server.stats.in_messages == 0

    @pytest.mark.parametrize("function", PASSING)
    async def test_the_event_passes(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"connect": function})
        client = await connected(server)
        assert await client.ask(b"SUB a 1", b"PUB a 0\r\n") == b"MSG a 1 0\r\n\r\n"

    async def test_nobody_goes_without_a_connect(self, start: Start) -> None:
        server = await start(interceptors={"connect": passes})
        client = await opened(server)
        client.send(b"PUB a 0\r\n")
        assert await client.until_end() == b"-ERR 'Authorization Violation'\r\n"

    async def test_it_sees_who_it_is_and_chooses_account_and_permissions(
        self, start: Start
    ) -> None:
        seen: list[Connect] = []

        def move(event: Connect) -> Connect:
            seen.append(event)
            rules = Permissions(publish=SubjectPermissions(deny=("secret",)))
            return replace(event, account="B", user="guest", permissions=rules)

        server = await start(
            accounts=(
                Account(name="A", users=(User(user="u", password="p"),)),
                Account(name="B"),
            ),
            interceptors={"connect": move},
        )
        client = await connected(server, user="u", name="shop", lang="c", **{"pass": "p"})
        assert (seen[0].client.user, seen[0].client.account, seen[0].client.name) == (
            "u",
            "A",
            "shop",
        )
        assert [(one.user, one.account) for one in server.connections] == [("guest", "B")]
        assert (await client.ask(b"PUB secret 0\r\n")).startswith(VIOLATION % b"secret")

    @pytest.mark.parametrize(
        "change",
        [
            {"account": "nowhere"},
            {"account": None},
            {"user": 7},
            {"permissions": {"publish": {}}},
            {"permissions": Permissions(publish=SubjectPermissions(allow=("a..b",)))},
        ],
        ids=str,
    )
    async def test_a_copy_that_cannot_be_refuses(self, start: Start, change: Any) -> None:
        server = await start(interceptors={"connect": lambda event: replace(event, **change)})
        client = await opened(server)
        client.send(b"CONNECT {}")
        assert b"Authorization Violation" in await client.until_end()

    async def test_a_wrong_password_is_not_shown(self, start: Start) -> None:
        seen: list[Connect] = []
        server = await start(
            user="u", password="p", interceptors={"connect": lambda one: seen.append(one) or one}
        )
        client = await opened(server)
        client.send(b'CONNECT {"user":"u","pass":"wrong"}')
        assert b"Authorization Violation" in await client.until_end()
        assert not seen

    async def test_a_reload_asks_again(self, start: Start) -> None:
        is_open = [True]
        server = await start(interceptors={"connect": lambda one: one if is_open[0] else Refuse()})
        client = await connected(server)
        is_open[0] = False
        await server.reload(max_payload=1000)
        assert b"Authorization Violation" in await client.until_end()


class TestSubscribe:
    @pytest.mark.parametrize("function", REFUSING)
    async def test_anything_but_the_event_refuses(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"subscribe": function})
        client = await connected(server)
        answer = await client.ask(b"SUB a q 1", b"PUB a 2\r\nhi")
        assert answer.startswith(
            b'-ERR \'Permissions Violation for Subscription to "a" using queue "q"'
        )
        assert b"MSG" not in answer
        assert not server.subscriptions

    @pytest.mark.parametrize("function", PASSING)
    async def test_the_event_passes(self, start: Start, function: Any) -> None:
        server = await start(interceptors={"subscribe": function})
        client = await connected(server)
        answer = await client.ask(b"SUB a 1", b"PUB a 2\r\nhi")
        assert answer == b"MSG a 1 2\r\nhi\r\n"

    async def test_a_changed_subscription_needs_the_permission(self, start: Start) -> None:
        def move(event: Subscribe) -> Subscribe:
            return replace(event, subject=f"{event.subject}.x", queue="q")

        rules = Permissions(subscribe=SubjectPermissions(deny=("b.x",)))
        server = await start(
            authorization=Authorization(users=(User(user="u", password="p", permissions=rules),)),
            interceptors={"subscribe": move},
        )
        client = await connected(server, user="u", **{"pass": "p"})
        answer = await client.ask(b"SUB a 1", b"SUB b 2")
        assert answer.count(b"-ERR") == 1
        assert b'"b.x" using queue "q"' in answer
        assert [(one.subject, one.queue) for one in server.subscriptions] == [("a.x", "q")]

    async def test_a_subject_that_cannot_be_refuses(self, start: Start) -> None:
        server = await start(interceptors={"subscribe": lambda one: replace(one, subject="a..b")})
        client = await connected(server)
        assert b"-ERR" in await client.ask(b"SUB a 1")
