"""A store that lives, crashes and recovers, beside a model that knows what it may look like.

The model is copied whenever a group is closed. What recovers must equal one of the copies, no older
than the last group that was acknowledged: groups survive whole, in order, and all streams together.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from midge.jetstream.store.disk import Write
from midge.jetstream.store.encrypted_disk import (
    AES_CTR,
    CHACHA,
    EncryptedFile,
    EncryptingCommitter,
    UserKeys,
)
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.interface import GroupListener, StoreError, StoreFullError
from midge.jetstream.store.subject_index import Pattern
from midge.testing.simulated_disk import SimulatedDisk, Stopped
from tests.support.published_lines import store_lines

SUBJECTS = [b"a", b"a.b", b"a.c", b"b.x.y", b"k.1", b"k.2", b"k.3", b"k.4"]


class WrongState(AssertionError):
    """The store has lost or invented something."""


@dataclass
class StreamModel:
    """What a stream holds."""

    name: bytes
    config: bytes
    kept: dict[int, tuple[int, bytes, bytes, bytes]] = field(default_factory=dict)
    last_seq: int = 0
    ids: dict[bytes, int] = field(default_factory=dict)
    consumers: dict[bytes, tuple[bytes, tuple[bytes, ...]]] = field(default_factory=dict)

    def copied(self) -> StreamModel:
        return StreamModel(
            self.name,
            self.config,
            dict(self.kept),
            self.last_seq,
            dict(self.ids),
            dict(self.consumers),
        )


Model = dict[int, StreamModel]


def observed(directory: StoreDirectory) -> Model:
    """Read everything there is in a store."""
    model = {}
    for stream in directory.streams():
        found = StreamModel(stream.name, stream.config(), {}, stream.last_seq)
        seq = stream.next_seq((), 1)
        while seq:
            message = stream.load(seq)
            if message is None:
                raise WrongState(f"message {seq} of {stream.name!r} cannot be read")
            found.kept[seq] = (
                message.time_ns, message.subject, message.headers, message.payload
            )  # fmt: skip
            seq = stream.next_seq((), seq + 1)
        if len(found.kept) != stream.messages:
            raise WrongState(f"{stream.messages} messages counted, {len(found.kept)} found")
        found.ids = {msg_id: seq for msg_id, seq, _ in stream.ids()}
        found.consumers = {
            name: (state, tuple(operations)) for name, state, operations in stream.consumers()
        }
        model[stream.number] = found
    return model


class World(GroupListener):
    """One store directory over its lives; some starts meet a sync that fails."""

    failing_starts = 0.1

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(self.random)
        self.model: Model = {}
        self.copies: dict[int, Model] = {0: {}}
        self.acked = 0
        self.clock = 0
        self.crashes = 0
        self.directory: Any = None
        self.open()

    # Group listener.

    def durable(self, group: int) -> None:
        self.acked = group

    def failed(self, group: int, error: StoreError) -> None:
        self.model = {number: s.copied() for number, s in self.copies[self.acked].items()}

    # A life.

    def open(self) -> None:
        """Open the store, through any crashes, and find out which state it is in."""
        directory = self.make_directory()
        directory.log.listen(self)
        found = observed(directory)
        for group in sorted(self.copies):
            if group >= self.acked and same(self.copies[group], found, self.model_ids(found)):
                break
        else:
            raise WrongState(self.difference(found))
        self.directory = directory
        self.model = {number: stream.copied() for number, stream in self.copies[group].items()}
        self.acked = directory.log.group - 1
        self.copies = {self.acked: {n: stream.copied() for n, stream in self.model.items()}}

    def make_directory(self) -> StoreDirectory:
        self.turns: list[Callable[[], None]] = []
        return StoreDirectory(self.disk, lambda: None, self.turns.append)

    def model_ids(self, found: Model) -> None:
        """Nothing is to be left out of the comparison of ids."""

    def difference(self, found: Model) -> str:
        expected = self.copies.get(self.acked, {})
        lines = [f"acknowledged: group {self.acked} of {sorted(self.copies)}"]
        for number in sorted(expected.keys() | found.keys()):
            one, other = expected.get(number), found.get(number)
            if one != other:
                lines += [f"expected {brief(one)}", f"found    {brief(other)}"]
        return "\n".join(lines)

    def live(self, steps: int) -> None:
        """Do random things until the machine stops, or the steps are done."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        random = self.random
        try:
            self.noting(self.do_something)
            if random.random() < 0.3:
                self.noting(self.directory.flush)
            if random.random() < 0.3:
                self.noting(self.disk.pump)
            if random.random() < 0.05:
                self.noting(self.directory.compact)
            if random.random() < 0.5 and self.turns:
                self.noting(self.turns.pop(0))
            if random.random() < 0.05:
                self.noting(self.directory.tick)
            self.check_visible()
        except StoreError:
            if self.directory.log.failure is None and not self.disk.free < 1 << 20:
                raise

    def noting(self, action: Callable[[], object]) -> None:
        """Do something, and copy the model if that closes a group."""
        before = self.directory.log.group
        try:
            action()
        finally:
            self.note_groups(before)

    def check_visible(self) -> None:
        """See that nothing is shown that is not on the disk."""
        durable = self.copies.get(self.acked, {})
        for stream in self.directory.streams():
            known = durable.get(stream.number)
            if stream.visible_seq > (known.last_seq if known is not None else 0):
                raise WrongState(f"{stream.visible_seq} of {stream.name!r} is visible too early")

    def note_groups(self, before: int) -> None:
        """Copy the model for the groups that have been closed since."""
        for group in range(before, self.directory.log.group):
            self.copies[group] = self.copied()
        for group in [group for group in self.copies if group < self.acked]:
            del self.copies[group]

    def copied(self) -> Model:
        return {number: stream.copied() for number, stream in self.model.items()}

    def do_something(self) -> None:
        random = self.random
        streams = list(self.directory.streams())
        if not streams or (len(streams) < 4 and random.random() < 0.03):
            self.create()
            return
        stream: FileStore = random.choice(streams)
        model = self.model[stream.number]
        dice = random.random()
        if dice < 0.55:
            self.append(stream, model)
        elif dice < 0.6:
            self.append_lines(stream, model)
        elif dice < 0.7:
            self.remove(stream, model)
        elif dice < 0.78:
            self.trim(stream, model)
        elif dice < 0.82:
            self.purge(stream, model)
        elif dice < 0.93:
            self.consume(stream, model)
        elif dice < 0.96:
            config = b"config %d" % random.randrange(1000)
            stream.save_config(config)
            model.config = config
        elif dice < 0.97:
            self.directory.delete_stream(stream)
            del self.model[stream.number]

    def create(self) -> None:
        name = b"S%d" % self.random.randrange(1000)
        stream = self.directory.create_stream(b"$G", name, b"first")
        stream.set_dedup_window(1 << 62)
        self.model[stream.number] = StreamModel(name, b"first")

    def append(self, stream: FileStore, model: StreamModel) -> None:
        random = self.random
        self.clock += 1
        subject = random.choice(SUBJECTS)
        headers = b"NATS/1.0\r\nA: b\r\n\r\n" if random.random() < 0.2 else b""
        payload = random.randbytes(random.choice([0, 5, 50, 200, 700]))
        msg_id = b"id-%d" % self.clock if random.random() < 0.3 else None
        try:
            seq = stream.append(subject, headers, payload, self.clock, 0, 0, msg_id)
        except StoreFullError:
            return
        if seq != model.last_seq + 1:
            raise WrongState(f"sequence {seq} after {model.last_seq}")
        model.kept[seq] = (self.clock, subject, headers, payload)
        model.last_seq = seq
        if msg_id is not None:
            model.ids[msg_id] = seq

    def append_lines(self, stream: FileStore, model: StreamModel) -> None:
        random = self.random
        self.clock += 1
        subjects = [random.choice(SUBJECTS) for _ in range(random.choice([1, 4, 20]))]
        messages = [(subject, random.randbytes(random.choice([0, 5, 200]))) for subject in subjects]
        first = model.last_seq + 1
        taken = store_lines(stream, messages, self.clock)
        for seq, (subject, payload) in enumerate(messages[:taken], first):
            model.kept[seq] = (self.clock, subject, b"", payload)
        model.last_seq += taken

    def remove(self, stream: FileStore, model: StreamModel) -> None:
        if model.kept:
            seq = self.random.choice(list(model.kept))
            stream.remove(seq, self.random.random() < 0.3)
            del model.kept[seq]

    def trim(self, stream: FileStore, model: StreamModel) -> None:
        subject = self.random.choice(SUBJECTS)
        stream.trim_subject(subject, 1)
        for seq in [s for s, message in sorted(model.kept.items()) if message[1] == subject][:-1]:
            del model.kept[seq]

    def purge(self, stream: FileStore, model: StreamModel) -> None:
        upto = self.random.choice([0, self.random.randint(1, model.last_seq + 1)])
        subject = self.random.choice([None, None, b"a.*", b"k.*", *SUBJECTS])
        keep = self.random.choice([0, 0, 2])
        stream.purge(subject, upto, keep)
        pattern = Pattern(subject or b">")
        matching = [
            seq
            for seq, message in sorted(model.kept.items())
            if pattern.is_match(bytearray(message[1]), 0, len(message[1]))
        ]
        for seq in matching[: len(matching) - keep] if keep < len(matching) else []:
            if not upto or seq < upto:
                del model.kept[seq]

    def consume(self, stream: FileStore, model: StreamModel) -> None:
        random = self.random
        name = random.choice([b"c1", b"c2"])
        dice = random.random()
        if dice < 0.2 or name not in model.consumers:
            state = b"state %d" % random.randrange(1000)
            stream.save_consumer(name, state)
            model.consumers[name] = (state, ())
        elif dice < 0.3:
            stream.delete_consumer(name)
            del model.consumers[name]
        else:
            seq = random.choice([0, *model.kept])
            operation = b"step %d" % random.randrange(1000)
            stream.log_consumer(name, operation, seq)
            state, operations = model.consumers[name]
            model.consumers[name] = (state, (*operations, operation))
            model.kept.pop(seq, None)

    def crash(self) -> None:
        """Stop the machine or the process, and start again, perhaps several times over."""
        self.crashes += 1
        self.disk = self.next_disk(self.disk)
        while True:
            self.disk.stop_at = self.random.choice([-1, self.random.randint(0, 12)])
            if self.random.random() < self.failing_starts:
                self.disk.fail_sync_at = self.random.randint(0, 2)
            try:
                self.open()
            except (Stopped, OSError):
                self.crashes += 1
                self.disk = self.next_disk(self.disk)
                continue
            self.disk.stop_at = -1
            self.disk.fail_sync_at = -1
            return

    def next_disk(self, disk: SimulatedDisk) -> SimulatedDisk:
        following = disk.power_failed() if self.random.random() < 0.5 else disk.killed()
        following.free = 1 << 40
        return following


