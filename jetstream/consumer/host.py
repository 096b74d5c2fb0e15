"""Interface of a stream to its consumers: store, clock and sink, and the methods they call."""

from __future__ import annotations

from typing import Protocol

from midge.jetstream.consumer.progress import Progress
from midge.jetstream.environment.clock import Clock
from midge.jetstream.environment.sink import Sink
from midge.jetstream.store.interface import MessageView
from midge.jetstream.store.store import Store


class Deliverer(Protocol):
    """A consumer, as those see it that divide turns."""

    def deliver(self, budget: int) -> int:
        """Deliver what takes about `budget` bytes of a turn; return what it took."""


class ConsumerHost:
    """The interface of a stream for its consumers.

    `retention`, `subjects` and the rest follow the stream's configuration. `known_removals` counts
    the removals that consumers were notified of one by one, or that do not change their counts.
    `view` is the view through which deliveries read messages.
    """

    def __init__(self, stream: bytes, store: Store, sink: Sink, clock: Clock) -> None:
        self.stream = stream
        self.store = store
        self.sink = sink
        self.clock = clock
        self.view = MessageView()
        self.retention = "limits"
        self.max_msgs_per_subject = -1
        self.max_msg_size = -1
        self.max_payload = 1024 * 1024
        self.domain = ""
        self.account = "$G"
        self.account_hash = ""
        self.has_second_acks = False
        self.known_removals = 0

    def ready(self, consumer: Deliverer) -> None:
        """Schedule `consumer.deliver` with a share of a turn."""
        raise NotImplementedError

    def acked(self, seq: int) -> None:
        """Handle the ack of a message of an interest or work queue stream."""
        raise NotImplementedError

    def acked_many(self, seqs: list[int]) -> None:
        """Do the same for many messages."""
        raise NotImplementedError

    def moved(self, consumer: Progress) -> None:
        """Called when a consumer no longer needs any message below its floor."""
        raise NotImplementedError

    def expired(self, consumer: Progress) -> None:
        """Delete a consumer that was not used for its inactive threshold."""
        raise NotImplementedError

    def random(self) -> float:
        """Return a number from 0 up to 1."""
        raise NotImplementedError

    def new_id(self) -> str:
        """Return a unique identifier of 22 letters and digits."""
        raise NotImplementedError
