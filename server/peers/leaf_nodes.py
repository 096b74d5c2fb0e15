"""The leaf nodes of one server: its links, and the interest that it announces over them."""

from __future__ import annotations

import secrets
import string
from collections import Counter
from typing import TYPE_CHECKING

from midge.protocol.leaf_messages import LOOP_PREFIX
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.closed_clients import (
    SUBSCRIPTIONS_KEPT,
    ClosedSubscription,
    ConnectionRecord,
    common_facts,
)
from midge.server.log.logger import get_logger
from midge.server.peers.end import Peers
from midge.server.peers.rules import telling
from midge.server.routing.role import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.auth.permissions import Permissions
    from midge.server.broker.broker import Broker
    from midge.server.peers.ledger import Ledger
    from midge.server.peers.link import Link
    from midge.server.routing.account import Account

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
