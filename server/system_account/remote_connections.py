"""Connections of accounts on the other servers of the cluster, which count towards limits.

Every server announces the number of an account's connections on
`$SYS.SERVER.ACCOUNT.<account>.CONNS`, whenever a connection comes or goes and every 30 seconds. A
server asks the others when a route comes up, and they answer. An announcement counts until the
route to its server ends.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import msgspec

from midge.protocol import errors
from midge.protocol.frame import compose
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.observer import Observer
from midge.server.log.logger import get_logger
from midge.server.routing.role import Role
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist.result import SubListResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.protocol.frame import Frame
    from midge.server.broker.broker import Broker
    from midge.server.clients.connection import Connection
    from midge.server.peers.cluster import Cluster
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.system_account.system_events import SystemEvents

_REPORTED = b"$SYS.SERVER.ACCOUNT.*.CONNS"
_ASKED = b"$SYS.REQ.ACCOUNT.*.CONNS"
_INTERVAL_S = 30.0
"""Interval for announcing unchanged counts, as nats-server does."""

_AT_ONCE = 32
"""Most accounts to announce or to ask about in one turn of the loop: some 2 ms."""

_SIZE_MAX = 64 * 1024
"""Largest announcement that is read: nats-server's have some 800 bytes and the server's labels."""

log = get_logger()


class AnnouncedConnections(msgspec.Struct):
    """A server's announcement of the connections that an account has there."""

    acc: str
    conns: int = 0
    leafnodes: int = 0


class AnnouncementSubscription(RoutedSubscription):
    """This server's subscription to announcements, in the system account."""

    def __init__(self, subject: bytes, take: Callable[[str, bytes], object]) -> None:
        RoutedSubscription.__init__(self, subject)
        self._take = take

    def receive(self, publisher: Client | None, frame: Frame) -> bool:
        """Take an announcement that came over a route; ignore clients of the system account."""
        if publisher is None or publisher.role != Role.ROUTE or frame.size > _SIZE_MAX:
            return False
        branch: Any = publisher
        self._take(branch.link.end.info.server_id, frame.payload_bytes())
        return True


class RemoteConnections(Observer):
    """The connections that accounts have on the servers that `cluster` has routes to."""

    def __init__(self, broker: Broker, cluster: Cluster, events: SystemEvents) -> None:
        self._broker = broker
        self._cluster = cluster
        self._events = events
        self._counts: dict[str, dict[str, AnnouncedConnections]] = {}
        self._inbox = b"$SYS._INBOX_." + secrets.token_hex(11).encode()
        self._left: list[str] = []
        self._again = broker.clock.call_later(_INTERVAL_S, self._report_again)

    def start(self) -> None:
        """Start to listen, announce and ask."""
        for subject in (_REPORTED, self._inbox):
            self._events.listen(AnnouncementSubscription(subject, self._take))
        self._broker.system_account.add_listener(self)
        self._broker.observers.append(self)
        self._broker.remote_connections = self.count
        self._begin()

    def stop(self) -> None:
        """Stop announcing and asking."""
        self._broker.system_account.remove_listener(self)
        self._broker.observers.remove(self)
        self._broker.remote_connections = None
        self._again.cancel()
        self._left = []

    def count(self, account: str) -> tuple[int, int]:
        """Count the clients and the leaf nodes of `account` on the other servers."""
        found = self._counts.get(account)
        if not found:
            return 0, 0
        there = [one for server, one in found.items() if server in self._cluster.routes]
        return sum(one.conns for one in there), sum(one.leafnodes for one in there)

    # Announcing and asking.

    def client_connected(self, connection: Connection) -> None:
        """Ask for the others' counts when an account has its first client here."""
        if len(connection.account.clients) == 1:
            self._ask(connection.account)

    def remote_changed(self, subject: bytes, queue: bytes | None) -> None:
        """Announce to, and ask, a new server."""
        if subject in {_REPORTED, _ASKED}:
            self._begin()

    def interest_began(self, subject: bytes, queue: bytes | None) -> None:
        """Ignore this server's own interest."""

    def interest_ended(self, subject: bytes, queue: bytes | None) -> None:
        """Ignore this server's own interest."""

    def group_resized(self, subject: bytes, queue: bytes, members: int) -> None:
        """Ignore this server's own interest."""

    def _report_again(self) -> None:
        self._again = self._broker.clock.call_later(_INTERVAL_S, self._report_again)
        self._begin()

    def _begin(self) -> None:
        """Announce and ask about all accounts with clients, in the next turns of the loop."""
        if not self._left:
            self._broker.clock.call_later(0, self._go_on)
        self._left = [account.name for account in self._broker.accounts.values() if account.clients]

    def _go_on(self) -> None:
        batch, self._left = self._left[:_AT_ONCE], self._left[_AT_ONCE:]
        for name in batch:
            account = self._broker.account(name)
            self._events.report_connections(account)
            self._ask(account)
        if self._left:
            self._broker.clock.call_later(0, self._go_on)

    def _ask(self, account: Account) -> None:
        """Ask the other servers for the number of an account's connections."""
        system = self._broker.system_account
        if account is not system:
            subject = b"$SYS.REQ.ACCOUNT.%b.CONNS" % account.name.encode()
            asked = system.sublist.match(subject).remotes
            if asked is None:
                return
            request = msgspec.json.encode(
                {"server": {"id": self._cluster.server_id}, "acc": account.name}
            )
            frame = compose(subject, request, self._inbox, None)
            self._broker.internal.route_frame(system, SubListResult((), (), asked), frame, None)

    # Receiving.

    def _take(self, server_id: str, document: bytes) -> None:
        """Store a server's announcement, if this server has the account."""
        try:
            report = msgspec.json.decode(document, type=AnnouncedConnections)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        account = self._broker.accounts.get(report.acc)
        if account is None or min(report.conns, report.leafnodes) < 0:
            return
        known = self._counts.setdefault(report.acc, {})
        for gone in [one for one in known if one not in self._cluster.routes]:
            del known[gone]
        known[server_id] = report
        self._keep_within_limit(account)

    def _keep_within_limit(self, account: Account) -> None:
        """Close the newest clients of an account that now has too many.

        Two servers may admit clients at the same time, and then both close one. As in nats-server,
        one too many is closed rather than one too few.
        """
        plan = self._broker.admission.plan_for(account.name)
        if plan is None or plan.max_connections < 0 or not account.clients:
            return
        surplus = len(account.clients) + self.count(account.name)[0] - plan.max_connections
        if surplus > 0:
            log.warning("account_connections_reduced", account=account.name, count=surplus)
            for connection in self._broker.clients_of(account)[-surplus:]:
                connection.close(
                    ClosedReason.MAXIMUM_ACCOUNT_CONNECTIONS, errors.MAXIMUM_ACCOUNT_CONNECTIONS
                )
