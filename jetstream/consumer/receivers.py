"""The choice of the next receiver: `pull.PullRequests` or `push.DeliverSubject`."""

from __future__ import annotations

from midge.jetstream.config.consumer_config import ConsumerConfig
from midge.jetstream.environment.sink import Receiver
from midge.jetstream.store.interface import MessageView


class Receivers:
    """The receivers of a consumer's messages; an instance of this class has none, for its end.

    A message goes directly from the store to the result of `next_receiver`, or else to the subject
    that `next_subject` returns. Both count it as theirs; `delivered` then ends the delivery.
    `header_line` is added to the headers of messages that go to a subject.
    """

    def __init__(self) -> None:
        self.header_line = b""

    # For each message.

    def is_open(self) -> bool:
        """Return whether there may be a receiver."""
        return False

    def next_receiver(self, view: MessageView) -> Receiver | None:
        """Return the receiver that takes `view` directly from the store, if there is one."""
        return None

    def next_subject(self, size: int) -> bytes | None:
        """Return the subject that a message of this size goes to; None without a receiver."""
        return None

    def delivered(self, size: int, *, is_taken: bool) -> None:
        """Count the bytes of a delivery, or take the choice back if the message was not taken."""

    def end_turn(self, *, is_drained: bool, is_at_end: bool) -> None:
        """End a turn; `is_drained` if nothing more can be delivered, `is_at_end` of the stream."""

    # The life of the consumer.

    def follow(self, config: ConsumerConfig) -> None:
        """Follow a change of the configuration."""

    def start(self) -> None:
        """Begin to look for receivers."""

    def stop(self) -> None:
        """Cancel all timers; send nothing."""

    def release(self) -> None:
        """Answer waiting requests, as the consumer is deleted."""

    def request(self, reply: bytes, body: bytes) -> None:
        """Take a pull request."""

    def disk_answered(self) -> None:
        """Called when the messages that waited for the disk are durable or lost."""

    def used_until_ns(self, now_ns: int) -> int:
        """Return until when the consumer counts as used; 0 if it is not used."""
        return 0

    # Reports.

    def num_waiting(self) -> int:
        """Return how many requests wait."""
        return 0

    def is_bound(self) -> bool:
        """Return whether the deliver subject has a subscriber."""
        return False

    def priority_groups(self) -> list[dict[str, str]]:
        """Return what a report says of the priority groups."""
        return []


NO_RECEIVERS = Receivers()
