"""The subscriptions that a server routes to: those of clients, and those that do something else."""

from midge.protocol.frame import Frame
from midge.server.routing.client import Client
from midge.sublist.subscription import Subscription


class RoutedSubscription(Subscription):
    """A subscription the router can deliver to.

    With a `client`, messages are written to it. Without one, `receive` takes them: subclasses hand
    them to a callback, or carry them to another account.
    """

    def __init__(
        self,
        subject: bytes,
        queue: bytes | None = None,
        sid: bytes = b"",
        client: Client | None = None,
    ) -> None:
        Subscription.__init__(self, subject, queue, sid, client)
        self.client = client

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take `frame`, valid until this returns; False when it is not wanted after all."""
        return False
