"""Limits on monitoring, for the sake of clients: one page at a time, and few unread ones.

A request for a page that is already queued shares it: the page is made after both requests, so it
is not older than one of their own would be.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NoReturn

from aiohttp import web

Make = Callable[[web.Request], Awaitable[web.Response]]

_WAITING_MAX = 2048  # waiting requests
_TURN_TIMEOUT_S = 10.0  # longest wait, in seconds
_READ_TIMEOUT_S = 5.0  # seconds for reading a page
_UNREAD_MAX_BYTES = 32 * 1024 * 1024
_BEGUN_PER_TURN = 16  # bytes of unread answers, shared ones counted once
_PIECE_BYTES = 64 * 1024  # bytes of a page written to a connection at a time


class Busy(Exception):
    """Too many requests; try again later."""


class _PendingPage:
    """A page that requests wait for: `response` is None until it is made, or if that fails."""

    def __init__(self) -> None:
        self.requests = 0
        self.done = asyncio.Event()
        self.response: web.Response | None = None
        self.body = b""

    def fill(self, response: web.Response) -> None:
        self.response = response
        self.body = response.body if isinstance(response.body, bytes) else b""


class Throttle:
    """Answers requests in turn; `limit_hits` counts those refused or too slow."""

    def __init__(self, limit_hits: Counter[str]) -> None:
        self._limits_met = limit_hits
        self._asked: dict[str, _PendingPage] = {}  # by path and query, until they are started
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._unread_bytes = 0
        self._was_read = asyncio.Event()

    async def answer(
        self, request: web.Request, make: Make, *, is_shared: bool
    ) -> web.StreamResponse:
        """Make a page and send it; a client that does not read it in time is disconnected.

        `is_shared` is set when the page depends on path and query only.

        Raises:
            Busy: too many requests wait, or for too long.
        """
        page = self._asked.get(request.path_qs) if is_shared else None
        is_first = page is None
        if page is None:
            page = _PendingPage()
            if is_shared:
                self._asked[request.path_qs] = page
        page.requests += 1
        try:
            if is_first:
                await self._make(page, request, make)
            else:
                await self._wait_for(page)
            return await self._send(page, request)
        finally:
            self._release(page)

    async def _make(self, page: _PendingPage, request: web.Request, make: Make) -> None:
        """Make `page` in its turn."""
        try:
            async with self._in_turn():
                self._begin(page, request)
                response = await make(request)
                await self._room_for(response)
                await asyncio.sleep(0)  # yield to the event loop
                page.fill(response)
                self._unread_bytes += len(page.body)
        finally:
            self._begin(page, request)
            page.done.set()

    def _begin(self, page: _PendingPage, request: web.Request) -> None:
        """Make later requests get a newer page."""
        if self._asked.get(request.path_qs) is page:
            del self._asked[request.path_qs]

    def _release(self, page: _PendingPage) -> None:
        """Drop a page after its last reader; the requests themselves may live on."""
        page.requests -= 1
        if page.requests == 0:
            self._unread_bytes -= len(page.body)
            page.response, page.body = None, b""
            self._was_read.set()

    async def _wait_for(self, page: _PendingPage) -> None:
        """Wait until another request has made `page` and the earlier ones are being sent it."""
        place = page.requests
        with self._waits():
            await page.done.wait()
            for _ in range(place // _BEGUN_PER_TURN):
                await asyncio.sleep(0)
        if page.response is None:
            self._refuse()

    @contextlib.asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """Wait for the turn; end it on exit."""
        with self._waits():
            try:
                async with asyncio.timeout(_TURN_TIMEOUT_S):
                    await self._turn.acquire()
            except TimeoutError:
                self._refuse()
        try:
            yield
        finally:
            self._turn.release()

    @contextlib.contextmanager
    def _waits(self) -> Iterator[None]:
        """Take one of the few places of waiting requests."""
        if self._waiting >= _WAITING_MAX:
            self._refuse()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _refuse(self) -> NoReturn:
        self._limits_met["monitoring_pages"] += 1
        raise Busy

    async def _room_for(self, response: web.Response) -> None:
        """Wait until enough has been read to leave room for `response`."""
        size = len(response.body) if isinstance(response.body, bytes) else 0
        while self._unread_bytes and self._unread_bytes + size > _UNREAD_MAX_BYTES:
            self._was_read.clear()
            await self._was_read.wait()

    async def _send(self, page: _PendingPage, request: web.Request) -> web.StreamResponse:
        """Send `page` at the pace of the client's reading."""
        assert page.response is not None
        response = web.StreamResponse(status=page.response.status, headers=page.response.headers)
        response.content_length = len(page.body)
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                await response.prepare(request)
                if request.method != "HEAD":
                    for start in range(0, len(page.body), _PIECE_BYTES):
                        await response.write(page.body[start : start + _PIECE_BYTES])
                await response.write_eof()
        except TimeoutError:
            pass  # a new one is raised below: this one's frames reference a piece of the page
        else:
            return response
        self._limits_met["monitoring_pages"] += 1
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the page was not read in time")
