"""The authentication hook: an async function of the operator that decides on clients.

It fails closed: only a `User` in time admits the client; an exception, a time-out, None or another
value refuses it. The number of running calls is bounded. A call that ignores cancellation keeps its
place, so even such a hook never has more calls running than configured.
"""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from midge.server.auth.identity import AuthRequest, Identity, Refusal, Verdict
from midge.server.auth.permissions import PermissionRules
from midge.server.config.account_names import GLOBAL_ACCOUNT

if TYPE_CHECKING:
    from collections.abc import Collection

    from midge.server.config.security import Permissions


class User(Struct, frozen=True, kw_only=True):
    """The answer of a hook that admits a client."""

    name: str = ""
    """User name for monitoring and logs; empty takes CONNECT's ``user``."""
    account: str = GLOBAL_ACCOUNT
    """A configured account."""
    permissions: Permissions | None = None
    """The user's permissions; None allows everything within the account."""
    expires_at_s: float | None = None
    """When the server closes the connection, in seconds since the epoch."""


def load_callable(name: str) -> Callable[..., object]:
    """Import the callable that ``module:function`` names.

    Raises:
        ValueError: the module does not exist, or has nothing callable of that name.
    """
    module_name, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        hint = "; the module must be installed, or its folder be in PYTHONPATH"
        raise ValueError(f"cannot import {name!r}: {error}{hint}") from error
    except Exception as error:
        raise ValueError(f"cannot import {name!r}: {error}") from error
    if not callable(found):
        raise ValueError(  # noqa: TRY004 - a wrong setting, like a missing module
            f"expected {name!r} to be callable, got {type(found).__name__}"
        )
    function: Callable[..., object] = found
    return function


class AuthHook:
    """Calls one hook function, within bounds."""

    def __init__(
        self,
        function: Callable[[AuthRequest], object],
        *,
        timeout_s: float,
        concurrency: int,
        accounts: Collection[str],
    ) -> None:
        """Allow `function` at most `timeout_s`, waiting included, and only users of `accounts`."""
        self._function = function
        self._timeout_s = timeout_s
        self._places = asyncio.Semaphore(concurrency)
        self._accounts = accounts
        self._calls: set[asyncio.Task[object]] = set()

    async def authenticate(self, request: AuthRequest) -> Verdict:
        """Return the identity that the hook returns for `request`, or the refusal."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_s
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._places.acquire()
        except TimeoutError:
            return Refusal("authentication hook: too many calls in flight", limit="hook_calls")
        call = loop.create_task(self._call(request))
        self._calls.add(call)
        call.add_done_callback(self._give_place_back)
        try:
            await asyncio.wait({call}, timeout=deadline_s - loop.time())
        finally:
            call.cancel()
        if not call.done():
            return Refusal("authentication hook: timed out")
        if call.cancelled():
            return Refusal("authentication hook: cancelled itself")
        return self._judge(request, call.result())

    async def _call(self, request: AuthRequest) -> object:
        """Return the hook's answer; an exception is an answer that is no `User`."""
        try:
            answer = self._function(request)
            return await answer if isinstance(answer, Awaitable) else TypeError("not awaitable")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any exception refuses the client
            return error

    def _give_place_back(self, call: asyncio.Task[object]) -> None:
        """Start the next call; `call` has really ended."""
        self._calls.discard(call)
        self._places.release()

    def _judge(self, request: AuthRequest, answer: object) -> Verdict:
        """Turn the hook's `answer` into an identity, or refuse."""
        if isinstance(answer, Exception | SystemExit):
            return Refusal(f"authentication hook: {type(answer).__name__}: {answer}")
        if type(answer) is not User:
            return Refusal(f"authentication hook: refused (returned {type(answer).__name__})")
        if answer.account not in self._accounts:
            return Refusal(f"authentication hook: unknown account {answer.account!r}")
        try:
            rules = PermissionRules(answer.permissions) if answer.permissions else None
            expires_at_s = None if answer.expires_at_s is None else float(answer.expires_at_s)
            if expires_at_s is not None and math.isnan(expires_at_s):
                raise ValueError("expires_at_s is not a number")
        except Exception as error:  # noqa: BLE001 - the hook's `User` may hold anything
            return Refusal(f"authentication hook: {error}")
        return Identity(
            user=str(answer.name or request.user),
            account=answer.account,
            rules=rules,
            expires_at_s=expires_at_s,
        )
