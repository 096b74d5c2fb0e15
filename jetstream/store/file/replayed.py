"""A stream's records done again, one after the other, when a store is opened.

Functions over a `FileStore`: it becomes what its records, or a checkpoint, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from midge.jetstream.store import numbers, removing
from midge.jetstream.store.file import records
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.group import Segment
from midge.jetstream.store.indexes import Run

if TYPE_CHECKING:
    from midge.jetstream.store.file.frames import CheckpointReader, CheckpointWriter

_HEAD = 48  # records.HEAD and records.MESSAGE, as C numbers
_MESSAGE = 2
_ALL = b">"

_NAME_COST = 4096
"""Bytes counted for a consumer in `copied_size`: copying it takes 2 us, as that many bytes do."""

_LOST_MAX = 100_000
"""Sequences of a stream that are listed as lost: each takes 60 bytes, and an answer lists all."""


def replay(store: FileStore, data: bytearray, at: int, segment: Segment, offset: int) -> None:
    """Replay the record at ``data[at]``, which lies at `offset` of a segment."""
    kind = data[at + 12]
    seq = numbers.u64_at(data, at + 24)
    end = at + numbers.u32_at(data, at + 8)
    if kind == _MESSAGE:
        _replay_message(store, data, at, segment, offset)
        return
    store.records.note_kind(kind, segment)
    if kind == records.REMOVE:
        for position in range(at + _HEAD, end, 8):
            _forget(store, numbers.u64_at(data, position))
    elif kind == records.BOUNDS:
        _replay_bounds(store, seq, numbers.u64_at(data, at + _HEAD))
        time_ns = numbers.u64_at(data, at + 32)
        store.last_time_ns = max(store.last_time_ns, time_ns)
    elif kind == records.PURGED:
        subject = bytes(data[at + _HEAD : end])
        removing.remove_matching(store, subject, seq)
        if subject == _ALL:
            store.removed_below = max(store.removed_below, seq)
    elif kind == records.MESSAGE_ID:
        store.records.note_id(bytes(data[at + _HEAD : end]), seq, numbers.u64_at(data, at + 32))
    elif kind == records.STREAM:
        _replay_config(store, seq, bytes(data[at + _HEAD : end]))
    else:
        _replay_consumer(store, kind, seq, bytes(data[at + _HEAD : end]), segment)


def lose(store: FileStore, seq: int, segment: Segment) -> None:
    """Record that the message of a sequence cannot be read, unless it has been removed.

    The run says where it lies: as long as it does, compaction must keep the removal.
    """
    if seq > store.last_seq:
        store.records.note_run(seq, segment, 0)
    store.lost.add(seq)
    store.last_seq = max(store.last_seq, seq)
    if store.messages == 0:
        store.first_seq = store.last_seq + 1


def lose_through(store: FileStore, last_seq: int) -> None:
    """List all sequences after the last one to `last_seq` as lost; none is used again."""
    first = max(store.last_seq + 1, store.hole_from)
    listed = min(last_seq + 1, first + max(_LOST_MAX - len(store.lost), 0))
    store.lost.update(range(first, listed))
    store.last_seq = last_seq
    if store.messages == 0:
        store.first_seq = last_seq + 1


def finish(store: FileStore) -> set[int]:
    """Make the recovered messages visible; return the lost ones that were not removed."""
    store.visible_seq = store.last_seq
    store.lost.difference_update([seq for seq in store.lost if seq < store.removed_below])
    store.records.lost_from = min(store.lost, default=0)
    store.is_behind_hole = False
    return set(store.lost)


def reset(store: FileStore) -> None:
    """Forget everything before another replay."""
    store.clear()
    store.first_seq = store.last_seq = store.visible_seq = store.last_time_ns = 0
    store.version = 0
    store.lost.clear()
    store.stored.clear()
    notes = store.records
    notes.ids = bytearray()
    notes.ttls = bytearray()
    notes.removals = bytearray()
    store.removed_below = notes.lost_from = store.hole_from = 0
    notes.is_moved = store.is_behind_hole = False
    notes.configured_in = notes.bounded_in = notes.ends_in = 0
    notes.forget_ahead()


def index_size(store: FileStore) -> int:
    """Return the bytes of memory that the indexes take."""
    return store.message_index.size() + store.subject_index.size()


def copied_size(store: FileStore) -> int:
    """Return about how many bytes `save` copies at once, where rows are copied later."""
    stored, notes = store.stored, store.records
    names = len(stored.states) + len(stored.written_in) + len(stored.operations)
    size = len(notes.ids) + len(notes.ttls) + names * _NAME_COST
    return store.subject_index.size() + size


def save(store: FileStore, out: CheckpointWriter) -> None:
    """Write down what a replay of the log would make of this stream."""
    stored, notes = store.stored, store.records
    for number in (
        store.version, store.first_seq, store.last_seq, store.messages, store.bytes,
        store.last_time_ns, notes.configured_in, notes.bounded_in, notes.ends_in,
    ):  # fmt: skip
        out.number(number)
    for part in (store.account, store.name, store.saved_config, notes.ids, notes.ttls):
        out.octets(part)
    out.number(len(store.runs))
    for run in store.runs:
        for number in (run.first_seq, run.place.number, run.live, run.live_bytes):
            out.number(number)
    out.number(len(stored.states))
    for name, state in stored.states.items():
        operations = stored.operations.get(name, ())
        out.octets(name)
        out.octets(state)
        out.number(len(operations))
        for operation in operations:
            out.octets(operation)
    out.number(len(stored.written_in))
    for name, (first, last) in stored.written_in.items():
        out.octets(name)
        out.number(first)
        out.number(last)
    store.subject_index.save(out)
    store.message_index.save(out)


def restore(store: FileStore, source: CheckpointReader, segments: Mapping[int, Segment]) -> None:
    """Become what `save` has written down, whose messages are in `segments`.

    Raises UnfitCheckpoint if that cannot be a stream.
    """
    stored, notes = store.stored, store.records
    store.version = source.number()
    store.first_seq = source.number()
    store.last_seq = source.number()
    store.messages = source.number()
    store.bytes = source.number()
    store.last_time_ns = source.number()
    notes.configured_in = source.number()
    notes.bounded_in = source.number()
    notes.ends_in = source.number()
    store.account = bytes(source.octets())
    store.name = bytes(source.octets())
    store.saved_config = bytes(source.octets())
    notes.ids, notes.ttls = source.octets(), source.octets()
    live = live_bytes = 0
    for _ in range(source.number()):
        first_seq, number = source.number(), source.number()
        run = Run(first_seq, segments.get(number))
        run.live, run.live_bytes = source.number(), source.number()
        live += run.live
        live_bytes += run.live_bytes
        if number in segments:
            store.runs.append(run)
        else:
            source.expect(run.live == 0, "messages lie in no segment")
    for _ in range(source.number()):
        name = bytes(source.octets())
        stored.states[name] = bytes(source.octets())
        operations = [bytes(source.octets()) for _ in range(source.number())]
        if operations:
            stored.operations[name] = operations
    for _ in range(source.number()):
        name = bytes(source.octets())
        stored.note_range(name, (source.number(), source.number()))
    store.subject_index.restore(source)
    store.subject_count = store.subject_index.subject_count
    found_live = store.message_index.restore(source)
    source.expect(
        (live, live_bytes) == (store.messages, store.bytes) and found_live == live,
        "the counts of a stream differ",
    )
    for subject in range(store.subject_index.limit()):
        if store.subject_index.count(subject):  # later ones may have come before it was written
            store.message_index.set_after(store.subject_index.last(subject), 0)


def _replay_message(
    store: FileStore, data: bytearray, at: int, segment: Segment, offset: int
) -> None:
    seq = numbers.u64_at(data, at + 24)
    if seq <= store.last_seq:
        return
    if store.is_behind_hole:
        store.is_behind_hole = False
        lose_through(store, seq - 1)
    kind = numbers.u32_at(data, at + 12)
    extra = numbers.u32_at(data, at + 40)
    if extra:
        segment.holds_more = True
    end = at + numbers.u32_at(data, at + 8) - extra
    incoming = store.incoming
    incoming.seq = seq
    incoming.time_ns = numbers.u64_at(data, at + 32)
    incoming.subject = data
    incoming.subject_start = at + _HEAD
    incoming.subject_end = at + _HEAD + (kind >> 16)
    headers = numbers.u32_at(data, at + 20)
    size = store.counted(kind >> 16, headers, end - incoming.subject_end - headers)
    store.records.note_run(seq, segment, size)
    store.enter(incoming, offset, size)
    if not extra:
        return
    if kind >> 8 & records.FLAG_TTL:
        store.records.note_ttl(seq, bytes(data[end : end + 8]))
        end += 8
        extra -= 8
    if extra:
        store.records.note_id(bytes(data[end : end + extra]), seq, incoming.time_ns)


def _replay_bounds(store: FileStore, first_seq: int, last_seq: int) -> None:
    store.removed_below = max(store.removed_below, first_seq)
    if store.is_behind_hole and last_seq > store.last_seq:
        lose_through(store, last_seq)
    if first_seq > store.last_seq:
        store.clear()
    while store.messages > 0 and store.first_seq < first_seq:
        store.drop(store.first_seq)
    store.last_seq = max(store.last_seq, last_seq)
    if store.messages == 0:
        store.first_seq = store.last_seq + 1


def _replay_config(store: FileStore, version: int, body: bytes) -> None:
    if version < store.version:
        return
    store.version = version
    length = int.from_bytes(body[:4], "little")
    store.account = body[4 : 4 + length]
    body = body[4 + length :]
    length = int.from_bytes(body[:4], "little")
    store.name = body[4 : 4 + length]
    store.saved_config = body[4 + length :]


def _replay_consumer(store: FileStore, kind: int, seq: int, body: bytes, segment: Segment) -> None:
    length = int.from_bytes(body[:2], "little")
    name = body[2 : 2 + length]
    if kind != records.CONSUMER_DELETED:
        store.stored.note_written(name, segment.number)
    if kind == records.CONSUMER:
        store.stored.save(name, body[2 + length :])
    elif kind == records.CONSUMER_DELETED:
        store.stored.delete(name)
    elif kind == records.CONSUMER_STEP:
        store.stored.log(name, body[2 + length :])
        if seq:
            _forget(store, seq)


def _forget(store: FileStore, seq: int) -> None:
    """Drop a message, or the record of its loss."""
    if not store.drop(seq):
        store.lost.discard(seq)
