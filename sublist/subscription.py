"""One subscription: the interest of one owner in one subject, known to that owner by a sid."""


class Subscription:
    """Interest in `subject`, shared within the group `queue` when that is not None.

    `sid` is the owner's name for it; subclasses have the owner. `slot` is for the SubList: the
    index among the subscriptions of its node, -1 while the subscription is in no SubList.
    """

    __slots__ = ("queue", "sid", "slot", "subject")

    def __init__(self, subject: bytes, queue: bytes | None = None, sid: bytes = b"") -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.slot = -1

    def owned_by(self) -> object:
        """Return the receiver of the messages; None for a bare subscription."""
        return None

    def only_receiver(self) -> object:
        """Return the receiver of a message that matches no other subscription of the owner.

        That is the subscription's owner, or a part of it.
        """
        return self.owned_by()

    def __repr__(self) -> str:
        queue = "" if self.queue is None else f" queue={self.queue!r}"
        return f"<{type(self).__name__} {self.subject!r}{queue} sid={self.sid!r}>"


class OwnedSubscription(Subscription):
    """A subscription whose owner is any object."""

    __slots__ = ("owner",)

    def __init__(
        self, subject: bytes, queue: bytes | None = None, sid: bytes = b"", owner: object = None
    ) -> None:
        Subscription.__init__(self, subject, queue, sid)
        self.owner = owner

    def owned_by(self) -> object:
        """Return the owner."""
        return self.owner


class RemoteSubscription(Subscription):
    """Interest behind a link: `remote` is the link, opaque here.

    `weight` is the number of members that a queue group has behind the link; it may change at any
    time. `origin` is the cluster of the leaf nodes that have the interest, and empty if the other
    server itself has it. With `is_last_choice`, members of a queue group get a message only if
    there is no other member. `place` is for the link: the index among its interest.
    """

    __slots__ = ("is_last_choice", "origin", "place", "remote", "weight")

    def __init__(
        self,
        subject: bytes,
        queue: bytes | None = None,
        remote: object = None,
        weight: int = 1,
        origin: str = "",
        is_last_choice: bool = True,
    ) -> None:
        Subscription.__init__(self, subject, queue)
        self.remote = remote
        self.weight = weight
        self.origin = origin
        self.is_last_choice = is_last_choice
        self.place = 0

    def owned_by(self) -> object:
        """Return the remote."""
        return self.remote
