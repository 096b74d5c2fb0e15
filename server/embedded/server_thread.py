"""A thread that runs a server with its own event loop, and calls into that thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from midge.platforms import new_event_loop
from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from midge.server.embedded.server import Server

T = TypeVar("T")


class ServerThread:
    """Runs a server in a thread from its start to `stop`; its methods are thread-safe."""

    def __init__(self, server: Server) -> None:
        """Start `server` and return once clients can connect.

        Raises:
            OSError: the address cannot be bound.
        """
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
        """Stop the server and end its thread; a second call does nothing."""
        if self.is_own_thread():
            raise MidgeError("a threaded server cannot be stopped in its own thread")
        if self.is_running:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether the server runs: `stop` has not been called yet."""
        return self._thread.is_alive()

    def is_own_thread(self) -> bool:
        """Return whether this is the thread of the server's loop."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[Server], T]) -> T:
        """Run `function(server)` in the server's thread and return its result."""
        __tracebackhide__ = True  # pytest then shows the test's line instead of these

        async def within() -> T:
            __tracebackhide__ = True
            return function(self._server)

        return function(self._server) if self.is_own_thread() else self._submit(within())

    def wait(self, function: Callable[[Server], Awaitable[T]]) -> T:
        """Await `function(server)` in the server's thread and return its result."""
        __tracebackhide__ = True
        if self.is_own_thread():
            raise MidgeError("a threaded server cannot be waited for in its own thread")

        async def within() -> T:
            __tracebackhide__ = True
            return await function(self._server)

        return self._submit(within())

    def _submit(self, work: Coroutine[Any, Any, T]) -> T:
        __tracebackhide__ = True
        if not self.is_running:
            work.close()
            raise MidgeError("a threaded server cannot be called after stop()")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self, started: Future[None]) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            await self._server.start()
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            started.set_exception(error)
            return
        started.set_result(None)
        await self._stopping.wait()
        await self._server.stop()
