"""Checksums and the thread that writes and syncs, as ``native.h`` has them in C.

This module is the interpreted twin of ``native.pxd`` and ``native.h``, which the compiled modules
use: there nothing of this needs the interpreter. The bytes are the same.

The checksum is CRC-32 as zlib has it: in C 64 bytes a step by carry-less multiplication, in Python
zlib's own. CRC-32C by its instruction is not faster from 64 bytes on, and Python lacks it.
"""

from __future__ import annotations

import os
import threading
import zlib
from typing import Any

from midge.jetstream.store import numbers
from midge.jetstream.store.numbers import BytesLike

_HEAD = 48
_GROUP_CHAIN = 60

_IDLE, _BUSY, _STOP = range(3)
_ZEROS = 64 * 1024  # written at once

_sync = getattr(os, "fdatasync", os.fsync)


def prepare() -> None:
    """Get ready for the other functions, which must not be called before."""


def crc32(data: BytesLike, start: int, end: int, seed: int) -> int:
    """Return the checksum of ``data[start:end]``, beginning with `seed`."""
    return zlib.crc32(data[start:end], seed)


def place_seed(store_seed: int, segment: int, position: int) -> int:
    """Return the initial value of the checksums of a record at a position of a segment."""
    place = segment.to_bytes(8, "little") + position.to_bytes(8, "little")
    return zlib.crc32(place, store_seed)


def _padded(length: int) -> int:
    return (length + 7) & ~7


def _seal_record(data: bytearray, at: int, store_seed: int, segment: int, position: int) -> None:
    """Put the checksums into the record at ``data[at]``, which goes to `position` of a segment."""
    seed = place_seed(store_seed, segment, position)
    end = at + numbers.u32_at(data, at + 8)
    numbers.set_u32_at(data, at + 4, zlib.crc32(data[at + _HEAD : end], seed))
    numbers.set_u32_at(data, at, zlib.crc32(data[at + 4 : at + _HEAD], seed))


def seal_group(data: bytearray, used: int, store_seed: int, segment: int, position: int) -> None:
    """Put the checksums into all records of the group in ``data[:used]``."""
    chain = place_seed(store_seed, segment, position)
    at = _padded(numbers.u32_at(data, 8))
    while at < used:
        _seal_record(data, at, store_seed, segment, position + at)
        chain = zlib.crc32(data[at : at + 4], chain)
        at += _padded(numbers.u32_at(data, at + 8))
    numbers.set_u32_at(data, _GROUP_CHAIN, chain)
    _seal_record(data, 0, store_seed, segment, position)


def check_head(
    data: BytesLike, at: int, end: int, store_seed: int, segment: int, position: int
) -> bool:
    """Return whether ``data[at:end]`` begins with the head of a record."""
    if end - at < _HEAD:
        return False
    head = data[at : at + _HEAD]
    found = zlib.crc32(head[4:], place_seed(store_seed, segment, position))
    if int.from_bytes(head[:4], "little") != found:
        return False
    return int.from_bytes(head[8:12], "little") >= _HEAD


def check_record(
    data: BytesLike, at: int, end: int, store_seed: int, segment: int, position: int
) -> int:
    """Return 2 for a whole record in ``data[at:end]``, 1 for one with only its head, 0 for none."""
    if not check_head(data, at, end, store_seed, segment, position):
        return 0
    length = int.from_bytes(data[at + 8 : at + 12], "little")
    if length > end - at:
        return 1
    seed = place_seed(store_seed, segment, position)
    body = zlib.crc32(data[at + _HEAD : at + length], seed)
    return 2 if int.from_bytes(data[at + 4 : at + 8], "little") == body else 1


