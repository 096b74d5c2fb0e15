"""What a match yields: the plain subscriptions, and the queue groups to choose one member from."""

from midge.sublist.subscription import Subscription

_UNKNOWN = -1


class QueueGroup:
    """The members of one queue group for one subject.

    The members never change. `turn` is where the next round-robin choice starts; it is no part of
    the value, and losing it to a rebuilt result only moves the start of the round.
    """

    __slots__ = ("members", "name", "turn")

    def __init__(self, name: bytes, members: tuple[Subscription, ...], turn: int = 0) -> None:
        self.name = name
        self.members = members
        self.turn = turn

    def __repr__(self) -> str:
        return f"<QueueGroup {self.name!r} of {len(self.members)}>"


class SubListResult:
    """The subscriptions that one subject reaches; immutable, so it can be shared and cached."""

    __slots__ = ("_owners_differ", "plain", "queues")

    def __init__(
        self, plain: tuple[Subscription, ...] = (), queues: tuple[QueueGroup, ...] = ()
    ) -> None:
        self.plain = plain
        self.queues = queues
        self._owners_differ = _UNKNOWN

    def __bool__(self) -> bool:
        return bool(self.plain or self.queues)

    def fan_out(self) -> int:
        """Count the deliveries that one message makes: every plain one, and one per queue group."""
        return len(self.plain) + len(self.queues)

    def reach(self) -> int:
        """Count every subscription in the result, members of queue groups included."""
        count = len(self.plain)
        for group in self.queues:
            count += len(group.members)
        return count

    def owners_differ(self) -> bool:
        """Tell whether no two of the plain subscriptions have the same owner."""
        if self._owners_differ == _UNKNOWN:
            owners = set()
            for subscription in self.plain:
                owners.add(id(subscription.owned_by()))
            self._owners_differ = len(owners) == len(self.plain)
        return bool(self._owners_differ)

    def subscriptions(self) -> list[Subscription]:
        """List every subscription in the result, members of queue groups included."""
        found = list(self.plain)
        for group in self.queues:
            found.extend(group.members)
        return found

    def with_added(self, subscription: Subscription) -> "SubListResult":
        """Give a copy of this result that holds `subscription` too."""
        if subscription.queue is None:
            return SubListResult((*self.plain, subscription), self.queues)
        groups = list(self.queues)
        for i, group in enumerate(groups):
            if group.name == subscription.queue:
                groups[i] = QueueGroup(group.name, (*group.members, subscription), group.turn)
                break
        else:
            groups.append(QueueGroup(subscription.queue, (subscription,)))
        return SubListResult(self.plain, tuple(groups))

    def __repr__(self) -> str:
        return f"<SubListResult plain={len(self.plain)} queues={list(self.queues)}>"


EMPTY_RESULT = SubListResult()
