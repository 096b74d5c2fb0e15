"""The server's events in the system account: clients that connect and disconnect, and counts.

Events are made only while they have a subscriber.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from midge.protocol.errors import MidgeError
from midge.protocol.frame import compose
from midge.server.broker.broker import Broker, Observer
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.client_info import user_of
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.monitoring import go_format
from midge.server.monitoring.state import State
from midge.server.routing.account import Account
from midge.server.system_account.services import SystemServices

if TYPE_CHECKING:
    from midge.server.auth import Refusal
    from midge.server.clients.connection import Connection
    from midge.server.clock import Timer
    from midge.server.peers.link import Link
    from midge.server.routing.subscription import RoutedSubscription
    from midge.server.system_account.documents import Documents

_REFUSED = b"$SYS.ACCOUNT.CLIENT.AUTH.ERR"
_STATISTICS_INTERVAL_S = 10.0
_FIRST_STATISTICS_INTERVAL_S = 0.25
"""The interval starts at this value and doubles, so that a new server publishes more often."""


class SystemEvents(Observer):
    """Publishes the events of one server and answers requests; `reload` loads its configuration."""

    def __init__(self, state: State, reload: Callable[[], Awaitable[None]] | None) -> None:
        self._broker: Broker = state.broker
        self._state = state
        self._tasks: set[asyncio.Task[None]] = set()
        self._made: Documents | None = None
        self._timer: Timer | None = None
        self._interval_s = _FIRST_STATISTICS_INTERVAL_S
        self._known: set[str] = set()
        self._services = SystemServices(state.broker, lambda: self._documents, reload)
        self._is_first = state.worker is None or state.worker.is_first

    @property
    def _documents(self) -> Documents:
        """The maker of documents, made on first use."""
        if self._made is None:
            from midge.server.system_account.documents import Documents  # noqa: PLC0415 - see above

            self._made = Documents(self._state)
        return self._made

    def start(self) -> None:
        """Start to observe and to answer; one of several workers answers for all."""
        if self._is_first:
            self._services.subscribe_system()
        for account in list(self._broker.accounts.values()):
            self.account_made(account)
        self._broker.observers.append(self)
        self._broker.publish_traces(self._send_trace)
        if self._is_first:
            self._tick()

    def stop(self) -> None:
        """Publish the shutdown event, and stop."""
        self._broker.publish_traces(None)
        if self._is_first:
            self._publish_own("SHUTDOWN", self._documents.server_info())
        for task in list(self._tasks):
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._services.close()

    def lame_duck(self) -> None:
        """Publish the event of lame duck mode."""
        if self._is_first:
            self._publish_own("LAMEDUCK", self._documents.server_info())

    # Called by the broker.

    def account_made(self, account: Account) -> None:
        """Offer the common services in a new account."""
        if account.name not in self._known:
            self._known.add(account.name)
            self._services.subscribe_account(account, everything=self._is_first)

    def client_connected(self, connection: Connection) -> None:
        """Publish the event of an admitted client."""
        if self._has_listeners():
            self.report_connections(connection.account)
            self._report(connection, "CONNECT", self._documents.connect_event)

    def client_closed(self, connection: Connection) -> None:
        """Publish the event of a client that has disconnected, was refused, or lost its user."""
        if not self._has_listeners():
            return
        if connection.introduced:
            self.report_connections(connection.account, leaving=len(connection.subscriptions))
        if connection.reason is ClosedReason.AUTHENTICATION_FAILURE:
            self._publish_own("CLIENT.AUTH.ERR", self._documents.disconnect_event(connection))
        self._report(connection, "DISCONNECT", self._documents.disconnect_event)

    # Publishing.

    def leafnode_connected(self, link: Link) -> None:
        """Publish the event of a new leaf link, at either end."""
        if self._has_listeners():
            self.report_connections(link.account)
            subject = b"$SYS.ACCOUNT.%b.CONNECT" % link.account.name.encode()
            document = self._documents.leafnode_connect_event(link)
            self.publish(self._broker.system_account, subject, document)

    def leafnode_closed(self, link: Link) -> None:
        """Publish the end of a leaf link."""
        if self._has_listeners():
            self.report_connections(link.account)
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

    def client_refused(self, connection: Connection, refusal: Refusal) -> None:
        """Publish a client's refusal, with its reason, in the account."""
        name = connection.account.name if connection.introduced else refusal.account
        account = self._broker.accounts.get(name)
        if account is None or not account.sublist.has_interest(_REFUSED):
            return
        event = self._documents.disconnect_event(connection)
        event["client"] |= {"acc": account.name, "user": refusal.user or user_of(connection)}
        event["reason"] = refusal.reported
        # Clients that the same reload refuses are closed by then, and get no report.
        asyncio.get_running_loop().call_soon(self.publish, account, _REFUSED, event)

    def _send_trace(self, account: Account, subject: bytes, trace: dict[str, Any]) -> None:
        """Publish the trace of a message on `subject` in its account."""
        for event in trace["events"]:
            event["ts"] = go_format.timestamp(event["ts"])
        self.publish(account, subject, {"server": self._documents.server_info(), **trace})

    def _has_listeners(self) -> bool:
        """Return whether any client may have subscribed in the system account."""
        if self._state.worker is not None:
            return True  # another worker's client may have subscribed
        sublist = self._broker.system_account.sublist
        is_in_cluster = sublist.remotes is not None and len(sublist.remotes) > 0
        return is_in_cluster or len(sublist) > self._services.subscribed

    def _publish_own(self, name: str, document: Any) -> None:
        self.publish(self._broker.system_account, self._own_subject(name), document)

    def _report(
        self, connection: Connection, name: str, event: Callable[[Connection], Any]
    ) -> None:
        """Publish the document that `event` makes of a connection, if it has subscribers."""
        subject = f"$SYS.ACCOUNT.{connection.account.name}.{name}".encode()
        if self._is_heard(subject):
            self.publish(self._broker.system_account, subject, event(connection))

    def listen(self, subscription: RoutedSubscription) -> None:
        """Add a subscription of the server's own to the system account."""
        self._broker.system_account.add(subscription)
        self._services.subscribed += 1

    def report_connections(self, account: Account, leaving: int = 0) -> None:
        """Publish the counts of an account, less the `leaving` subscriptions of a client.

        Those of the global account are not published, as on nats-server.
        """
        if account.name == GLOBAL_ACCOUNT:
            return
        is_heard = any(self._is_heard(subject) for subject in _counts_subjects(account.name))
        if is_heard and self._state.worker is None:
            from midge.server.monitoring import accounts  # noqa: PLC0415 - no start needs pages

            counts = accounts.account_statistics(self._state, account)
            counts["num_subscriptions"] -= leaving
            self._publish_connections(account.name, counts)
        elif is_heard:
            self._begin(self._report_all_connections(account.name))

    async def _report_all_connections(self, name: str) -> None:
        """Publish the counts of an account in all workers."""
        from midge.server.monitoring import whole  # noqa: PLC0415 - as above

        found = await whole.whole_account_statistics(self._state, [name])
        if found:
            self._publish_connections(name, found[0])

    def _publish_connections(self, name: str, counts: dict[str, Any]) -> None:
        document = self._documents.account_connections(counts)
        for subject in _counts_subjects(name):
            self.publish(self._broker.system_account, subject, document)

    def _tick(self) -> bool:
        """Publish the counts, now and every few seconds; return False without a subscriber."""
        self._timer = self._broker.clock.call_later(self._interval_s, self._tick)
        self._interval_s = min(2 * self._interval_s, _STATISTICS_INTERVAL_S)
        is_heard = self._is_heard(self._own_subject("STATSZ"))
        if is_heard and self._state.worker is not None:
            self._begin(self._publish_all_statistics())
        elif is_heard:
            from midge.server.monitoring import whole  # noqa: PLC0415 - as above

            own = whole.own_totals(self._state)
            self._publish_own("STATSZ", self._documents.statistics(own))
        return is_heard

    async def _publish_all_statistics(self) -> None:
        """Publish the counts of all workers."""
        from midge.server.monitoring import whole  # noqa: PLC0415 - as above

        totals = await whole.whole_totals(self._state)
        self._publish_own("STATSZ", self._documents.statistics(totals))

    def _is_heard(self, subject: bytes) -> bool:
        return bool(self._broker.system_account.sublist.match(subject))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._contained(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _contained(self, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`; if the other workers do not answer, nothing is published."""
        with contextlib.suppress(MidgeError):
            await work

    def _own_subject(self, name: str) -> bytes:
        return f"$SYS.SERVER.{self._broker.keys.server_id}.{name}".encode()


def _counts_subjects(name: str) -> tuple[bytes, bytes]:
    """Return the subjects under which the counts of an account are published."""
    old, new = f"$SYS.SERVER.ACCOUNT.{name}.CONNS", f"$SYS.ACCOUNT.{name}.SERVER.CONNS"
    return old.encode(), new.encode()
