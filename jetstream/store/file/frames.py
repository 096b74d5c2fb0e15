"""The file of a checkpoint, as numbers and strings.

The file: the title, then frames, each with its length and a checksum over that and its bytes, which
goes on from the frame before; the last one is empty. In the frames stand numbers of eight bytes,
and strings: their length and their bytes. All lengths are multiples of eight, with zeros behind.
"""

from __future__ import annotations

import zlib
from collections import deque

from midge.jetstream.store.disk import DiskFile
from midge.jetstream.store.file import records
from midge.jetstream.store.interface import StoreError

_TITLE = b"midge checkpoint 2\n".ljust(24, b"\0")
_FRAME = 4 * 1024 * 1024  # bytes from which a frame is written
_FRAME_HEAD = 16
_PIECE = 512 * 1024  # bytes of a frame that is written beside other work


class UnfitCheckpoint(StoreError):
    """A checkpoint cannot be used; the text says why."""


class CheckpointWriter:
    """Writes numbers and strings to a file of a store whose checksums begin with `seed`."""

    def __init__(self, file: DiskFile, seed: int) -> None:
        self._file = file
        self._crc = zlib.crc32(_TITLE, seed)
        self._frame = bytearray()
        self._position = len(_TITLE)
        file.write(0, _TITLE)

    def number(self, value: int) -> None:
        """Write a number."""
        self._frame += value.to_bytes(8, "little")

    def octets(self, data: bytes | bytearray) -> None:
        """Write a string."""
        self.number(len(data))
        self._frame += data
        self._frame += bytes(-len(data) % 8)
        if len(self._frame) >= _FRAME:
            self._end_frame()

    def rows(self, data: bytearray) -> None:
        """Write a string that may change afterwards only in bytes without a meaning."""
        self.octets(data)

    def finish(self) -> None:
        """Write the end."""
        if self._frame:
            self._end_frame()
        self._end_frame()

    def _end_frame(self) -> None:
        frame = self._frame
        head = len(frame).to_bytes(8, "little")
        self._crc = records.checksum(frame, 0, len(frame), zlib.crc32(head, self._crc))
        self._file.write(self._position, head + self._crc.to_bytes(8, "little"))
        if frame:
            self._file.write(self._position + _FRAME_HEAD, frame)
        self._position += _FRAME_HEAD + len(frame)
        self._frame = bytearray()


class DeferredWriter(CheckpointWriter):
    """Takes all numbers and strings at once, and writes them later, a piece at a time.

    Strings are copied at once, but of rows only the reference and the length are noted.
    """

    def __init__(self, file: DiskFile, seed: int) -> None:
        super().__init__(file, seed)
        self._parts: deque[tuple[bytearray, int, bool]] = deque()

    def octets(self, data: bytes | bytearray) -> None:
        """Take a string."""
        self.number(len(data))
        self._frame += data
        self._frame += bytes(-len(data) % 8)

    def rows(self, data: bytearray) -> None:
        """Take a reference to a string, of which no byte with a meaning will change."""
        self.finish()
        self._parts.append((data, len(data), True))

    def finish(self) -> None:
        """End the part that is being copied."""
        self._parts.append((self._frame, len(self._frame), False))
        self._frame = bytearray()

    def begin_with(self, numbers: list[int]) -> None:
        """Put numbers before everything else."""
        data = bytearray().join(number.to_bytes(8, "little") for number in numbers)
        self._parts.appendleft((data, len(data), False))

    def write_piece(self) -> bool:
        """Write another frame; return False after the last one."""
        while self._parts and len(self._frame) < _PIECE:
            data, length, is_rows = self._parts.popleft()
            if is_rows:
                super().octets(data[:length])
            else:
                self._frame += data
        is_last = not self._frame
        self._end_frame()
        return not is_last


class CheckpointReader:
    """Reads back what a `CheckpointWriter` has written; every method raises UnfitCheckpoint."""

    def __init__(self, file: DiskFile, seed: int) -> None:
        self._file = file
        self._size = file.size()
        self._crc = zlib.crc32(_TITLE, seed)
        self._frame = b""
        self._at = 0
        self._position = len(_TITLE)
        self.expect(file.read(0, len(_TITLE)) == _TITLE, "it is of another version")

    def expect(self, is_so: bool, problem: str) -> None:
        """Raise UnfitCheckpoint with the problem unless it is so."""
        if not is_so:
            raise UnfitCheckpoint(problem)

    def number(self) -> int:
        """Read a number."""
        if self._at == len(self._frame):
            self._next_frame()
        at = self._at
        self._at = at + 8
        self.expect(self._at <= len(self._frame), "a number is missing")
        return int.from_bytes(self._frame[at : self._at], "little")

    def octets(self) -> bytearray:
        """Read a string."""
        length = self.number()
        at = self._at
        self._at = at + length + -length % 8
        self.expect(self._at <= len(self._frame), "a string is cut short")
        return bytearray(memoryview(self._frame)[at : at + length])

    def finish(self) -> None:
        """Raise UnfitCheckpoint unless this is the end."""
        self.expect(self._at == len(self._frame), "there is more than expected")
        self._next_frame()
        self.expect(not self._frame and self._position == self._size, "it does not end here")

    def _next_frame(self) -> None:
        head = self._file.read(self._position, _FRAME_HEAD)
        start = self._position + _FRAME_HEAD
        length = int.from_bytes(head[:8], "little")
        self.expect(start + length <= self._size, "it is cut short")
        frame = self._file.read(start, length)
        self._crc = records.checksum(frame, 0, len(frame), zlib.crc32(head[:8], self._crc))
        is_sound = len(frame) == length and head[8:] == self._crc.to_bytes(8, "little")
        self.expect(is_sound, "a checksum does not match")
        self._frame = frame
        self._at = 0
        self._position = start + length
