"""What differs between operating systems: event loops, locks and syncs of files, signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of uvloop, or of asyncio where uvloop is not installed."""
    try:
        import uvloop  # noqa: PLC0415 - absent on Windows
    except ImportError:
        import asyncio  # noqa: PLC0415 - for servers only

        return asyncio.SelectorEventLoop()  # which has `add_reader` on Windows, too
    return uvloop.new_event_loop()
