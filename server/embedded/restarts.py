"""Restart a server within its program: on the same ports and store, with other connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, Self, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from midge.jetstream.store.disk import SuppliedDisk
    from midge.server.clock import Clock
    from midge.server.config.options import Options
    from midge.server.server import Server

_TABLES = {
    "nats": ("listen", "port"),
    "leafnodes": ("leafnodes", "port"),
    "cluster": ("cluster", "port"),
    "websocket": ("websocket", "port"),
    "http": ("monitoring", "http_port"),
    "https": ("monitoring", "https_port"),
}
"""The table and the setting of each kind of URL."""


def on_same_ports(server: Server) -> Options:
    """Return the options of a running server with the ports that it has bound."""
    options = server.options
    for kind, urls in server.urls().items():
        for url in urls:
            parts = urlsplit(url)
            name, setting = _TABLES[parts.scheme if kind == "monitoring" else kind]
            table: Any = getattr(options, name)
            options = replace(options, **{name: replace(table, **{setting: parts.port})})
    return options


class FailingDisk(Protocol):
    """A disk whose power can fail, as `midge.testing.SimulatedDisk`."""

    def power_failed(self) -> Self:
        """Return a disk as a power failure at this moment may leave it."""

    def become(self, other: Self) -> None:
        """Take the content of another disk in place of this one's."""


def failing_disk(disk: SuppliedDisk | None) -> FailingDisk:
    """Return the disk of a server whose power is to fail. Raises: MidgeError if it cannot."""
    if not hasattr(disk, "power_failed"):
        needed = "midge.Server(jetstream=True, disk=midge.testing.SimulatedDisk())"
        raise MidgeError(f"a power failure needs a simulated disk: {needed}")
    return cast("FailingDisk", disk)


async def stay_down(clock: Clock | None, down_s: float) -> None:
    """Wait for `down_s` seconds; a test's clock advances by them instead."""
    elapse = getattr(clock, "elapse", None)
    await (asyncio.sleep(down_s) if elapse is None else elapse(down_s))