def brief(stream: StreamModel | None) -> str:
    if stream is None:
        return "nothing"
    kept = [f"{seq}:{m[1].decode()}:{len(m[3])}" for seq, m in sorted(stream.kept.items())]
    return (
        f"{stream.name!r} {stream.config!r} last {stream.last_seq} kept {' '.join(kept)}"
        f" ids {stream.ids} consumers {stream.consumers}"
    )


def same(expected: Model, found: Model, _: object) -> bool:
    return expected == found


def run(seed: int, crashes: int, make: type[World] = World) -> World:
    """Run a store until it crashes, at any step of the disk.

    Raises:
        WrongState: what recovered is not what it may be.
    """
    world = make(seed)
    while world.crashes < crashes:
        world.disk.stop_at = world.disk.steps + world.random.choice([5, 30, 100])
        world.disk.stop_at -= world.random.randrange(5)
        if world.random.random() < 0.1:
            world.disk.fail_sync_at = world.random.randint(1, 10)
        if world.random.random() < 0.1:
            world.disk.free = world.random.randrange(400_000)
        try:
            world.live(world.random.choice([10, 60, 200]))
            if world.directory.log.failure is not None:
                found = observed(world.directory)
                if found != strip_ids(world.copies[world.acked], found):
                    raise WrongState(f"after a failed sync: {world.difference(found)}")
        except Stopped:
            pass
        world.crash()
    return world


