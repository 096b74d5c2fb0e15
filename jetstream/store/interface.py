"""Messages as a store shows them, what it reports to its owners, and its errors."""

from __future__ import annotations

from typing import Protocol

from midge.protocol import memory
from midge.protocol.errors import MidgeError

_NOTHING = bytearray()


class StoreError(MidgeError):
    """The store cannot do what it is asked; nothing has changed."""


class StoreKeyError(StoreError):
    """The store is encrypted, and its key is missing or another one."""


class StoreFullError(StoreError):
    """The disk has no room for another message; removals are still possible."""


class StoreFailedError(StoreError):
    """A sync failed: the store refuses changes until it is opened again."""


class LoadedMessage:
    """A message as it was stored.

    `headers` is the whole header block with its blank line, empty when the message has none.
    `time_ns` counts from the epoch.
    """

    __slots__ = ("headers", "payload", "seq", "subject", "time_ns")

    def __init__(
        self, seq: int, time_ns: int, subject: bytes, headers: bytes, payload: bytes
    ) -> None:
        self.seq = seq
        self.time_ns = time_ns
        self.subject = subject
        self.headers = headers
        self.payload = payload

    def __repr__(self) -> str:
        """Show what distinguishes messages."""
        return f"StoredMessage({self.seq}, {self.subject!r}, {len(self.payload)} bytes)"


class MessageView:
    """The message that a store was last asked to show: its parts are ranges of the store's buffers.

    It is valid until the next call of the store, or of anything that may call it. The payload
    follows the headers: both are ranges of `body`.
    """

    __slots__ = (
        "body",
        "headers_start",
        "payload_end",
        "payload_start",
        "seq",
        "subject",
        "subject_end",
        "subject_start",
        "time_ns",
    )

    def __init__(self) -> None:
        self.seq = 0
        self.time_ns = 0
        self.subject = _NOTHING
        self.subject_start = 0
        self.subject_end = 0
        self.body = _NOTHING
        self.headers_start = 0
        self.payload_start = 0
        self.payload_end = 0

    def size(self) -> int:
        """Return the length of subject, headers and payload together."""
        return self.subject_end - self.subject_start + self.payload_end - self.headers_start

    def copied(self) -> LoadedMessage:
        """Return the message as an object of its own."""
        return LoadedMessage(
            self.seq,
            self.time_ns,
            memory.take(self.subject, self.subject_start, self.subject_end),
            memory.take(self.body, self.headers_start, self.payload_start),
            memory.take(self.body, self.payload_start, self.payload_end),
        )


class SubjectState:
    """How often a subject is stored, and the first and the last sequence of it."""

    __slots__ = ("count", "first_seq", "last_seq", "subject")

    def __init__(self, subject: bytes, count: int, first_seq: int, last_seq: int) -> None:
        self.subject = subject
        self.count = count
        self.first_seq = first_seq
        self.last_seq = last_seq


class GroupListener:
    """Gets the result of each group of a store; all calls come on the event loop."""

    def durable(self, group: int) -> None:
        """Called when `group` and all earlier groups are on the disk."""

    def failed(self, group: int, error: StoreError) -> None:
        """Called when `group` and all later ones are lost, and their changes have been undone."""


class Keeper:
    """Reads messages before they are removed."""

    def removing(self, seq: int) -> None:
        """Called before a message is removed; it can still be loaded.

        See also `Store.load_departing`.
        """
        raise NotImplementedError

    def removing_all(self) -> None:
        """Called before all messages are removed at once."""
        raise NotImplementedError


class Waiter(Protocol):
    """Reads messages, and can wait for those that are not in memory."""

    def fetched(self) -> None:
        """Called when the data has been fetched."""
