"""Leaf node links: each belongs to one account of this server, and to one of the other."""

from typing import TYPE_CHECKING, Any

from midge.protocol.link import LEAF, LinkParser
from midge.server.peers.link import DOCUMENT_MAX_BYTES, Link
from midge.server.peers.link_commands import LinkCommands
from midge.server.routing.role import Role
from midge.sublist.subscription import RemoteSubscription

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker

_LEAF = int(Role.LEAF)


def leaf_link(broker: "Broker", cid: int, peer: tuple[str, int], side: Any) -> Link:
    """Return a new leaf node link."""
    parser = LinkParser(
        LeafCommands(maps=True),
        LEAF,
        max_control_line=DOCUMENT_MAX_BYTES,
        max_payload=broker.options.limits.max_payload_bytes,
    )
    interval_s = broker.options.keepalive.ping_interval_s
    return Link(broker, cid, peer, side, _LEAF, parser, interval_s)


class LeafCommands(LinkCommands):
    """Takes the lines that come over a leaf node link."""

    def on_link_subscribe(self, subject: bytes, queue: bytes | None, weight: int) -> None:
        """Note the other server's interest, or that a queue group has another weight."""
        link = self.link
        if link.is_ready and not link.side.ends_for(link, subject):
            told = RemoteSubscription(subject, queue, link, weight)
            link.announced.begin(link, link, link.interest, told)

    def on_link_unsubscribe(self, subject: bytes, queue: bytes | None) -> None:
        """Forget interest of the other server."""
        link = self.link
        link.announced.end(link, link, link.interest, subject, queue, "")
