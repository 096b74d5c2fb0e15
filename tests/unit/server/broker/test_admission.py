"""Slow decisions on a client's identity: while they are open, everything may change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import bcrypt
import pytest

from midge.server.auth import AuthRequest, User
from midge.server.config.options import (
    Authorization,
    Listen,
    Options,
    Permissions,
    SubjectPermissions,
)
from midge.server.config.options import User as UserTable
from midge.server.server import Server
from tests.support.raw import Raw

VIOLATION = b"-ERR 'Authorization Violation'\r\n"
HOOK = "tests.support.hooks:authenticate"
LISTEN = Listen(port=-1)
PASSWORD = {"pass": "p"}

Dial = Callable[[Server], Awaitable[Raw]]


class Hook:
    """A hook whose calls wait until the test answers them."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[asyncio.Future[User | None]] = asyncio.Queue()
        self.cancelled = 0

    async def __call__(self, request: AuthRequest) -> User | None:
        answer: asyncio.Future[User | None] = asyncio.get_running_loop().create_future()
        self.calls.put_nowait(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def asked(self) -> asyncio.Future[User | None]:
        """Return the next call, when it has come."""
        return await asyncio.wait_for(self.calls.get(), 60.0)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    made = Hook()
    monkeypatch.setattr("tests.support.hooks.current", made)
    return made


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


async def started(stack: AsyncExitStack, authorization: Authorization) -> Server:
    server = Server(Options(listen=LISTEN, authorization=authorization))
    await server.start()
    stack.push_async_callback(server.stop)
    return server


async def dial(stack: AsyncExitStack, server: Server) -> Raw:
    raw = await Raw.open(server.urls()["nats"][0])
    stack.push_async_callback(raw.close)
    return raw


def introduce(raw: Raw, name: str) -> None:
    """Send CONNECT as `name`, and wait for nothing."""
    raw.send(b'CONNECT {"verbose":false,"user":"%b","pass":"p"}' % name.encode(), b"PING")


async def reload(server: Server, **fields: Any) -> None:
    await server.reload(Options(listen=LISTEN, authorization=Authorization(**fields)))


def of_rules(*allow: str) -> User:
    return User(name="a", permissions=Permissions(publish=SubjectPermissions(allow=allow)))


async def test_a_yes_by_rules_that_hold_no_more_lets_nobody_in(
    stack: AsyncExitStack, hook: Hook
) -> None:
    server = await started(stack, Authorization(hook=HOOK))
    raw = await dial(stack, server)
    introduce(raw, "a")
    answer = await hook.asked()
    await reload(server, users=(UserTable(user="b", password="p"),))
    if not answer.done():
        answer.set_result(User(name="a"))
    assert await raw.until_end() == VIOLATION


async def test_who_is_being_asked_about_is_judged_by_the_new_rules(
    stack: AsyncExitStack, hook: Hook
) -> None:
    server = await started(stack, Authorization(hook=HOOK))
    raw = await dial(stack, server)
    introduce(raw, "a")
    await hook.asked()
    await reload(server, users=(UserTable(user="a", password="p"),))
    assert await raw.until_pong() == b""
    assert await raw.ask(b"SUB x 1", b"PUB x 1", b"1") == b"MSG x 1 1\r\n1\r\n"


async def test_a_second_introduction_is_judged_by_the_new_rules_too(
    stack: AsyncExitStack, hook: Hook
) -> None:
    server = await started(stack, Authorization(hook=HOOK))
    raw = await dial(stack, server)
    introduce(raw, "a")
    (await hook.asked()).set_result(User(name="a"))
    await raw.until_pong()
    introduce(raw, "b")
    await hook.asked()
    await reload(server, users=(UserTable(user="b", password="p"),))
    assert await raw.until_pong() == b""
    (connection,) = server.connections()
    assert connection.identity is not None
    assert connection.identity.user == "b"


async def test_of_two_reloads_the_last_one_counts(stack: AsyncExitStack, hook: Hook) -> None:
    server = await started(stack, Authorization(hook=HOOK))
    raw = await dial(stack, server)
    introduce(raw, "a")
    (await hook.asked()).set_result(User(name="a"))
    await raw.until_pong()
    await reload(server, hook=HOOK, timeout_s=10)
    first = await hook.asked()
    await reload(server, hook=HOOK, timeout_s=20)
    last = await hook.asked()
    last.set_result(of_rules("new"))
    while server.connections()[0].commands.permissions is None:
        await asyncio.sleep(0.001)
    if not first.done():
        first.set_result(of_rules("old"))
    assert b"Permissions Violation" in await raw.ask(b"PUB old 0", b"")
    assert await raw.ask(b"PUB new 0", b"") == b""


async def test_who_has_ended_takes_its_question_along(stack: AsyncExitStack, hook: Hook) -> None:
    server = await started(stack, Authorization(hook=HOOK, hook_timeout_s=60, timeout_s=1))
    raw = await dial(stack, server)
    introduce(raw, "a")
    answer = await hook.asked()
    assert b"Authentication Timeout" in await raw.until_end()
    while not hook.cancelled:
        await asyncio.sleep(0.001)
    assert answer.cancelled()


async def test_hashes_are_not_checked_for_those_who_have_ended(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    go_on = threading.Event()

    def check(stored: str, offered: str) -> bool:
        begun.append(offered)
        assert go_on.wait(60.0)
        return True

    monkeypatch.setattr("midge.server.auth.passwords.is_hash_of", check)
    stored = bcrypt.hashpw(b"p", bcrypt.gensalt(4)).decode()
    server = await started(stack, Authorization(user="a", password=stored, timeout_s=1))
    crowd = [await dial(stack, server) for _ in range(20)]
    for raw in crowd:
        introduce(raw, "a")
    while len(begun) < 2:
        await asyncio.sleep(0.001)
    while server.connections():
        await asyncio.sleep(0.001)
    last = await dial(stack, server)
    go_on.set()
    assert await last.connect(user="a", **PASSWORD) == b""
    assert len(begun) == 3, "the two that had begun, and the last"
