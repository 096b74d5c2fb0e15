"""A consumer's state as it is stored: a snapshot, and the changes since.

Both are runs of 64-bit numbers, little endian. A change has the positions, the messages that have
become pending since the last change, the messages settled above the floor, and delivery counts; a
count of 0 deletes one. Zeros at its end are omitted. A snapshot is a change from the empty state,
behind the configuration as JSON without its default values.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct, field

from midge.jetstream.config import consumer as configuration
from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.consumer.pending import Entry
from midge.jetstream.consumer.position import Position
from midge.jetstream.environment.clock import LONGEST_NS
from midge.jetstream.json import structure
from midge.jetstream.json.encode import decode, encode

Numbers = list[int]

_POSITIONS = (
    "next_seq",
    "next_consumer_seq",
    "floor_seq",
    "floor_consumer_seq",
    "shown_floor_seq",
    "shown_floor_consumer_seq",
    "delivered_seq",
    "delivered_consumer_seq",
    "last_per_subject_upto",
    "last_delivery_ns",
    "last_ack_ns",
)

_FIXED = len(_POSITIONS) + 3
"""Numbers that every change has: the positions, and how many of each kind follow."""

_USUAL: dict[str, Any] = {
    "deliver_policy": "all",
    "ack_policy": "explicit",
    "ack_wait": 30_000_000_000,
    "max_deliver": -1,
    "replay_policy": "instant",
    "max_waiting": 512,
    "max_ack_pending": 1000,
    "num_replicas": 0,
    "metadata": {"_nats.req.level": "0"},
}
"""Usual values, left out of a stored configuration: 220 of its 360 bytes, which every consumer also
keeps in memory. Part of the file format: never to be changed."""


class StoredState(Struct):
    """The stored state of a consumer. `pending` has consumer sequence and wall time of each."""

    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    created_ns: int = 0
    positions: tuple[int, ...] = ()
    pending: dict[int, tuple[int, int]] = field(default_factory=dict)
    redelivered: dict[int, int] = field(default_factory=dict)


def snapshot(position: Position) -> bytes:
    """Return all of a consumer's state."""
    fields = {
        "config": _brief(configuration.fields(position.config, with_versions=False)),
        "created": position.created_ns,
        "usual": 1,
    }
    head = encode(fields)
    pending = change(position, [*position.pending.entries, *position.redelivered], had_counts=False)
    return len(head).to_bytes(4, "little") + head + pending


