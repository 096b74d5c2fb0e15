"""Admission of clients, and their re-authentication at a reload."""

from __future__ import annotations

import asyncio

import bcrypt
import pytest

from midge.server.auth import AuthRequest, User
from midge.server.auth.nkeys import KeyKind
from midge.server.config.options import Authorization, Listen, Options
from midge.server.config.options import User as UserTable
from tests.support.keys import KeyPair
from tests.support.users import VIOLATION, Open, Start, enter, permissions, user, users

ONE_PORT = Listen(port=-1)


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
            assert connection.channel.inbound.held_bytes() <= 1 << 20
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
