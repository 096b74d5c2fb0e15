"""Delivers published messages to the subscriptions that match.

Each plain subscription gets the message, and so does one member of each queue group: the next in
turn, or a random one, that can take it. Frames are only appended here; a flush writes once to every
connection that got something, see flush_scheduler.py.
"""

from array import array
from collections.abc import Callable
from random import Random
from typing import Any

from midge.protocol import memory
from midge.protocol.frame import Frame
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.contained_faults import ContainedFaults
from midge.server.routing.flush_scheduler import FlushScheduler
from midge.server.routing.message_observer import MessageObserver
from midge.server.routing.receivers import (
    CarriedGroup,
    deliver_to_each,
    forward,
    forward_run,
    links_take_run,
    pick_instead,
    pick_links,
    send_to_all,
    take_carried,
)
from midge.server.routing.runs import append_run_in_turn, takes_run
from midge.server.routing.slow_path import BEHIND, NO_HEADERS
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import EMPTY_RESULT, QueueGroup, SubListResult

REFUSED = 0
TAKEN = 1
FAILED = 2
"""The outcomes of a delivery."""

SIZE_BUCKETS = 17
"""Counts of messages by size: bucket `n` is for sizes above 4 ** (n - 1) and up to 4 ** n."""

DEFERRED = Frame()
"""Returned by `Client.checked` for a frame that it delivers and counts later."""


