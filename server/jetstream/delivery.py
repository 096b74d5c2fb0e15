"""Turns of delivery: consumers with something to send share the loop with all others.

A consumer that is ready waits for a turn of the server's, as a connection does that has more to
say. A turn's share is divided among the consumers that are ready, one portion each in the order in
which they became so. A turn ends with its share, or when it has taken as long as one connection may
take: a consumer that passes over most of what it reads costs more time than it is charged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from midge.jetstream.environment.surroundings import ReadyConsumer
from midge.server.channels.fair_turns import BUSY_S, FairTurns
from midge.server.jetstream.receiver import ProducersTurn
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.role import Role
from midge.server.routing.router import Router

if TYPE_CHECKING:
    from midge.server.jetstream.stream_clock import StreamClock

PORTION_BYTES = 256 * 1024
"""Most that one consumer delivers before the next one: some 500 messages of 256 B and
their cost."""

_PORTION_BYTES = PORTION_BYTES  # C numbers where this is compiled
_BUSY_NS = int(BUSY_S * 1e9)

_NO_CHUNKS = ChunkPool()  # nothing is ever written to a producer


class Producer(Client):
    """A producer of messages within the server; `role` names its purpose.

    It has no cid (0 in records), and is in no list, count or metric of clients. `held_by` is a
    receiver with too much unsent output: the producer must not send until that has caught up or
    closed. Then `released` is called, if it is set.
    """

    def __init__(self, account: Account, role: Role) -> None:
        Client.__init__(self, 0, account, _NO_CHUNKS)
        self.role = role
        self.held_by: Client | None = None
        self.released: Callable[[], object] | None = None

    def pause_for(self, receiver: Client) -> None:
        """Wait for `receiver`, unless already waiting for another one."""
        if self.held_by is None:
            self.held_by = receiver
            receiver.held_publishers()[self] = None

    def release(self) -> None:
        """Resume: clear `held_by` and call `released`."""
        if self.held_by is not None:
            self.held_by = None
            if self.released is not None:
                self.released()


class Deliveries:
    """The consumers of one account that have messages to deliver.

    A consumer delivers on behalf of a producer, so that a slow receiver can pause it. A paused
    consumer waits until that receiver has caught up or has gone. At the end of a turn `router`
    writes the turn's deliveries.
    """

    def __init__(
        self,
        turns: FairTurns,
        account: Account,
        turn: ProducersTurn,
        router: Router,
        clock: StreamClock,
    ) -> None:
        self._turns = turns
        self._clock = clock
        self._router = router
        self._account = account
        self._turn = turn
        self._ready: deque[ReadyConsumer] = deque()
        self._held: set[ReadyConsumer] = set()
        self._producer = Producer(account, Role.JETSTREAM)
        self._is_waiting = False

    def ready(self, consumer: ReadyConsumer) -> None:
        """Call `consumer.deliver` in one of the next turns."""
        if consumer not in self._held and not self._delivers_at_once(consumer):
            self._ready.append(consumer)
            self._wait()

    def _delivers_at_once(self, consumer: ReadyConsumer) -> bool:
        """Deliver the one message that is asked for, unless others wait for their turns."""
        if not consumer.asks_for_one or self._ready or self._turn.producer is not None:
            return False
        left = self._turns.draw()
        if left <= 0:
            return False
        left -= self._deliver_portion(consumer, min(left, _PORTION_BYTES))
        self._turns.give_back(max(left, 0))
        return True

    def _wait(self) -> None:
        if self._ready and not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self._deliver)

    def _deliver(self) -> None:
        """Deliver for a turn, and write the deliveries in the same call of the loop."""
        self._router.write_after(self._take_turn)

    def _take_turn(self) -> None:
        """Deliver for the ready consumers until this turn is used up.

        It reads the clock only if there are several portions; a consumer that keeps up with its
        publishers mostly has one.
        """
        self._is_waiting = False
        left = self._turns.share()
        ends_at_ns = 0
        while left > 0 and self._ready:
            consumer = self._ready.popleft()
            left -= self._deliver_portion(consumer, min(left, _PORTION_BYTES))
            if not self._ready:
                break
            now_ns = self._clock.monotonic_ns()
            if not ends_at_ns:
                ends_at_ns = now_ns + _BUSY_NS
            elif now_ns >= ends_at_ns:
                break
        self._turns.give_back(max(left, 0))
        self._wait()

    def _deliver_portion(self, consumer: ReadyConsumer, portion: int) -> int:
        """Deliver a portion for one consumer; return its cost."""
        producer = self._turn.producer = self._producer
        try:
            return consumer.deliver(portion)
        finally:
            self._turn.producer = None
            if producer.held_by is not None:
                self._held.add(consumer)
                producer.released = partial(self._released, consumer)
                self._producer = Producer(self._account, Role.JETSTREAM)

    def _released(self, consumer: ReadyConsumer) -> None:
        """Go on with a consumer whose receiver has caught up, or has gone."""
        self._held.discard(consumer)
        self._ready.append(consumer)
        self._wait()
