"""The interface that the parser calls: one method per command, each a no-op here."""

from midge.protocol.frame import Frame


class Handler:
    """Receives the commands of one client, in the order in which they came.

    A method may raise ProtocolError to end the connection, and may set the parser's `halted` to
    receive no further command until it is fed again.
    """

    def sender(self) -> object:
        """Return the object that the commands come from, for a LineTaker; None if there is none."""
        return None

    def on_budget_spent(self) -> None:
        """Add to the parser's `budget`, or halt it; without either, the current command goes on."""

    def on_publish(self, frame: Frame) -> None:
        """Take one PUB or HPUB; `frame` is valid until this returns."""

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Take up to `count` messages, the first in `frame`; return how many were taken, 1 or more.

        They are contiguous, each is `frame.end` bytes long, and all repeat the control line of the
        message before them. The parser passes the rest to `on_publish` one by one.
        """
        self.on_publish(frame)
        return 1

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Take one SUB."""

    def on_unsubscribe(self, sid: bytes, max_messages: int) -> None:
        """Take one UNSUB; `max_messages` is 0 when it ends the subscription at once."""

    def on_connect(self, document: bytes) -> None:
        """Take one CONNECT; `document` is its JSON, not parsed yet."""

    def on_ping(self) -> None:
        """Take one PING."""

    def on_pong(self) -> None:
        """Take one PONG."""

    def on_info(self, document: bytes) -> None:
        """Take one INFO, which clients normally never send; `document` is its JSON."""

    def on_peer_error(self, text: bytes) -> None:
        """Take one -ERR, which ends the connection."""

    # Commands that only links send.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Take new interest of the other server; `weight` is the member count of a queue group."""

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Take the end of interest of the other server."""

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        """Take a message that also goes to `queues`; `frame` is valid until this returns."""
