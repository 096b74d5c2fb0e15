"""What of a consumer is kept beside its stream: changes within 100 ms, confirmed acks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream.clock import Timer

if TYPE_CHECKING:
    from midge.jetstream.consumer.consumer import Consumer

WRITE_DELAY_S = 0.1
"""How much a crash may bring back: the deliveries and unconfirmed acks of so long."""


class ConsumerLog:
    """Collects the changes of one consumer and writes them."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._changed: set[int] = set()
        self._timer: Timer | None = None

    def delivered(self, seq: int) -> None:
        """Take note that a message was delivered."""

    def settled(self, seq: int) -> None:
        """Take note that a message is no longer pending."""

    def confirm(self, reply: bytes) -> None:
        """Write all changes, and answer `reply` once they are durable."""

    def replaced(self) -> None:
        """Take note that the whole state is another one."""
