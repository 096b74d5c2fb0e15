"""One subscription: the interest of one owner in one subject, known to that owner by a sid."""


class Subscription:
    """Interest in `subject`, shared within the group `queue` when that is not None.

    `sid` is the owner's own name for it and `owner` whoever receives the messages. `delivered`
    counts the messages ever delivered to it, and `max_messages` is the count at which it ends (0:
    never). `slot` is the SubList's own mark, its place among the subscriptions of its node, and -1
    while it is in no SubList.
    """

    __slots__ = ("delivered", "max_messages", "owner", "queue", "sid", "slot", "subject")

    def __init__(
        self,
        subject: bytes,
        queue: bytes | None = None,
        sid: bytes = b"",
        owner: object = None,
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.owner = owner
        self.delivered = 0
        self.max_messages = 0
        self.slot = -1

    def __repr__(self) -> str:
        queue = "" if self.queue is None else f" queue={self.queue!r}"
        return f"<{type(self).__name__} {self.subject!r}{queue} sid={self.sid!r}>"