def strip_ids(expected: Model, found: Model) -> Model:
    """Return `expected` with the ids that `found` knows: those are found at the start only."""
    result = copy.deepcopy(expected)
    for number, stream in result.items():
        stream.ids = found[number].ids if number in found else {}
    return result


class FailingWorld(World):
    """Often cannot sync at the start what a process that was killed has left."""

    failing_starts = 0.5


class FullWorld(World):
    """Lives on disks with little room, which is sometimes gone at the start already."""

    def next_disk(self, disk: SimulatedDisk) -> SimulatedDisk:
        following = super().next_disk(disk)
        following.free = self.random.choice([0, self.random.randrange(400_000), 1 << 40])
        return following

    def do_something(self) -> None:
        if self.random.random() < 0.05:
            for stream in self.directory.streams():
                stream.purge(None, 0)
                self.model[stream.number].kept.clear()
        elif self.random.random() < 0.05:
            self.directory.tick()
        else:
            super().do_something()


class PassingWorld(World):
    """Has consumers that come and go, none with the name of another, beside few messages."""

    def consume(self, stream: FileStore, model: StreamModel) -> None:
        random = self.random
        if random.random() < 0.5 or not model.consumers:
            self.clock += 1
            name = b"passing %d" % self.clock
            state = random.randbytes(random.choice([10, 500]))
            stream.save_consumer(name, state)
            model.consumers[name] = (state, ())
        else:
            name = random.choice(list(model.consumers))
            stream.delete_consumer(name)
            del model.consumers[name]

    def append(self, stream: FileStore, model: StreamModel) -> None:
        if self.random.random() < 0.3:
            super().append(stream, model)
        else:
            self.consume(stream, model)


