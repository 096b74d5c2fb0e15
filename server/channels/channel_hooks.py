"""The hooks of a client that its channel calls."""

from typing import NamedTuple

from midge.protocol.errors import ProtocolError
from midge.server.routing.client import Client


class WriteRule(NamedTuple):
    """The rule for a socket that does not take output."""

    deadline_s: float
    retries: bool
    """Whether a connection that took some output within the deadline stays."""


class ChannelHooks(Client):
    """A client whose channel calls these hooks; each is a no-op."""

    def opened(self) -> None:
        """Start: there is a transport."""

    def closed(self) -> None:
        """Stop: the channel has ended, for its `reason`; the transport may still write."""

    def finishing(self) -> None:
        """Prepare to go on without a transport; then call the channel's `go_on_finishing`."""

    def transport_failed(self, error: Exception) -> None:
        """Note why the transport is about to be lost, where the peer has not closed it in order."""

    def lost(self) -> None:
        """Drop all references: the transport is gone."""

    def is_busy(self) -> bool:
        """Return whether parsed commands still wait here."""
        return False

    def send_ping(self) -> None:
        """Send a command that the peer must answer; any input counts as an answer."""

    def write_rule(self) -> WriteRule:
        """Return how long the socket has for pending output; this one has no time."""
        return WriteRule(0.0, retries=False)

    def say_last(self, wire: str) -> None:
        """Append `wire`, the channel's last error, to `outbound` in the peer's protocol."""
        self.outbound.append(b"-ERR '%b'\r\n" % wire.encode())

    def broke_protocol(self, error: ProtocolError) -> None:
        """Log the peer's error, for which the channel ends."""
