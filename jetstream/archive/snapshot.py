"""A stream's snapshot of one moment, written while the stream goes on.

Messages that are removed meanwhile are kept until they have been written, up to a bound. The state
and the consumers are copied at the beginning.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from midge.jetstream.archive import entries
from midge.jetstream.archive.consumers import ConsumerCut
from midge.jetstream.archive.framing import S2Writer
from midge.jetstream.archive.packing import MESSAGE_COST, MessagePacker
from midge.jetstream.json.encode import encode
from midge.jetstream.store.interface import Keeper, LoadedMessage
from midge.jetstream.stream import details
from midge.protocol.errors import MidgeError

if TYPE_CHECKING:
    from midge.jetstream.stream.stream import Stream

KEPT_MAX_BYTES = 64 << 20
"""Most bytes of removed messages that are kept; a snapshot that needs more fails."""

_PURGE_MAX_MESSAGES = 2000
"""Most messages that a purge of the whole stream may have: a snapshot copies them before control
returns, some 3 us each."""


class SnapshotError(MidgeError):
    """A snapshot cannot be finished; the text says why."""


class Snapshot(Keeper):
    """One snapshot.

    `shown_state` is the stream's state in the form of answers; `output` has the bytes. While
    `is_waiting`, the next message is being fetched from the disk; `go_on` is called when it has
    been.
    """

    def __init__(self, stream: Stream, *, with_consumers: bool) -> None:
        self._store = stream.store
        self._end_seq = stream.store.last_seq
        self._kept: dict[int, tuple[LoadedMessage | None, int]] = {}  # and what each counts
        self._kept_order: list[int] = []
        self._kept_bytes = 0
        self._time_ns = stream.clock.wall_ns()
        self.is_waiting = False
        self.go_on: Callable[[], object] = lambda: None
        self._failure = ""
        self._is_done = False
        self._awaited_seq = 0  # it is kept, but has not been read yet
        self._cuts = [ConsumerCut(one) for one in stream.consumers.listed()]
        if not with_consumers:
            self._cuts = []
        shown = details.state(stream)
        shown["consumer_count"] = len(self._cuts)
        self.shown_state: dict[str, Any] = shown
        self.output = S2Writer()
        self._packer = MessagePacker(self._store, self.output, max(self._store.first_seq, 1) - 1)
        self.output.write(entries.MAGIC)
        self._write(entries.STATE, encode(shown))
        self._store.keepers.append(self)

    def produce(self, budget: int) -> int:
        """Continue for about `budget` bytes of work; return its cost.

        Raises:
            SnapshotError: it cannot be finished.
        """
        spent = 0
        self.is_waiting = False
        while spent < budget and not self._is_done:
            if self._failure:
                raise SnapshotError(self._failure)
            if self._cuts:
                cut = self._cuts.pop(0)
                spent += self._write(entries.CONSUMERS + cut.name, cut.encode())
                continue
            spent += self._produce_messages(budget - spent)
            if self.is_waiting:
                break
        return spent

    def _produce_messages(self, budget: int) -> int:
        """Write messages, those that are stored and those that have been kept, and the end."""
        next_kept = self._kept_order[0] if self._kept_order else 0
        spent = self._packer.run(next_kept or self._end_seq, budget, self)
        self.is_waiting = self._packer.is_waiting
        if not self._packer.is_drained:
            return spent
        if next_kept and next_kept not in self._kept:
            self._awaited_seq = next_kept
            self.is_waiting = True
            return spent
        if next_kept:
            return spent + self._write_kept()
        self.output.write(entries.END)
        self.output.finish()
        self._is_done = True
        self.close()
        return spent

    def is_done(self) -> bool:
        """Return whether all is written."""
        return self._is_done

    def close(self) -> None:
        """Keep nothing any more."""
        if self in self._store.keepers:
            self._store.keepers.remove(self)
        self._kept.clear()
        self._kept_order.clear()

    def fetched(self) -> None:
        """Go on with the message that was not in memory."""
        self.go_on()

    # Calls from the stream.

    def removing(self, seq: int) -> None:
        """Keep a message that is about to be removed, if it is not written yet."""
        if self._packer.at < seq <= self._end_seq and not self._failure and not self._is_done:
            size = self._store.size_of(seq) + MESSAGE_COST
            self._kept_bytes += size
            if self._kept_bytes > KEPT_MAX_BYTES:
                self._fail("too much was removed from the stream meanwhile")
                return
            heapq.heappush(self._kept_order, seq)
            self._store.load_departing(seq, partial(self._keep, seq, size))

    def removing_all(self) -> None:
        """Keep the messages that are not written yet, if they are few."""
        if self._is_done or self._failure:
            return
        count = 0
        seq = self._store.next_seq((), self._packer.at + 1, self._end_seq)
        while seq:
            count += 1
            if count > _PURGE_MAX_MESSAGES:
                self._fail("the stream was purged meanwhile")
                return
            self.removing(seq)
            seq = self._store.next_seq((), seq + 1, self._end_seq) if seq < self._end_seq else 0

    def _keep(self, seq: int, size: int, message: LoadedMessage | None) -> None:
        """Keep a message that counts `size`, or note that it cannot be read."""
        if self._failure or self._is_done or self not in self._store.keepers:
            return
        self._kept[seq] = (message, size)
        if seq == self._awaited_seq:
            self._awaited_seq = 0
            self.go_on()

    def _fail(self, text: str) -> None:
        self._failure = text
        self.close()

    def _write_kept(self) -> int:
        """Write the first message that was kept; return what that took."""
        seq = heapq.heappop(self._kept_order)
        one, size = self._kept.pop(seq)
        self._kept_bytes -= size
        if one is None:
            return MESSAGE_COST
        data = entries.pack(one.subject, one.time_ns, one.seq, one.headers, one.payload)
        self.output.write(data)
        return len(data) + MESSAGE_COST

    def _write(self, name: bytes, body: bytes) -> int:
        data = entries.pack(name, self._time_ns, 0, b"", body)
        self.output.write(data)
        return len(data) + MESSAGE_COST
