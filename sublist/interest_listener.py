"""Interface for listeners to changes of an account's interest."""

from typing import Protocol


class InterestListener(Protocol):
    """Listener for changes of interest in a subject, plain or of a named queue group.

    `insert` and `remove` call it after they have released the lock; it must not raise.
    """

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Called after the first subscription of its kind was added."""

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Called after the last subscription of its kind was removed."""

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Called when a queue group that existed before, and still exists, changed its size."""

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Called after a link added or removed interest; other links may still have the same."""
