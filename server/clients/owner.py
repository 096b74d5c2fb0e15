"""The hooks of a client that its channel calls."""

from midge.protocol.errors import ProtocolError
from midge.server.routing.client import Client


class Owner(Client):
    """A client that is told what happens to its byte stream; each hook is a no-op."""

    def opened(self) -> None:
        """Start: there is a transport."""

    def closed(self) -> None:
        """Stop: the channel has ended, for its `reason`; the transport may still write."""

    def finishing(self) -> None:
        """Prepare to go on without a transport; then call the channel's `go_on_finishing`."""

    def lost(self) -> None:
        """Drop all references: the transport is gone."""

    def is_busy(self) -> bool:
        """Tell whether something that was read still waits here, parsed already."""
        return False

    def send_ping(self) -> None:
        """Send what the peer must answer; anything it sends counts as an answer."""

    def say_last(self, wire: str) -> None:
        """Append `wire`, why the channel ends, to `outbound` in the peer's protocol."""
        self.outbound.append(b"-ERR '%b'\r\n" % wire.encode())

    def broke_protocol(self, error: ProtocolError) -> None:
        """Log what the peer did wrong; the channel ends for it."""
