"""Stores that are stopped in good order, and start with the checkpoint that this leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.log_identity import CHECKPOINT
from midge.jetstream.store.interface import StoreError
from midge.testing.simulated_disk import Inode, SimulatedDisk, Stopped
from tests.simulation.world import EncryptedWorld, PassingWorld, PlainWorld, World, WrongState
from tests.support.store_states import differences, state_of


class StoppingWorld(World):
    """Is mostly stopped in good order, so that starts find a checkpoint, at times not a good one.

    `used` counts the starts that used one, `unfit` those that found another, and `written` the
    checkpoints of running stores.
    """

    used = 0
    unfit = 0
    written = 0
    older: bytes | None = None

    def failed(self, group: int, error: StoreError) -> None:
        self.copies.setdefault(self.acked, self.copied())  # a stop closes groups, and no more
        super().failed(group, error)

    def make_directory(self) -> StoreDirectory:
        """Queue each piece that is written beside other work."""
        self.pieces: list[tuple[Callable[[], object], Callable[[], object]]] = []
        vars(self.disk)["beside"] = lambda work, done: self.pieces.append((work, done))
        return super().make_directory()

    def step(self) -> None:
        """Write checkpoints meanwhile as well."""
        super().step()
        try:
            if self.random.random() < 0.05:
                self.noting(lambda: self.directory.log.barrier(self.directory.checkpoints.begin))
            if self.pieces and self.random.random() < 0.7:
                work, done = self.pieces.pop(0)
                work()
                checkpoints = self.directory.checkpoints
                running, before = checkpoints.running, checkpoints.current
                done()
                is_done = running is not None and checkpoints.running is None
                self.written += is_done and checkpoints.current is not before
        except StoreError:
            if self.directory.log.failure is None and not self.disk.free < 1 << 20:
                raise

    def do_something(self) -> None:
        """Remove little while a checkpoint is being written, for that ends it."""
        streams = list(self.directory.streams())
        if self.directory.checkpoints.running is None or not streams or self.random.random() < 0.05:
            super().do_something()
            return
        stream = self.random.choice(streams)
        if self.random.random() < 0.8:
            World.append(self, stream, self.model[stream.number])
        else:
            World.append_lines(self, stream, self.model[stream.number])

    def live(self, steps: int) -> None:
        """Do random things, mostly without an end by a crash."""
        if self.random.random() < 0.7:
            self.disk.stop_at = -1
        super().live(steps)

    def crash(self) -> None:
        if self.random.random() < 0.9:
            with contextlib.suppress(Stopped, StoreError):
                self.noting(self.directory.close)
        super().crash()
        self.used += self.directory.checkpoints.current is not None
        self.unfit += self.directory.unfit != ""
        self.compare_with_log()

    def compare_with_log(self) -> None:
        """See that the log alone says the same."""
        disk = SimulatedDisk(self.random.randrange(1000))
        for name, inode in self.disk.entries.items():
            if name != CHECKPOINT:
                disk.entries[name] = Inode(bytearray(inode.data), bytearray(inode.data))
        disk.stored_entries = dict(disk.entries)
        found, expected = state_of(self.directory), state_of(self.replayed(disk))
        for state in (found, expected):
            del state[b""]["group"], state[b""]["segments"]
        if differing := differences(found, expected):
            raise WrongState("\n".join(["a checkpoint and the log differ", *differing]))

    def replayed(self, disk: SimulatedDisk) -> StoreDirectory:
        return StoreDirectory(disk, lambda: None)

    def next_disk(self, disk: SimulatedDisk) -> SimulatedDisk:
        """Damage the checkpoint, or put an older one in its place."""
        following = super().next_disk(disk)
        inode = following.entries.get(CHECKPOINT)
        dice = self.random.random()
        if inode is not None and inode.data and dice < 0.1:
            inode.data[self.random.randrange(len(inode.data))] ^= 1 << self.random.randrange(8)
        elif inode is not None and dice < 0.2:
            del inode.data[self.random.randrange(len(inode.data) + 1) :]
        elif dice < 0.4 and self.older is not None:
            following.entries[CHECKPOINT] = Inode(bytearray(self.older), bytearray(self.older))
        if inode is not None and self.random.random() < 0.5:
            self.older = bytes(inode.data)
        return following


class StoppingPlainWorld(StoppingWorld, PlainWorld):
    """Has segments that go unread."""


class StoppingPassingWorld(StoppingWorld, PassingWorld):
    """Has consumers that come and go."""


class StoppingEncryptedWorld(StoppingWorld, EncryptedWorld):
    """Has keys that change."""

    def replayed(self, disk: SimulatedDisk) -> StoreDirectory:
        return StoreDirectory(disk, lambda: None, keys=self.opened_with)

    def make_directory(self) -> StoreDirectory:
        self.opened_with = self.keys()
        return super().make_directory()
