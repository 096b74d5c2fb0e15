"""Interface of a stream to its consumers: store, clock and sink, and the methods they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.jetstream.environment.surroundings import ReadyConsumer, Surroundings
from midge.jetstream.environment.ticks import ticks_of
from midge.jetstream.store.interface import MessageView
from midge.jetstream.store.store import Store

if TYPE_CHECKING:
    from midge.jetstream.consumer.requests import PullRequest


class ConsumerHost:
    """The interface of a stream for its consumers.

    `retention` and the limits follow the stream's configuration. `known_removals` counts the
    removals that consumers were notified of one by one, or that do not change their counts.

    One consumer delivers at a time: `turn` is the number of its turn, `now_ns` and `wall_ns` the
    time at its begin, `view` the view through which it reads messages, and `receiving` the requests
    that hold a receiver in it.
    """

    def __init__(self, stream: bytes, store: Store, around: Surroundings) -> None:
        self.stream = stream
        self.store = store
        self.around = around
        self.sink = around.sink
        self.clock = around.clock
        self.ticks = ticks_of(around.clock)
        self.view = MessageView()
        self.retention = "limits"
        self.max_msgs_per_subject = -1
        self.max_msg_size = -1
        self.known_removals = 0
        self.turn = 0
        self.now_ns = 0
        self.wall_ns = 0
        self.receiving: list[PullRequest] = []

    def begin_turn(self) -> None:
        """Begin a consumer's turn of deliveries."""
        self.turn += 1
        self.now_ns = self.ticks.monotonic_ns()
        self.wall_ns = self.ticks.wall_ns()

    def ready(self, consumer: ReadyConsumer) -> None:
        """Schedule `consumer.deliver` with a share of a turn."""
        self.around.ready(consumer)

    def subject_of(self, kind: bytes, name: bytes) -> bytes:
        """Return the subject of a consumer that begins with ``$JS.<kind>.`` up to its last dot."""
        around = self.around
        if not around.has_second_acks:
            return b"$JS.%b.%b.%b." % (kind, self.stream, name)
        domain = (around.domain or "_").encode()
        account = around.account_hash.encode()
        return b"$JS.%b.%b.%b.%b.%b." % (kind, domain, account, self.stream, name)

    def acked(self, seq: int, others: list[int] | None) -> None:
        """Handle acks of messages of an interest or work queue stream: `seq`, and `others`."""
        raise NotImplementedError

    def expired(self, name: bytes) -> None:
        """Delete a consumer that was not used for its inactive threshold."""
        raise NotImplementedError
