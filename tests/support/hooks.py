"""An authentication hook that a test can replace: settings name it, `current` is what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from midge.server.auth import AuthRequest


async def _refuse(request: AuthRequest) -> object:
    return None


current: Callable[[AuthRequest], Awaitable[object]] = _refuse


async def authenticate(request: AuthRequest) -> object:
    """Ask `current`."""
    return await current(request)
