"""The result of a match: the plain subscriptions, and the queue groups to choose one member from.

Interest behind links is kept apart in `remotes`, so that a result without remote interest costs one
test.
"""

from midge.sublist.subscription import Subscription

_UNKNOWN = -1


class QueueGroup:
    """The members of one queue group for one subject.

    The members never change. `turn` is the start of the next round-robin choice. It is not part of
    the value: a rebuilt result loses it, which only moves the start of the round.
    """

    __slots__ = ("members", "name", "turn")

    def __init__(self, name: bytes, members: tuple[Subscription, ...], turn: int = 0) -> None:
        self.name = name
        self.members = members
        self.turn = turn

    def __repr__(self) -> str:
        return f"<QueueGroup {self.name!r} of {len(self.members)}>"


class Remotes:
    """The part of a result behind links; immutable.

    `plain` has each remote with plain interest once, however many of its subscriptions match. If
    only one of them matches, its `only_receiver()` takes the remote's place. `queues` are the queue
    groups with members behind links, which are RemoteSubscriptions; local members of the same
    groups are in the result itself.
    """

    __slots__ = ("plain", "queues")

    def __init__(self, plain: tuple[object, ...] = (), queues: tuple[QueueGroup, ...] = ()) -> None:
        self.plain = plain
        self.queues = queues

    def __repr__(self) -> str:
        return f"<Remotes plain={len(self.plain)} queues={list(self.queues)}>"


class SubListResult:
    """The subscriptions that one subject reaches; immutable, so it can be shared and cached.

    `remotes` is None if no link has interest. `lone` is the plain subscription that is the only
    receiver, or None.
    """

    __slots__ = ("_owners_differ", "lone", "plain", "queues", "remotes")

    def __init__(
        self,
        plain: tuple[Subscription, ...] = (),
        queues: tuple[QueueGroup, ...] = (),
        remotes: Remotes | None = None,
    ) -> None:
        self.plain = plain
        self.queues = queues
        self.remotes = remotes
        is_lone = len(plain) == 1 and not queues and remotes is None
        self.lone = plain[0] if is_lone else None
        self._owners_differ = _UNKNOWN

    def __bool__(self) -> bool:
        return bool(self.plain or self.queues) or self.remotes is not None

    def fan_out(self) -> int:
        """Count the deliveries that one message makes: every plain one, and one per queue group.

        A remote with plain interest counts as one; groups without local members do not count.
        """
        count = len(self.plain) + len(self.queues)
        return count if self.remotes is None else count + len(self.remotes.plain)

    def count_run_deliveries(self) -> int:
        """Count the receivers of each message of a run: `fan_out`, and the groups behind links."""
        count = self.fan_out()
        return count if self.remotes is None else count + len(self.remotes.queues)

    def reach(self) -> int:
        """Count every subscription in the result, members of queue groups included."""
        count = len(self.plain)
        for group in self.queues:
            count += len(group.members)
        if self.remotes is not None:
            count += len(self.remotes.plain)
            for group in self.remotes.queues:
                count += len(group.members)
        return count

    def group(self, name: bytes) -> QueueGroup | None:
        """Return the queue group `name` of local members, or None."""
        for group in self.queues:
            if group.name == name:
                return group
        return None

    def count_members(self, name: bytes) -> int:
        """Count the local members of the queue group `name`."""
        for group in self.queues:
            if group.name == name:
                return len(group.members)
        return 0

    def owners_differ(self) -> bool:
        """Return whether no two of the plain subscriptions have the same owner."""
        if self._owners_differ == _UNKNOWN:
            owners = set()
            for subscription in self.plain:
                owners.add(id(subscription.owned_by()))
            self._owners_differ = len(owners) == len(self.plain)
        return bool(self._owners_differ)

    def subscriptions(self) -> list[Subscription]:
        """List every local subscription in the result, members of queue groups included."""
        found = list(self.plain)
        for group in self.queues:
            found.extend(group.members)
        return found

    def with_added(self, subscription: Subscription) -> "SubListResult":
        """Return a copy of this result with `subscription` added."""
        if subscription.queue is None:
            return SubListResult((*self.plain, subscription), self.queues, self.remotes)
        groups = list(self.queues)
        for i, group in enumerate(groups):
            if group.name == subscription.queue:
                groups[i] = QueueGroup(group.name, (*group.members, subscription), group.turn)
                break
        else:
            groups.append(QueueGroup(subscription.queue, (subscription,)))
        return SubListResult(self.plain, tuple(groups), self.remotes)

    def with_remotes(self, found: "SubListResult") -> "SubListResult":
        """Return a copy with the remotes of `found`, a result of RemoteSubscriptions only."""
        if not found.plain and not found.queues:
            return self
        once: dict[object, object] = {}
        for subscription in found.plain:
            remote = subscription.owned_by()
            is_alone = remote not in once and not found.queues
            once[remote] = subscription.only_receiver() if is_alone else remote
        remotes = Remotes(tuple(once.values()), found.queues)
        return SubListResult(self.plain, self.queues, remotes)

    def __repr__(self) -> str:
        return f"<SubListResult plain={len(self.plain)} queues={list(self.queues)}>"


EMPTY_RESULT = SubListResult()
