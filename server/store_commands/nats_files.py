"""The streams in a store directory of nats-server, read and written as archives; nothing changes.

Such a directory has `jetstream/<account>/streams/<stream>`, each with `meta.inf`, `msgs/N.blk` and
`obs/<consumer>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from midge.jetstream.archive import entries
from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.archive.framing import S2Writer
from midge.jetstream.archive.nats_store.blocks import NatsBlock, RemovedSequences
from midge.jetstream.archive.nats_store.metadata import read_consumer, read_index, read_meta
from midge.jetstream.json.encode import encode
from midge.jetstream.stream import admission
from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from midge.jetstream.archive.nats_store.keys import FileKey

CHUNK_BYTES = 256 << 10
_BLOCK_NAME = re.compile(r"(\d{1,9})\.blk")
_NOTHING_DELIVERED = {"consumer_seq": 0, "stream_seq": 0}


class NatsStoredStream:
    """One stream of such a directory. `damages` grows as it is read."""

    def __init__(self, path: Path, keys: tuple[bytes, ...] = ()) -> None:
        """Read the configuration; `keys` are those that nats-server was configured with.

        Raises:
            ArchiveError: it is damaged, or encrypted with another key.
        """
        self.path = path
        self.account = path.parent.parent.name
        self.damages: list[str] = []
        self.messages = 0
        self.consumers = 0
        self._keys = keys
        self._key = self._find_key(path / "meta.key", path.name)
        meta = self._meta(path, path.name, self._key)
        try:
            config = {key: msgspec.json.decode(value) for key, value in meta.items()}
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ArchiveError(f"its meta.inf is no JSON: {error}") from None
        self.name = str(config.get("name", path.name))
        if problem := admission.name_problem(self.name):
            raise ArchiveError(problem)
        self.config = {key: value for key, value in config.items() if key != "Created"}

    def state(self) -> dict[str, Any]:
        """Return the state that a request to restore it carries."""
        return {"messages": 0, "bytes": 0}

    def archive(self) -> Iterator[bytes]:
        """Yield the stream as an archive, in pieces; damaged parts are left out and recorded."""
        opener = self._key.open if self._key is not None else None
        gone = RemovedSequences(
            read_index(self.name, _read(self.path / "msgs" / "index.db"), opener)
        )
        for block in self._blocks():
            gone.take(block)
            self.damages += block.damages
        writer = S2Writer()
        consumers = self._consumers()
        state = {
            "first_seq": gone.first_seq,
            "last_seq": gone.last_seq,
            "consumer_count": len(consumers),
        }
        writer.write(entries.MAGIC + entries.pack(entries.STATE, 0, 0, b"", encode(state)))
        for name, body in consumers:
            writer.write(entries.pack(entries.CONSUMERS + name, 0, 0, b"", body))
        for block in self._blocks():
            for record in gone.left(block):
                self.messages += 1
                parts = (record.time_ns, record.seq, record.headers, record.payload)
                writer.write(entries.pack(record.subject, *parts))
                if writer.ready_bytes >= CHUNK_BYTES:
                    yield writer.take()
        writer.write(entries.END)
        writer.finish()
        yield writer.take()

    def _blocks(self) -> Iterator[NatsBlock]:
        """Yield the blocks in order, one in memory at a time."""
        found = []
        for path in (self.path / "msgs").glob("*.blk"):
            named = _BLOCK_NAME.fullmatch(path.name)
            if named is not None:
                found.append((int(named[1]), path))
        for index, path in sorted(found):
            yield self._block(index, path)

    def _block(self, index: int, path: Path) -> NatsBlock:
        data = path.read_bytes()
        try:
            key = self._find_key(path.with_suffix(".key"), f"{self.name}:{index}")
        except ArchiveError as error:
            block = NatsBlock(self.name, index, b"")
            block.damages.append(f"block {index}: {error}")
            return block
        return NatsBlock(self.name, index, data if key is None else key.decrypt(data))

    def _find_key(self, path: Path, context: str) -> FileKey | None:
        """Return the key in a file, or None if nothing is encrypted."""
        stored = _read(path)
        if not stored:
            return None
        from midge.jetstream.archive.nats_store.keys import AccountKeys  # noqa: PLC0415 - ciphers

        return AccountKeys(self.account, self._keys).find(context, stored)

    def _meta(self, path: Path, name: str, key: FileKey | None) -> dict[str, msgspec.Raw]:
        """Return what the `meta.inf` in a directory says, which `name` is the checksum's key of."""
        opener = key.open if key is not None else None
        return read_meta(name, _read(path / "meta.inf"), _read(path / "meta.sum"), opener)

    def _consumers(self) -> list[tuple[bytes, bytes]]:
        """Return the consumers' names and what an archive says of them."""
        found: list[tuple[bytes, bytes]] = []
        for path in sorted((self.path / "obs").glob("*")):
            try:
                found.append((path.name.encode(), self._consumer(path)))
                self.consumers += 1
            except (ArchiveError, MidgeError) as error:
                self.damages.append(f"consumer {path.name}: {error}")
        return found

    def _consumer(self, path: Path) -> bytes:
        key = self._find_key(path / "meta.key", f"{self.name}.{path.name}")
        meta = self._meta(path, f"{self.name}/{path.name}", key)
        config = {one: value for one, value in meta.items() if one not in ("Created", "Name")}
        stored = _read(path / "o.dat")
        if stored and key is not None:
            stored = key.open(stored)
        state: dict[str, Any] = {
            "delivered": _NOTHING_DELIVERED,
            "ack_floor": _NOTHING_DELIVERED,
        }
        return encode({"config": config, "state": read_consumer(stored) if stored else state})


def find_streams(directory: Path) -> Iterator[Path]:
    """Yield where the streams of a store directory are, those of one account together.

    Raises:
        MidgeError: this is not a store directory of nats-server.
    """
    root = directory / "jetstream" if (directory / "jetstream").is_dir() else directory
    found = sorted(path.parent for path in root.glob("*/streams/*/meta.inf"))
    if not found:
        raise MidgeError(f"{directory}: there are no streams of nats-server in it")
    yield from found


def _read(path: Path) -> bytes:
    """Return what a file holds; nothing when it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