class _Writer:
    """The thread that writes, one job at a time."""

    def __init__(self, done_in: int, done_out: int) -> None:
        self.condition = threading.Condition()
        self.state = _IDLE
        self.done_in = done_in
        self.done_out = done_out
        self.job: tuple[Any, ...] | None = None
        self.stage = 0
        self.error = 0
        self.thread = threading.Thread(target=self.run, name="midge-store", daemon=True)
        self.thread.start()

    def run(self) -> None:
        while True:
            with self.condition:
                self.condition.wait_for(lambda: self.state != _IDLE)
                if self.state == _STOP:
                    return
            self.work()
            with self.condition:
                os.write(self.done_out, (1).to_bytes(8, "little"))
                self.state = _IDLE
                self.condition.notify_all()

    def work(self) -> None:
        assert self.job is not None
        file, directory, data, used, position, seal, sync, store_seed, segment, *rest = self.job
        extend, zeroed, _warm_start, _warm_end = rest
        self.stage = 1
        self.error = 0
        try:
            _extend(file, extend, zeroed)
            if seal:
                seal_group(data, used, store_seed, segment, position)
            done = 0
            while done < used:
                done += os.pwrite(file, data[done:used], position + done)
            self.stage = 2
            if sync:
                _sync(file)
                if directory >= 0:
                    os.fsync(directory)
            self.stage = 0
        except OSError as error:
            self.error = error.errno or 5


def _extend(file: int, size: int, zeroed: bool) -> None:
    """Make a file longer, with room on the disk where that can be promised, and zeros written."""
    before = os.fstat(file).st_size
    if before >= size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, before, size - before)
    else:
        os.ftruncate(file, size)
    while zeroed and before < size:
        before += os.pwrite(file, bytes(min(size - before, _ZEROS)), before)


def start(done_in: int, done_out: int) -> _Writer:
    """Start the thread, which writes eight bytes to `done_out` after every job.

    They come out of `done_in`, which is read without waiting.
    """
    return _Writer(done_in, done_out)


def submit(
    writer: _Writer,
    file: int,
    directory: int,
    data: bytearray,
    used: int,
    position: int,
    seal: bool,
    sync: bool,
    _is_passing: bool,
    store_seed: int,
    segment: int,
    extend: int,
    zeroed: bool,
    warm_start: int,
    warm_end: int,
) -> None:
    """Write ``data[:used]`` at `position` of `file` and sync it, and `directory` if not -1.

    The one before must be done, and `data` must not be changed until this one is. With `seal` the
    data is a group that still lacks its checksums. In C, a large group that is passing leaves the
    page cache as soon as it is on the disk, where the system can do that. The file is first made
    `extend` bytes long if that is longer than it is, with zeros written if it is to be `zeroed`.
    In C the page cache then lets go of those, from `position` on, if they are synced, and is filled
    from `warm_start` to `warm_end`.
    """
    with writer.condition:
        writer.job = (
            file, directory, data, used, position, seal, sync, store_seed, segment,
            extend, zeroed, warm_start, warm_end,
        )  # fmt: skip
        writer.state = _BUSY
        writer.condition.notify_all()


def use_direct(_writer: _Writer, file: int) -> None:
    """Set the file, opened with O_DIRECT, that `write_direct` writes to; -1 for none.

    The previous one is closed.
    """
    if file >= 0:
        os.close(file)


def write_direct(
    _writer: _Writer,
    _file: int,
    _data: bytearray,
    _used: int,
    _position: int,
    _store_seed: int,
    _segment: int,
) -> bool:
    """Write a group as `submit` does, but by the kernel alone, without the thread.

    The pages must have been written before. False means that the caller must use `submit`, as
    always here, because Python has no such system call.
    """
    return False


def is_busy(writer: _Writer) -> bool:
    """Return whether a job is under way, or its result has not been taken."""
    return writer.job is not None


def take(writer: _Writer) -> bool:
    """Take the result of a job; False if there is none that has not been taken."""
    try:
        os.read(writer.done_in, 8)
    except BlockingIOError:
        return False
    writer.job = None
    return True


def settle(writer: _Writer) -> None:
    """Wait until no job is under way; its result is not taken by that."""
    with writer.condition:
        writer.condition.wait_for(lambda: writer.state != _BUSY)


def stage(writer: _Writer) -> int:
    """Return how the last job ended: 0 well, 1 the write failed, 2 the sync failed."""
    return writer.stage


def error(writer: _Writer) -> int:
    """Return the errno of what failed."""
    return writer.error


def stop(writer: _Writer) -> None:
    """End the thread, once its job is done."""
    settle(writer)
    with writer.condition:
        writer.state = _STOP
        writer.condition.notify_all()
    writer.thread.join()
