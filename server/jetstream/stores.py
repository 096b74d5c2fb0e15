"""Where streams are kept: in memory, or in the files of one store directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from midge.jetstream.config.stream import MEMORY
from midge.jetstream.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from midge.jetstream.config.stream import StreamConfig
    from midge.jetstream.store.interface import StreamStore


class Stores(Protocol):
    """Makes stores for streams, and finds those that are there."""

    def make(self, account: str, config: StreamConfig) -> StreamStore:
        """Return an empty store for a new stream."""

    def recovered(self, account: str) -> Iterable[StreamStore]:
        """Return the stores that were there at the start, once."""

    def close(self) -> None:
        """Make durable what is not, and close all files."""


class MemoryStores:
    """Keeps every stream in memory, whatever its configuration says."""

    def make(self, account: str, config: StreamConfig) -> StreamStore:
        """Return an empty store; sizes are counted as those of a file where it would be one."""
        return MemoryStore(is_file=config.storage != MEMORY)

    def recovered(self, account: str) -> Iterable[StreamStore]:
        """Return nothing: memory outlives no server."""
        return ()

    def close(self) -> None:
        """Do nothing."""
