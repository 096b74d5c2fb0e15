"""The subjects that JetStream itself listens on in an account, and where each message goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.routing.subscription import RoutedSubscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol.frame import Frame
    from midge.server.routing.client import Client

API = b"$JS.API."
ACK = b"$JS.ACK."
FLOW_CONTROL = b"$JS.FC."
NEXT = b"$JS.API.CONSUMER.MSG.NEXT."
DIRECT_GET = b"$JS.API.DIRECT.GET."

Take = "Callable[[bytes, bytes, bytes, bytes], bool]"
"""Takes subject, reply, headers and payload; False when there is nothing of that name."""


class Intake(RoutedSubscription):
    """Messages to a pattern of JetStream's own, handed over one by one as bytes.

    What is not taken counts as not delivered, so that a request gets the 503 of no responders, as
    from nats-server, which subscribes for each stream and consumer apart.
    """

    def __init__(self, subject: bytes, take: Callable[[bytes, bytes, bytes, bytes], bool]) -> None:
        RoutedSubscription.__init__(self, subject)
        self._take = take

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Hand a message over."""
        return self._take(
            frame.subject_bytes(),
            frame.reply_bytes() or b"",
            frame.header_bytes() or b"",
            frame.payload_bytes(),
        )
