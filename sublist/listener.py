"""Interface for listeners to changes of an account's interest."""

from typing import Protocol


class InterestListener(Protocol):
    """Listener for changes of interest in a subject, plain or of a named queue group.

    Called from `insert` and `remove` after the lock is released; must not raise.
    """

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Called after the first subscription of its kind was added."""

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Called after the last subscription of its kind was removed."""

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Called when a queue group that already existed, and still does, changed its size."""

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Take note that a link has told of interest, or of its end; others may still have it."""
