"""The server's events in the system account: clients that connect and disconnect, and counts.

Events are made only while they have a subscriber.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from midge.protocol.frame import compose
from midge.server.auth import Refusal
from midge.server.broker.broker import Broker, Observer
from midge.server.clients.client_info import user_of
from midge.server.clients.closed_reason import ClosedReason
from midge.server.clients.connection import Connection
from midge.server.links.interest import Kind
from midge.server.monitoring import go_format
from midge.server.monitoring.state import State
from midge.server.routing.account import Account
from midge.server.system_account.documents import Documents
from midge.server.system_account.requests import SystemRequests

if TYPE_CHECKING:
    from midge.server.clock import Timer
    from midge.server.leafnodes.link import LeafLink

_REFUSED = b"$SYS.ACCOUNT.CLIENT.AUTH.ERR"
_STATISTICS_INTERVAL_S = 10.0
_FIRST_STATISTICS_INTERVAL_S = 0.25
"""The interval doubles from the first to the second: a new server publishes more often."""


class SystemEvents(Observer):
    """Publishes the events of one server and answers requests; `reload` loads its configuration."""

    def __init__(self, state: State, reload: Callable[[], Awaitable[None]] | None) -> None:
        self._broker: Broker = state.broker
        self._documents = Documents(state)
        self._timer: Timer | None = None
        self._interval_s = _FIRST_STATISTICS_INTERVAL_S
        self._known: set[str] = set()
        self._requests = SystemRequests(self._documents, reload)

    def start(self) -> None:
        """Start to observe and to answer."""
        self._requests.subscribe_system()
        for account in list(self._broker.accounts.values()):
            self.account_made(account)
        self._broker.observers.append(self)
        self._broker.traces.send = self._send_trace
        self._broker.admission.refused = self._tell_refused
        self._tick()

    def stop(self) -> None:
        """Tell that the server goes, then nothing more."""
        self._broker.traces.send = None
        self._broker.admission.refused = None
        self._publish_own("SHUTDOWN", self._documents.server_info())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._requests.close()

    def lame_duck(self) -> None:
        """Publish the event of lame duck mode."""
        self._publish_own("LAMEDUCK", self._documents.server_info())

    # Called by the broker.

    def account_made(self, account: Account) -> None:
        """Offer the common services in a new account."""
        if account.name not in self._known:
            self._known.add(account.name)
            self._requests.subscribe_account(account)

    def client_connected(self, connection: Connection) -> None:
        """Publish the event of an admitted client."""
        if self._has_listeners():
            self._tell_connections(connection.account)
            self._tell(connection, "CONNECT", self._documents.connect_event(connection))

    def client_closed(self, connection: Connection) -> None:
        """Publish the event of a client that has disconnected, or was refused."""
        if not self._has_listeners():
            return
        if connection.introduced:
            self._tell_connections(connection.account, leaving=len(connection.subscriptions))
        elif connection.reason is ClosedReason.AUTHENTICATION_FAILURE:
            self._publish_own("CLIENT.AUTH.ERR", self._documents.disconnect_event(connection))
        self._tell(connection, "DISCONNECT", self._documents.disconnect_event(connection))

    # Publishing.

    def leafnode_connected(self, link: LeafLink) -> None:
        """Tell that a link has come up, and of one that was accepted as of a client."""
        if not self._has_listeners():
            return
        account = link.account
        system = self._broker.system_account
        subject = b"$SYS.ACCOUNT.%b.LEAFNODE.CONNECT" % account.name.encode()
        document = {"server": self._documents.server_info(), "acc": account.name}
        self.publish(system, subject, document)
        if link.told.kind is Kind.LEAF:
            self._tell_connections(account)
            subject = b"$SYS.ACCOUNT.%b.CONNECT" % account.name.encode()
            self.publish(system, subject, self._documents.leafnode_connect_event(link))

    def leafnode_closed(self, link: LeafLink) -> None:
        """Tell that a link has ended that was accepted."""
        if self._has_listeners() and link.told.kind is Kind.LEAF:
            self._tell_connections(link.account)
            subject = b"$SYS.ACCOUNT.%b.DISCONNECT" % link.account.name.encode()
            document = self._documents.leafnode_disconnect_event(link)
            self.publish(self._broker.system_account, subject, document)

    def publish(self, account: Account, subject: bytes, document: Any) -> None:
        """Publish `document` as JSON in `account`, if it has subscribers."""
        result = account.sublist.match(subject)
        if not result:
            return
        frame = compose(subject, msgspec.json.encode(document))
        self._broker.internal.route_frame(account, result, frame, None)

    def _tell_refused(self, connection: Connection, refusal: Refusal) -> None:
        """Publish in an account that a client was refused, and why."""
        account = self._broker.accounts.get(refusal.account)
        if account is None or not account.sublist.has_interest(_REFUSED):
            return
        event = self._documents.disconnect_event(connection)
        event["client"] |= {"acc": account.name, "user": refusal.user or user_of(connection)}
        self.publish(account, _REFUSED, {**event, "reason": refusal.told})

    def _send_trace(self, account: Account, subject: bytes, trace: dict[str, Any]) -> None:
        """Publish the trace of a message to those in its account who listen on `subject`."""
        for event in trace["events"]:
            event["ts"] = go_format.timestamp(event["ts"])
        self.publish(account, subject, {"server": self._documents.server_info(), **trace})

    def _has_listeners(self) -> bool:
        """Tell whether any client has subscribed in the system account."""
        return len(self._broker.system_account.sublist) > self._requests.subscribed

    def _publish_own(self, name: str, document: Any) -> None:
        self.publish(self._broker.system_account, self._own_subject(name), document)

    def _tell(self, connection: Connection, name: str, event: Any) -> None:
        subject = f"$SYS.ACCOUNT.{connection.account.name}.{name}"
        self.publish(self._broker.system_account, subject.encode(), event)

    def _tell_connections(self, account: Account, leaving: int = 0) -> None:
        """Publish the counts of an account, less the `leaving` subscriptions of a client."""
        name = account.name
        document = self._documents.account_connections(account)
        document["num_subscriptions"] -= leaving
        for subject in (f"$SYS.SERVER.ACCOUNT.{name}.CONNS", f"$SYS.ACCOUNT.{name}.SERVER.CONNS"):
            self.publish(self._broker.system_account, subject.encode(), document)

    def _tick(self) -> bool:
        """Publish the counts, now and every few seconds; False without a subscriber."""
        self._timer = self._broker.clock.call_later(self._interval_s, self._tick)
        self._interval_s = min(2 * self._interval_s, _STATISTICS_INTERVAL_S)
        is_heard = bool(self._broker.system_account.sublist.match(self._own_subject("STATSZ")))
        if is_heard:
            self._publish_own("STATSZ", self._documents.statistics())
        return is_heard

    def _own_subject(self, name: str) -> bytes:
        return f"$SYS.SERVER.{self._broker.keys.server_id}.{name}".encode()
