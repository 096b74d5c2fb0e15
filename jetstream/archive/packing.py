"""Write messages as entries of an archive, straight from the memory of their store."""

from __future__ import annotations

from midge.jetstream.archive.framing import S2Writer
from midge.jetstream.store import numbers
from midge.jetstream.store.interface import MessageView, Waiter
from midge.jetstream.store.store import Store

MESSAGE_COST = 128
"""Fixed cost of a message, besides its bytes: with 128 bytes of payload it takes 0.3 us in all."""

_MESSAGE_COST = MESSAGE_COST  # C numbers where this is compiled
_HEAD_MAX = 50  # five numbers of ten bytes
_ALL: tuple[bytes, ...] = ()


class MessagePacker:
    """Writes the messages of a store into `output`; `at` is the last sequence written or passed.

    After `run`, `is_waiting` is True if the next message is being fetched from the disk, and
    `is_drained` if there is no further message.
    """

    def __init__(self, store: Store, output: S2Writer, at: int) -> None:
        self.at = at
        self.is_waiting = False
        self.is_drained = False
        self._store = store
        self._output = output
        self._view = MessageView()

    def run(self, upto: int, budget: int, waiter: Waiter) -> int:
        """Write messages up to the sequence `upto`, for about `budget` bytes of work.

        Returns the cost. If `is_waiting`, `waiter` is called when the message has been fetched.
        """
        spent = 0
        self.is_waiting = False
        self.is_drained = False
        while spent < budget:
            found = 0
            if self.at < upto:
                found = self._store.try_next(_ALL, self.at + 1, upto, self._view, waiter)
            if found <= 0:
                self.is_waiting = found < 0
                if found < 0 or self._is_past_damaged(upto):
                    break
                continue
            self.at = self._view.seq
            spent += self._put(self._view) + _MESSAGE_COST
        return spent

    def _is_past_damaged(self, upto: int) -> bool:
        """Skip a message that cannot be read; return True when there is none."""
        seq = self._store.next_seq(_ALL, self.at + 1, upto) if self.at < upto else 0
        self.is_drained = not seq
        if seq:
            self.at = seq
        return self.is_drained

    def _put(self, view: MessageView) -> int:
        """Write the message in view; return how many bytes that were."""
        subject_size = view.subject_end - view.subject_start
        headers_size = view.payload_start - view.headers_start
        payload_size = view.payload_end - view.payload_start
        body_size = headers_size + payload_size
        start = self._output.room(_HEAD_MAX + subject_size + body_size)
        block = self._output.block
        time_ns = view.time_ns
        at = _put_number(block, start, subject_size)
        at = _put_number(block, at, time_ns << 1 if time_ns >= 0 else ~(time_ns << 1))
        at = _put_number(block, at, view.seq)
        at = _put_number(block, at, headers_size)
        at = _put_number(block, at, payload_size)
        numbers.put(block, at, view.subject, view.subject_start, view.subject_end)
        at += subject_size
        numbers.put(block, at, view.body, view.headers_start, view.payload_end)
        size = at + body_size - start
        self._output.wrote(size)
        return size


def _put_number(block: bytearray, at: int, value: int) -> int:
    """Write a varint as Go does; return where it ends."""
    while value >= 0x80:
        block[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    block[at] = value
    return at + 1
