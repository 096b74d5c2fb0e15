"""nats-server's archive of a stream: `NATSARC1`, then entries one after the other.

An entry is a head of five numbers (the lengths of its name, of its headers and of its payload, its
time and its sequence, as Go's varints), the name, the headers and the payload. The first one is
named `state.json`, one for each consumer `consumers/<name>`, a message has its subject for a name,
and an entry of which all is zero ends the archive.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from midge.protocol.errors import MidgeError

MAGIC = b"NATSARC1"
STATE = b"state.json"
CONSUMERS = b"consumers/"
END = b"\x00" * 5
"""The entry that ends an archive."""

_NAME_MAX = 1 << 20
_VARINT_MAX = 10
_UINT64_MAX = (1 << 64) - 1


class ArchiveError(MidgeError):
    """An archive is damaged, cut short, or none at all."""


def json_members(data: bytes, what: str) -> dict[str, msgspec.Raw]:
    """Return the members of a JSON object as they are written; `encode` takes them so.

    Raises:
        ArchiveError: it is none.
    """
    try:
        return _MEMBERS.decode(data)
    except RecursionError:
        raise ArchiveError(f"{what}: it is too deep") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArchiveError(f"{what}: {error}") from None


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ArchiveEntry(NamedTuple):
    """One entry; `seq` and `time_ns` are 0 unless it is a message."""

    name: bytes
    time_ns: int
    seq: int
    headers: bytes
    payload: bytes


def pack(name: bytes, time_ns: int, seq: int, headers: bytes, payload: bytes) -> bytes:
    """Return an entry as bytes."""
    out = bytearray()
    zigzag = time_ns << 1 if time_ns >= 0 else ~(time_ns << 1)
    for number in (len(name), zigzag, seq, len(headers), len(payload)):
        rest = number
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return b"".join((out, name, headers, payload))


class EntryReader:
    """Cuts an archive into entries, of which each part has `part_max` bytes at most."""

    def __init__(self, part_max: int) -> None:
        self._part_max = part_max
        self._data = bytearray()
        self._at = 0
        self._has_begun = False

    def feed(self, data: bytes | bytearray) -> None:
        """Take more of the archive."""
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    def left(self) -> int:
        """Return how many bytes no entry has been made of."""
        return len(self._data) - self._at

    def next_entry(self) -> ArchiveEntry | None:
        """Return the next entry; None when it is not there as a whole yet.

        Raises:
            ArchiveError: this is not an archive, or an entry is too large.
        """
        if not self._has_begun:
            if self.left() < len(MAGIC):
                return None
            if not self._data.startswith(MAGIC):
                raise ArchiveError("archive: invalid archive stream")
            self._has_begun = True
            self._at = len(MAGIC)
        head = self._head()
        if head is None:
            return None
        at, name_size, zigzag, seq, header_size, payload_size = head
        if name_size > _NAME_MAX or max(header_size, payload_size) > self._part_max:
            raise ArchiveError("archive: an entry is larger than allowed")
        middle = at + name_size + header_size
        end = middle + payload_size
        if end > len(self._data):
            return None
        data = self._data
        self._at = end
        return ArchiveEntry(
            bytes(data[at : at + name_size]),
            zigzag >> 1 if not zigzag & 1 else ~(zigzag >> 1),
            seq,
            bytes(data[at + name_size : middle]),
            bytes(data[middle:end]),
        )

    def _head(self) -> tuple[int, int, int, int, int, int] | None:
        """Return where an entry's name begins and the five numbers before it."""
        data = self._data
        at = self._at
        numbers = []
        for _ in range(5):
            number = 0
            for shift in range(0, 7 * _VARINT_MAX, 7):
                if at >= len(data):
                    return None
                octet = data[at]
                at += 1
                number |= (octet & 0x7F) << shift
                if octet < 0x80:
                    break
            else:
                raise ArchiveError("archive: invalid archive stream")
            if number > _UINT64_MAX:
                raise ArchiveError("archive: invalid archive stream")
            numbers.append(number)
        one, two, three, four, five = numbers
        return at, one, two, three, four, five
