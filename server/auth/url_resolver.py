"""Account tokens from a web server: `GET <url>/<account key>`, as by nats-server's URL resolver.

The resolver requests a token when the first client of its account connects, and again in the
background once it is older than `interval_s`; the last one stays in use while the web server is
away. Clients cannot keep the resolver busy with the accounts that they name: it makes few requests
at a time, and requests an account without a token again only after `AGAIN_S`.
"""

from __future__ import annotations

import asyncio
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.error import HTTPError

from msgspec import Struct

from midge.server.auth.claims import TOKEN_MAX_BYTES, BadTokenError, decode_account
from midge.server.auth.nkeys import KeyKind, is_public_key
from midge.server.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

TIMEOUT_S = 1.9
"""Longest time for one answer, as on nats-server."""

AGAIN_S = 5.0
"""Seconds until an account without a valid token is requested again."""

ACCOUNTS_MAX = 10_000
"""Most cached accounts; above it, accounts without a token are dropped."""

_OK = 200
_THREADS = 4
_WAITING_MAX = 256  # accounts being requested; clients of other accounts are refused meanwhile
_IMPORTS_MAX = 100  # accounts that are followed through the imports of one


def _nothing() -> None:
    """Do nothing."""


class _CachedToken(Struct):
    """The token of an account or None, and the time of the request by the monotonic clock."""

    token: str | None
    asked_at: float


class UrlResolver:
    """Finds tokens under `url`; `context` is for `https`."""

    def __init__(
        self,
        url: str,
        context: ssl.SSLContext | None = None,
        interval_s: float = 120.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url if url.endswith("/") else f"{url}/"
        self._interval_s = interval_s
        self._monotonic = monotonic
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)
        self._answers: dict[str, _CachedToken] = {}
        self._changed: Callable[[], None] = _nothing
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "midge-resolver")

    def fetch(self, account_key: str) -> str | None:
        """Return the last token of the account; request an old one again in the background."""
        known = self._answers.get(account_key)
        if known is None:
            return None
        if known.token is not None and self._age(known) > self._interval_s:
            self._ask(account_key)
        return known.token

    def replace(self, account_key: str, token: str) -> None:
        """Keep another token of an account until the web server is asked again."""
        self._answers[account_key] = _CachedToken(token, self._monotonic())

    async def begin(self, system_account: str, changed: Callable[[], None]) -> None:
        """Try the web server, and request the system account; call `changed` after changes.

        Raises:
            ConfigError: the web server does not answer with 200, as nats-server demands.
        """
        self._changed = changed
        try:
            await self._get("")
        except OSError as error:
            cause = getattr(error, "reason", None) or str(error) or type(error).__name__
            text = f"could not fetch {self.url!r}: {cause}"
            raise ConfigError(text, key="operator.resolver_url") from error
        if system_account:
            await self.load(system_account)

    def may_know_more(self, account_key: str) -> bool:
        """Return whether to request the token of an account that has no valid one."""
        known = self._answers.get(account_key)
        is_due = known is None or self._age(known) > AGAIN_S
        has_room = account_key in self._asking or len(self._asking) < _WAITING_MAX
        return is_due and has_room and is_public_key(KeyKind.ACCOUNT, account_key)

    def load(self, account_key: str) -> Awaitable[None]:
        """Request the tokens of an account and of the accounts that it imports from."""
        return self._load(account_key, self._ask(account_key))

    async def _load(self, account_key: str, asked: asyncio.Task[None]) -> None:
        await asyncio.shield(asked)
        pending, seen = [account_key], {account_key}
        while pending and len(seen) <= _IMPORTS_MAX:
            key = pending.pop()
            if key not in self._answers:
                await asyncio.shield(self._ask(key))
            for each in self._imports_of(key):
                if each not in seen and is_public_key(KeyKind.ACCOUNT, each):
                    seen.add(each)
                    pending.append(each)

    def keep(self, other: UrlResolver) -> None:
        """Take over the answers of `other`, and its callback for changes."""
        self._answers |= other._answers
        self._changed = other._changed

    def close(self) -> None:
        """Release the threads without waiting for requests in progress."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _imports_of(self, account_key: str) -> list[str]:
        known = self._answers.get(account_key)
        try:
            claims = decode_account(known.token if known and known.token else "")
        except BadTokenError:
            return []
        return [each.account for each in claims.nats.imports or ()]

    def _ask(self, account_key: str) -> asyncio.Task[None]:
        """Return the task that asks for an account; there is one at a time for each."""
        task = self._asking.get(account_key)
        if task is None:
            task = self._asking[account_key] = asyncio.ensure_future(self._note(account_key))
        return task

    async def _note(self, account_key: str) -> None:
        """Ask for the token of an account, and remember the answer."""
        before = self._answers.get(account_key)
        try:
            token: str | None = await self._get(account_key)
        except OSError:
            token = None
        finally:
            del self._asking[account_key]
        if token is None and before is not None:
            token = before.token
        if token is None and len(self._answers) >= ACCOUNTS_MAX:
            self._answers = {key: one for key, one in self._answers.items() if one.token}
        if token is not None or len(self._answers) < ACCOUNTS_MAX:
            self._answers[account_key] = _CachedToken(token, self._monotonic())
        if before is not None and before.token not in {None, token}:
            self._changed()

    async def _get(self, account_key: str) -> str:
        """Return what the web server has under a key.

        Raises:
            OSError: there is no answer in time, or another one than 200, or it is too long.
        """
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, self._read, account_key)
        async with asyncio.timeout(2 * TIMEOUT_S):  # a server may send one byte after the other
            return await asked

    def _read(self, account_key: str) -> str:
        try:
            return self._read_whole(account_key)
        except HTTPError as error:
            error.close()
            raise OSError(f"{error.code} {error.reason}") from None
        except HTTPException as error:
            raise OSError(f"no HTTP: {type(error).__name__}: {error}") from error

    def _read_whole(self, account_key: str) -> str:
        with self._opener.open(self.url + account_key, timeout=TIMEOUT_S) as answer:
            if answer.status != _OK:
                raise OSError(f"{answer.status} {answer.reason}")
            text: bytes = answer.read(TOKEN_MAX_BYTES + 1)
        if len(text) > TOKEN_MAX_BYTES:
            raise OSError(f"the answer has more than {TOKEN_MAX_BYTES} bytes")
        return text.decode("ascii", errors="replace").strip()

    def _age(self, known: _CachedToken) -> float:
        return self._monotonic() - known.asked_at
