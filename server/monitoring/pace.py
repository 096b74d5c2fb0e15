"""Keep monitoring from harming what it looks at: a page at a time, and few waiting to be read."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from aiohttp import web

Make = Callable[[web.Request], Awaitable[web.StreamResponse]]

_WAITING_MAX = 2048  # requests that may wait for their turn
_TURN_TIMEOUT_S = 10.0  # for so long at most
_READ_TIMEOUT_S = 5.0  # how long a page may take to be read
_UNREAD_MAX_BYTES = 32 * 1024 * 1024


class Busy(Exception):
    """Too much has been asked for; try again later."""


class Pace:
    """Answers requests in their turn; counts in `limits_met` what was too much or too slow."""

    def __init__(self, limits_met: Counter[str]) -> None:
        self._limits_met = limits_met
        self._waiting = 0
        self._turn = asyncio.Lock()
        self._unread_bytes = 0
        self._was_read = asyncio.Event()

    async def answer(self, request: web.Request, make: Make) -> web.StreamResponse:
        """Make a page and send it; who does not read it in time is cut off.

        Raises:
            Busy: its turn does not come.
        """
        await self._take_turn()
        try:
            response = await make(request)
            size = _size_of(response)
            await self._room_for(size)
            await asyncio.sleep(0)  # others than those who ask for pages have their turn in between
        finally:
            self._turn.release()
        self._unread_bytes += size
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            self._limits_met["monitoring_pages"] += 1
            if request.transport is not None:
                request.transport.abort()
            if isinstance(response, web.Response):
                response.body = None  # what is left of the request may live on for a while
            raise ConnectionResetError("the page was not read in time") from None
        finally:
            self._unread_bytes -= size
            self._was_read.set()
        return response

    async def _take_turn(self) -> None:
        try:
            if self._waiting >= _WAITING_MAX:
                raise TimeoutError
            self._waiting += 1
            try:
                async with asyncio.timeout(_TURN_TIMEOUT_S):
                    await self._turn.acquire()
            finally:
                self._waiting -= 1
        except TimeoutError:
            self._limits_met["monitoring_pages"] += 1
            raise Busy from None

    async def _room_for(self, size: int) -> None:
        """Wait until so much has been read that `size` bytes more are not too many."""
        while self._unread_bytes and self._unread_bytes + size > _UNREAD_MAX_BYTES:
            self._was_read.clear()
            await self._was_read.wait()


def _size_of(response: web.StreamResponse) -> int:
    body = response.body if isinstance(response, web.Response) else None
    return len(body) if isinstance(body, bytes | bytearray) else 0
