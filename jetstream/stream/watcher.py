"""What a stream tells its consumers, and asks them."""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """A consumer, as its stream sees it. Empty `filters` stand for all messages."""

    filters: tuple[bytes, ...]

    def stored(self, seq: int) -> None:
        """Take note that a message that matches the filters has become visible."""

    def removed(self, seq: int) -> None:
        """Take note that a message that matches the filters is no longer stored."""

    def trimmed(self) -> None:
        """Take note that the oldest messages have gone."""

    def purged(self, subject: bytes | None) -> None:
        """Take note that messages of `subject`, None for all, have been purged."""

    def needs(self, seq: int) -> bool:
        """Tell whether a message has not been settled, so that the stream must keep it."""

    def exceeds(self, inactive_threshold_ns: int, max_ack_pending: int) -> bool:
        """Tell whether the configuration is beyond limits of the stream, 0 for none."""

    def retention_changed(self, retention: str) -> None:
        """Follow a change of the stream's retention."""

    def stream_deleted(self) -> None:
        """End, and tell those who wait that the consumer is gone with its stream."""
