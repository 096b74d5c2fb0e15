"""Authentication, permissions, accounts and TLS over real sockets, in one process."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from midge.server.auth import AuthRequest, User
from midge.server.auth.nkeys import KeyKind
from midge.server.hub import Screen
from midge.server.options import (
    Account,
    AccountLimits,
    AllowResponses,
    Authorization,
    Export,
    Import,
    ImportSource,
    Limits,
    Listen,
    Mapping,
    MappingDestination,
    Operator,
    Options,
    Permissions,
    SubjectPermissions,
    Tls,
)
from midge.server.options import User as UserTable
from midge.server.server import Server
from tests.support.keys import Authority, KeyPair, make_token, pem
from tests.support.raw import Raw

VIOLATION = b"-ERR 'Authorization Violation'\r\n"
ONE_PORT = Listen(port=-1)

Start = Callable[..., Awaitable[Server]]
Open = Callable[..., Awaitable[Raw]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start servers that are stopped when the test ends."""
    servers: list[Server] = []

    async def one(**tables: Any) -> Server:
        server = Server(Options(listen=ONE_PORT, **tables))
        await server.start()
        servers.append(server)
        return server

    yield one
    for server in servers:
        await server.stop()


@pytest.fixture
async def dial(start: Start) -> AsyncIterator[Open]:
    """Open raw connections that are closed when the test ends, before the servers stop."""
    opened: list[Raw] = []

    async def one(server: Server, tls: ssl.SSLContext | None = None, **options: Any) -> Raw:
        raw = await Raw.open(server.urls()["nats"][0], tls, **options)
        opened.append(raw)
        return raw

    yield one
    await asyncio.gather(*(raw.close() for raw in opened))


def permissions(
    *,
    publish: tuple[str, ...] = (),
    publish_deny: tuple[str, ...] = (),
    subscribe: tuple[str, ...] = (),
    subscribe_deny: tuple[str, ...] = (),
    responses: AllowResponses | None = None,
) -> Permissions:
    return Permissions(
        publish=SubjectPermissions(allow=publish, deny=publish_deny),
        subscribe=SubjectPermissions(allow=subscribe, deny=subscribe_deny),
        allow_responses=responses,
    )


def users(*named: UserTable, **fields: Any) -> Authorization:
    return Authorization(users=named, **fields)


def user(name: str, rules: Permissions | None = None) -> UserTable:
    return UserTable(user=name, password="p", permissions=rules)


async def enter(dial: Open, server: Server, name: str, **options: Any) -> Raw:
    raw = await dial(server)
    answer = await raw.connect(**{"user": name, "pass": "p", **options})
    assert b"-ERR" not in answer
    return raw


