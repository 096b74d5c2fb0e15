"""A client behind a channel: what its channel, its parser and the router tell it."""

from typing import cast

from midge.protocol.errors import ProtocolError
from midge.server.clients.channel import Channel
from midge.server.clients.charges import DELIVERY_BYTES
from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.keepalive import Keepalive
from midge.server.clients.owner import Owner
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router

_DELIVERY_BYTES = DELIVERY_BYTES  # a C number where this is compiled


class ChannelOwner(Owner):
    """A client at the other end of a Channel, which tells it what happens.

    A subclass sets `channel`, made with a parser of which it is the handler, before it is used.
    """

    def __init__(self, cid: int, account: Account, pool: ChunkPool, router: Router) -> None:
        Owner.__init__(self, cid, account, pool)
        self.router = router
        self.channel = cast("Channel", None)

    # What the channel tells.

    def finishing(self) -> None:
        """Prepare to go on without a transport; then call the channel's `go_on_finishing`."""
        self.channel.go_on_finishing()

    def broke_protocol(self, error: ProtocolError) -> None:
        """Log what the peer did wrong; the channel ends for it."""
        self.channel.host.protocol_error(self.cid, self.peer, error)

    # What parser and router tell.

    def on_budget_spent(self) -> None:
        """Draw more of this turn, or halt until the next one."""
        self.channel.reading.on_budget_spent()

    def flushed(self) -> None:
        """See after a flush whether the socket took everything, and whether too much waits."""
        if self.outbound.behind:
            self.channel.fell_behind()

    def run_goes_on(self, generation: int) -> bool:
        """Tell whether nothing has halted the parser, and the next message is for the same."""
        halted = self.channel.parser.halted
        return not halted and self.account.sublist.generation == generation

    def hold_for(self, receiver: Client) -> None:
        """Stop reading for a moment after the current batch: `receiver` is far behind."""
        self.channel.pressure().hold_for(receiver)

    def held(self, publisher: Client) -> None:
        """Remember a publisher that waits for this client."""
        self.channel.pressure().holding[publisher] = None

    def unheld(self, publisher: Client) -> None:
        """Forget a publisher that waits for this client no longer."""
        self.channel.pressure().holding.pop(publisher, None)

    def release(self) -> None:
        """Read on, if this client was waiting for a receiver."""
        self.channel.pressure().release()

    # What it does.

    def send(self, piece: bytes) -> None:
        """Send a line of the server's own; it is written at the end of the batch."""
        self.outbound.append(piece)
        self.router.touch(self)

    def spend(self, cost_bytes: int) -> None:
        """Use up so much of the turn, beside what the parser charges."""
        channel = self.channel
        parser = channel.parser
        parser.budget -= cost_bytes
        if parser.budget < 0:
            channel.reading.on_budget_spent()

    # Many lines taken at once: see `LineTaker`.

    def account_of_lines(self) -> Account | None:
        """Return the account that PUBs are of which come now; None where each needs a look."""
        return None

    def count_lines(
        self, account: Account, count: int, payload_bytes: int, line_bytes: int
    ) -> None:
        """Count and charge for messages that have been taken at once, as `on_publish` does each."""
        self.in_messages += count
        self.in_bytes += payload_bytes
        self.router.offers += count
        account.sublist.recent.hits += count
        self.spend(count * _DELIVERY_BYTES + line_bytes)

    def close(self, reason: ClosedReason, wire: str | None = None) -> None:
        """End: say `wire` as -ERR if given, write what is pending, and leave."""
        self.channel.close(reason, wire)

    @property
    def reason(self) -> ClosedReason | None:
        """Why it has ended; None while it has not."""
        return self.channel.reason

    @property
    def peer(self) -> str:
        """Where the peer is, for the log."""
        return self.channel.peer

    @property
    def peer_host(self) -> str:
        """The address that the peer came from."""
        return self.channel.peer_host

    @property
    def peer_port(self) -> int:
        """The port that the peer came from."""
        return self.channel.peer_port

    @property
    def started_at(self) -> float:
        """When it was made, in the clock's monotonic time."""
        return self.channel.started_at

    @property
    def last_active_at(self) -> float:
        """When something was read last, in the clock's monotonic time."""
        return self.channel.last_active_at

    @property
    def keepalive(self) -> Keepalive:
        """When it is pinged, and its round-trip time."""
        return self.channel.keepalive
