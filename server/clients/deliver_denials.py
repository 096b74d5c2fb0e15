"""Deny deliveries on subjects that permissions exclude from a client's wider subscriptions."""

from midge.protocol import memory
from midge.protocol.frame import Frame
from midge.server.auth.permissions import Permissions
from midge.server.channels.channel import ChannelOwner
from midge.server.channels.charges import STEP_BYTES
from midge.server.routing.client import Client


class DeliverDenials:
    """The denials of one client; it remembers the last permitted subject."""

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        self._subject: bytes | None = None
        self._queue: bytes | None = None

    def permit(self, queue: bytes | None, publisher: Client | None, frame: Frame) -> bool:
        """Return whether no denial forbids `frame` for a subscription in `queue`, or in none.

        Charges `publisher` for looking up a subject other than the last one.
        """
        start = frame.base + frame.subject_start
        end = frame.base + frame.subject_end
        last = self._subject
        if (
            last is not None
            and end - start == len(last)
            and self._queue is queue
            and memory.starts_with(frame.data, start, end, last)
        ):
            return True
        subject = memory.take(frame.data, start, end)
        rules = self._permissions.rules
        steps = rules.steps()
        may_deliver = self._permissions.may_deliver(subject, queue)
        if isinstance(publisher, ChannelOwner):
            publisher.spend((rules.steps() - steps) * STEP_BYTES)
        if may_deliver:
            self._subject = subject
            self._queue = queue
        return may_deliver
