"""The broker that one server's connections share: accounts, router, limits, central decisions.

Connections ask it for INFO and admission, and report their events. Its Admission decides on every
refusal, so that no path around it exists.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any, cast

from midge.server.accounts.links import AccountLinks
from midge.server.broker.admission import Admission
from midge.server.broker.server_keys import ServerKeys, may_delegate
from midge.server.broker.totals import Totals
from midge.server.channels.charges import LOG_LINE_BYTES
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.host import Host
from midge.server.clients.client_info import client_label, shared_info
from midge.server.clients.closed_clients import ClosedClients, client_record
from midge.server.clients.observer import Observer, Observers, SeveralObservers
from midge.server.clients.screens import Screen, Screens
from midge.server.clock import Clock
from midge.server.config.account_names import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT
from midge.server.config.options import Options
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.log.logger import get_logger
from midge.server.routing.account import Account
from midge.server.routing.contained_faults import ContainedFaults
from midge.server.routing.message_observer import MessageObserver
from midge.server.routing.role import Role
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from midge.sublist import SubList

if TYPE_CHECKING:
    from midge.protocol.frame import Frame
    from midge.server.auth.identity import Login
    from midge.server.broker.auth_callout import CalloutClient
    from midge.server.broker.message_trace import MessageTraces, Send
    from midge.server.broker.server_info import CommonInfo, Neighbours
    from midge.server.channels.channel import ChannelOwner
    from midge.server.clients.connection import Connection
    from midge.server.clients.rights import Rights
    from midge.server.interceptors.api import Interceptor
    from midge.server.interceptors.interception import Interception
    from midge.server.routing.client import Client

__all__ = ["Broker", "Observer", "Screen", "Totals"]

log = get_logger()

TOO_MANY_TOKENS = "too many tokens"
"""The kind of error for refused subscriptions with too many tokens."""

_EXPECTED_MAX = 65536
"""Most cids kept for connections that were never made, such as after a failed upgrade."""

_ERROR_KINDS_MAX = 64  # most kinds of -ERR that are counted apart; there are a dozen


class Broker(Host):
    """The shared state of one server's connections.

    `clock` and `random` are its only sources of time and of random numbers. `soon` calls a function
    in a later turn of the loop, or is None. `internal` publishes and subscribes for everything
    except connections.

    `clients` has the live connections by cid, `closed` the latest closed ones, oldest first.
    `closed_by_reason` counts closed connections, and `errors_sent` counts -ERR lines by kind.
    `settle` waits for other workers by `barrier`, which is None with a single process.
    """

    def __init__(
        self,
        options: Options,
        clock: Clock,
        random: Random,
        soon: Callable[[Callable[[], None]], object] | None = None,
        keys: ServerKeys | None = None,
    ) -> None:
        chooser = random if options.routing.queue_selection == "random" else None
        router = Router(chooser, ContainedFaults(clock.monotonic), soon)
        Host.__init__(self, options, clock, random, router)
        self.keys = keys or ServerKeys(are_used=may_delegate(options))
        self.internal = InternalPublisher(self.router)
        self.observers = Observers(router.faults)
        self._message_observers: list[MessageObserver] = []
        self.accounts: dict[str, Account] = {}
        self.global_account = self.account(GLOBAL_ACCOUNT)
        self.system_account = self.account(options.system_account or SYSTEM_ACCOUNT)
        self.clients: dict[int, Connection] = {}
        self.closed = ClosedClients(options.limits.max_closed_clients)
        self.totals = Totals()
        self.closed_by_reason: Counter[ClosedReason] = Counter()
        self.errors_sent: Counter[str] = Counter()
        self._without_jetstream: set[str] = set()  # accounts with a logged hint
        self._common_info: CommonInfo | None = None
        self.screens = Screens()
        self.interception: Interception | None = None
        self._interceptors: dict[str, dict[str, Interceptor]] = {"settings": {}, "program": {}}
        self.lame_duck = False
        self.barrier: Callable[[Callable[[], None]], None] | None = None
        self.cluster: Neighbours | None = None  # set while this server is in a cluster
        self.remote_connections: Callable[[str], tuple[int, int]] | None = None  # set likewise
        self.host, self.port = options.listen.host, options.listen.port
        self.websocket_address = self.leafnode_address = ("", 0)  # while there is such a listener
        self._last_cid = 4  # nats-server's internal clients take the first few
        self._expected: deque[int] = deque(maxlen=_EXPECTED_MAX)
        self._transports: set[ChannelOwner] = set()
        self._empty = asyncio.Event()
        route, carry = self.internal.route_frame, self.router.carried.append
        links = AccountLinks(route, clock, random, self.account, self._describe, carry)
        self.admission = Admission(
            self,
            self.clients,
            self.account,
            links,
            self._make_callout,
            lambda: self.interception,
            self.count_elsewhere,
            self.observers,
        )
        self.quotas = self.admission.quotas
        self._send_trace: Send | None = None
        links.applied = partial(self.observers.show, "accounts_planned")
        self.intercept_as_configured(configured_interceptors(options))
        operator = self.admission.authenticator.operator
        if operator is not None and operator.system_account:
            self.system_account = self.account(operator.system_account)

    def _make_callout(self, links: AccountLinks) -> CalloutClient:
        from midge.server.broker.auth_callout import CalloutClient  # noqa: PLC0415 - few have one

        return CalloutClient(self, self.keys, self.internal, links, self.account)

    def count_elsewhere(self, account: str) -> tuple[int, int]:
        """Count the clients and the leaf nodes of an account on other servers."""
        return (0, 0) if self.remote_connections is None else self.remote_connections(account)

    @cached_property
    def rights(self) -> Rights:
        """The checks of clients' permissions and limits, made on first use."""
        from midge.server.clients.rights import Rights  # noqa: PLC0415 - no start needs it

        return Rights(self, self.admission.links.delivered_by)

    @cached_property
    def traces(self) -> MessageTraces:
        """The traces of messages, made on first use."""
        from midge.server.broker.message_trace import MessageTraces  # noqa: PLC0415 - as above

        traces = MessageTraces(
            self, self.admission.trace_claim, self.accounts.get, self.admission.links
        )
        traces.send = self._send_trace
        return traces

    def publish_traces(self, send: Send | None) -> None:
        """Publish traces by `send` from now on; None stops them."""
        self._send_trace = send
        if "traces" in self.__dict__:
            self.traces.send = send

    # Connections.

    def account(self, name: str) -> Account:
        """Return the account called `name`; make it if it does not exist yet."""
        account = self.accounts.get(name)
        if account is None:
            routing = self.options.routing
            sublist = SubList(
                cache_max=routing.cache_max,
                cache_sweep_to=min(routing.cache_sweep_to, routing.cache_max),
                exact_match=routing.exact_match,
            )
            account = Account(name, sublist)
            self.accounts[name] = account
            self.observers.show("account_made", account)
        return account

    def clients_of(self, account: Account) -> list[Connection]:
        """List the live connections in `account`, oldest first."""
        clients = self.clients
        return [clients[cid] for cid in sorted(account.clients) if cid in clients]

    def _describe(self, client: Client | None) -> dict[str, Any]:
        """Return the description of a requesting client for a service; empty for this process."""
        if client is None or client.role != Role.CLIENT:
            return {}
        wall_offset_s = self.clock.wall() - self.clock.monotonic()
        server, cluster = self.options.server_name or self.keys.server_id, self.options.cluster.name
        return shared_info(cast("Connection", client), wall_offset_s, server, cluster)

    def take_cid(self) -> int:
        """Return a new cid; no other connection of this server ever has the same."""
        if self._expected:
            return self._expected.popleft()
        self._last_cid += 1
        return self._last_cid

    def number_from(self, first: int) -> None:
        """Assign cids from `first` on to connections that have none."""
        self._last_cid = first - 1

    def expect(self, cid: int, *, full: bool) -> None:
        """Give the next connection the number `cid`; with `full`, refuse it.

        A process that accepts connections for several workers calls this, because it counts all of
        them.
        """
        self._expected.append(cid)
        if full:
            self.surplus.add(cid)

    def make_connection(
        self,
        peer: tuple[str, int],
        listener_kind: str = "STANDARD",
        own_login: Login | None = None,
    ) -> Connection:
        """Make a connection with a new cid, without a transport."""
        from midge.server.clients.connection import Connection  # noqa: PLC0415 - no start needs it

        connection = Connection(self, self.take_cid(), peer, listener_kind, own_login)
        self.admission.prepare(connection)
        return connection

    def ping_interval_s(self, listener_kind: str) -> float:
        """Return the seconds between PINGs to clients of listeners of this kind."""
        own_s = self.options.websocket.ping_interval_s if listener_kind == "WEBSOCKET" else 0.0
        return own_s or self.options.keepalive.ping_interval_s

    def connection_made(self, connection: Connection) -> None:
        """Admit a connection, or close it if there are too many."""
        self.totals.connections += 1
        self._transports.add(connection)
        self.clients[connection.cid] = connection
        if self.admission.admit(connection):
            log.debug("client_connected", cid=connection.cid, peer=connection.peer)
            self.screens.attach(connection)
            self.trace(connection)

    def trace(self, connection: Connection) -> None:
        """Trace `connection` while `logging.trace` says so."""
        wanted = self.options.logging.trace or self.options.logging.trace_verbose
        if wanted or connection.commands.tracer is not None:
            from midge.server.clients.protocol_trace import Tracer  # noqa: PLC0415 - few logs have it

            label = partial(self._trace_label, connection)
            tracer = Tracer(connection.cid, connection.peer, self.options.logging, label)
            connection.trace(tracer if wanted else None)

    def _trace_label(self, connection: Connection) -> str | None:
        """Return the name of a client in its trace, or None if it is not to be traced."""
        if connection.account is self.system_account and not self.options.logging.trace_verbose:
            return None
        return client_label(connection)

    def client_connected(self, connection: Connection) -> None:
        """Called when a client has been admitted."""
        self.observers.show("client_connected", connection)

    def client_closed(self, connection: Connection) -> None:
        """Called when a connection has ended; its transport may still write."""
        self.clients.pop(connection.cid, None)
        self.quotas.forget(connection.cid)
        self.admission.release(connection)
        if self.interception is not None:
            self._forget_what_waits(connection, self.interception)
        self.totals.add(connection)
        self.closed.append(client_record(connection, self.clock.monotonic()))
        if connection.reason is not None:
            self._note_end(connection, connection.reason)
        self.observers.show("client_closed", connection)

    def link_closed(self, role: int, reason: ClosedReason) -> None:
        """Count a link that has ended because the other server did not read, or not answer."""
        if reason.is_slow_consumer:
            self.totals.count_slow(role)
        elif reason is ClosedReason.STALE_CONNECTION:
            self.totals.count_stale(role)

    def write_timed_out(self, owner: Client, peer: str, deadline_s: float) -> None:
        """Count and log a connection that took only some of its output in time, and stays open."""
        self.totals.count_slow(owner.role)
        Host.write_timed_out(self, owner, peer, deadline_s)

    def _note_end(self, connection: Connection, reason: ClosedReason) -> None:
        """Count and log why a connection has ended."""
        self.closed_by_reason[reason] += 1
        if reason.is_slow_consumer:
            self.totals.slow_consumers += 1
            log.warning(
                "slow_consumer_closed",
                cid=connection.cid,
                peer=connection.peer,
                reason=reason.value,
            )
        elif reason is ClosedReason.STALE_CONNECTION:
            self.totals.stale_connections += 1
        if log.is_debugging:
            label, cid = client_label(connection), connection.cid
            peer, text = connection.peer, reason.value
            log.debug("client_closed", cid=cid, peer=peer, client=label, reason=text)

    def _forget_what_waits(self, connection: Connection, interception: Interception) -> None:
        dropped = interception.forget(connection)
        if dropped:
            log.warning(
                "intercepted_dropped", cid=connection.cid, peer=connection.peer, count=dropped
            )

    def transport_made(self, owner: ChannelOwner) -> None:
        """Add a transport that is not a client's; `emptied` waits for its `connection_lost`."""
        self._transports.add(owner)

    def connection_lost(self, connection: ChannelOwner) -> None:
        """Called when the transport of a connection is gone."""
        self._transports.discard(connection)
        if not self._transports:
            self._empty.set()

    async def emptied(self, within_s: float | None = None) -> bool:
        """Wait until no transport is left; return False if one is after `within_s` of real time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._transports:
                    self._empty.clear()
                    await self._empty.wait()
        return not self._transports

    def jetstream_missed(self, account: str, frame: Frame) -> None:
        """Log, once per account, that a request to JetStream had no receiver as it is off."""
        if self.options.jetstream.enabled or account in self._without_jetstream:
            return
        self._without_jetstream.add(account)
        log.warning(
            "jetstream_missed",
            account=account,
            subject=frame.subject_bytes(),
            hint="JetStream is off; turn it on by -js, or by enabled in its settings",
        )

    def error_sent(self, connection: Connection, text: str) -> None:
        """Log and count an -ERR after which the connection goes on."""
        kind = _kind_of(text)
        if kind not in self.errors_sent and len(self.errors_sent) >= _ERROR_KINDS_MAX:
            kind = "other"
        self.errors_sent[kind] += 1
        if log.is_debugging:
            connection.spend(LOG_LINE_BYTES)
        log.debug("error_sent", cid=connection.cid, peer=connection.peer, error=text)

    # Screens and interceptors.

    def add_screen(self, screen: Screen) -> None:
        """Show publishes and deliveries to `screen` from now on."""
        self.screens.add(screen)
        self._screen_all_anew()

    def remove_screen(self, screen: Screen) -> None:
        """Stop showing messages to `screen`."""
        self.screens.remove(screen)
        self._screen_all_anew()

    def _screen_all_anew(self) -> None:
        for connection in self.clients.values():
            self.screens.attach(connection)

    def intercept(self, functions: Mapping[str, Interceptor]) -> None:
        """Use the program's own `functions`, by event, instead of the configured ones."""
        self._interceptors["program"] = dict(functions)
        self._choose_interceptors()

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return the function that puts them in force.

        Raises:
            ConfigError: they are invalid; nothing has changed.
        """
        put_in_force = self.admission.prepare_reload(options)
        interceptors = configured_interceptors(options)

        def apply() -> None:
            self.intercept_as_configured(interceptors)
            put_in_force()

        return apply

    def intercept_as_configured(self, functions: Mapping[str, Interceptor]) -> None:
        """Use the configured `functions`, unless the program has its own."""
        self._interceptors["settings"] = dict(functions)
        self._choose_interceptors()

    def _choose_interceptors(self) -> None:
        functions = self._interceptors["settings"] | self._interceptors["program"]
        if self.interception is not None:
            self.interception.change(functions)
        elif functions:
            from midge.server.interceptors.interception import Interception  # noqa: PLC0415 - few have any

            self.interception = Interception(self, functions)
            self.screens.add(self.interception)
        self._screen_all_anew()

    # Subscriptions.

    def subscribed(self, connection: Connection, subscription: RoutedSubscription) -> None:
        """Called for a new subscription."""
        if self.observers.see_subscriptions:
            self.observers.show("subscribed", connection, subscription)

    def unsubscribed(
        self, connection: Connection, subscription: RoutedSubscription, cause: str
    ) -> None:
        """Called for the end of a subscription."""
        self.observers.show("unsubscribed", connection, subscription, cause)

    def settle(self, done: Callable[[], None]) -> None:
        """Call `done` when every worker knows the subscriptions so far, of all accounts."""
        if self.barrier is None:
            done()
        else:
            self.barrier(done)

    # INFO.

    def info_line(self, connection: Connection, *, connect_info: bool = False) -> bytes:
        """Return the INFO line for `connection`."""
        common = self._common_info or self._make_common_info()
        offers_tls = connection.listener_kind == "STANDARD"
        info = common.copy(self.options, self.host, self.port, offers_tls=offers_tls)
        if connection.listener_kind == "WEBSOCKET":
            info.host, info.port = self.websocket_address
        info.client_id = connection.cid
        info.client_ip = connection.peer_host
        if connection.nonce and not connection.introduced:
            info.nonce = connection.nonce.decode()
        if self._asks_who(connection, connect_info=connect_info):
            info.auth_required = True
        if self.lame_duck:
            info.ldm = True
        if connect_info:
            info.connect_info = True
            info.remote_account = connection.account.name
            info.max_payload = connection.parser.max_payload
            if connection.account is self.system_account:
                info.acc_is_sys = True
        if self.cluster is not None:
            from midge.server.broker import server_info  # noqa: PLC0415 - few have a cluster

            is_plain = connection.listener_kind != "WEBSOCKET"
            kind = server_info.CLIENTS if is_plain else server_info.WEBSOCKETS
            server_info.add_cluster(info, self.cluster, kind)
        self.screens.edit_info(info)
        return info.line()

    def _make_common_info(self) -> CommonInfo:
        from midge.server.broker.server_info import CommonInfo  # noqa: PLC0415 - no start needs it

        self._common_info = CommonInfo(self.keys)
        return self._common_info

    def _asks_who(self, connection: Connection, *, connect_info: bool) -> bool:
        """Return whether INFO asks for credentials."""
        authenticator, kind = self.admission.authenticator, connection.listener_kind
        # As in nats-server, only the plain listener's first INFO does not ask guests for
        # credentials.
        may_be_spared = not connect_info and kind != "WEBSOCKET"
        is_spared = may_be_spared and authenticator.admits_silent_clients(kind)
        return authenticator.is_required_by(kind) and not is_spared

    def watch_messages(self, observer: MessageObserver) -> None:
        """Call `observer` for every message, and for every event that it observes."""
        if isinstance(observer, Observer):
            self.observers.append(observer)
        self._message_observers.append(observer)
        self._choose_observer()

    def unwatch_messages(self, observer: MessageObserver) -> None:
        """Remove `observer`."""
        if isinstance(observer, Observer) and observer in self.observers:
            self.observers.remove(observer)
        if observer in self._message_observers:
            self._message_observers.remove(observer)
        self._choose_observer()

    def _choose_observer(self) -> None:
        """Set the router's one observer, which may forward to several."""
        several = self._message_observers
        self.router.observer = several[0] if len(several) == 1 else None
        if len(several) > 1:
            self.router.observer = SeveralObservers(several, self.router.faults)

    def close(self) -> None:
        """Release what outlives connections."""
        for account in self.accounts.values():
            account.sublist.clear()  # the garbage collector does not see its nodes
        self.admission.close()
        if self.ready_sockets is not None:
            self.ready_sockets.close()
        if self.interception is not None:
            self.interception.close()

    def abort_all(self) -> None:
        """Abort every remaining transport."""
        for connection in list(self._transports):
            connection.channel.abort()


def configured_interceptors(options: Options) -> dict[str, Interceptor]:
    """Import the interceptors that `options` name. Raises: ConfigError when one is not found."""
    table = options.interceptors
    if not (table.connect or table.subscribe or table.publish or table.deliver):
        return {}
    from midge.server.interceptors.api import load_interceptors  # noqa: PLC0415 - few have any

    return load_interceptors(table)


def _kind_of(error: str) -> str:
    """Return the kind of an -ERR text: without subjects and names."""
    if error.endswith(", too many tokens"):
        return TOO_MANY_TOKENS
    return error.partition(" to ")[0].partition(" of ")[0]