def _brief(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without default values; None marks a default that is not set."""
    usual = _usual(config)
    unset = {name: None for name in usual if name not in config}
    return {name: one for name, one in config.items() if usual.get(name) != one} | unset


def _whole(brief: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration that `_brief` made shorter."""
    return {name: one for name, one in (_usual(brief) | brief).items() if one is not None}


def _usual(config: dict[str, Any]) -> dict[str, Any]:
    """Return the default values of a configuration with this durable name, which is also `name`."""
    durable = config.get("durable_name")
    return _USUAL | {"name": durable} if durable else _USUAL


def change(position: Position, changed: Iterable[int], *, had_counts: bool = True) -> bytes:
    """Return the positions, and the state of the messages that have `changed`.

    With `had_counts`, delivery counts have been stored, and some may have to be deleted. Without
    counts, messages up to the floor have no state; these are most of the changed ones while acks
    arrive quickly.
    """
    entries = position.pending.entries
    again = position.redelivered
    floor_seq = position.floor_seq
    if not (had_counts or again):
        changed = [seq for seq in changed if seq > floor_seq]
    to_wall_ns = position.host.clock.wall_ns() - position.host.clock.monotonic_ns()
    pending: list[int] = []
    settled: list[int] = []
    counts: list[int] = []
    for seq in dict.fromkeys(changed):
        entry = entries.get(seq)
        if entry is not None:
            pending += (seq, entry.consumer_seq, max(entry.sent_ns + to_wall_ns, 0))
        elif seq > floor_seq:
            settled.append(seq)
        if had_counts or again:
            counts += (seq, max(again.get(seq, 0), 0))
    numbers = [int(getattr(position, name)) for name in _POSITIONS]
    return joined(numbers, pending, settled, counts)


def joined(positions: Numbers, pending: Numbers, settled: Numbers, counts: Numbers) -> bytes:
    """Return a change of these parts."""
    numbers = [*positions, len(pending), len(settled), len(counts), *pending, *settled, *counts]
    while numbers and numbers[-1] == 0:
        numbers.pop()  # of an idle consumer all but two, 96 bytes that its store keeps in memory
    return _packed(numbers)


def parts(operation: bytes) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return the parts of a change: positions, pending, settled and counts."""
    numbers = _unpacked(operation)
    numbers += [0] * (_FIXED - len(numbers))
    pending, settled, counts = numbers[len(_POSITIONS) : _FIXED]
    numbers += [0] * (_FIXED + pending + settled + counts - len(numbers))
    rest = iter(numbers[_FIXED:])
    taken = [list(islice(rest, size)) for size in (pending, settled, counts)]
    return numbers[: len(_POSITIONS)], taken[0], taken[1], taken[2]


def restore(state: bytes, operations: Iterable[bytes]) -> StoredState:
    """Read a snapshot, and apply the changes since."""
    size = int.from_bytes(state[:4], "little")
    head = decode(state[4 : 4 + size])
    stored = StoredState(created_ns=head["created"])
    config = _whole(head["config"]) if "usual" in head else head["config"]
    stored.config = structure.decode_value(config, configuration.STRUCTURE, ConsumerConfig())
    for one in (state[4 + size :], *operations):
        _apply(stored, one)
    return stored


def _apply(stored: StoredState, operation: bytes) -> None:
    positions, pending, settled, counts = parts(operation)
    stored.positions = tuple(positions)
    for seq, consumer_seq, sent_ns in zip(*[iter(pending)] * 3, strict=True):
        stored.pending[seq] = (consumer_seq, sent_ns)
    for seq in settled:
        stored.pending.pop(seq, None)
    for seq, count in zip(*[iter(counts)] * 2, strict=True):
        if count:
            stored.redelivered[seq] = count
        else:
            stored.redelivered.pop(seq, None)
    floor_seq = stored.positions[_POSITIONS.index("floor_seq")]
    for seq in [seq for seq in stored.pending if seq <= floor_seq]:
        del stored.pending[seq]


def take_up(position: Position, stored: StoredState) -> list[Entry]:
    """Load the stored state into a consumer that has not started yet.

    Returns the entries of messages that are gone, for the consumer to forget.
    """
    position.created_ns = stored.created_ns
    position.is_taken_up = True
    for name, value in zip(_POSITIONS, stored.positions, strict=True):
        setattr(position, name, value)
    last_seq = position.host.store.last_seq
    position.last_per_subject_upto = min(position.last_per_subject_upto, last_seq)
    if position.next_seq > last_seq + 1 and position.delivered_consumer_seq:
        _cut(position, stored, last_seq)
    for seq, count in stored.redelivered.items():
        position.count_again(seq, count)
    now_ns = position.host.clock.monotonic_ns()
    to_wall_ns = position.host.clock.wall_ns() - now_ns
    gone = []
    for seq, (consumer_seq, _) in sorted(stored.pending.items()):
        entry = position.pending.add(seq, consumer_seq)
        if not position.host.store.exists(seq):
            gone.append(entry)
    for seq, (_, sent_ns) in sorted(stored.pending.items(), key=lambda item: item[1][1]):
        entry = position.pending.entries[seq]
        if position.config.ack_wait_ns:
            again = position.redelivered.get(seq, 0)
            began_ns = min(sent_ns - to_wall_ns, now_ns + LONGEST_NS)
            position.pending.wait(entry, began_ns, again)
    return gone


def _cut(position: Position, stored: StoredState, last_seq: int) -> None:
    """Cut a state that is ahead of its stream, which lost its last messages."""
    if position.floor_seq > last_seq:
        position.floor_seq = last_seq
        position.floor_consumer_seq = max(position.next_consumer_seq, 1) - 1
        stored.pending.clear()
        stored.redelivered.clear()
    stored.pending = {seq: one for seq, one in stored.pending.items() if seq <= last_seq}
    stored.redelivered = {seq: one for seq, one in stored.redelivered.items() if seq <= last_seq}
    if stored.pending:
        position.next_seq = max(stored.pending) + 1
        position.next_consumer_seq = max(one for one, _ in stored.pending.values()) + 1
    else:
        position.next_seq = position.floor_seq + 1
        position.next_consumer_seq = position.floor_consumer_seq + 1
    position.show_floor()


def _packed(numbers: list[int]) -> bytes:
    packed = array("Q", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpacked(data: bytes) -> list[int]:
    packed = array("Q")
    packed.frombytes(data)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tolist()
