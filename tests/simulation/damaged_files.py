"""Damage to whole files of a store: each kind, done to a store on a simulated disk."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from midge.jetstream.store.file.directory import StoreDirectory
from midge.testing.simulated_disk import Inode, SimulatedDisk
from tests.simulation.world import Model, StreamModel

PAYLOAD = 200
"""Bytes of a message: with segments of 8 KiB some thirty of them are in one."""


def opened(disk: SimulatedDisk) -> StoreDirectory:
    return StoreDirectory(disk, lambda: None)


def long_store(seed: int, is_killed: bool = False, messages: int = 130) -> SimulatedDisk:
    """Return a disk with two streams in several logs, closed in good order or killed."""
    disk = SimulatedDisk(Random(seed))
    directory = opened(disk)
    streams = [directory.create_stream(b"$G", name, b"config") for name in (b"ONE", b"TWO")]
    for number in range(messages):
        for stream in streams:
            body = b"%d of %b" % (number, stream.name)
            stream.append(b"a.%d" % (number % 3), b"", body.ljust(PAYLOAD, b"."), number)
        directory.flush()
        while disk.pump():
            pass
    if is_killed:
        return copied(disk)
    directory.close()
    return copied(disk)


def copied(disk: SimulatedDisk) -> SimulatedDisk:
    other = SimulatedDisk(Random(2))
    for name, inode in disk.entries.items():
        other.entries[name] = Inode(bytearray(inode.data), bytearray(inode.data))
    other.stored_entries = dict(other.entries)
    return other


def logs(disk: SimulatedDisk) -> list[str]:
    """Return the names of the logs that have something in them."""
    return [name for name in disk.names() if name.endswith(".log") and any(disk.entries[name].data)]


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: bytes(inode.data) for name, inode in disk.entries.items()}


def found_in(directory: StoreDirectory) -> Model:
    """Read all that can be read."""
    model = {}
    for stream in directory.streams():
        found = StreamModel(stream.name, stream.config(), {}, stream.last_seq)
        seq = stream.next_seq((), 1)
        while seq:
            message = stream.load(seq)
            if message is not None:
                found.kept[seq] = (
                    message.time_ns, message.subject, message.headers, message.payload
                )  # fmt: skip
            seq = stream.next_seq((), seq + 1) if seq < stream.last_seq else 0
        found.consumers = {name: (s, tuple(steps)) for name, s, steps in stream.consumers()}
        model[stream.number] = found
    return model


# The damages. Each changes the entries of the disk in place and returns nothing.


def swap(disk: SimulatedDisk, one: str, other: str) -> None:
    entries = disk.entries
    entries[one], entries[other] = entries[other], entries[one]


def renumber(disk: SimulatedDisk, name: str, number: int) -> None:
    disk.entries[f"{number:016x}.log"] = disk.entries.pop(name)


def identity_of_another(disk: SimulatedDisk, *names: str) -> None:
    other = long_store(99, messages=3)
    for name in names:
        disk.entries[name] = other.entries[name]


def log_of_another(disk: SimulatedDisk, name: str) -> None:
    other = long_store(99)
    disk.entries[name] = other.entries[logs(other)[0]]


def zero(disk: SimulatedDisk, name: str, end: int) -> None:
    data = disk.entries[name].data
    end = min(end, len(data))
    data[:end] = bytes(end)


Damaging = Callable[[SimulatedDisk], object]

MISPLACED: dict[str, Damaging] = {
    "both identities of another store": lambda d: identity_of_another(d, "store.a", "store.b"),
    "the first two logs swapped": lambda d: swap(d, *logs(d)[:2]),
    "the last two logs swapped": lambda d: swap(d, *logs(d)[-2:]),
    "the first and the last log swapped": lambda d: swap(d, logs(d)[0], logs(d)[-1]),
    "the first log renumbered": lambda d: renumber(d, logs(d)[0], 77),
    "the last log renumbered": lambda d: renumber(d, logs(d)[-1], 77),
    "the first log of another store": lambda d: log_of_another(d, logs(d)[0]),
    "the last log of another store": lambda d: log_of_another(d, logs(d)[-1]),
}
"""Files of another place or store: the server does not start, and nothing is changed."""


def empty(disk: SimulatedDisk, name: str) -> None:
    disk.entries[name].data.clear()


LOST: dict[str, Damaging] = {
    "the first log missing": lambda d: d.entries.pop(logs(d)[0]),
    "the second log missing": lambda d: d.entries.pop(logs(d)[1]),
    "the last log missing": lambda d: d.entries.pop(logs(d)[-1]),
    "the last two logs missing": lambda d: [d.entries.pop(name) for name in logs(d)[-2:]],
    "the first log emptied": lambda d: empty(d, logs(d)[0]),
    "the second log emptied": lambda d: empty(d, logs(d)[1]),
    "the last log emptied": lambda d: empty(d, logs(d)[-1]),
    "the first log zeroed": lambda d: zero(d, logs(d)[0], 1 << 30),
    "the second log zeroed": lambda d: zero(d, logs(d)[1], 1 << 30),
    "the last log zeroed": lambda d: zero(d, logs(d)[-1], 1 << 30),
    "the first log without its begin": lambda d: zero(d, logs(d)[0], 3000),
    "the second log without its begin": lambda d: zero(d, logs(d)[1], 3000),
}
"""Files that are gone, or not whole: the server starts and lists the lost messages."""
