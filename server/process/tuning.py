"""What a process that is nothing but a server does for its speed and its size."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midge.server.config.options import Options
    from midge.server.server import Server


def tune(server: Server, options: Options) -> None:
    """Have the running loop serve `server` well; there must be nothing else that it is for."""
    if options.tls.enabled or options.websocket.port:
        from midge.server.process.heap import keep_heap_small  # noqa: PLC0415 - most do without

        keep_heap_small(server)
    if options.jetstream.enabled:
        from midge.server.process.heap import trim_after_recovery  # noqa: PLC0415 - as above

        trim_after_recovery()
    loop = asyncio.get_running_loop()
    descriptor = descriptor_of(loop)
    if options.server.busy_poll_us and descriptor >= 0:
        from midge.server.clients.busy_poll import BusyPoll  # noqa: PLC0415 - as above

        server.broker.busy_poll = BusyPoll(
            loop.call_soon,
            descriptor,
            options.server.busy_poll_us,
            time.thread_time,
            server.broker.read_ready,
        )


def descriptor_of(loop: asyncio.AbstractEventLoop) -> int:
    """Return the descriptor that can be read when `loop` has input; -1 if there is none.

    It is that of its epoll. Neither asyncio nor uvloop has a public name for it.
    """
    backend_id = getattr(loop, "_get_backend_id", None)  # uvloop's
    if backend_id is not None:
        return int(backend_id())
    fileno = getattr(getattr(loop, "_selector", None), "fileno", None)
    return -1 if fileno is None else int(fileno())
