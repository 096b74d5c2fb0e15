"""Where streams are kept: in memory, or in the files of one store directory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from midge.jetstream.config.names import to_bytes
from midge.jetstream.config.stream import MEMORY
from midge.jetstream.json.encode import text
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.turns import Turns
from midge.server.channels.gate import Gate
from midge.server.config.account_names import SYSTEM_ACCOUNT
from midge.server.log.logger import get_logger
from midge.server.routing.account import Account

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from midge.jetstream.config.stream import StreamConfig
    from midge.jetstream.store.disk import Disk
    from midge.jetstream.store.encrypted_disk import UserKeys
    from midge.jetstream.store.file.recovery import Damage
    from midge.jetstream.store.interface import GroupListener
    from midge.jetstream.store.store import Store
    from midge.server.clock import Clock, Timer
    from midge.server.config.jetstream import JetStream

log = get_logger()

ASYNC = "async"
"""The persist mode of a stream that acknowledges before the disk has what it stored."""

_TICK_S = 1.0
"""Seconds between records of the synced position, which separate later damage from a torn end."""

_FULL_HINT = "messages of file streams are refused until there is room; purges and limits make some"

_IDLE_TICKS_MAX = 60
"""Ticks without a write after which the timer stops: all is recorded, compacted and synced."""


def _log_damage(damage: Damage) -> None:
    """Log damage that was found after the start."""
    log.error("jetstream_data_lost", damage=str(damage))


class Stores(Protocol):
    """Makes stores for streams, and finds those that are there."""

    @property
    def gate(self) -> Gate | None:
        """The gate that is shut while the disk does not keep up with publishers."""

    @property
    def turns(self) -> Turns:
        """The turns in which long work is done, a piece a turn."""

    def make(self, account: str, config: StreamConfig) -> Store:
        """Return an empty store for a new stream."""

    def recovered(self, account: str) -> Iterable[Store]:
        """Return the stores of an account that were there at the start."""

    def accounts(self) -> set[str]:
        """Return the names of the accounts whose stores were there at the start."""

    def adopt(self, store: Store, config: StreamConfig) -> None:
        """Treat a recovered store as its stream's configuration says."""

    def delete(self, store: Store) -> None:
        """Delete a stream's store."""

    def damages(self) -> Iterable[Damage]:
        """Return the durable records that could not be read."""

    def aside(self) -> Iterable[str]:
        """Return which files the start has put aside."""

    def close(self) -> None:
        """Sync all pending data, and close all files."""


def keys_of(options: JetStream) -> UserKeys | None:
    """Return what file streams are encrypted with; None where they are not."""
    if not options.encryption_key:
        return None
    from midge.jetstream.store.encrypted_disk import UserKeys  # noqa: PLC0415 - cryptography

    current, previous = options.encryption_key.encode(), options.prev_encryption_key.encode()
    return UserKeys(current, previous, options.cipher)


class MemoryStores:
    """Keeps every stream in memory, whatever its configuration says.

    Long work is done in pieces, one in a turn of `loop`; without a loop it is done at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.gate: Gate | None = None
        self.turns = Turns(loop.call_soon if loop is not None else None, time.monotonic_ns)

    def make(self, account: str, config: StreamConfig) -> Store:
        """Return an empty store."""
        return MemoryStore(turns=self.turns)

    def recovered(self, account: str) -> Iterable[Store]:
        """Return nothing: memory outlives no server."""
        return ()

    def accounts(self) -> set[str]:
        """Return nothing: memory outlives no server."""
        return set()

    def adopt(self, store: Store, config: StreamConfig) -> None:
        """Do nothing: such stores do not exist."""

    def delete(self, store: Store) -> None:
        """Delete a stream's store."""
        store.delete()

    def damages(self) -> Iterable[Damage]:
        """Return nothing."""
        return ()

    def aside(self) -> Iterable[str]:
        """Return nothing."""
        return ()

    def close(self) -> None:
        """Do nothing any more."""
        self.turns.clear()


