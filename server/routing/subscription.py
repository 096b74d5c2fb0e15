"""The subscriptions that a server routes to: those of clients, and those that do something else."""

from midge.protocol.frame import Frame
from midge.server.routing.client import Client
from midge.sublist.subscription import Subscription


class RoutedSubscription(Subscription):
    """A subscription the router can deliver to.

    With a `client`, messages are written to it. Without one, `receive` takes them: subclasses hand
    them to a callback, or carry them to another account. `delivered` counts the messages ever
    delivered to it, and `max_messages` is the count at which it ends (0: never).
    """

    def __init__(
        self,
        subject: bytes,
        queue: bytes | None = None,
        sid: bytes = b"",
        client: Client | None = None,
    ) -> None:
        Subscription.__init__(self, subject, queue, sid)
        self.client = client
        self.delivered = 0
        self.max_messages = 0

    def owned_by(self) -> object:
        """Return the client, or None."""
        return self.client

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take `frame`, valid until this returns; False when it is not wanted after all.

        An exception is contained: it is counted and logged, and the message is not taken.
        """
        return False

    def takes_runs(self) -> bool:
        """Return whether one `receive_run` may replace several calls of `receive`."""
        return False

    def receive_run(self, publisher: Client | None, frame: Frame, count: int) -> int:
        """Take up to `count` messages, `frame` the first; return how many. Called if `takes_runs`.

        They lie one behind the other, each `frame.end` bytes long, and all have the control line of
        the first. `frame.base` is moved on by `frame.end` after each one taken, so that an
        exception leaves to see how many were; the router moves it back. Clients get as many as are
        taken here, so this must stop after a message that changes the receivers of the next, or
        with which the publisher has used up its turn: see `Client.run_goes_on`. When it takes none,
        the first is given to `receive`.
        """
        generation = 0 if publisher is None else publisher.account.sublist.generation
        taken = 0
        while taken < count and self.receive(publisher, frame):
            taken += 1
            frame.base += frame.end
            if publisher is not None and not publisher.run_goes_on(generation):
                break
        return taken
