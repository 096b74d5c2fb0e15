"""A server in a thread of its own, for programs that have no event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import uvloop

from midge.protocol.errors import MidgeError
from midge.server.embedded import Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from midge.server.direct import Callback, DirectSubscription, Headers
    from midge.server.faults import Fault, Faults
    from midge.server.inbox import Message
    from midge.server.options import Options
    from midge.server.views import ConnectionView, Stats, SubscriptionView

T = TypeVar("T")


def run_in_thread(options: Options | None = None, /, **settings: Any) -> ThreadedServer:
    """Start a server in a thread and return once clients can connect; takes what `Server` takes.

    Use it in a `with` block, or call `stop()` in the end.

    Raises:
        OSError: the address cannot be bound.
        ConfigError: the settings cannot be.
    """
    return ThreadedServer(Server(options, **settings))


class ThreadedServer:
    """A running server whose loop is in another thread; every method may be called from any thread.

    Callbacks of subscriptions run in the server's thread, so they must be quick.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="midge-server", daemon=True
        )
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Stop the server and end its thread; no harm when that has happened."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL for clients, without credentials."""
        return self.call(lambda server: server.url)

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        return self.call(lambda server: server.port)

    def client_url(self, user: str | None = None) -> str:
        """Return the URL with the credentials of `user`; see `Server.client_url`."""
        return self.call(lambda server: server.client_url(user))

    @property
    def connections(self) -> list[ConnectionView]:
        """The live client connections."""
        return self.call(lambda server: server.connections)

    @property
    def subscriptions(self) -> list[SubscriptionView]:
        """The subscriptions of all clients, and of the process itself."""
        return self.call(lambda server: server.subscriptions)

    @property
    def stats(self) -> Stats:
        """Counts since the start."""
        return self.call(lambda server: server.stats)

    def publish(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        headers: Headers | None = None,
        reply: str | bytes | None = None,
    ) -> int:
        """Publish a message; see `Server.publish`."""
        return self.call(lambda server: server.publish(subject, payload, headers, reply))

    def subscribe(
        self, pattern: str | bytes, callback: Callback, queue: str | bytes | None = None
    ) -> DirectSubscription:
        """Subscribe; `callback` runs in the server's thread. End it with `unsubscribe`."""
        return self.call(lambda server: server.subscribe(pattern, callback, queue))

    def unsubscribe(self, subscription: DirectSubscription) -> None:
        """End a subscription."""
        self.call(lambda _: subscription.unsubscribe())

    def request(
        self,
        subject: str | bytes,
        payload: bytes | str = b"",
        timeout_s: float = 1.0,
        headers: Headers | None = None,
    ) -> Message:
        """Publish a request and return the first answer; see `Server.request`."""
        return self.wait(lambda server: server.request(subject, payload, timeout_s, headers))

    @property
    def faults(self) -> Faults:
        """What can be made to go wrong; see `Server.faults`. Each fault is that of this thread."""
        return cast("Faults", _FaultsElsewhere(self))

    def call(self, function: Callable[[Server], T]) -> T:
        """Run `function(server)` in the server's thread and return what it returns."""

        async def within() -> T:
            return function(self._server)

        return self._submit(within())

    def wait(self, function: Callable[[Server], Awaitable[T]]) -> T:
        """Await `function(server)` in the server's thread and return what it returns."""

        async def within() -> T:
            return await function(self._server)

        return self._submit(within())

    def _submit(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            work.close()
            where = "in the server's own thread" if self._thread.is_alive() else "after stop()"
            raise MidgeError(f"a threaded server cannot be called {where}")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            await self._server.start()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            started.set_exception(error)
            return
        started.set_result(None)
        await self._stopping.wait()
        await self._server.stop()


class _FaultsElsewhere:
    """The faults of a server in another thread: each is begun and ended there."""

    def __init__(self, server: ThreadedServer) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        def begin(*arguments: Any, **settings: Any) -> Any:
            fault = self._server.wait(partial(_begin, name, arguments, settings))
            return None if fault is None else _FaultElsewhere(self._server, fault)

        return begin


class _FaultElsewhere:
    """One fault of a server in another thread."""

    def __init__(self, server: ThreadedServer, fault: Fault) -> None:
        self._server = server
        self._fault = fault

    @property
    def hits(self) -> int:
        """How often it has struck."""
        return self._fault.hits

    def end(self) -> None:
        """Let things go right again."""
        self._server.call(lambda _: self._fault.end())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


async def _begin(
    name: str, arguments: tuple[Any, ...], settings: dict[str, Any], server: Server
) -> Any:
    """Call a method of the server's faults, and await it where it is async."""
    begun = getattr(server.faults, name)(*arguments, **settings)
    return await begun if inspect.isawaitable(begun) else begun