class Router(FlushScheduler):
    """Delivers frames; one per server and loop, since it collects the clients to be flushed.

    With `chooser`, the member of a queue group is chosen by it at random instead of in turn.
    `observer` is notified of every message once it has been routed. `offers` counts the
    subscriptions that messages were offered to, whether they took them or not, in every
    account that a message came to: the work that its publisher has made. `choices` counts the
    receivers chosen for queue groups, members and links: one for each group of a message. `faults`
    are those of internal subscribers and observers; they close no connection. `crossed` is the
    number of links that the observed message went over; receivers behind them are not counted here.
    `carried` takes the queue groups in other accounts that the message has reached: see
    receivers.py. `sizes` counts clients' messages by size: see SIZE_BUCKETS;
    `counts_by_size` are its items, which `memory.count_by_size` adds to. `spans` reports messages
    with a sampled `traceparent`, unless it is None: see broker/spans.py.
    """

    __slots__ = (
        "carried",
        "choices",
        "chooser",
        "counts_by_size",
        "crossed",
        "faults",
        "observer",
        "offers",
        "sizes",
        "spans",
    )

    def __init__(
        self,
        chooser: Random | None = None,
        faults: ContainedFaults | None = None,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        FlushScheduler.__init__(self, soon)
        self.chooser = chooser
        self.faults = faults or ContainedFaults()
        self.observer: MessageObserver | None = None
        self.offers = 0
        self.choices = 0
        self.crossed = 0
        self.carried: list[CarriedGroup] = []
        self.sizes = array("q", bytes(8 * SIZE_BUCKETS))
        self.counts_by_size = memory.int64_items(self.sizes)
        self.spans: Any = None

    def route(
        self, account: Account, result: SubListResult, publisher: Client | None, frame: Frame
    ) -> int:
        """Deliver `frame` to those in `result`, of `account`; return how many have taken it.

        Internal subscribers that have failed count as well: the message had a receiver.
        """
        lone: Any = result.lone  # a routed one, in the SubLists of a server
        if lone is not None and lone.client is not None and self.observer is None:
            self.offers += 1
            return self.deliver(lone, publisher, frame)  # nothing fails that a client receives
        if result.queues or self.observer is not None:
            return self._route_widely(account, result, publisher, frame, frame)
        remotes = result.remotes
        if remotes is None:
            return self._deliver_to_all(result.plain, publisher, frame)
        if remotes.queues:
            return self._route_widely(account, result, publisher, frame, frame)
        taken = self._offer_to_all(result.plain, publisher, frame)
        self.offers += len(remotes.plain)
        if self.carried:
            return taken + self._forward_carried(result, publisher, frame)
        return taken + send_to_all(remotes.plain, publisher, frame)

    def route_in_two_forms(
        self,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        over: Frame,
    ) -> int:
        """Do what `route` does, with the form `over` of the message for links.

        The receivers are chosen once, so a queue group has one of them, here or behind a link.
        """
        return self._route_widely(account, result, publisher, frame, over)

    def show_traced(
        self, publisher: Client, frame: Frame, plain: int, queued: int, crossed: int
    ) -> None:
        """Show the observer a message that a trace has delivered, with the numbers of receivers."""
        if self.observer is not None:
            self.crossed = crossed
            self._show_message(publisher.account, publisher, frame, plain, queued)

    def _route_widely(
        self,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        over: Frame,
    ) -> int:
        """Do what `route` does where there are queue groups, links or an observer."""
        plain = failed = queued = crossed = 0
        picked: dict[bytes, Client] | None = None
        carried: dict[bytes, list[CarriedGroup]] | None = None
        subscriptions: tuple[Any, ...] = result.plain  # routed ones, in the SubLists of a server
        self.offers += len(subscriptions)
        for subscription in subscriptions:
            outcome = self.deliver(subscription, publisher, frame)
            plain += outcome == TAKEN
            failed += outcome == FAILED
        if self.carried:
            carried = take_carried(self.carried, frame)
        if result.remotes is not None:
            picked = self._pick_links(result, publisher, carried)
        if carried is not None:
            queued += self._deliver_carried(result, publisher, frame, carried, picked)
        for group in result.queues:
            if _is_in(picked, group.name) or _is_in(carried, group.name):
                continue
            outcome = self._deliver_to_group(group, publisher, frame)
            if outcome == TAKEN:
                queued += 1
            elif outcome == FAILED:
                failed += 1
            else:
                picked = self._pick_instead(group.name, result, publisher, picked)
        if result.remotes is not None:
            self.offers += len(result.remotes.plain)
            crossed = forward(result, publisher, over, picked, carried)
            plain += crossed
        if self.observer is not None:
            self.crossed = crossed
            self._show_message(account, publisher, frame, plain, queued)
        return plain + queued + failed

    def _pick_links(
        self,
        result: SubListResult,
        publisher: Client | None,
        carried: dict[bytes, list[CarriedGroup]] | None,
    ) -> dict[bytes, Client] | None:
        """Choose the links of `result`, which has remotes, for queue groups."""
        remotes = result.remotes
        assert remotes is not None, "called for what lies behind links"
        self.offers += len(remotes.queues)
        picked = pick_links(result, publisher, self.chooser, carried)
        if picked is not None:
            self.choices += len(picked)
        return picked

    def _pick_instead(
        self,
        name: bytes,
        result: SubListResult,
        publisher: Client | None,
        picked: dict[bytes, Client] | None,
    ) -> dict[bytes, Client] | None:
        """Return `picked` with a link, if there is one, for the group `name` that took nothing."""
        link = pick_instead(name, result, publisher, self.chooser)
        if link is None:
            return picked
        self.choices += 1
        picked = {} if picked is None else picked
        picked[name] = link
        return picked

    def _deliver_to_all(
        self, subscriptions: tuple[Any, ...], publisher: Client | None, frame: Frame
    ) -> int:
        """Deliver `frame` to `subscriptions` and to the groups that imports have reached."""
        taken = self._offer_to_all(subscriptions, publisher, frame)
        if self.carried:
            carried = take_carried(self.carried, frame)
            taken += self._deliver_carried(EMPTY_RESULT, publisher, frame, carried, None)
        return taken

    def _offer_to_all(
        self, subscriptions: tuple[Any, ...], publisher: Client | None, frame: Frame
    ) -> int:
        """Deliver `frame` to `subscriptions`; return how many have taken it, or failed."""
        taken = 0
        self.offers += len(subscriptions)
        for subscription in subscriptions:
            if self.deliver(subscription, publisher, frame) != REFUSED:
                taken += 1
        return taken

    def _forward_carried(
        self, result: SubListResult, publisher: Client | None, frame: Frame
    ) -> int:
        """Deliver `frame` to the groups that imports have reached, and over links."""
        carried = take_carried(self.carried, frame)
        taken = self._deliver_carried(EMPTY_RESULT, publisher, frame, carried, None)
        return taken + forward(result, publisher, frame, None, carried)

    def _deliver_carried(
        self,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        carried: dict[bytes, list[CarriedGroup]],
        picked: dict[bytes, Client] | None,
    ) -> int:
        """Deliver `frame` to one member of each of the groups `carried`; return how many took it.

        Members in the account itself count, too, and those of links that were picked do instead.
        """

        def deliver_to_own(group: QueueGroup) -> bool:
            return self._deliver_to_group(group, publisher, frame) != REFUSED

        self.offers += len(carried)
        choices = self.choices
        taken = deliver_to_each(carried, picked, result, deliver_to_own, self.chooser)
        self.choices = choices + taken
        return taken

    def route_run(
        self,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        count: int,
    ) -> int:
        """Deliver up to `count` messages, `frame` the first, to those in `result`; return how many.

        They lie one behind the other and differ in their payloads only. 0, and then nothing has
        happened, when each of them has to be looked at.
        """
        observer = self.observer
        if observer is not None and (result.queues or not observer.sees_runs()):
            return 0
        if result.queues:
            return self._route_run_in_turn(result, frame, count)
        if result.remotes is not None and not links_take_run(result, publisher, frame):
            return 0
        internal = None
        subscriptions: tuple[Any, ...] = result.plain
        for subscription in subscriptions:
            if subscription.client is not None:
                if not takes_run(subscription, frame):
                    return 0
            elif internal is None and subscription.max_messages == 0 and subscription.takes_runs():
                internal = subscription
            else:
                return 0
        if len(subscriptions) > 1 and not result.owners_differ():
            return 0  # a client sees the messages of all its subscriptions in turn
        if internal is not None:
            return self._route_run_through(internal, account, result, publisher, frame, count)
        self._append_run(account, result, publisher, frame, count)
        return count

    def deliver(
        self, subscription: RoutedSubscription, publisher: Client | None, frame: Frame
    ) -> int:
        """Deliver `frame` to one subscription; return TAKEN, REFUSED or FAILED.

        It is refused by a receiver that cannot or may not take it, and only internal ones fail.
        """
        client = subscription.client
        if client is None:
            return self._receive(subscription, publisher, frame)
        if client.deliver_checks and (
            client.deliver_checks != NO_HEADERS or frame.header_size >= 0
        ):
            allowed = client.checked(subscription, publisher, frame)
            if allowed is None:
                return REFUSED
            return TAKEN if allowed is DEFERRED else self._append(subscription, client, allowed)
        return self._append(subscription, client, frame)

    def _append(self, subscription: RoutedSubscription, client: Client, frame: Frame) -> int:
        """Write `frame` to `client` for its `subscription`, and count it; return TAKEN."""
        client.outbound.append_message(frame, subscription.sid)
        client.out_messages += 1
        client.out_bytes += frame.size
        subscription.delivered += 1
        if subscription.delivered == subscription.max_messages:
            client.finished(subscription)
        if not client.dirty:
            self._note_dirty(client)
        if client.outbound.behind and not client.deliver_checks & BEHIND:
            client.flushed()  # it has filled a chunk that its socket did not take
        return TAKEN

    def _deliver_to_group(self, group: QueueGroup, publisher: Client | None, frame: Frame) -> int:
        """Deliver `frame` to the first member, from the one whose turn it is on, that takes it.

        A member that fails has had its chance: what it did before it failed is not known, so no
        other is asked.
        """
        members: tuple[Any, ...] = group.members
        count = len(members)
        start = group.turn if self.chooser is None else self.chooser.randrange(count)
        for i in range(count):
            chosen = (start + i) % count
            self.offers += 1
            outcome = self.deliver(members[chosen], publisher, frame)
            if outcome != REFUSED:
                group.turn = chosen + 1
                self.choices += 1
                return outcome
        return REFUSED

    # Runs.

    def _route_run_in_turn(self, result: SubListResult, frame: Frame, count: int) -> int:
        """Deliver a run to the members of one queue group, and to no others; return how many.

        0, and then nothing has happened, when each message has to be looked at.
        """
        if (
            len(result.queues) != 1
            or result.plain
            or result.remotes is not None
            or self.chooser is not None
        ):
            return 0
        served = append_run_in_turn(result.queues[0], frame, count)
        for member in served:
            client = member.client
            self.touch(client)
            if client.outbound.behind:
                client.flushed()
        return count if served else 0

    def _append_run(
        self,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        count: int,
    ) -> None:
        """Write `count` messages to the clients in `result`, and show them to the observer."""
        subscriptions: tuple[Any, ...] = result.plain
        for subscription in subscriptions:
            client = subscription.client
            if client is None:
                continue  # internal, and has had them
            client.outbound.append_run(frame, subscription.sid, count)
            client.out_messages += count
            client.out_bytes += count * frame.size
            subscription.delivered += count
            self.touch(client)
            if client.outbound.behind:
                client.flushed()
        crossed = 0
        if result.remotes is not None:
            crossed = forward_run(result, publisher, frame, count)
        if self.observer is not None:
            self.crossed = crossed
            self._show_run(account, publisher, frame, count, len(subscriptions) + crossed)

    def _route_run_through(
        self,
        internal: RoutedSubscription,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        count: int,
    ) -> int:
        """Deliver as many messages of a run to everyone as `internal` takes; return how many.

        If it fails, what it took before counts; the message with which it failed goes to the
        others, and is not offered to it again. It takes none where there are groups behind links,
        as it may be an import, whose groups are to be looked at with those for each message.
        """
        if result.remotes is not None and result.remotes.queues:
            return 0
        base = frame.base
        has_failed = False
        try:
            taken = min(internal.receive_run(publisher, frame, count), count)
        except Exception as error:  # noqa: BLE001 - the publisher has no part in it
            taken = min(max((frame.base - base) // frame.end, 0), count - 1)
            has_failed = True
            self.faults.note(internal, error)
        finally:
            frame.base = base
        if taken > 0:
            internal.delivered += taken
            if self._all_take_run(result, frame):
                self._append_run(account, result, publisher, frame, taken)
            else:
                for _ in range(taken):
                    self._route_past(internal, account, result, publisher, frame, 1)
                    frame.base += frame.end
        if has_failed:
            frame.base = base + taken * frame.end
            self._route_past(internal, account, result, publisher, frame, 0)
            taken += 1
        frame.base = base
        return taken

    def _all_take_run(self, result: SubListResult, frame: Frame) -> bool:
        """Return whether the clients in `result` still get all messages of a run."""
        subscriptions: tuple[Any, ...] = result.plain
        for subscription in subscriptions:
            if subscription.client is not None and not takes_run(subscription, frame):
                return False
        return result.remotes is None or links_take_run(result, None, frame)

    def _route_past(
        self,
        internal: RoutedSubscription,
        account: Account,
        result: SubListResult,
        publisher: Client | None,
        frame: Frame,
        plain: int,
    ) -> None:
        """Deliver `frame` to the clients in `result`; `internal` has had it, as `plain` says."""
        subscriptions: tuple[Any, ...] = result.plain
        for subscription in subscriptions:
            if subscription is internal or 0 < subscription.max_messages <= subscription.delivered:
                continue
            if self.deliver(subscription, publisher, frame) == TAKEN:
                plain += 1
        crossed = 0
        if result.remotes is not None:
            self.offers += len(result.remotes.plain)
            crossed = forward(result, publisher, frame, None, None)
        if self.observer is not None:
            self.crossed = crossed
            self._show_message(account, publisher, frame, plain + crossed, 0)

    # What may fail: each has a function of its own, for a `try` costs its function time.

    def _receive(
        self, subscription: RoutedSubscription, publisher: Client | None, frame: Frame
    ) -> int:
        """Pass `frame` to an internal subscriber, and contain what it raises."""
        base = frame.base
        try:
            if not subscription.receive(publisher, frame):
                return REFUSED
        except Exception as error:  # noqa: BLE001 - the publisher has no part in it
            frame.base = base
            self.faults.note(subscription, error)
            return FAILED
        subscription.delivered += 1
        return TAKEN

    def _show_message(
        self, account: Account, publisher: Client | None, frame: Frame, plain: int, queued: int
    ) -> None:
        """Show a message to the observer, and contain what that raises."""
        observer = self.observer
        assert observer is not None, "there is something to show because there is an observer"
        try:
            observer.message_routed(account, publisher, frame, plain, queued)
        except Exception as error:  # noqa: BLE001 - the publisher has no part in it
            self.faults.note(observer, error)

    def _show_run(
        self, account: Account, publisher: Client | None, frame: Frame, count: int, plain: int
    ) -> None:
        """Show a run to the observer, and contain what that raises."""
        observer = self.observer
        assert observer is not None, "there is something to show because there is an observer"
        base = frame.base
        try:
            observer.run_routed(account, publisher, frame, count, plain)
        except Exception as error:  # noqa: BLE001 - the publisher has no part in it
            frame.base = base
            self.faults.note(observer, error)


def _is_in(groups: dict[bytes, Any] | None, name: bytes) -> bool:
    """Return whether `groups`, if there are any, have the name."""
    return groups is not None and name in groups
