"""Code shared by both ends of a link, whichever of them has connected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.protocol.leaf_messages import LOOP_PREFIX, LOOP_TEXT
from midge.server.auth.authenticator import NOT_PINNED, is_pinned
from midge.server.channels.closed_reason import ClosedReason
from midge.server.log.logger import get_logger
from midge.sublist.subjects import is_literal

if TYPE_CHECKING:
    from midge.server.clock import Timer
    from midge.server.leafnodes.link import LeafLink
    from midge.server.leafnodes.nodes import LeafNodes
    from midge.server.links.compression import Compression
    from midge.sublist.subscription import RemoteSubscription

LOOP_DELAY_S = 30.0
"""How long a server stays away after a loop was found, as nats-server does, and half as long again
at most: where several servers stay away for the same time, they meet in the same loop again."""

_ACCEPTED_WAIT_S = 4.0  # the server that has connected finds the loop itself

log = get_logger()


class Side:
    """One end of a link; subclasses do the handshake, and say what a violation leads to.

    `user` and `version` are those of the server that has connected here; empty at its own end.
    """

    user = ""
    version = ""

    def __init__(self, nodes: LeafNodes, compression: Compression) -> None:
        self.nodes = nodes
        self.compression = compression
        self._timer: Timer | None = None

    def opened(self, link: LeafLink) -> None:
        """Begin, unless the certificate of the other server is not pinned."""
        self.nodes.broker.transport_made(link)
        pinned = self.pinned_certs() if link.channel.tls_facts() is not None else ()
        if pinned and not is_pinned(link.channel.peer_certificate(), pinned):
            self.fail(link, None, ClosedReason.TLS_HANDSHAKE_FAILURE, NOT_PINNED)

    def pinned_certs(self) -> tuple[str, ...]:
        """Return the fingerprints, one of which the other server's certificate must have."""
        return self.nodes.broker.options.leafnodes.tls.pinned_certs

    def closed(self, link: LeafLink) -> None:
        """Let go of a link that has ended."""
        self.stop_timer()
        self.nodes.leave(link)

    def lost(self, link: LeafLink) -> None:
        """Take note that its transport is gone."""
        self.nodes.broker.connection_lost(link)

    def wait(self, link: LeafLink, timeout_s: float, wire: str, reason: ClosedReason) -> None:
        """Close `link` with `wire` unless `stop_timer` is called in time."""
        self.stop_timer()
        clock = self.nodes.broker.clock
        self._timer = clock.call_later(timeout_s, self._time_out, link, wire, reason)

    def stop_timer(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, link: LeafLink, wire: str, reason: ClosedReason) -> None:
        self._timer = None
        self.fail(link, wire, reason)

    def fail(
        self, link: LeafLink, wire: str | None, reason: ClosedReason, detail: str = ""
    ) -> None:
        """Close `link` for something that went wrong, which is logged."""
        error = detail or wire or reason.value
        if not self.takes_failure(link, error):
            log.error("leafnode_error", cid=link.cid, peer=link.peer, error=error)
        link.close(reason, wire)

    # What the other server says.

    def on_connect(self, link: LeafLink, document: bytes) -> None:
        """Take CONNECT."""

    def on_info(self, link: LeafLink, document: bytes) -> None:
        """Take INFO."""

    def on_peer_error(self, link: LeafLink, text: bytes) -> None:
        """Log what the other server found wrong; it closes the link itself if it wants to."""
        error = errors.quote(text[:256])
        if not self.takes_failure(link, error):
            log.error("leafnode_peer_error", cid=link.cid, peer=link.peer, error=error)

    def takes_failure(self, link: LeafLink, error: str) -> bool:
        """Return whether `error` is logged by the dialler, as the reason of a failed attempt."""
        return False

    def answered(self, link: LeafLink) -> None:
        """Choose the level of compression by the round trip of a PING that has been answered."""
        self.compression.answered(link)

    def transport_failed(self, link: LeafLink, error: Exception) -> None:
        """Note why the transport is about to be lost."""

    def compare_domains(self, link: LeafLink, *, has_jetstream: bool, domain: str) -> None:
        """Warn of two servers with JetStream that cannot reach each other's by a domain."""
        own = self.nodes.broker.options.jetstream
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

    def ends_for(self, link: LeafLink, subject: bytes) -> bool:
        """Close a link over which this server's own interest comes back, and tell whether so.

        Every link of a loop brings it, and one of them is to end. So the server that has opened the
        latest one closes that at once, and the others wait for the loop to be gone.
        """
        if subject != self.nodes.loop_subject(link.account):
            return False
        wait_s = self.loop_wait_s(link)
        if not wait_s:
            self._end_loop(link)
            return True
        clock, random = self.nodes.broker.clock, self.nodes.broker.random
        clock.call_later(wait_s * (1 + random.random()), self._end_loop_unless_gone, link, subject)
        return False

    def loop_wait_s(self, link: LeafLink) -> float:
        """Return how long a loop may take to end without this link: the other end closes it."""
        return _ACCEPTED_WAIT_S

    def _end_loop_unless_gone(self, link: LeafLink, subject: bytes) -> None:
        if link.reason is None and (subject, None) in link.interest:
            self._end_loop(link)

    def _end_loop(self, link: LeafLink) -> None:
        text = f'{LOOP_TEXT}="{link.account.name}". Delaying attempt to reconnect for 30s'
        self.loop_found()
        self.fail(link, text, ClosedReason.PROTOCOL_VIOLATION)

    def loop_found(self) -> None:
        """Take note of a loop."""

    def allows_interest(self, link: LeafLink, subject: bytes) -> bool:
        """Return whether to keep interest in `subject`; a wildcard may match more subjects."""
        rules = link.send_rules
        if rules is None or subject.startswith(LOOP_PREFIX) or not is_literal(subject):
            return True
        return rules.may_publish(subject)

    def refuse_surplus(self, link: LeafLink) -> None:
        """Say that the link tells too much interest; what is too much is ignored."""
        self.nodes.broker.limit_hits["leafnode_subscriptions"] += 1
        link.send_error(errors.MAXIMUM_SUBSCRIPTIONS)

    def refuse_subject(self, link: LeafLink) -> None:
        """Send an error: the subject of the interest told is not valid."""
        link.send_error("Invalid Subscription")

    def refuse_message(self, link: LeafLink, subject: bytes) -> None:
        """Drop a message that the rules do not allow."""
        self.nodes.broker.limit_hits["leafnode_denied_messages"] += 1

    def refuse_oversized(self, link: LeafLink) -> None:
        """Count a message that the other side would not take."""
        self.nodes.broker.limit_hits["leafnode_payload"] += 1

    def interest_changed(self, link: LeafLink, told: RemoteSubscription, change: int) -> None:
        """Pass on to other links that there is so much more, or less, interest behind this one."""
        interest = self.nodes.interests.of(link.account)
        interest.link_changed(link, told.subject, told.queue, change)
