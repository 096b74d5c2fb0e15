"""Permissions to publish, subscribe and receive."""

from __future__ import annotations

import pytest

from midge.server.clients.screens import Screen
from midge.server.config.options import Account, AllowResponses, Mapping, MappingDestination
from tests.support.users import Open, Start, enter, permissions, user, users


class TestPermissions:
    MAPPINGS = (
        Mapping(source="in", destinations=(MappingDestination(destination="out"),)),
        Mapping(source="by.*", destinations=(MappingDestination(destination="secret.$1"),)),
        Mapping(source="queue", destinations=(MappingDestination(destination="_GR_.x"),)),
        Mapping(
            source="either",
            destinations=(
                MappingDestination(destination="out", weight_percent=50),
                MappingDestination(destination="secret.either", weight_percent=50),
            ),
        ),
    )

    @pytest.mark.parametrize("is_screened", [False, True])
    async def test_publishing_is_checked_by_where_mappings_lead_each_time(
        self, start: Start, dial: Open, is_screened: bool
    ) -> None:
        """As nats-server does: a mapping is no way round a denial."""
        rules = permissions(publish=("out",), publish_deny=("secret.>",))
        by = users(user("a", rules), user("b"))
        server = await start(authorization=by, mappings=self.MAPPINGS)
        if is_screened:
            server.broker.add_screen(Screen())
        b, a = await enter(dial, server, "b"), await enter(dial, server, "a")
        await b.ask(b"SUB > 1")
        assert await a.ask(*[b"PUB in 1", b"x"] * 3) == b""
        assert await b.ask() == b"MSG out 1 1\r\nx\r\n" * 3
        denied = b"-ERR 'Permissions Violation for Publish to \"secret.x\"'\r\n"
        assert await a.ask(*[b"PUB by.x 1", b"x"] * 3) == denied * 3
        assert b"Permissions Violation" in await a.ask(b"PUB queue 1", b"x")
        refused = (await a.ask(*[b"PUB either 1", b"x"] * 100)).count(b'Publish to "secret.either"')
        got = await b.ask()
        assert b"secret" not in got
        assert 0 < refused < 100
        assert got == b"MSG out 1 1\r\nx\r\n" * (100 - refused)

    async def test_denials_hold_for_wildcards_and_queues(self, start: Start, dial: Open) -> None:
        rules = permissions(subscribe_deny=("secret.>", "team.x workers"))
        server = await start(authorization=users(user("a", rules), user("b")))
        a = await enter(dial, server, "a")
        assert await a.ask(b"SUB > 1", b"SUB *.x q 2", b"SUB team.* workers 3") == b""
        refused = await a.ask(b"SUB secret.x 4", b"SUB team.x workers 5")
        assert refused.count(b"Permissions Violation for Subscription") == 2
        b = await enter(dial, server, "b")
        await b.ask(b"PUB secret.x 1", b"s", b"PUB team.x 1", b"t", b"PUB secret.y 1", b"u")
        got = await a.ask()
        assert b"secret" not in got
        assert got.count(b"MSG team.x ") == 2
        assert b"MSG team.x 3" not in got

    async def test_replies_are_granted_and_used_up(self, start: Start, dial: Open) -> None:
        rules = permissions(responses=AllowResponses(max=1))
        server = await start(authorization=users(user("a", rules), user("b")))
        a, b = await enter(dial, server, "a"), await enter(dial, server, "b")
        await a.ask(b"SUB svc 1")
        await b.ask(b"SUB inbox 1", b"PUB svc inbox 1", b"q")
        assert await a.until(b"MSG svc 1 inbox 1")
        denied = b"-ERR 'Permissions Violation for Publish to \"inbox\"'\r\n"
        assert await a.ask(b"PUB inbox 1", b"1", b"PUB inbox 1", b"2") == b"q\r\n" + denied
        assert await b.ask() == b"MSG inbox 1 1\r\n1\r\n"

    async def test_nothing_of_the_former_user_is_left_after_a_second_connect(
        self, start: Start, dial: Open
    ) -> None:
        accounts = (Account(name="A", users=(user("a"),)), Account(name="B", users=(user("b"),)))
        server = await start(accounts=accounts)
        turncoat, a = await enter(dial, server, "a"), await enter(dial, server, "a")
        before = len(server.broker.accounts["A"].sublist)
        await turncoat.ask(*(b"SUB s.%d %d" % (i, i) for i in range(5000)))
        turncoat.send(b'CONNECT {"verbose":false,"user":"b","pass":"p"}')
        a.send(*(b"PUB s.%d 1\r\nx" % i for i in range(5000)))
        await a.ask()
        got = await turncoat.ask()
        # Messages from before the second CONNECT was read are the former user's by right.
        assert await a.ask(*(b"PUB s.%d 1\r\ny" % i for i in range(5000))) == b""
        assert b"\r\ny\r\n" not in got + await turncoat.ask()
        assert len(server.broker.accounts["A"].sublist) == before
