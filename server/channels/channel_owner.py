"""A client behind a channel: the callbacks of its channel, its parser and the router."""

from typing import cast

from midge.protocol.errors import ProtocolError
from midge.server.channels.channel import Channel
from midge.server.channels.channel_hooks import ChannelHooks, WriteRule
from midge.server.channels.charges import DELIVERY_BYTES
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.keepalive import KeepaliveTimer
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router

_DELIVERY_BYTES = DELIVERY_BYTES  # a C number where this is compiled


class ChannelOwner(ChannelHooks):
    """A client at the other end of a Channel, which calls its hooks.

    A subclass sets `channel` before first use; the client is the handler of the channel's parser.
    """

    def __init__(self, cid: int, account: Account, pool: ChunkPool, router: Router) -> None:
        ChannelHooks.__init__(self, cid, account, pool)
        self.router = router
        self.channel = cast("Channel", None)

    # Called by the channel.

    def finishing(self) -> None:
        """Prepare to go on without a transport; then call the channel's `go_on_finishing`."""
        self.channel.go_on_finishing()

    def broke_protocol(self, error: ProtocolError) -> None:
        """Log the peer's error, for which the channel ends."""
        self.channel.host.protocol_error(self.cid, self.peer, error)

    # Called by the parser and the router.

    def on_budget_spent(self) -> None:
        """Draw more of this turn, or halt until the next one."""
        self.channel.reading.on_budget_spent()

    def flushed(self) -> None:
        """Check after a flush whether the socket took everything, or too much is pending."""
        if self.outbound.behind:
            self.channel.fell_behind()

    def write_rule(self) -> WriteRule:
        """Return the rule that holds now, because a reload may change it."""
        limits = self.channel.host.options.limits
        return WriteRule(limits.write_deadline_s, limits.write_timeout_policy == "retry")

    def run_goes_on(self, generation: int) -> bool:
        """Return whether the parser still runs, and the next message has the same receivers."""
        halted = self.channel.parser.halted
        return not halted and self.account.sublist.generation == generation

    def hold_for(self, receiver: Client) -> None:
        """Stop reading for a moment after the current batch: `receiver` is far behind."""
        self.channel.pressure().hold_for(receiver)

    def held(self, publisher: Client) -> None:
        """Remember a publisher that waits for this client."""
        self.channel.pressure().holding[publisher] = None

    def unheld(self, publisher: Client) -> None:
        """Forget a publisher that no longer waits for this client."""
        self.channel.pressure().holding.pop(publisher, None)

    def release(self) -> None:
        """Resume reading, if this client was waiting for a receiver."""
        self.channel.pressure().release()

    # Output and charges.

    def send(self, piece: bytes) -> None:
        """Send a line of the server's own; it is written at the end of the batch."""
        self.outbound.append(piece)
        self.router.touch(self)

    def spend(self, cost_bytes: int) -> None:
        """Charge `cost_bytes` to the turn, in addition to the parser's charges."""
        channel = self.channel
        parser = channel.parser
        parser.budget -= cost_bytes
        if parser.budget < 0:
            channel.reading.on_budget_spent()

    # Many lines taken at once: see `LineTaker`.

    def account_of_lines(self) -> Account | None:
        """Return the account of the next PUBs, or None if each of them must be checked."""
        return None

    def count_lines(
        self, account: Account, count: int, payload_bytes: int, line_bytes: int
    ) -> None:
        """Count and charge messages that were taken at once, as `on_publish` does for each."""
        self.in_messages += count
        self.in_bytes += payload_bytes
        self.router.count_sizes(payload_bytes // count, count)
        self.router.offers += count
        account.sublist.recent.hits += count
        self.spend(count * _DELIVERY_BYTES + line_bytes)

    def close(self, reason: ClosedReason, wire: str | None = None) -> None:
        """Close: send `wire` as -ERR unless None, and write pending output."""
        self.channel.close(reason, wire)

    @property
    def reason(self) -> ClosedReason | None:
        """Why the channel has ended; None while it is open."""
        return self.channel.reason

    @property
    def peer(self) -> str:
        """The peer's address for the log."""
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
        """When the channel was made, in the clock's monotonic time."""
        return self.channel.started_at

    @property
    def last_active_at(self) -> float:
        """Time of the last read, in the clock's monotonic time."""
        return self.channel.last_active_at

    @property
    def keepalive(self) -> KeepaliveTimer:
        """The PING timer and the round-trip time."""
        return self.channel.keepalive