class TestAuthentication:
    async def test_a_hashed_password_is_checked_while_others_go_on(
        self, start: Start, dial: Open
    ) -> None:
        stored = bcrypt.hashpw(b"p", bcrypt.gensalt(5)).decode()
        server = await start(authorization=Authorization(user="me", password=stored))
        raw = await dial(server)
        assert raw.info["auth_required"]
        raw.send(b'CONNECT {"verbose":false,"user":"me","pass":"p"}', b"SUB a 1", b"PUB a 1", b"x")
        assert await raw.ask() == b"MSG a 1 1\r\nx\r\n"
        wrong = await dial(server)
        assert await wrong.connect(**{"user": "me", "pass": "q"}) == VIOLATION

    async def test_whoever_fails_a_second_time_is_out(self, start: Start, dial: Open) -> None:
        server = await start(authorization=users(user("a"), user("b")))
        raw = await enter(dial, server, "a")
        assert await raw.connect(**{"user": "b", "pass": "wrong"}) == VIOLATION

    async def test_an_unknown_client_cannot_fill_the_memory(
        self, start: Start, dial: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, answer = asyncio.Event(), asyncio.Event()

        async def slow_hook(request: AuthRequest) -> User:
            asked.set()
            await answer.wait()
            return User(name="me")

        monkeypatch.setattr("tests.support.hooks.current", slow_hook, raising=False)
        server = await start(
            authorization=Authorization(hook="tests.support.hooks:authenticate", hook_timeout_s=30)
        )
        raw = await dial(server)
        raw.send(b'CONNECT {"verbose":false}')
        await asked.wait()
        (connection,) = server.connections()
        for _ in range(64):
            raw.send(b"PUB a 65536", b"x" * 65536)
        for _ in range(50):
            await asyncio.sleep(0.002)
            assert connection.inbound.held_bytes() <= 1 << 20
        answer.set()
        assert await raw.ask() == b""
        assert connection.in_messages == 64

    @pytest.mark.parametrize("refused", ["raise", "none", "hang"])
    async def test_a_hook_that_does_not_say_yes_says_no(
        self, start: Start, dial: Open, monkeypatch: pytest.MonkeyPatch, refused: str
    ) -> None:
        async def hook(request: AuthRequest) -> object:
            if refused == "raise":
                raise ValueError(request.user)
            if refused == "hang":
                await asyncio.Event().wait()
            return None

        monkeypatch.setattr("tests.support.hooks.current", hook, raising=False)
        server = await start(
            authorization=Authorization(
                hook="tests.support.hooks:authenticate", hook_timeout_s=0.05
            )
        )
        raw = await dial(server)
        assert await raw.connect(user="me") == VIOLATION

    async def test_an_nkey_signs_the_nonce(self, start: Start, dial: Open) -> None:
        pair = KeyPair(KeyKind.USER)
        server = await start(authorization=users(UserTable(nkey=pair.public)))
        raw = await dial(server)
        nonce = raw.info["nonce"].encode()
        assert len(nonce) == 15
        assert await raw.connect(nkey=pair.public, sig=pair.signature(nonce)) == b""
        replayed = await dial(server)
        signature = pair.signature(nonce)
        assert await replayed.connect(nkey=pair.public, sig=signature) == VIOLATION

    async def test_a_client_without_credentials_is_the_silent_user(
        self, start: Start, dial: Open
    ) -> None:
        rules = permissions(publish=("open",))
        server = await start(authorization=users(user("guest", rules), no_auth_user="guest"))
        raw = await dial(server)
        assert "auth_required" not in raw.info
        assert b"Permissions Violation" in await raw.ask(b"PUB closed 0", b"")
        assert b"Permissions Violation" not in await raw.ask(b"PUB open 0", b"")


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
            server.hub.screen_with(Screen())
        b = await enter(dial, server, "b")
        await b.ask(b"SUB > 1")
        a = await enter(dial, server, "a")
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
        before = len(server.hub.accounts["A"].sublist)
        await turncoat.ask(*(b"SUB s.%d %d" % (i, i) for i in range(5000)))
        turncoat.send(b'CONNECT {"verbose":false,"user":"b","pass":"p"}')
        a.send(*(b"PUB s.%d 1\r\nx" % i for i in range(5000)))
        await a.ask()
        got = await turncoat.ask()
        # Messages from before the second CONNECT was read are the former user's by right.
        assert await a.ask(*(b"PUB s.%d 1\r\ny" % i for i in range(5000))) == b""
        assert b"\r\ny\r\n" not in got + await turncoat.ask()
        assert len(server.hub.accounts["A"].sublist) == before


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


class TestReload:
    async def test_users_are_put_to_the_question_again(self, start: Start, dial: Open) -> None:
        server = await start(authorization=users(user("stays"), user("goes"), user("loses")))
        stays, goes, loses = [
            await enter(dial, server, name) for name in ("stays", "goes", "loses")
        ]
        await loses.ask(b"SUB kept 1", b"SUB lost 2", b"SUB lost q 3")
        rules = permissions(subscribe=("kept",))
        now = users(user("stays"), UserTable(user="goes", password="new"), user("loses", rules))
        await server.reload(Options(listen=ONE_PORT, authorization=now))
        assert await goes.until_end() == VIOLATION
        text = b'-ERR \'Permissions Violation for Subscription to "lost"'
        assert await loses.ask() == (
            text + b' (sid "2")\'\r\n' + text + b' using queue "q" (sid "3")\'\r\n'
        )
        await stays.ask(b"PUB kept 1", b"1", b"PUB lost 1", b"2")
        assert await loses.ask() == b"MSG kept 1 1\r\n1\r\n"

    async def test_accounts_change_while_clients_stay(self, start: Start, dial: Open) -> None:
        server = await start(accounts=TestAccounts.ACCOUNTS)
        a, b = await enter(dial, server, "a"), await enter(dial, server, "b")
        await b.ask(b"SUB > 1")
        exporter, importer, _ = TestAccounts.ACCOUNTS
        lonely = Account(name=importer.name, users=importer.users)
        await server.reload(Options(listen=ONE_PORT, accounts=(exporter, lonely)))
        await a.ask(b"PUB st.x 1", b"1")
        assert await b.ask() == b""


class TestOperatorMode:
    OPERATOR, ACCOUNT, USER = (
        KeyPair(KeyKind.OPERATOR),
        KeyPair(KeyKind.ACCOUNT),
        KeyPair(KeyKind.USER),
    )

    def account_token(self, **nats: Any) -> str:
        return make_token(self.OPERATOR, self.ACCOUNT.public, "account", nats=nats)

    def user_token(self, account: KeyPair | None = None, **claims: Any) -> str:
        nats = {"subs": -1, "data": -1, "payload": -1, **claims.pop("nats", {})}
        return make_token(account or self.ACCOUNT, self.USER.public, "user", nats=nats, **claims)

    def operator(self, folder: Path, **fields: Any) -> Operator:
        return Operator(
            trusted_keys=(self.OPERATOR.public,),
            resolver="directory",
            resolver_directory=str(folder),
            **fields,
        )

    async def sign_in(self, raw: Raw, token: str) -> bytes:
        signature = self.USER.signature(raw.info["nonce"].encode())
        return await raw.connect(jwt=token, sig=signature, protocol=1)

    async def test_tokens_let_in_and_bring_permissions(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        (tmp_path / f"{self.ACCOUNT.public}.jwt").write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path))
        raw = await dial(server)
        token = self.user_token(nats={"pub": {"deny": ["no"]}})
        assert await self.sign_in(raw, token) == b""
        assert b"Permissions Violation" in await raw.ask(b"PUB no 0", b"")
        assert self.ACCOUNT.public.encode() in raw.received
        stranger = await dial(server)
        assert await stranger.connect(user="x") == VIOLATION

    async def test_a_token_that_ends_takes_its_connection_along(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        (tmp_path / f"{self.ACCOUNT.public}.jwt").write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path))
        raw = await dial(server)
        assert await self.sign_in(raw, self.user_token(exp=int(time.time()) + 1)) == b""
        ended = await raw.until_end()
        assert ended.endswith(b"-ERR 'User Authentication Expired'\r\n")

    async def test_a_revoked_user_is_sent_away_by_the_next_scan(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        file = tmp_path / f"{self.ACCOUNT.public}.jwt"
        file.write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path, resolver_interval_s=1))
        raw = await dial(server)
        assert await self.sign_in(raw, self.user_token()) == b""
        file.write_text(self.account_token(revocations={self.USER.public: 5000}))
        ended = await raw.until_end()
        assert ended.endswith(b"-ERR 'User Authentication Revoked'\r\n")

    async def test_a_changed_scope_holds_for_those_who_are_there(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        scoped = KeyPair(KeyKind.ACCOUNT)

        def account_token(*allowed: str) -> str:
            template = {"subs": -1, "data": -1, "payload": -1, "pub": {"allow": allowed}}
            key = {"kind": "user_scope", "key": scoped.public, "template": template}
            return self.account_token(signing_keys=[key])

        file = tmp_path / f"{self.ACCOUNT.public}.jwt"
        file.write_text(account_token("old", "new"))
        server = await start(operator=self.operator(tmp_path, resolver_interval_s=1))
        raw = await dial(server)
        own = {"issuer_account": self.ACCOUNT.public}
        token = make_token(scoped, self.USER.public, "user", nats=own)
        assert await self.sign_in(raw, token) == b""
        assert b"-ERR" not in await raw.ask(b"PUB old 0", b"")
        file.write_text(account_token("new"))
        async with asyncio.timeout(10):
            while b"Permissions Violation" not in await raw.ask(b"PUB old 0", b""):
                await asyncio.sleep(0.05)
        assert await raw.ask(b"PUB new 0", b"") == b""

    async def test_a_bearer_is_sent_away_when_the_account_wants_none_any_more(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        file = tmp_path / f"{self.ACCOUNT.public}.jwt"
        file.write_text(self.account_token())
        server = await start(operator=self.operator(tmp_path, resolver_interval_s=1))
        raw = await dial(server)
        token = self.user_token(nats={"bearer_token": True})
        assert await raw.connect(jwt=token) == b""
        limits = {"subs": -1, "conn": -1, "payload": -1, "disallow_bearer": True}
        file.write_text(self.account_token(limits=limits))
        assert (await raw.until_end()).endswith(VIOLATION)

    async def test_an_activation_that_expires_ends_the_import(
        self, start: Start, dial: Open
    ) -> None:
        """With the accounts in memory as well, where nothing else ever changes."""
        other = KeyPair(KeyKind.ACCOUNT)
        activation = make_token(
            self.ACCOUNT,
            other.public,
            "activation",
            nats={"subject": "private", "kind": "stream"},
            exp=int(time.time()) + 2,
        )
        export = {"subject": "private", "type": "stream", "token_req": True}
        imported = {"account": self.ACCOUNT.public, "subject": "private", "type": "stream"}
        tokens = {
            self.ACCOUNT.public: self.account_token(exports=[export]),
            other.public: make_token(
                self.OPERATOR,
                other.public,
                "account",
                nats={"imports": [{**imported, "token": activation}]},
            ),
        }
        operator = Operator(
            trusted_keys=(self.OPERATOR.public,), resolver_preload=tokens, resolver_interval_s=1
        )
        server = await start(operator=operator)
        a, b = await dial(server), await dial(server)
        assert await self.sign_in(a, self.user_token()) == b""
        assert await self.sign_in(b, self.user_token(other)) == b""
        await b.ask(b"SUB private 1")
        await a.ask(b"PUB private 1", b"1")
        assert b"MSG private 1 1\r\n1\r\n" in await b.ask()
        async with asyncio.timeout(10):
            while True:
                await a.ask(b"PUB private 1", b"1")
                if b"MSG" not in await b.ask():
                    return
                await asyncio.sleep(0.05)

    async def test_accounts_of_tokens_import_from_each_other(
        self, start: Start, dial: Open, tmp_path: Path
    ) -> None:
        other = KeyPair(KeyKind.ACCOUNT)
        exports = [
            {"name": "open", "subject": "st.>", "type": "stream"},
            {"name": "closed", "subject": "private", "type": "stream", "token_req": True},
        ]
        imports = [
            {"account": self.ACCOUNT.public, "subject": subject, "type": "stream"}
            for subject in ("st.>", "private")
        ]
        (tmp_path / f"{self.ACCOUNT.public}.jwt").write_text(self.account_token(exports=exports))
        (tmp_path / f"{other.public}.jwt").write_text(
            make_token(self.OPERATOR, other.public, "account", nats={"imports": imports})
        )
        server = await start(operator=self.operator(tmp_path))
        a, b = await dial(server), await dial(server)
        assert await self.sign_in(a, self.user_token()) == b""
        assert await self.sign_in(b, self.user_token(other)) == b""
        await b.ask(b"SUB > 1")
        await a.ask(b"PUB st.x 1", b"1", b"PUB private 1", b"2", b"PUB own 1", b"3")
        assert b"MSG st.x 1 1\r\n1\r\n" in (got := await b.ask())
        assert b"private" not in got


class TestTls:
    AUTHORITY = Authority()

    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, str]:
        made = {"ca": self.AUTHORITY.pem}
        for name in ("server", "client"):
            certificate, key = self.AUTHORITY.issue(f"CN={name}")
            made |= {f"{name}_cert": pem(certificate), f"{name}_key": key}
        paths = {}
        for name, content in made.items():
            (tmp_path / name).write_bytes(content)
            paths[name] = str(tmp_path / name)
        return paths

    def table(self, files: dict[str, str], **fields: Any) -> Tls:
        certificate, key = files["server_cert"], files["server_key"]
        return Tls(cert_file=certificate, key_file=key, ca_file=files["ca"], **fields)

    def context(self, files: dict[str, str], *, shows_itself: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=files["ca"])
        context.check_hostname = False
        if shows_itself:
            context.load_cert_chain(files["client_cert"], files["client_key"])
        return context

    async def test_messages_go_through_it(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files))
        raw = await dial(server, self.context(files))
        assert raw.info["tls_required"]
        await raw.connect()
        payload = b"x" * 500_000
        got = await raw.ask(b"SUB a 1", b"PUB a 500000", payload)
        assert got == b"MSG a 1 500000\r\n" + payload + b"\r\n"

    async def test_plain_text_is_cut_off(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files))
        raw = await dial(server)
        assert await raw.connect() == b""

    async def test_a_silent_client_is_cut_off_in_time(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, timeout_s=0.2))
        raw = await dial(server)
        assert await raw.until_end() == b""

    async def test_plain_and_encrypted_clients_share_the_port(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, allow_non_tls=True))
        plain, encrypted = await dial(server), await dial(server, self.context(files))
        assert plain.info["tls_available"]
        assert "tls_required" not in plain.info
        await plain.connect()
        await encrypted.connect()
        await encrypted.ask(b"SUB a 1")
        await plain.ask(b"PUB a 1", b"x")
        assert await encrypted.ask() == b"MSG a 1 1\r\nx\r\n"

    async def test_the_handshake_may_come_first(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, handshake_first="on"))
        raw = await dial(server, self.context(files), is_tls_first=True)
        await raw.connect()
        assert await raw.ask(b"SUB a 1", b"PUB a 1", b"x") == b"MSG a 1 1\r\nx\r\n"

    @pytest.mark.parametrize(("is_first", "fallback_s"), [(True, 30), (False, 0.01)])
    async def test_either_order_will_do_when_it_is_automatic(
        self,
        start: Start,
        dial: Open,
        files: dict[str, str],
        is_first: bool,
        fallback_s: float,
    ) -> None:
        table = self.table(files, handshake_first="auto", handshake_first_fallback_s=fallback_s)
        server = await start(tls=table)
        raw = await dial(server, self.context(files), is_tls_first=is_first)
        assert await raw.connect() == b""

    async def test_certificates_name_their_users(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        rules = permissions(publish=("mine",))
        named = UserTable(user="CN=client", permissions=rules)
        server = await start(tls=self.table(files, verify_and_map=True), authorization=users(named))
        raw = await dial(server, self.context(files, shows_itself=True))
        assert raw.info["tls_verify"]
        assert await raw.connect() == b""
        assert b"Permissions Violation" in await raw.ask(b"PUB other 0", b"")

    async def test_a_client_without_certificate_gets_nowhere(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, verify=True))
        try:
            raw = await dial(server, self.context(files))
            answer = await raw.connect()
        except OSError:
            answer = b""
        assert answer == b""
        assert not server.connections()

    async def test_handshakes_are_rationed(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files, connection_rate_limit=1))
        text = b"-ERR 'Connection throttling is active. Please try again later.'\r\n"
        answers = []
        for _ in range(3):
            raw = await dial(server)
            raw.send(b"garbage")
            answers.append(await raw.until_end())
        assert text in answers

    async def test_new_certificates_serve_without_a_restart(
        self, start: Start, dial: Open, files: dict[str, str]
    ) -> None:
        server = await start(tls=self.table(files))
        raw = await dial(server, self.context(files))
        await raw.connect()
        certificate, key = self.AUTHORITY.issue("CN=renewed")
        Path(files["server_cert"]).write_bytes(pem(certificate))
        Path(files["server_key"]).write_bytes(key)
        await server.reload(Options(listen=ONE_PORT, tls=self.table(files)))
        assert await raw.ask(b"SUB a 1", b"PUB a 1", b"x") == b"MSG a 1 1\r\nx\r\n"
        renewed = await dial(server, self.context(files))
        names = renewed.tls_detail("peercert")["subject"]
        assert names == ((("commonName", "renewed"),),)
