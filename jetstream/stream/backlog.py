"""The messages of a stream that are not yet on the disk, held against limits.

At most two groups wait at a time: one that is written, and the open one behind it.
"""

from __future__ import annotations

from midge.jetstream.store.store import Store


class Backlog:
    """Counts what a stream's waiting groups hold of it."""

    def __init__(self, store: Store, max_messages: int, max_bytes: int) -> None:
        self._store = store
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._group = 0
        self._messages = 0
        self._bytes = 0
        self._last_seq = 0
        self._written_messages = 0
        self._written_bytes = 0
        self._written_seq = 0

    def refuses(self, size: int) -> bool:
        """Return whether a message of `size` bytes would be too much."""
        if size > self._max_bytes:
            return True
        visible = self._store.visible_seq
        if visible >= self._last_seq:
            return False
        messages, waiting = self._messages, self._bytes
        if visible < self._written_seq:
            messages += self._written_messages
            waiting += self._written_bytes
        return messages >= self._max_messages or waiting + size > self._max_bytes

    def stored(self, seq: int, size: int) -> None:
        """Count a message that was stored."""
        group = self._store.group
        if group != self._group:
            self._group = group
            self._written_messages, self._messages = self._messages, 0
            self._written_bytes, self._bytes = self._bytes, 0
            self._written_seq = self._last_seq
        self._messages += 1
        self._bytes += size
        self._last_seq = seq

    def refuses_lines(self, count: int, size: int) -> bool:
        """Return whether any of `count` messages, of `size` bytes together, might be too much."""
        messages, waiting = count, size
        visible = self._store.visible_seq
        if visible < self._last_seq:
            messages += self._messages
            waiting += self._bytes
            if visible < self._written_seq:
                messages += self._written_messages
                waiting += self._written_bytes
        return messages > self._max_messages or waiting > self._max_bytes

    def stored_lines(self, seq: int, count: int, size: int) -> None:
        """Count `count` messages, the last of them `seq`, of `size` bytes together."""
        self.stored(seq, size)
        self._messages += count - 1
