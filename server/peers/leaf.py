"""One leaf node link: it belongs to one account of this server, and to one of the other."""

from typing import TYPE_CHECKING, Any

from midge.protocol.frame import Frame
from midge.protocol.leaf import LeafParser
from midge.server.clients.closed_clients import SUBSCRIPTIONS_KEPT
from midge.server.peers.link import DOCUMENT_MAX_BYTES, Link
from midge.server.peers.outbound import Heads
from midge.server.routing.client import Client
from midge.server.routing.passage import BOTH, passes
from midge.server.routing.role import Role
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

_LEAF = int(Role.LEAF)
_HEADS = Heads(b"LMSG ", b"HMSG ")


class LeafLink(Link):
    """A link to another server, which belongs to one account of either.

    The other server has announced `interest`, and gets this server's interest by `told`. Links of
    one `cluster` send each other nothing, unless its name is empty. `joined_at` is when it came up,
    in seconds since the epoch. `last_interest` is what it had announced when the link ended.
    """

    def __init__(self, broker: "Broker", cid: int, peer: tuple[str, int], side: Any) -> None:
        parser = LeafParser(
            self,
            max_control_line=DOCUMENT_MAX_BYTES,
            max_payload=broker.options.limits.max_payload_bytes,
        )
        interval_s = broker.options.keepalive.ping_interval_s
        Link.__init__(self, broker, cid, peer, side, _LEAF, parser, interval_s, maps=True)
        self.cluster = ""
        self.remote_account = ""
        self.joined_at = 0.0
        self.told: Any = None
        self.interest: list[RemoteSubscription] = []
        self.last_interest: list[RemoteSubscription] | None = None

    def closed(self) -> None:
        """Remove the other server's interest, and keep the first of it for `/connz`."""
        self.last_interest = self.interest[:SUBSCRIPTIONS_KEPT]
        Link.closed(self)

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note the other server's interest, or that a queue group has another weight."""
        if self.is_ready and not self.side.ends_for(self, subject):
            told = RemoteSubscription(subject, queue, self, weight)
            self.announced.begin(self, self, self.interest, told)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest of the other server."""
        self.announced.end(self, self, self.interest, subject, queue, "")

    def pass_as(self, role: int) -> None:
        """Be a link of this role: Role.LEAF where the other server is a leaf, Role.HUB at a hub."""
        self.role = role

    def reaches(self, link: Any, origin: str) -> bool:
        """Return whether a message from this link may go over `link`, to interest of `origin`."""
        cluster = self.cluster
        if link is self or passes(self.role, link.role) != BOTH:
            return False
        return not cluster or (link.cluster != cluster and origin != cluster)

    def forward(self, publisher: Client | None, frame: Frame, queues: list[bytes] | None) -> bool:
        """Send `frame` over the link, and tell whether it goes."""
        return self.send_message(publisher, frame, _HEADS, queues)

    def takes_run(self, publisher: Client | None, frame: Frame) -> bool:
        """Return whether nothing but the subject decides, and that is allowed."""
        return self.sends_run(frame)

    def forward_run(self, frame: Frame, count: int, queues: list[bytes] | None) -> None:
        """Send `count` messages, `frame` the first, that differ in their payloads only."""
        self.send_run(frame, _HEADS, count, queues)
