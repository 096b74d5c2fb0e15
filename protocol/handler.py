"""What the parser calls: one method per command, each a no-op here."""

from midge.protocol.frame import Frame


class Handler:
    """Receives the commands of one client, in the order in which they came.

    A method may raise ProtocolError to end the connection, and may set the parser's `halted` to
    have no further command until it is fed again.
    """

    def on_budget_spent(self) -> None:
        """Add to the parser's `budget`, or halt it; without either the command at hand goes on."""

    def on_publish(self, frame: Frame) -> None:
        """Take one PUB or HPUB; `frame` is valid until this returns."""

    def on_publish_run(self, frame: Frame, count: int) -> int:
        """Take up to `count` messages, `frame` the first; give how many were taken, 1 or more.

        They lie one behind the other, each `frame.end` bytes long, and all have the control line
        of the one that came before them. Whoever takes fewer is given the others one by one.
        """
        self.on_publish(frame)
        return 1

    def on_subscribe(self, subject: bytes, queue: bytes | None, sid: bytes) -> None:
        """Take one SUB."""

    def on_unsubscribe(self, sid: bytes, max_messages: int) -> None:
        """Take one UNSUB; `max_messages` is 0 when it ends the subscription at once."""

    def on_connect(self, document: bytes) -> None:
        """Take one CONNECT; `document` is its JSON, not looked at yet."""

    def on_ping(self) -> None:
        """Take one PING."""

    def on_pong(self) -> None:
        """Take one PONG."""

    def on_info(self, document: bytes) -> None:
        """Take one INFO, which a client has no reason to send; `document` is its JSON."""

    def on_peer_error(self, text: bytes) -> None:
        """Take one -ERR, which ends the connection."""

    # What only links say.

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Take interest of the other server; `weight` counts the members of a queue group."""

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Take the end of such interest."""

    def on_link_message(self, frame: Frame, queues: list[bytes]) -> None:
        """Take a message that is for these queue groups too; `frame` is valid meanwhile."""