class FileStores:
    """Keeps file streams on one disk, and memory streams in memory.

    Raises: StoreError when the disk cannot be used; it is closed then.
    """

    def __init__(
        self,
        disk: Disk,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        listener: GroupListener,
        sync_interval_ns: int,
        keys: UserKeys | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self.gate = Gate(Account(SYSTEM_ACCOUNT))
        try:
            self._directory = StoreDirectory(disk, self._flush_soon, loop.call_soon, keys)
        except BaseException:
            disk.close()  # its lock would keep the next start in this process out
            raise
        if self._directory.unfit:
            log.info("jetstream_checkpoint_unfit", reason=self._directory.unfit)
        self._directory.on_damage = _log_damage
        self.turns = self._directory.turns
        self.turns.measure(time.monotonic_ns)
        self._directory.log.on_pressure = self._press
        self._directory.log.listen(listener)
        if sync_interval_ns:
            self._directory.set_sync_interval(max(round(sync_interval_ns / 1e9), 1))
        self._is_full = False
        self._idle_ticks = 0
        self._ticks_max = max(_IDLE_TICKS_MAX, round(sync_interval_ns / 1e9) + 1)
        self._timer: Timer | None = clock.call_later(_TICK_S, self._tick)

    def make(self, account: str, config: StreamConfig) -> Store:
        """Return an empty store."""
        if config.storage == MEMORY:
            return MemoryStore(turns=self._directory.turns)
        store = self._directory.create_stream(to_bytes(account), to_bytes(config.name), b"")
        store.is_async = config.persist_mode == ASYNC
        return store

    def recovered(self, account: str) -> Iterable[Store]:
        """Return the stores of an account that were there at the start."""
        wanted = to_bytes(account)
        return [store for store in self._directory.streams() if store.account == wanted]

    def accounts(self) -> set[str]:
        """Return the names of the accounts whose stores were there at the start."""
        return {text(store.account) for store in self._directory.streams()}

    def adopt(self, store: Store, config: StreamConfig) -> None:
        """Treat a recovered store as its stream's configuration says."""
        if isinstance(store, FileStore):
            store.is_async = config.persist_mode == ASYNC
            store.set_dedup_window(config.duplicate_window_ns)

    def delete(self, store: Store) -> None:
        """Delete a stream's store, so that its room can be used again."""
        if isinstance(store, FileStore):
            self._directory.delete_stream(store)
        else:
            store.delete()

    def damages(self) -> Iterable[Damage]:
        """Return the durable records that could not be read."""
        return self._directory.damages

    def aside(self) -> Iterable[str]:
        """Return which files the start has put aside."""
        return self._directory.aside

    def close(self) -> None:
        """Sync all pending data, and close all files."""
        try:
            self._directory.close()
        finally:
            self._stop_ticking()  # last: the directory begins the ticks again when it writes

    def _press(self, is_pressed: bool) -> None:
        """Hold publishers while more waits for the disk than should, and let them go on again."""
        if is_pressed:
            self.gate.shut()
        else:
            self.gate.open()

    def _flush_soon(self) -> None:
        """Write the open group after this turn of the loop, with all the turn's messages in it."""
        self._loop.call_soon(self._directory.flush)
        self._idle_ticks = 0
        if self._timer is None:
            self._timer = self._clock.call_later(_TICK_S, self._tick)

    def _tick(self) -> None:
        self._idle_ticks += 1
        self._log_room()
        self._directory.tick()
        self._timer = None
        is_busy = self._directory.log.space.is_short or self._directory.is_checking()
        if is_busy or self._idle_ticks < self._ticks_max:
            self._timer = self._clock.call_later(_TICK_S, self._tick)

    def _log_room(self) -> None:
        """Log once that messages are refused for want of room, and once that there is some."""
        store = self._directory.log
        if store.full and not self._is_full:
            self._is_full = True
            log.error("jetstream_disk_full", hint=_FULL_HINT)
        elif self._is_full and not store.full and not store.space.is_short:
            self._is_full = False
            log.info("jetstream_disk_has_room")

    def _stop_ticking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
