"""What a process that is nothing but a server does for its speed and its size."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING

from midge.server.process.heap import keep_heap_small, trim_after_recovery

if TYPE_CHECKING:
    from midge.server.config.options import Options
    from midge.server.server import Server


def tune(server: Server, options: Options) -> None:
    """Tune the running loop for `server`. Only call this in a process that runs nothing else."""
    keep_heap_small(server)
    if options.jetstream.enabled:
        trim_after_recovery()
    loop = asyncio.get_running_loop()
    descriptor = descriptor_of(loop)
    if options.server.busy_poll_us and descriptor >= 0:
        from midge.server.channels.busy_poll import BusyPoll  # noqa: PLC0415 - seldom on

        broker = server.broker
        broker.busy_poll = BusyPoll(
            loop.call_soon,
            descriptor,
            options.server.busy_poll_us,
            time.thread_time,
            broker.read_ready,
            due_of(loop),
        )
        if broker.ready_sockets is not None:  # a client has connected already
            broker.ready_sockets.busy_poll = broker.busy_poll


def due_of(loop: asyncio.AbstractEventLoop) -> Callable[[], int]:
    """Return a function that says in how many milliseconds `loop` has a callback to call.

    It says 0 if at once, and -1 if there is none; always 0 where that is not to be known. uvloop
    has no name for it, but the libuv within it does: `uv_backend_timeout`.
    """

    @cache
    def timeout() -> Callable[[], int]:
        import ctypes  # noqa: PLC0415 - takes a millisecond and 384 kB, and is seldom needed

        try:
            library = import_module("uvloop.loop")
            if not isinstance(loop, library.Loop):
                return int
            function = ctypes.PyDLL(library.__file__).uv_backend_timeout
            pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
                ("PyCapsule_GetPointer", ctypes.pythonapi)
            )
            pointer = pointer_of(library.libuv_get_loop_t_ptr(loop), None)
        except (ImportError, OSError, AttributeError, TypeError):
            return int
        function.argtypes = (ctypes.c_void_p,)
        function.restype = ctypes.c_int
        return partial(function, ctypes.c_void_p(pointer))

    return lambda: timeout()()


def descriptor_of(loop: asyncio.AbstractEventLoop) -> int:
    """Return the descriptor that can be read when `loop` has input; -1 if there is none.

    It is the epoll's descriptor. Neither asyncio nor uvloop has a public name for it.
    """
    backend_id = getattr(loop, "_get_backend_id", None)  # uvloop's
    if backend_id is not None:
        return int(backend_id())
    fileno = getattr(getattr(loop, "_selector", None), "fileno", None)
    return -1 if fileno is None else int(fileno())
