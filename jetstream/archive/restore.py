"""A stream made from an archive: its messages go into a store, which becomes a stream at the end.

Until then it is invisible: it accepts no messages and has no consumers. `Restore` reads the form of
nats-server 2.15, `tar_restore` the older one; `Unpacker` finds out which form an archive has.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from midge.jetstream.archive import consumers, entries
from midge.jetstream.archive.entries import ArchiveEntry, ArchiveError, EntryReader
from midge.jetstream.archive.framing import S2Reader
from midge.jetstream.archive.restored import RestoredStream
from midge.jetstream.archive.tar_restore import TarRestore
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.json.encode import text

_MESSAGE_COST = 256
"""Fixed cost of storing a message, besides its bytes: some 5 us, see `Snapshot`."""

_PART_MAX = 16 << 20
"""The largest part of an entry that is waited for, unless messages may be larger: the state of a
consumer with 200,000 pending messages."""

_Number = Annotated[int, msgspec.Meta(ge=0, le=SEQ_MAX)]


class _State(msgspec.Struct):
    """The parts of a stream's state that a restore needs."""

    first_seq: _Number = 0
    last_seq: _Number = 0
    consumer_count: _Number = 0


_STATE = msgspec.json.Decoder(_State)


class Restore:
    """Reads an archive of nats-server 2.15 or of midge into a store."""

    def __init__(self, restored: RestoredStream) -> None:
        self._restored = restored
        self._entries = EntryReader(max(_PART_MAX, restored.max_payload))
        self._consumers_left = 0
        self._last_seq = 0
        self._has_state = False
        self._has_ended = False

    def feed(self, block: bytes | bytearray) -> None:
        """Take more of what the archive holds, uncompressed."""
        self._entries.feed(block)

    def work(self, budget: int) -> int:
        """Take in entries for about `budget` bytes of work; return what that took, 0 for none.

        Raises:
            ArchiveError: the archive is damaged.
            StoreError: the store does not take a message.
        """
        spent = 0
        while spent < budget:
            entry = self._entries.next_entry()
            if entry is None:
                break
            self._take(entry)
            spent += len(entry.headers) + len(entry.payload) + _MESSAGE_COST
        return spent

    def end(self) -> None:
        """Do nothing: all entries are stored by then."""

    def finish(self) -> None:
        """Check that the archive is whole; raises ArchiveError."""
        if self._entries.left():
            raise ArchiveError("archive: invalid archive stream")
        if not self._has_ended:
            raise ArchiveError("EOF")
        self._restored.end(self._last_seq)

    def _take(self, entry: ArchiveEntry) -> None:
        if self._has_ended:
            raise ArchiveError("archive: there is more behind its end")
        if not self._has_state:
            self._take_state(entry)
        elif self._consumers_left:
            self._take_consumer(entry)
        elif entry.seq:
            self._restored.add(entry.name, entry.time_ns, entry.seq, entry.headers, entry.payload)
        elif not entry.time_ns and not entry.headers and not entry.payload:
            self._has_ended = True
        else:
            raise ArchiveError("expected message sequence")

    def _take_state(self, entry: ArchiveEntry) -> None:
        if entry.name != entries.STATE:
            raise ArchiveError("expected state.json first")
        try:
            state = _STATE.decode(entry.payload)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ArchiveError(f"error in state.json: {error}") from None
        self._last_seq = state.last_seq
        self._consumers_left = state.consumer_count
        self._has_state = True
        self._restored.begin(state.first_seq)

    def _take_consumer(self, entry: ArchiveEntry) -> None:
        if not entry.name.startswith(entries.CONSUMERS):
            raise ArchiveError(f'expected consumer, found "{text(entry.name)}"')
        self._consumers_left -= 1
        self._restored.spend_on_consumers(len(entry.payload))
        name = entry.name[len(entries.CONSUMERS) :]
        self._restored.add_consumer(name, consumers.read(text(name), entry.payload))


class Unpacker:
    """Takes an archive in pieces as they come, and hands it to the reader of its form."""

    def __init__(self, restored: RestoredStream) -> None:
        self._restored = restored
        self._chunks = S2Reader()
        self._reader: Restore | TarRestore | None = None
        self._begin = bytearray()

    def feed(self, data: bytes) -> None:
        """Take a piece of the compressed archive."""
        self._chunks.feed(data)

    def work(self, budget: int) -> int:
        """Do a piece of the work; return its cost, 0 when nothing is left.

        Raises:
            ArchiveError, S2Error: the archive is damaged.
            StoreError: the store does not take a message.
        """
        spent = self._reader.work(budget) if self._reader is not None else 0
        while spent < budget:
            block = self._chunks.next_block()
            if block is None:
                break
            spent += len(block)
            self._take(block)
            if self._reader is not None:
                spent += self._reader.work(budget - spent) if spent < budget else 0
        return spent

    def end(self) -> None:
        """Begin the work after the last byte; `work` must complete it before `finish`."""
        if self._reader is not None:
            self._reader.end()

    def finish(self) -> None:
        """Check that the archive was whole; raises ArchiveError."""
        if self._reader is None or self._chunks.left():
            raise ArchiveError("unexpected EOF" if self._begin or self._chunks.left() else "EOF")
        self._reader.finish()

    def _take(self, block: bytes | bytearray) -> None:
        """Hand on what a chunk holds, as soon as the form is known."""
        if self._reader is not None:
            self._reader.feed(block)
            return
        self._begin += block
        if len(self._begin) >= len(entries.MAGIC):
            is_tar = not self._begin.startswith(entries.MAGIC)
            self._reader = (TarRestore if is_tar else Restore)(self._restored)
            self._reader.feed(self._begin)
