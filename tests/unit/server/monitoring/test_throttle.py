"""Pages are made one at a time, once for all waiting requests, and sent as they are read."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from midge.server.monitoring import throttle
from midge.server.monitoring.throttle import Busy, Throttle

LONG = b"0123456789abcdef" * 100_000


class Pages:
    """Serves pages by a Throttle; each page says how many were made before it."""

    def __init__(self) -> None:
        self.limit_hits: Counter[str] = Counter()
        self.may_go_on = asyncio.Event()
        self.arrived = 0
        self.made: list[str] = []
        self._throttle = Throttle(self.limit_hits)
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        application = web.Application()
        application.router.add_get("/{name:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        await web.SockSite(self._runner, listening).start()
        host, port = listening.getsockname()
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.arrived += 1
        is_shared = not request.path.startswith("/own")
        try:
            return await self._throttle.answer(request, self._make, is_shared=is_shared)
        except Busy:
            return web.Response(status=503)

    async def _make(self, request: web.Request) -> web.Response:
        self.made.append(request.path_qs)
        await self.may_go_on.wait()
        if request.path == "/broken":
            raise web.HTTPConflict
        if request.path == "/long":
            return web.Response(body=LONG)
        return web.Response(text=f"{len(self.made)}", status=201, headers={"X-Page": "yes"})

    async def wait_for(self, count: int) -> None:
        """Wait until `count` requests have arrived, and what they do at once is done."""
        while self.arrived < count:
            await asyncio.sleep(0.001)


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    pages = Pages()
    await pages.start()
    yield pages
    await pages.stop()


@pytest.fixture
async def http(pages: Pages) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=pages.url) as session:
        yield session


async def get(http: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with http.get(path) as answer:
        return answer.status, await answer.text()


class TestSharing:
    async def test_who_waits_for_the_same_page_gets_the_same(
        self, pages: Pages, http: aiohttp.ClientSession
    ) -> None:
        first = asyncio.ensure_future(get(http, "/page?a=1"))
        await pages.wait_for(1)
        later = [asyncio.ensure_future(get(http, "/page?a=1")) for _ in range(20)]
        await pages.wait_for(21)
        pages.may_go_on.set()
        assert await first == (201, "1")
        assert await asyncio.gather(*later) == [(201, "2")] * 20  # it was not begun when they asked
        assert len(pages.made) == 2

    async def test_other_arguments_make_another_page(
        self, pages: Pages, http: aiohttp.ClientSession
    ) -> None:
        asking = [asyncio.ensure_future(get(http, f"/page?a={n}")) for n in range(5)]
        await pages.wait_for(5)
        pages.may_go_on.set()
        await asyncio.gather(*asking)
        assert sorted(pages.made) == [f"/page?a={n}" for n in range(5)]

    async def test_what_depends_on_more_is_made_for_each(
        self, pages: Pages, http: aiohttp.ClientSession
    ) -> None:
        asking = [asyncio.ensure_future(get(http, "/own")) for _ in range(5)]
        await pages.wait_for(5)
        pages.may_go_on.set()
        assert {text for _, text in await asyncio.gather(*asking)} == set("12345")

    async def test_when_making_it_fails_the_others_may_try_again(
        self, pages: Pages, http: aiohttp.ClientSession
    ) -> None:
        first = asyncio.ensure_future(get(http, "/page"))
        await pages.wait_for(1)
        asking = [asyncio.ensure_future(get(http, "/broken")) for _ in range(3)]
        await pages.wait_for(4)
        pages.may_go_on.set()
        await first
        assert sorted(status for status, _ in await asyncio.gather(*asking)) == [409, 503, 503]
        assert pages.limit_hits["monitoring_pages"] == 2
        assert (await get(http, "/page"))[0] == 201


class TestSending:
    async def test_a_long_page_comes_whole(self, pages: Pages, http: aiohttp.ClientSession) -> None:
        pages.may_go_on.set()
        async with http.get("/long") as answer:
            assert answer.content_length == len(LONG)
            assert await answer.read() == LONG

    async def test_head_tells_of_the_page_without_it(
        self, pages: Pages, http: aiohttp.ClientSession
    ) -> None:
        pages.may_go_on.set()
        async with http.head("/page") as answer:
            assert (answer.status, answer.content_length) == (201, 1)
            assert answer.headers["X-Page"] == "yes"
            assert await answer.read() == b""

    async def test_who_does_not_read_is_cut_off_and_the_others_are_not(
        self, pages: Pages, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(throttle, "_READ_TIMEOUT_S", 0.5)
        monkeypatch.setattr(throttle, "_UNREAD_MAX_BYTES", len(LONG))
        first = asyncio.ensure_future(get(http, "/page"))
        await pages.wait_for(1)
        host, port = pages.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        await pages.wait_for(2)
        reading = asyncio.ensure_future(get(http, "/long"))
        await pages.wait_for(3)
        pages.may_go_on.set()
        await first
        assert len((await reading)[1]) == len(LONG)
        assert pages.made == ["/page", "/long"]
        # The next page has room when this one is no longer read.
        assert len((await get(http, "/long"))[1]) == len(LONG)
        assert pages.limit_hits["monitoring_pages"] == 1
        writer.close()
        with contextlib.suppress(ConnectionError):
            assert len(await reader.read()) < len(LONG)


class TestWaiting:
    async def test_no_more_wait_than_may(
        self, pages: Pages, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(throttle, "_WAITING_MAX", 3)
        asking = [asyncio.ensure_future(get(http, "/page?first"))]
        await pages.wait_for(1)
        asking += [asyncio.ensure_future(get(http, f"/page?{n % 2}")) for n in range(5)]
        await pages.wait_for(6)
        pages.may_go_on.set()
        answers = await asyncio.gather(*asking)
        assert sorted(status for status, _ in answers) == [201, 201, 201, 201, 503, 503]
        assert pages.limit_hits["monitoring_pages"] == 2

    async def test_nor_for_longer(
        self, pages: Pages, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(throttle, "_TURN_TIMEOUT_S", 0.05)
        first = asyncio.ensure_future(get(http, "/page?first"))
        await pages.wait_for(1)
        asking = [asyncio.ensure_future(get(http, "/page")) for _ in range(3)]
        assert await asyncio.gather(*asking) == [(503, "")] * 3
        pages.may_go_on.set()
        assert (await first)[0] == 201
