"""An authentication hook for a server under attack; its behaviour depends on the user."""

from __future__ import annotations

import asyncio
from typing import Any

from midge.server.auth import AuthRequest, User


async def authenticate(request: AuthRequest) -> Any:
    """Admit bystanders; fail in the way that the user name selects for all others."""
    if request.user == "bystander":
        return User(name="bystander")
    return await WRONG[request.user](request)


async def _raise(request: AuthRequest) -> Any:
    raise RuntimeError(f"{request.user}\n is\x1b[31m wrong")


async def _exit(_request: AuthRequest) -> Any:
    raise SystemExit(3)


async def _hang(_request: AuthRequest) -> Any:
    await asyncio.Event().wait()


async def _resist(_request: AuthRequest) -> Any:
    """Hang for a while, and ignore cancellation."""
    until = asyncio.get_running_loop().time() + 2.0
    while asyncio.get_running_loop().time() < until:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return User(name="late")


async def _recurse(request: AuthRequest) -> Any:
    return await _recurse(request)


async def _cancel(_request: AuthRequest) -> Any:
    raise asyncio.CancelledError


async def _nothing(_request: AuthRequest) -> Any:
    return None


async def _yes(_request: AuthRequest) -> Any:
    return True


async def _stray(_request: AuthRequest) -> Any:
    return User(name="x", account="NOBODY'S")


async def _lie(_request: AuthRequest) -> Any:
    return User(name="x", permissions={"publish": "a..b"})  # type: ignore[arg-type]


WRONG = {
    "raise": _raise,
    "exit": _exit,
    "hang": _hang,
    "resist": _resist,
    "recurse": _recurse,
    "cancel": _cancel,
    "nothing": _nothing,
    "yes": _yes,
    "stray": _stray,
    "lie": _lie,
}
