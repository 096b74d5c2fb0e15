"""The authentication hook: whatever it does, the server stays alive and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from midge.server.auth import Authenticator, AuthRequest, Identity, Refusal, User
from midge.server.auth.hook import AuthHook
from midge.server.config.options import (
    AllowResponses,
    Authorization,
    Options,
    Permissions,
    SubjectPermissions,
)

REQUEST = AuthRequest(user="me", peer_host="127.0.0.1", client_name="test")
Hook = Callable[[AuthRequest], Any]


def hook(function: Hook, *, timeout_s: float = 30, concurrency: int = 4) -> AuthHook:
    return AuthHook(function, timeout_s=timeout_s, concurrency=concurrency, accounts={"$G", "ACC"})


async def letting_in(request: AuthRequest) -> User:
    rules = Permissions(publish=SubjectPermissions(allow=("a",)), allow_responses=AllowResponses())
    return User(name=request.user, account="ACC", permissions=rules, expires_at_s=12)


async def test_a_user_is_let_in_with_all_it_was_given() -> None:
    verdict = await hook(letting_in).authenticate(REQUEST)
    assert isinstance(verdict, Identity)
    assert (verdict.user, verdict.account, verdict.expires_at_s) == ("me", "ACC", 12.0)
    assert verdict.rules is not None
    assert verdict.rules.check_publish(b"a")
    assert not verdict.rules.check_publish(b"b")


async def raising(request: AuthRequest) -> User:
    raise RuntimeError("database is down")


async def cancelling(request: AuthRequest) -> User:
    raise asyncio.CancelledError


def plain(request: AuthRequest) -> User:
    return User()


def returning(value: object) -> Hook:
    async def answer(request: AuthRequest) -> object:
        return value

    return answer


class Cuckoo(User, frozen=True):
    """Looks like a user but is not the type that was asked for."""


@pytest.mark.parametrize(
    "function",
    [
        raising,
        cancelling,
        plain,
        lambda: None,
        *map(
            returning,
            [
                None,
                True,
                1,
                "user",
                {"name": "x"},
                object(),
                Cuckoo(),
                Identity(),
                User(account="NOWHERE"),
                User(account=[]),  # type: ignore[arg-type]
                User(permissions="all"),  # type: ignore[arg-type]
                User(permissions=Permissions(publish=SubjectPermissions(allow=("a..b",)))),
                User(expires_at_s=float("nan")),
                User(expires_at_s="tomorrow"),  # type: ignore[arg-type]
            ],
        ),
    ],
)
async def test_anything_odd_refuses(function: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    authenticator = Authenticator(Options(authorization=Authorization(hook="builtins:print")))
    monkeypatch.setattr(authenticator, "_hook", hook(function))
    verdict = authenticator.authenticate(REQUEST)
    assert isinstance(verdict, Awaitable)
    refusal = await verdict
    assert isinstance(refusal, Refusal)
    assert refusal.wire == "Authorization Violation"
    assert "hook" in refusal.detail or "internal error" in refusal.detail


async def test_a_hook_that_hangs_is_cancelled_in_time() -> None:
    cancelled = asyncio.Event()

    async def hanging(request: AuthRequest) -> User:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return User()

    verdict = await hook(hanging, timeout_s=0.01).authenticate(REQUEST)
    assert verdict == Refusal("authentication hook: timed out")
    await cancelled.wait()


async def test_a_hook_that_will_not_die_holds_up_nobody() -> None:
    release = asyncio.Event()

    async def stubborn(request: AuthRequest) -> User:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return User()

    asked = hook(stubborn, timeout_s=0.01, concurrency=1)
    assert await asked.authenticate(REQUEST) == Refusal("authentication hook: timed out")
    busy = Refusal("authentication hook: too many calls in flight", limit="hook_calls")
    assert await asked.authenticate(REQUEST) == busy
    release.set()
    await asyncio.gather(*asked._calls)
    asked._timeout_s = 30
    assert isinstance(await asked.authenticate(REQUEST), Identity)


async def test_calls_in_flight_are_bounded() -> None:
    running = 0
    most = 0

    async def counting(request: AuthRequest) -> User:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return User()

    asked = hook(counting, concurrency=3)
    verdicts = await asyncio.gather(*(asked.authenticate(REQUEST) for _ in range(50)))
    assert all(isinstance(verdict, Identity) for verdict in verdicts)
    assert most == 3


async def test_a_client_that_goes_away_takes_its_call_along() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waiting(request: AuthRequest) -> User:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return User()

    asked = hook(waiting)
    client = asyncio.create_task(asked.authenticate(REQUEST))
    await begun.wait()
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    await ended.wait()
