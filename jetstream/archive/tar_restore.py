"""The backups of nats-server before 2.15: the files of a stream's directory, in a tar.

The blocks come before the lists of their removed messages (later blocks, and `index.db`). So this
module stores all messages first, and then deletes the removed ones. The stream is invisible until
that is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from midge.jetstream.archive import consumers
from midge.jetstream.archive.entries import ArchiveError, json_members
from midge.jetstream.archive.nats_store.blocks import NatsRecords, Record
from midge.jetstream.archive.nats_store.metadata import Index, read_consumer, read_index
from midge.jetstream.archive.tar import Piece, TarReader
from midge.jetstream.json.encode import encode, text

if TYPE_CHECKING:
    from midge.jetstream.archive.restored import RestoredStream

_RECORD_COST = 512
"""Fixed cost of reading and storing a message, besides its bytes: some 10 us, see `Snapshot`."""

_REMOVAL_COST = 64
_FILE_MAX = 16 << 20
"""The largest file beside the blocks: the state of a consumer with a million pending messages."""

_META_MAX = 1 << 20
"""The largest configuration: more than any request may have."""

_BLOCK_NAME = re.compile(r"msgs/(\d{1,9})\.blk")
_CONSUMER_FILE = re.compile(r"obs/([^/]+)/(meta\.inf|o\.dat)")
_KEPT = frozenset(("meta.inf", "msgs/index.db", "errors.txt"))
_NOTHING = {"consumer_seq": 0, "stream_seq": 0}


class TarRestore:
    """Reads such an archive into a store."""

    def __init__(self, restored: RestoredStream) -> None:
        self._restored = restored
        self._name = restored.config.name
        self._tar = TarReader()
        self._file = bytearray()
        self._reader: NatsRecords | None = None
        self._is_block_whole = False
        self._firsts: dict[int, int] = {}  # the first message of each block
        self._gone: set[int] = set()
        self._last_seq = 0
        self._removing: Iterator[None] | None = None
        self._has_meta = False
        self._consumers: dict[str, dict[str, bytes]] = {}

    def feed(self, block: bytes | bytearray) -> None:
        """Take more of what the archive holds, uncompressed."""
        self._tar.feed(block)

    def work(self, budget: int) -> int:
        """Take in files for about `budget` bytes of work; return what that took, 0 for none.

        Raises:
            ArchiveError: the archive is damaged.
            StoreError: the store does not take a message.
        """
        spent = 0
        while spent < budget:
            cost = self._remove_one() or self._take_record() or self._take_piece()
            if not cost:
                break
            spent += cost
        return spent

    def end(self) -> None:
        """Begin to remove the deleted messages, as all are known now; `work` goes on with that."""
        if self._removing is None:
            self._removing = self._remove_gone(Index())

    def finish(self) -> None:
        """Check that the archive is whole, and complete the stream; raises ArchiveError."""
        self._tar.finish()
        if not self._has_meta:
            raise ArchiveError("meta.inf: no such file or directory")
        for name, files in self._consumers.items():
            stored = self._consumer(name, files)
            self._restored.add_consumer(name.encode("utf-8", "surrogateescape"), stored)
        self._restored.end(self._last_seq)

    def _take_record(self) -> int:
        """Store the next message of a block; return what that cost."""
        reader = self._reader
        if reader is None:
            return 0
        record = reader.next_record()
        if record is None and self._is_block_whole:
            reader.finish()
            self._reader = None
        if reader.damages:
            raise ArchiveError(reader.damages[0])
        if record is None:
            return 0
        self._store(reader.index, record)
        return len(record.headers) + len(record.payload) + _RECORD_COST

    def _store(self, block: int, record: Record) -> None:
        self._last_seq = max(self._last_seq, record.seq)
        if record.is_gone:
            self._gone.add(record.seq)
            return
        self._firsts.setdefault(block, record.seq)
        self._restored.add(
            record.subject, record.time_ns, record.seq, record.headers, record.payload
        )

    def _take_piece(self) -> int:
        """Take a piece of a file; return its cost, 0 if nothing is left to take."""
        piece = self._tar.next_piece()
        if piece is None:
            return 0
        block = _BLOCK_NAME.fullmatch(piece.name)
        if block is not None:
            self._take_block(int(block[1]), piece)
        elif piece.name in _KEPT or _CONSUMER_FILE.fullmatch(piece.name):
            self._take_file(piece)
        elif piece.name.endswith(".idx"):
            raise ArchiveError("backups of nats-server before 2.10 are not supported")
        return len(piece.data) + 1

    def _take_block(self, index: int, piece: Piece) -> None:
        if self._reader is None:
            self._reader = NatsRecords(self._name, index)
        self._reader.feed(piece.data)
        self._is_block_whole = piece.is_last

    def _take_file(self, piece: Piece) -> None:
        """Take a piece of a file that is read as a whole."""
        limit = _META_MAX if piece.name.endswith("meta.inf") else _FILE_MAX
        if piece.size > limit:
            raise ArchiveError(f"{text(piece.name.encode())} is larger than allowed")
        self._file += piece.data
        if not piece.is_last:
            return
        data = bytes(self._file)
        self._file.clear()
        named = _CONSUMER_FILE.fullmatch(piece.name)
        if named is not None:
            self._restored.spend_on_consumers(len(data))
            self._consumers.setdefault(named[1], {})[named[2]] = data
        elif piece.name == "meta.inf":
            self._check_meta(data)
        elif piece.name == "errors.txt":
            raise ArchiveError(f"the backup is incomplete: {text(data)}")
        else:
            self._removing = self._remove_gone(read_index(self._name, data))

    def _check_meta(self, data: bytes) -> None:
        name = json_members(data, "meta.inf").get("name", msgspec.Raw())
        if bytes(name) != encode(self._name):
            raise ArchiveError("stream names do not match")
        self._has_meta = True

    def _remove_one(self) -> int:
        """Do a piece of removing; return what it cost, 0 when there is nothing to do."""
        if self._removing is None:
            return 0
        for _ in self._removing:
            return _REMOVAL_COST
        return 0

    def _remove_gone(self, index: Index) -> Iterator[None]:
        """Remove what the blocks and an index say is gone, a message at a time."""
        store = self._restored.store
        if index.first_seq > 1:
            store.purge(None, index.first_seq)
            self._last_seq = max(self._last_seq, index.first_seq - 1)
            yield
        for block, first in index.firsts.items():
            seq = store.next_seq((), self._firsts.get(block, first))
            while seq and seq < first:
                store.remove(seq)
                yield
                seq = store.next_seq((), seq)
        for seq in self._gone:
            store.remove(seq)
            yield
        for span in index.deleted.spans():
            seq = store.next_seq((), span.start, span.stop - 1)
            while seq:
                if seq in index.deleted:
                    store.remove(seq)
                yield
                seq = store.next_seq((), seq + 1, span.stop - 1) if seq + 1 < span.stop else 0
            yield

    def _consumer(self, name: str, files: dict[str, bytes]) -> Any:
        """Return a consumer's configuration and state."""
        where = f'error restoring consumer ["{name}"]'
        meta = json_members(files.get("meta.inf", b""), where)
        config = {key: value for key, value in meta.items() if key not in ("Created", "Name")}
        state: dict[str, Any] = {"delivered": _NOTHING, "ack_floor": _NOTHING}
        try:
            if files.get("o.dat"):
                state = read_consumer(files["o.dat"])
        except ArchiveError:
            raise ArchiveError(f"{where}: corrupt state file") from None
        return consumers.read(name, encode({"config": config, "state": state}))