class PlainWorld(World):
    """Has whole segments of nothing but messages that are gone, beside some that hold more."""

    def do_something(self) -> None:
        random = self.random
        streams = list(self.directory.streams())
        dice = random.random()
        if not streams or dice < 0.06:
            super().do_something()
            return
        stream: FileStore = random.choice(streams)
        model = self.model[stream.number]
        if dice < 0.9:
            self.append_lines(stream, model)
        elif dice < 0.97:
            self.limit(stream, model)
        else:
            stream.purge()
            model.kept.clear()

    def limit(self, stream: FileStore, model: StreamModel) -> None:
        left = self.random.choice([0, 1, 10])
        stream.enforce(left, -1)
        for seq in sorted(model.kept)[: max(len(model.kept) - left, 0)]:
            del model.kept[seq]


class IntervalWorld(World):
    """Syncs now and then: written data counts, and outlives the process but not the machine."""

    def make_directory(self) -> StoreDirectory:
        directory = super().make_directory()
        directory.set_sync_interval(2)
        return directory

    def next_disk(self, disk: SimulatedDisk) -> SimulatedDisk:
        following = disk.killed()
        following.free = 1 << 40
        return following


class EncryptedWorld(World):
    """Begins without a key, is encrypted, and has key and cipher changed from life to life.

    Every byte that is encrypted is kept, to see that none of the key stream serves twice.
    """

    def __init__(self, seed: int) -> None:
        self.generation = 0
        self.ledger: dict[bytes, dict[int, bytes]] = {}
        super().__init__(seed)

    def make_directory(self) -> StoreDirectory:
        self.turns: list[Callable[[], None]] = []
        return StoreDirectory(self.disk, lambda: None, self.turns.append, self.keys())

    def keys(self) -> UserKeys | None:
        """Return the key of this life and the one before, which a crash may have left in force."""
        if self.generation == 0:
            return None
        previous = b"key %d" % (self.generation - 1) if self.generation > 1 else b""
        cipher = (CHACHA, AES_CTR)[self.generation // 2 % 2]
        return UserKeys(b"key %d" % self.generation, previous, cipher, quickly_stretched)

    def open(self) -> None:
        with self.watching():
            super().open()
        if self.generation == 0 or self.random.random() < 0.3:
            self.generation += 1

    def live(self, steps: int) -> None:
        with self.watching():
            super().live(steps)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Record the encrypted data meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            write, encrypted = EncryptedFile.write, EncryptingCommitter._encrypted

            def noted_write(file: EncryptedFile, position: int, data: bytes) -> None:
                self.note(file, position, bytes(data))
                write(file, position, data)

            def noted_group(one: EncryptingCommitter, file: EncryptedFile, job: Write) -> bytearray:
                self.note(file, job.position, bytes(job.data[: job.used]))
                return encrypted(one, file, job)

            patch.setattr(EncryptedFile, "write", noted_write)
            patch.setattr(EncryptingCommitter, "_encrypted", noted_group)
            yield

    def note(self, file: EncryptedFile, position: int, data: bytes) -> None:
        """Compare with what the same piece of the key stream was used for before."""
        known = self.ledger.setdefault(file.stream._key, {})
        for start in range(position - position % 8, position + len(data), 8):
            piece = data[max(start - position, 0) : start - position + 8]
            before = known.setdefault(start, piece)
            if len(piece) == len(before) and before != piece:
                raise WrongState(f"the key stream at {start} served twice")


def quickly_stretched(key: bytes, salt: bytes) -> bytes:
    """Stand in for the key derivation, which is slow on purpose."""
    return hashlib.sha256(key + salt).digest()
