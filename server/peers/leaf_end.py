"""One end of a leaf node link, whichever of the two servers has connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.protocol.leaf_messages import LOOP_PREFIX, LOOP_TEXT
from midge.protocol.link import LEAF, LinkParser
from midge.server.channels.closed_reason import ClosedReason
from midge.server.log.logger import get_logger
from midge.server.peers.end import End
from midge.server.peers.link import DOCUMENT_MAX_BYTES, Link
from midge.server.peers.link_commands import LinkCommands
from midge.server.routing.role import Role
from midge.sublist.subjects import is_literal

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker
    from midge.server.peers.compression import Compression
    from midge.server.peers.dialler import Dialler
    from midge.server.peers.leaf_nodes import LeafNodes

LOOP_DELAY_S = 30.0
"""How long a server stays away after a loop was found, as nats-server does, and half as long again
at most: where several servers stay away for the same time, they meet in the same loop again."""

_ACCEPTED_WAIT_S = 4.0  # the server that has connected finds the loop itself

log = get_logger()


class LeafEnd(End):
    """One end of a link; subclasses do the handshake, and handle violations.

    `user`, `proxy_key` and `version` describe the server that has connected here; empty at the
    connecting end.
    """

    kind = "leafnode"
    error_event = "leafnode_error"
    peer_error_event = "leafnode_peer_error"
    user = ""
    proxy_key = ""
    version = ""

    def __init__(
        self, nodes: LeafNodes, compression: Compression, dialler: Dialler | None = None
    ) -> None:
        End.__init__(self, nodes, compression, dialler)
        self.nodes = nodes

    def link_to(self, peer: tuple[str, int]) -> Link:
        """Return a new link, of which this is the end, to a server at `peer`."""
        return leaf_link(self.broker, self.broker.take_cid(), peer, self)

    def pinned_certs(self) -> tuple[str, ...]:
        """Return the fingerprints, one of which the other server's certificate must have."""
        return self.broker.options.leafnodes.tls.pinned_certs

    def compare_domains(self, link: Link, *, has_jetstream: bool, domain: str) -> None:
        """Warn of two servers with JetStream that cannot reach each other's by a domain."""
        own = self.broker.options.jetstream
        if not own.enabled or not has_jetstream:
            return
        if domain == own.domain or not domain or not own.domain:
            log.warning(
                "leafnode_domains_unclear",
                cid=link.cid,
                peer=link.peer,
                server=link.name,
                local=own.domain,
                remote=domain,
            )

    def ends_for(self, link: Link, subject: bytes) -> bool:
        """Close a link over which this server's own interest comes back; return whether it did.

        Every link of a loop brings it, and one of them is to end. So the server that has opened the
        latest one closes that at once, and the others wait for the loop to be gone.
        """
        if subject != self.nodes.loop_subject(link.account):
            return False
        wait_s = self.loop_wait_s(link)
        if not wait_s:
            self._end_loop(link)
            return True
        clock, random = self.broker.clock, self.broker.random
        clock.call_later(wait_s * (1 + random.random()), self._end_loop_unless_gone, link, subject)
        return False

    def loop_wait_s(self, link: Link) -> float:
        """Return how long a loop may take to end without this link: the other end closes it."""
        return _ACCEPTED_WAIT_S

    def _end_loop_unless_gone(self, link: Link, subject: bytes) -> None:
        if link.reason is not None:
            return
        branch = link.commands.present()
        if link.announced.known(link, branch, subject, None, "") is not None:
            self._end_loop(link)

    def _end_loop(self, link: Link) -> None:
        text = f'{LOOP_TEXT}="{link.account.name}". Delaying attempt to reconnect for 30s'
        self.loop_found()
        self.fail(link, text, ClosedReason.PROTOCOL_VIOLATION)

    def loop_found(self) -> None:
        """Called when a loop of links is found."""

    def allows_interest(self, link: Link, subject: bytes) -> bool:
        """Return whether to keep interest in `subject`; a wildcard may match more subjects."""
        rules = link.send_rules
        if rules is None or subject.startswith(LOOP_PREFIX) or not is_literal(subject):
            return True
        return rules.may_publish(subject)

    def refuse_surplus(self, link: Link) -> None:
        """Count and report too much interest over the link; the surplus is ignored."""
        End.refuse_surplus(self, link)
        link.send_error(errors.MAXIMUM_SUBSCRIPTIONS)

    def refuse_subject(self, link: Link) -> None:
        """Send an error: the subject of the announced interest is not valid."""
        link.send_error("Invalid Subscription")


def leaf_link(broker: Broker, cid: int, peer: tuple[str, int], end: LeafEnd) -> Link:
    """Return a new leaf node link."""
    parser = LinkParser(
        LinkCommands(maps=True),
        LEAF,
        max_control_line=DOCUMENT_MAX_BYTES,
        max_payload=broker.options.limits.max_payload_bytes,
    )
    interval_s = broker.options.keepalive.ping_interval_s
    return Link(broker, cid, peer, end, int(Role.LEAF), parser, interval_s)
