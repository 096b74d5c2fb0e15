"""The leaf nodes of one server: its links, an end of one, and the announced interest."""

from __future__ import annotations

import secrets
import string
from collections import Counter
from typing import TYPE_CHECKING

from midge.protocol import errors
from midge.protocol.leaf_messages import LOOP_PREFIX, LOOP_TEXT
from midge.protocol.link import LEAF, LinkParser
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.closed_clients import (
    SUBSCRIPTIONS_KEPT,
    ClosedSubscription,
    ConnectionRecord,
    common_facts,
)
from midge.server.log.logger import get_logger
from midge.server.peers.end import End, Peers
from midge.server.peers.link import DOCUMENT_MAX_BYTES, Link
from midge.server.peers.link_commands import LinkCommands
from midge.server.peers.rules import telling
from midge.server.routing.role import Role
from midge.sublist.subjects import is_literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.auth.permissions import Permissions
    from midge.server.broker.broker import Broker
    from midge.server.peers.compression import Compression
    from midge.server.peers.dial import Dialler
    from midge.server.peers.ledger import Ledger
    from midge.server.routing.account import Account

LOOP_DELAY_S = 30.0
"""How long a server stays away after a loop was found, as nats-server does, and half as long again
at most: where several servers stay away for the same time, they meet in the same loop again."""

_ACCEPTED_WAIT_S = 4.0  # the server that has connected finds the loop itself

_TOKEN_LENGTH = 22
_TOKEN_LETTERS = string.ascii_letters + string.digits

log = get_logger()


class LeafNodes(Peers):
    """All links of `broker`; `links` are those that are up, by cid.

    `connects` counts by account those that have come up. `joined` and `left`, if set, are called
    with each that has come up, or has ended after that.
    """

    def __init__(self, broker: Broker, ledger: Ledger) -> None:
        """Announce the interest in `ledger`, which all links of the server share."""
        Peers.__init__(self, broker, ledger)
        self.ledger.extra[Role.LEAF] = self._subjects_for
        self.ledger.extra[Role.HUB] = self._subjects_for
        self.links: dict[int, Link] = {}
        self.connects: Counter[str] = Counter()
        self.joined: Callable[[Link], object] | None = None
        self.left: Callable[[Link], object] | None = None
        self._loop_subjects: dict[str, bytes] = {}

    def close(self) -> None:
        """Close the links."""
        for link in list(self.links.values()):
            link.close(ClosedReason.SERVER_SHUTDOWN)

    def cluster_name(self) -> str:
        """Give the name of the cluster that this server is in; empty where it is in none."""
        return "" if self.broker.cluster is None else self.broker.cluster.name

    def loop_subject(self, account: Account) -> bytes:
        """Give the subject that comes back as interest only if links of `account` form a loop."""
        subject = self._loop_subjects.get(account.name)
        if subject is None:
            token = "".join(secrets.choice(_TOKEN_LETTERS) for _ in range(_TOKEN_LENGTH))
            subject = LOOP_PREFIX + token.encode()
            self._loop_subjects[account.name] = subject
        return subject

    def _subjects_for(self, account: Account) -> list[bytes]:
        """List the subjects announced to links of `account` without a subscription."""
        mapper = account.mapper
        sources = [] if mapper is None else mapper.sources()
        return [self.loop_subject(account), *sources]

    def join(self, link: Link, rules: Permissions | None) -> None:
        """Register `link` after its handshake; `rules` limit the interest announced over it."""
        self.links[link.cid] = link
        link.start()
        self.ledger.of(link.account).add(link, telling(rules))
        self.connects[link.account.name] += 1
        link.joined_at = self.broker.clock.wall()
        if self.joined is not None:
            self.joined(link)
        log.info(
            "leafnode_connected",
            cid=link.cid,
            peer=link.peer,
            account=link.account.name,
            server=link.name,
        )

    def leave(self, link: Link) -> None:
        """Forget `link`, which has ended."""
        self.ledger.of(link.account).remove(link)
        if link.announcer is not None:
            link.announcer.end()
        self.broker.closed.append(leafnode_record(link, self.broker.clock.monotonic()))
        if self.links.pop(link.cid, None) is not None:
            reason = "" if link.reason is None else link.reason.value
            log.info("leafnode_closed", cid=link.cid, peer=link.peer, reason=reason)
            if self.left is not None:
                self.left(link)


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

    def pinned_certs(self) -> tuple[str, ...]:
        """Return the fingerprints, one of which the other server's certificate must have."""
        return self.broker.options.leafnodes.tls.pinned_certs

    def on_connect(self, link: Link, document: bytes) -> None:
        """Take CONNECT."""

    def on_info(self, link: Link, document: bytes) -> None:
        """Take INFO."""

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
        clock, random = self.broker.clock, self.broker.random
        clock.call_later(wait_s * (1 + random.random()), self._end_loop_unless_gone, link, subject)
        return False

    def loop_wait_s(self, link: Link) -> float:
        """Return how long a loop may take to end without this link: the other end closes it."""
        return _ACCEPTED_WAIT_S

    def _end_loop_unless_gone(self, link: Link, subject: bytes) -> None:
        if link.reason is None and link.announced.known(link, link, subject, None, "") is not None:
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
        """Send an error: the subject of the interest told is not valid."""
        link.send_error("Invalid Subscription")


def leaf_link(broker: Broker, cid: int, peer: tuple[str, int], side: LeafEnd) -> Link:
    """Return a new leaf node link."""
    parser = LinkParser(
        LinkCommands(maps=True),
        LEAF,
        max_control_line=DOCUMENT_MAX_BYTES,
        max_payload=broker.options.limits.max_payload_bytes,
    )
    interval_s = broker.options.keepalive.ping_interval_s
    return Link(broker, cid, peer, side, int(Role.LEAF), parser, interval_s)


def leafnode_record(
    link: Link, stopped_at: float, subscriptions_max: int = SUBSCRIPTIONS_KEPT
) -> ConnectionRecord:
    """Describe a link to a leaf node or a hub; the latter is not named, as on nats-server."""
    told = [
        ClosedSubscription(
            one.subject, one.queue, b" ".join(filter(None, (one.subject, one.queue))), 0, 0
        )
        for one in (link.last_interest or link.interest)[:subscriptions_max]
    ]
    return ConnectionRecord(
        kind="Leafnode",
        name="" if link.side.was_solicited else link.name,
        version=link.side.version,
        user=link.side.user,
        proxy_key=link.side.proxy_key,
        display_name=link.account.name if link.joined_at else "",
        pending_bytes=link.outbound.pending_bytes(),
        subscription_count=link.announced.count,
        subscriptions=told,
        **common_facts(link, stopped_at),
    )
