"""From one published message to everybody who gets it.

Each plain subscription gets the message, and one member of each queue group: the next in turn, or a
random one, that can take it. Frames are only appended here; `flush` writes once to every
connection that got something, at the end of the batch of reads in which it came.
"""

from random import Random
from typing import Any

from midge.protocol.frame import Frame
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.observer import Observer
from midge.server.routing.slow_path import DENIED_SUBJECTS, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import QueueGroup, SubListResult

SWALLOWED = Frame()
"""What `Client.checked` gives for a frame that it has taken; it delivers and counts it later."""


class Router:
    """Delivers frames; one per server and loop, for it notes who has to be flushed.

    With `chooser`, the member of a queue group is chosen by it at random instead of in turn.
    `observer`, if any, is told of every message once it has been routed. `batches` goes up with
    every batch of reads, so that who looks on need not ask for the time of each message. `offers`
    counts the subscriptions that messages were offered to, whether they took them or not, in every
    account that a message came to: the work that its publisher has made.
    """

    __slots__ = ("_dirty", "batches", "chooser", "observer", "offers")

    def __init__(self, chooser: Random | None = None) -> None:
        self.chooser = chooser
        self.observer: Observer | None = None
        self.batches = 0
        self.offers = 0
        self._dirty: list[Client] = []

    def route(
        self, account: Account, result: SubListResult, publisher: Client | None, frame: Frame
    ) -> int:
        """Deliver `frame` to those in `result`, of `account`; give how many have taken it."""
        plain = 0
        subscriptions: tuple[Any, ...] = result.plain  # routed ones, in the SubLists of a server
        self.offers += len(subscriptions)
        for subscription in subscriptions:
            if self.deliver(subscription, publisher, frame):
                plain += 1
        queued = 0
        for group in result.queues:
            if self._deliver_to_group(group, publisher, frame):
                queued += 1
        if self.observer is not None:
            self.observer.message_routed(account, publisher, frame, plain, queued)
        return plain + queued

    def route_run(
        self,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        count: int,
    ) -> bool:
        """Deliver `count` messages, `frame` the first, to those in `result`, one after the other.

        They lie one behind the other and differ in their payloads only. False, and then nothing has
        happened, when somebody has to look at each of them.
        """
        observer = self.observer
        if result.queues or (observer is not None and not observer.sees_runs()):
            return False
        subscriptions: tuple[Any, ...] = result.plain
        for subscription in subscriptions:
            client = subscription.client
            if client is None or subscription.max_messages > 0:
                return False
            checks = client.deliver_checks
            if checks & ~(NO_HEADERS | DENIED_SUBJECTS):
                return False
            if checks & NO_HEADERS and frame.header_size >= 0:
                return False
            if checks & DENIED_SUBJECTS and client.checked(subscription, None, frame) is not frame:
                return False  # all have one subject, so that one answer counts for all
        if len(subscriptions) > 1 and not result.owners_differ():
            return False  # a client sees the messages of all its subscriptions in turn
        for subscription in subscriptions:
            client = subscription.client
            client.outbound.append_run(frame, subscription.sid, count)
            client.out_messages += count
            client.out_bytes += count * frame.size
            subscription.delivered += count
            self.touch(client)
        if observer is not None:
            observer.run_routed(account, publisher, frame, count, len(subscriptions))
        return True

    def deliver(
        self, subscription: RoutedSubscription, publisher: Client | None, frame: Frame
    ) -> bool:
        """Deliver `frame` to one subscription; False when it cannot or may not take it."""
        client = subscription.client
        if client is None:
            if not subscription.receive(publisher, frame):
                return False
            subscription.delivered += 1
            return True
        checks = client.deliver_checks
        if checks == NO_HEADERS and frame.header_size < 0:
            checks = 0  # what it could not read is not there
        if checks:
            allowed = client.checked(subscription, publisher, frame)
            if allowed is None:
                return False
            if allowed is SWALLOWED:
                return True
            frame = allowed
        client.outbound.append_message(frame, subscription.sid)
        client.out_messages += 1
        client.out_bytes += frame.size
        subscription.delivered += 1
        if subscription.delivered == subscription.max_messages:
            client.finished(subscription)
        if not client.dirty:
            client.dirty = True
            self._dirty.append(client)
        return True

    def touch(self, client: Client) -> None:
        """Have `client` flushed with the others: something has been appended to its output."""
        if not client.dirty:
            client.dirty = True
            self._dirty.append(client)

    def flush(self) -> None:
        """Write what has been appended since the last flush."""
        self.batches += 1
        dirty = self._dirty
        if not dirty:
            return
        self._dirty = []
        done = 0
        try:
            for client in dirty:
                done += 1
                client.dirty = False
                client.outbound.flush()
                client.flushed()
        finally:
            if done < len(dirty):
                self._dirty = dirty[done:] + self._dirty  # one fault is not to silence the others

    def _deliver_to_group(self, group: QueueGroup, publisher: Client | None, frame: Frame) -> bool:
        """Deliver `frame` to the first member, from the one whose turn it is on, that takes it."""
        members: tuple[Any, ...] = group.members
        count = len(members)
        start = group.turn if self.chooser is None else self.chooser.randrange(count)
        for i in range(count):
            chosen = (start + i) % count
            self.offers += 1
            if self.deliver(members[chosen], publisher, frame):
                group.turn = chosen + 1
                return True
        return False
