"""Archives of streams, changed at random: what a hostile or a broken sender might send."""

from __future__ import annotations

import io
import json
import tarfile
from random import Random
from typing import Any

from midge.jetstream.archive import entries
from midge.jetstream.archive.framing import S2Reader, S2Writer
from midge.jetstream.archive.nats_store.metadata import _sum

NUMBERS: tuple[Any, ...] = (0, 1, -1, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**70, 1.5, 1e300)
TEXTS = (
    "",
    "a b",
    "x\r\nMSG y 1 0\r\n",
    "s.>",
    "s.*",
    "*",
    ">",
    "é",
    "\x00",
    "x" * 300,
    "none",
    "all",
)
LITERALS = (b"null", b"Infinity", b"NaN", b"1e400", b"-0", b"[" * 100_000, b'{"a":' * 100_000)
LITERALS += (b"{}", b"[]", b"9" * 5000, b'"\\ud800"', b'"\xff"', b"true", b"1_000")


def unpacked(data: bytes) -> bytes:
    """Return what an archive holds without its compression."""
    reader = S2Reader()
    reader.feed(data)
    out = bytearray()
    while (block := reader.next_block()) is not None:
        out += block
    return bytes(out)


def compressed(data: bytes) -> bytes:
    """Return an archive of these bytes."""
    writer = S2Writer()
    writer.write(data)
    writer.finish()
    return writer.take()


def files_of(archive: bytes) -> dict[str, bytes]:
    """Return the files of an older backup."""
    with tarfile.open(fileobj=io.BytesIO(unpacked(archive))) as tar:
        found = {member.name: tar.extractfile(member) for member in tar}
    return {name: file.read() for name, file in found.items() if file is not None}


class Mutator:
    """Changes archives; the same `random` makes the same changes."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def archive(self, archive: bytes) -> bytes:
        """Return an archive of nats-server 2.15 with something changed."""
        random = self.random
        reader = entries.EntryReader(1 << 24)
        reader.feed(unpacked(archive))
        found: list[entries.ArchiveEntry] = []
        while (entry := reader.next_entry()) is not None:
            found.append(entry)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(found))
            kind = random.randrange(8)
            if kind == 0:
                del found[at]
            elif kind == 1:
                found.insert(at, random.choice(found))
            elif kind == 2:
                random.shuffle(found)
            else:
                found[at] = self._entry(found[at])
            if not found:
                break
        data = entries.MAGIC + b"".join(entries.pack(*one) for one in found)
        return self._raw(data)

    def _entry(self, entry: entries.ArchiveEntry) -> entries.ArchiveEntry:
        random = self.random
        if entry.payload.startswith(b"{") and random.random() < 0.7:
            return entry._replace(payload=self.json(entry.payload))
        part = random.choice(("name", "time_ns", "seq", "headers", "payload"))
        if part in ("time_ns", "seq"):
            number = random.choice((0, 1, 2, 2**62, 2**63 - 1, 2**63, 2**64 - 1))
            if part == "time_ns":
                number = min(number, 2**63 - 1) * random.choice((1, -1))
            return entry._replace(**{part: number})
        return entry._replace(**{part: self.octets(getattr(entry, part))})

    def octets(self, data: bytes) -> bytes:
        """Return some bytes with some of them changed."""
        random = self.random
        kind = random.randrange(5)
        if kind == 0:
            return random.choice(TEXTS).encode()
        if kind == 1:
            at = random.randint(0, len(data))
            return data[:at] + random.choice((b"\r\n", b" ", b"\x00", b".", b"\t")) + data[at:]
        if kind == 2:
            return data[: random.randint(0, len(data))]
        if kind == 3:
            return data + random.randbytes(random.randint(1, 20))
        changed = bytearray(data)
        for _ in range(random.randint(1, 3)):
            if changed:
                changed[random.randrange(len(changed))] = random.randrange(256)
        return bytes(changed)

    def json(self, data: bytes) -> bytes:
        """Return a JSON text with a value changed."""
        random = self.random
        if random.random() < 0.15:
            return self.octets(data)
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return self.octets(data)
        places: list[tuple[Any, Any]] = []
        waiting = [value]
        while waiting:
            one = waiting.pop()
            keys = list(one) if isinstance(one, dict) else range(len(one))
            for key in keys:
                places.append((one, key))
                if isinstance(one[key], (dict, list)):
                    waiting.append(one[key])
        if not places:
            return self.octets(data)
        holder, key = random.choice(places)
        kind = random.randrange(5)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[random.choice((*TEXTS, *map(str, NUMBERS)))] = holder.pop(key)
        elif kind == 2:
            holder[key] = random.choice(TEXTS)
        elif kind == 3:
            holder[key] = random.choice(NUMBERS)
        else:
            holder[key] = "@@"
            text = json.dumps(value).encode()
            return text.replace(b'"@@"', random.choice(LITERALS), 1)
        return json.dumps(value).encode()

    def files(self, files: dict[str, bytes], stream: str = "S") -> dict[str, bytes]:
        """Return the files of a stream's directory with something changed, checksums put right."""
        random = self.random
        found = dict(files)
        for _ in range(random.randint(1, 2)):
            if not found:
                break
            name = random.choice(sorted(found))
            kind = random.randrange(6)
            if kind == 0:
                del found[name]
            elif kind == 1:
                found[self.octets(name.encode()).decode("latin-1").replace("\x00", "0")] = found[
                    name
                ]
            elif name.endswith("meta.inf"):
                found[name] = self.json(found[name])
                if random.random() < 0.8:
                    folder = name.split("/")
                    key = stream if len(folder) == 1 else f"{stream}/{folder[1]}"
                    found[name.replace(".inf", ".sum")] = _sum(key, found[name]).hex().encode()
            elif name.endswith("index.db"):
                state = self.octets(found[name][:-8])
                found[name] = state + _sum(stream, state)
            else:
                found[name] = self.octets(found[name])
        return found

    def tar(self, files: dict[str, bytes]) -> bytes:
        """Return an older backup of such files with something changed."""
        random = self.random
        out = io.BytesIO()
        form = random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            for name, data in (self.files(files) if random.random() < 0.8 else files).items():
                info = tarfile.TarInfo(name[:99] if form == tarfile.USTAR_FORMAT else name)
                info.size, info.mtime = len(data), 1.5
                tar.addfile(info, io.BytesIO(data))
        data = bytearray(out.getvalue())
        if random.random() < 0.3:
            self._head(data)
        return self._raw(bytes(data))

    def _head(self, data: bytearray) -> None:
        """Change a field of a head, and put its checksum right."""
        random = self.random
        at = random.randrange(len(data) // 512) * 512
        field = random.choice(
            (
                b"-1000\x00",
                b"+10\x00",
                b"1_0\x00",
                b"777777777777",
                b"\xff" * 12,
                b"\x80" + b"\xff" * 11,
            )
        )
        data[at + 124 : at + 124 + len(field)] = field
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\x00 " % sum(data[at : at + 512])

    def _raw(self, data: bytes) -> bytes:
        """Return compressed data, now and then changed before or after that."""
        kind = self.random.randrange(10)
        if kind == 0:
            data = self.octets(data)
        packed = compressed(data)
        return self.octets(packed) if kind == 1 else packed
