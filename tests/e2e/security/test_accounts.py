"""Accounts apart, and what passes between them."""

from __future__ import annotations

import asyncio

from midge.server.config.options import (
    Account,
    AccountLimits,
    Export,
    Import,
    ImportSource,
    Limits,
    Listen,
    Options,
)
from tests.support.users import Open, Start, enter, user, users


class TestAccounts:
    ACCOUNTS = (
        Account(
            name="A",
            users=(user("a"),),
            exports=(Export(stream="st.>"), Export(service="svc.>")),
            limits=AccountLimits(max_connections=2, max_payload_bytes=100, max_subscriptions=3),
        ),
        Account(
            name="B",
            users=(user("b"),),
            imports=(
                Import(stream=ImportSource(account="A", subject="st.>"), prefix="from"),
                Import(service=ImportSource(account="A", subject="svc.req"), to="ask"),
            ),
        ),
        Account(name="C", users=(user("c"),)),
    )

    async def test_messages_cross_by_import_only(self, start: Start, dial: Open) -> None:
        server = await start(accounts=self.ACCOUNTS)
        a, b, c = [await enter(dial, server, name) for name in ("a", "b", "c")]
        for each in (a, b, c):
            await each.ask(b"SUB > 1")
        await a.ask(b"PUB st.x 1", b"1", b"PUB own 1", b"2")
        assert await b.ask() == b"MSG from.st.x 1 1\r\n1\r\n"
        assert await c.ask() == b""

    async def test_a_service_is_asked_and_answers_once(self, start: Start, dial: Open) -> None:
        server = await start(accounts=self.ACCOUNTS)
        a, b = await enter(dial, server, "a"), await enter(dial, server, "b")
        await a.ask(b"SUB svc.* 1")
        spoofed = b"NATS/1.0\r\nnats-request-INFO: {}\r\nK: v\r\n\r\n"
        sizes = b"%d %d" % (len(spoofed), len(spoofed) + 1)
        await b.ask(b"SUB inbox 1", b"HPUB ask inbox " + sizes, spoofed + b"q")
        request = await a.ask()
        assert request.startswith(b"HMSG svc.req 1 _R_.")
        assert b'K: v\r\nNats-Request-Info: {"acc":"B","rtt":' in request
        assert request.lower().count(b"nats-request-info") == 1
        reply = request.split(b" ")[3]
        await a.ask(b"PUB %b 1" % reply, b"1", b"PUB %b 1" % reply, b"2")
        assert await b.ask() == b"MSG inbox 1 1\r\n1\r\n"
        stolen = await b.ask(b"PUB ask _R_.x.y 1", b"q")
        assert stolen == b"-ERR 'Permissions Violation for Publish with Reply of \"_R_.x.y\"'\r\n"

    async def test_no_request_grows_beyond_max_payload(self, start: Start, dial: Open) -> None:
        exporter = Account(name="A", users=(user("a"),), exports=self.ACCOUNTS[0].exports)
        limits = Limits(max_payload_bytes=200)
        server = await start(accounts=(exporter, self.ACCOUNTS[1]), limits=limits)
        a = await enter(dial, server, "a")
        b = await enter(dial, server, "b", headers=True, no_responders=True)
        await a.ask(b"SUB svc.* 1")
        await b.ask(b"SUB inbox 1", b"PUB ask inbox 100", b"x" * 100)
        request = await a.ask()
        sizes = [int(size) for size in request.split(b"\r\n")[0].split(b" ")[-2:]]
        assert sizes[1] - sizes[0] == 100
        answer = await b.ask(b"PUB ask inbox 200", b"x" * 200)
        assert answer.startswith(b"HMSG inbox 1 ")
        assert b"NATS/1.0 503\r\n" in answer
        assert await a.ask() == b""

    async def test_limits_of_an_account(self, start: Start, dial: Open) -> None:
        server = await start(accounts=self.ACCOUNTS)
        first = await enter(dial, server, "a", protocol=1)
        await enter(dial, server, "a")
        third = await dial(server)
        assert (
            await third.connect(**{"user": "a", "pass": "p"})
            == b"-ERR 'maximum account active connections exceeded'\r\n"
        )
        subscribed = await first.ask(*(b"SUB s 1%d" % i for i in range(4)))
        assert b"-ERR 'maximum subscriptions exceeded'\r\n" in subscribed
        assert await first.ask(b"PUB a 101", b"x" * 101) == b"-ERR 'Maximum Payload Violation'\r\n"
        await first.until_end()
        await enter(dial, server, "a")

    async def test_limits_per_user_and_address(self, start: Start, dial: Open) -> None:
        limits = Limits(max_connections_per_user=1, max_connections_per_address=3)
        server = await start(authorization=users(user("a"), user("b")), limits=limits)
        exceeded = b"-ERR 'maximum connections exceeded'\r\n"
        a = await enter(dial, server, "a")
        again = await dial(server)
        assert await again.connect(**{"user": "a", "pass": "p"}) == exceeded
        await enter(dial, server, "b")
        waiting = await dial(server)
        fourth = await dial(server)
        assert await fourth.until_end() == exceeded
        await asyncio.gather(waiting.close(), a.close())
        while len(server.connections()) > 1:
            await asyncio.sleep(0.001)
        await enter(dial, server, "a")

    async def test_accounts_change_while_clients_stay(self, start: Start, dial: Open) -> None:
        server = await start(accounts=self.ACCOUNTS)
        a, b = await enter(dial, server, "a"), await enter(dial, server, "b")
        await b.ask(b"SUB > 1")
        exporter, importer, _ = self.ACCOUNTS
        lonely = Account(name=importer.name, users=importer.users)
        await server.reload(Options(listen=Listen(port=-1), accounts=(exporter, lonely)))
        await a.ask(b"PUB st.x 1", b"1")
        assert await b.ask() == b""
