"""A server's calls on its files and sockets, as file_calls.c logged them, and their effects."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from midge.jetstream.store.disk import DiskFile
from midge.testing.simulated_disk import SimulatedDisk

_HEAD = struct.Struct("<qiiq")
_MARKER = re.compile(rb"<m-\d{7}>")
_ACK = re.compile(rb'MSG _R\.m-(\d{7})(?:\.again)? \d+ \d+\r\n\{"stream":"\w+","seq":\d+')
_SUCCESS = re.compile(rb"MSG _R\.c-(\d{7}) ")


class Call(NamedTuple):
    """One logged call; `kind` is the letter that file_calls.c explains."""

    kind: str
    file: int
    number: int
    data: bytes


def read_calls(path: Path) -> Iterator[Call]:
    """Read a log; the process may have been killed in the middle of the last entry."""
    content = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        number, kind, file, length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        yield Call(chr(kind), file, number, content[at : at + length])
        at += length


class Medium:
    """The published markers that are certainly on the medium.

    `early` has the answers that came before: the markers of messages, and the numbers of requests.
    """

    def __init__(self) -> None:
        self.synced: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.early: list[bytes] = []
        self._names: dict[int, bytes] = {}
        self._new: set[bytes] = set()
        self._written: dict[int, dict[int, bytes]] = {}
        self._covered: dict[int, set[bytes]] = {}
        self._waiting: set[bytes] = set()  # synced, in a file that the directory may not know
        self._asked: dict[bytes, int] = {}
        self._writes = 0
        self._writes_covered = 0
        self._writes_synced = 0

    def see(self, call: Call) -> None:
        """Follow one call."""
        if call.kind == "O" and call.data.endswith(b".log"):
            self._names[call.file] = call.data
            if call.number:
                self._new.add(call.data)
        elif call.kind == "C":
            self._names.pop(call.file, None)
        elif call.kind == "W" and call.file in self._names:
            self._writes += 1
            self._written.setdefault(call.file, {})[call.number] = call.data
        elif call.kind == "B":
            self._covered[call.file] = _markers(self._written.pop(call.file, {}))
            self._writes_covered = self._writes
        elif call.kind == "S":
            self._see_sync(call.file)
        elif call.kind == "R":
            for request in re.findall(rb"_R\.c-(\d{7})", call.data):
                self._asked[request] = self._writes
        elif call.kind == "X":
            self._see_answers(call.data)

    def _see_sync(self, file: int) -> None:
        name = self._names.get(file)
        covered = self._covered.pop(file, set())
        if name is None:  # the directory
            self._new.clear()
            self.synced |= self._waiting
            self._waiting.clear()
        elif name in self._new:
            self._waiting |= covered
        else:
            self.synced |= covered
        self._writes_synced = self._writes_covered

    def _see_answers(self, data: bytes) -> None:
        for number in _ACK.findall(data):
            marker = b"<m-%b>" % number
            self.acked.add(marker)
            if marker not in self.synced:
                self.early.append(marker)
        for request in _SUCCESS.findall(data):
            if self._writes_synced <= self._asked[request]:
                self.early.append(request)


def _markers(writes: dict[int, bytes]) -> set[bytes]:
    """Return the markers in writes by position; one write may go on in the next."""
    content = bytearray()
    end = 0
    for position, data in sorted(writes.items()):
        if position != end:
            content += b"\n"
        content += data
        end = position + len(data)
    return set(_MARKER.findall(content))


class Images:
    """The calls done again on a simulated disk, which can lose its power at any moment."""

    def __init__(self, seed: int) -> None:
        self.disk = SimulatedDisk(Random(seed))
        self._files: dict[int, DiskFile] = {}

    def see(self, call: Call) -> None:
        """Follow one call."""
        file = self._files.get(call.file)
        name = call.data.decode(errors="replace")
        if call.kind == "O" and "/" not in name and name.endswith((".log", ".new", ".a", ".b")):
            made = self.disk.create(name) if call.number else self.disk.open(name)
            self._files[call.file] = made
        elif call.kind == "C":
            self._files.pop(call.file, None)
        elif call.kind == "N":
            self.disk.rename(*name.split("\n"))
        elif call.kind == "U" and name in self.disk.entries:
            self.disk.unlink(name)
        elif call.kind == "S" and file is None:
            self.disk.sync_directory()
        elif file is not None:
            self._change(file, call)

    def _change(self, file: DiskFile, call: Call) -> None:
        if call.kind == "W":
            file.write(call.number, call.data)
        elif call.kind == "S":
            file.sync()
        elif call.kind == "T" or (call.kind == "A" and call.number > file.size()):
            file.truncate(call.number)
