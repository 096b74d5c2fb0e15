"""The server as a whole: start, reload, lame duck, stop, and its own description."""

from __future__ import annotations

import asyncio
import contextlib
import random as random_module
from random import Random
from typing import TYPE_CHECKING, Any

from midge.protocol.errors import MidgeError
from midge.server.broker.broker import Broker
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clock import Clock, LoopClock
from midge.server.config.options import Options
from midge.server.errors import ConfigError
from midge.server.listeners.connection_source import ConnectionSource, OwnSockets
from midge.server.listeners.sockets import host_in_url, reserve
from midge.server.listeners.tcp import Listener
from midge.server.log.logger import get_logger
from midge.server.monitoring.state import State
from midge.server.system_account.system_events import SystemEvents

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from midge.jetstream.store.disk import SuppliedDisk
    from midge.server.clients.connection import Connection
    from midge.server.config.security import Tls
    from midge.server.jetstream.engine import Engine
    from midge.server.listeners.tls import TlsContexts
    from midge.server.listeners.websocket import WebSocketListener
    from midge.server.monitoring.monitoring_service import MonitoringService
    from midge.server.peers.cluster import Cluster
    from midge.server.peers.leaf_nodes import LeafNodes
    from midge.server.peers.ledger import Ledger
    from midge.server.recorder.recorder import TrafficRecorder
    from midge.server.system_account.remote_connections import RemoteConnections
    from midge.server.tables.table_service import TableService
    from midge.server.workers.worker_role import WorkerRole

log = get_logger()

_FIRST_ROUTES_S = 0.1  # longest wait of clients for the routes of a server that starts
_ABORT_S = 2.0  # longest wait for aborted transports to end, which takes one turn of the loop


class Server:
    """A NATS server within the running event loop.

    In tests, `clock`, `random` and `disk` (for file streams) replace the real ones. Nothing is
    bound until `start`. With `worker`, it is one of several workers, and a parent passes clients to
    it.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        disk: SuppliedDisk | None = None,
        worker: WorkerRole | None = None,
    ) -> None:
        self.options = options or Options()
        self._worker = worker
        self._source: ConnectionSource = OwnSockets() if worker is None else worker.source
        self._clock = clock
        self._random = random or random_module.Random()  # noqa: S311 - spreads load, not a secret
        self._disk = disk
        self._broker: Broker | None = None
        self._listener: Listener | None = None
        self._reserved: socket.socket | None = None  # keeps the port while accepting is paused
        self._tls: TlsContexts | None = None
        self._state: State | None = None
        self._events: SystemEvents | None = None
        self._load_again: Callable[[], Awaitable[None]] | None = None
        self._monitoring: MonitoringService | None = None
        self._https_tls: TlsContexts | None = None
        self._recorder: TrafficRecorder | None = None
        self._jetstream: Engine | None = None
        self._tables: TableService | None = None
        self._leafnodes: LeafNodes | None = None
        self._cluster: Cluster | None = None
        self._ledger: Ledger | None = None
        self._remote_connections: RemoteConnections | None = None
        self._websocket: WebSocketListener | None = None
        self._websocket_tls: TlsContexts | None = None
        self._websocket_address = ("", 0)
        self._config_digest = ""

    @property
    def broker(self) -> Broker:
        """The broker that the connections share; made on first use, within the loop."""
        if self._broker is None:
            soon = asyncio.get_running_loop().call_soon
            keys = None if self._worker is None else self._worker.keys
            clock = self._clock or LoopClock()
            self._broker = Broker(self.options, clock, self._random, soon, keys)
        return self._broker

    @property
    def server_id(self) -> str:
        """The server's public key, new at each start."""
        return self.broker.keys.server_id

    async def start(self) -> None:
        """Open the listeners.

        Raises:
            OSError: an address cannot be bound.
            ConfigError: the settings name invalid files or rules.
        """
        broker = self.broker
        self._state = State(broker, self._worker)
        self._state.config_digest = self._config_digest
        self._tls = _contexts_of(self.options.tls)
        self._listener = Listener(broker, self._tls)
        try:
            await self._open(broker, self._state)
        except BaseException:
            await self._close_listeners()
            await self._stop_monitor()
            await self._stop_recorder()
            self._stop_jetstream()
            await self._stop_links()
            raise
        self._events = SystemEvents(self._state, self._load_again)
        if self._leafnodes is not None:
            self._watch_leafnodes(self._leafnodes, self._events)
        self._events.start()
        if self._cluster is not None and self._worker is None:
            from midge.server.system_account import remote_connections  # noqa: PLC0415 - as above

            self._remote_connections = remote_connections.RemoteConnections(
                broker, self._cluster, self._events
            )
            self._remote_connections.start()
        self._reload_tables()

    async def _open(self, broker: Broker, state: State) -> None:
        """Open the listeners that the options configure: clients, monitoring, WebSocket."""
        options = self.options
        assert self._listener is not None
        if (operator := broker.admission.authenticator.operator) is not None:
            await operator.begin(broker.admission.scan_tokens)
        if options.monitoring.otel:
            from midge.server.broker.spans import Spans  # noqa: PLC0415 - needs OpenTelemetry

            broker.router.spans = Spans.exporting(state.server_name, broker.clock.wall)
        if options.recorder.directory:
            # Imported here: only a recording server needs pyarrow and pays for the import.
            from midge.server.recorder.recorder import TrafficRecorder  # noqa: PLC0415

            self._recorder = TrafficRecorder(
                broker, None if self._worker is None else self._worker.index
            )
            self._recorder.start()
            state.recorder = self._recorder
        if options.jetstream.enabled and self._is_first:
            self._start_jetstream(broker, state)
            self._keep_messages_of_tables(options)
        if (options.leafnodes.remotes or options.leafnodes.port) and self._is_first:
            self._start_leafnodes(broker)
        if options.websocket.port:
            await self._open_websocket(broker)
        if (options.monitoring.http_port or options.monitoring.https_port) and self._is_first:
            state.websocket_port = self._websocket_address[1]
            if options.monitoring.https_port:
                from midge.server.listeners import tls  # noqa: PLC0415 - only for servers that use it

                self._https_tls = tls.TlsContexts(tls.for_anybody(options.tls))
            from midge.server.monitoring.monitoring_service import MonitoringService  # noqa: PLC0415 - as above

            self._monitoring = MonitoringService(state, self._https_tls, self._source)
            self._monitoring.open()
            self._monitoring.serve()
        # Opened last, so that the other listeners are ready when the first client connects.
        broker.host, broker.port = self._source.open(
            "nats", self._listener, options.listen.host, options.listen.port
        )
        if options.cluster.port and self._is_first:
            await self._start_cluster(broker, state)

    @property
    def _is_first(self) -> bool:
        """Whether this process is worker 0, or the only one, and runs the singleton services."""
        return self._worker is None or self._worker.is_first

    def _start_jetstream(self, broker: Broker, state: State) -> None:
        """Recover the streams, before the first client can ask for them."""
        from midge.server.jetstream.engine import Engine  # noqa: PLC0415 - only for servers that use it

        self._jetstream = Engine(broker, self._disk)
        self._jetstream.start()
        state.jetstream = self._jetstream

    @property
    def jetstream(self) -> Engine | None:
        """JetStream while it is on."""
        return self._jetstream

    def _stop_jetstream(self) -> None:
        """Notify consumers' clients of the shutdown, and make accepted messages durable."""
        if self._jetstream is not None:
            self._jetstream.stop()
            self._jetstream = None
        if self._state is not None:
            self._state.jetstream = None

    def _keep_messages_of_tables(self, options: Options) -> None:
        """Make the consumers of tables of interest streams, before the first publisher comes."""
        if options.tables:
            from midge.server.tables.table_service import keep_messages  # noqa: PLC0415 - few have any

            keep_messages(self._jetstream, options.tables)

    def _reload_tables(self) -> None:
        """Start the process of the tables, or pass it the changed tables."""
        self._keep_messages_of_tables(self.options)
        if self._tables is not None:
            self._tables.reload()
        elif self.options.tables and self._is_first and self._state is not None:
            from midge.server.tables.table_service import TableService  # noqa: PLC0415 - few have any

            self._tables = self._state.tables = TableService(self.broker)
            self._tables.start()

    async def _stop_tables(self) -> None:
        """Stop the process of the tables, whose last commits need JetStream."""
        if self._tables is not None:
            await self._tables.stop()
            self._tables = None

    def _start_leafnodes(self, broker: Broker) -> None:
        """Accept leaf nodes, and connect to the remotes."""
        nodes = self._make_leafnodes(broker)
        self._use_leafnodes(nodes)
        nodes.start(self._source)
        if self._state is not None and nodes.listener is not None:
            broker.leafnode_address = nodes.address
            self._state.leafnode_port = nodes.address[1]

    def _make_leafnodes(self, broker: Broker) -> LeafNodes:
        # Imported here: only a server with leaf nodes pays for the import.
        from midge.server.peers.leaf_nodes import LeafNodes  # noqa: PLC0415
        from midge.server.peers.leaf_solicited import LEAF_ENDS  # noqa: PLC0415

        return LeafNodes(broker, self._links_ledger(), LEAF_ENDS)

    def _links_ledger(self) -> Ledger:
        """Return the interest in each account for all links; make it on first use."""
        ledger = self._ledger if self._worker is None else self._worker.ledger
        if ledger is None:
            from midge.server.peers.ledger import Ledger  # noqa: PLC0415 - as above

            ledger = self._ledger = Ledger(self.broker.admission.links)
            self.broker.observers.append(ledger)
        return ledger

    async def _start_cluster(self, broker: Broker, state: State) -> None:
        """Join the cluster; take clients once each route has been tried, so that INFO names it."""
        from midge.server.peers.cluster import Cluster  # noqa: PLC0415 - as above
        from midge.server.peers.route_end import ROUTE_ENDS  # noqa: PLC0415 - as above

        self._cluster = Cluster(broker, self._links_ledger(), ROUTE_ENDS)
        if self._worker is not None:
            self._cluster.neighbours_changed = self._worker.neighbours_changed
        state.cluster = self._cluster
        self._cluster.start(self._source)
        listeners = [one for one in (self._listener, self._websocket) if one is not None]
        for listener in listeners:
            listener.hold()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_ROUTES_S):
                await self._cluster.tried()
        for listener in listeners:
            listener.go_on()

    def _use_leafnodes(self, nodes: LeafNodes) -> None:
        """Report the links of `nodes` in monitoring and events."""
        self._leafnodes = nodes
        if self._state is not None:
            self._state.leafnodes = nodes
        if self._events is not None:
            self._watch_leafnodes(nodes, self._events)

    @staticmethod
    def _watch_leafnodes(nodes: LeafNodes, events: SystemEvents) -> None:
        nodes.joined = events.leafnode_connected
        nodes.left = events.leafnode_closed

    async def _stop_links(self) -> None:
        if self._cluster is not None:
            await self._cluster.stop()
            self._cluster = None
        if self._leafnodes is not None:
            await self._leafnodes.stop()
            self._leafnodes = None

    async def _open_websocket(self, broker: Broker) -> None:
        """Open the listener for WebSocket clients."""
        # Imported here: only a server with WebSocket pays for the import.
        from midge.server.listeners.websocket import WebSocketListener  # noqa: PLC0415

        settings = self.options.websocket
        self._websocket_tls = _contexts_of(settings.tls)
        make_leaf = None if self._leafnodes is None else self._leafnodes.make_link
        self._websocket = WebSocketListener(broker, self._websocket_tls, make_leaf)
        self._websocket_address = broker.websocket_address = self._source.open(
            "websocket", self._websocket, settings.host, settings.port
        )

    def name_configuration(self, digest: str) -> None:
        """Show `digest`, of the configuration file, in monitoring from now on."""
        self._config_digest = digest
        if self._state is not None:
            self._state.config_digest = digest

    async def stop(self) -> None:
        """Stop listening, write pending output within `shutdown.flush_timeout_s`, and close."""
        await self._close_listeners()
        await self._stop_tables()
        if self._remote_connections is not None:
            self._remote_connections.stop()
            self._remote_connections = None
        if self._events is not None:
            self._events.stop()
            self._events = None
        self._stop_jetstream()
        await self._stop_links()
        broker = self.broker
        for connection in list(broker.clients.values()):
            connection.close(ClosedReason.SERVER_SHUTDOWN)
        await self._drained()
        await self._stop_monitor()
        await self._stop_recorder()
        if (spans := broker.router.spans) is not None:
            broker.router.spans = None
            await spans.stop()
        broker.close()

    async def _close_listeners(self) -> None:
        """Stop accepting clients."""
        self._release_port()
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._websocket is not None:
            self._websocket.close()

    async def _stop_recorder(self) -> None:
        if self._recorder is not None:
            await self._recorder.stop()
            self._recorder = None

    async def _stop_monitor(self) -> None:
        if self._monitoring is not None:
            await self._monitoring.stop()
            self._monitoring = None

    def reload_on_request(self, load_again: Callable[[], Awaitable[None]]) -> None:
        """Make the system account's `RELOAD` call `load_again`, which may raise MidgeError.

        Call it before `start`; without it, the server refuses a request for `RELOAD`.
        """
        self._load_again = load_again

    async def reload(self, options: Options) -> None:
        """Apply new options; only some of them can change while the server runs.

        Raises:
            ConfigError: an option is invalid, or cannot change while the server runs. The current
                options stay in force.
        """
        self.prepare_reload(options)()

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check new options; return the function that puts them in force, which cannot fail.

        Raises:
            ConfigError: an option is invalid, or cannot change while the server runs. The current
                options stay in force.
        """
        from midge.server.config.reload_rules import check_reload  # noqa: PLC0415 - most never reload

        check_reload(self.options, options)
        prepared = [*self._prepare_tls(options), self.broker.prepare_reload(options)]
        if self._leafnodes is not None or (options.leafnodes.remotes and self._is_first):
            prepared.append(self._prepare_leafnodes(options))
        if self._cluster is not None:
            prepared.append(self._cluster.prepare_reload(options))
        if self._begins_jetstream(options) and self._disk is None:
            from midge.server.jetstream.engine import check_directory  # noqa: PLC0415 - as above

            check_directory(options.jetstream)
        return lambda: self._put_in_force(options, prepared)

    def _put_in_force(self, options: Options, prepared: list[Callable[[], None]]) -> None:
        self.options = options
        self.broker.options = options
        for put_in_force in prepared:
            put_in_force()
        self._reload_jetstream(options)
        self._reload_tables()
        self._end_surplus()
        self._limit_anew()
        for connection in self.connections():
            self.broker.trace(connection)

    def _reload_jetstream(self, options: Options) -> None:
        """Start JetStream, stop it, or pass it the changed options."""
        if self._begins_jetstream(options) and self._state is not None:
            try:
                self._start_jetstream(self.broker, self._state)
            except ConfigError as error:
                self._stop_jetstream()
                log.error("jetstream_not_started", error=str(error))
        elif self._jetstream is not None and options.jetstream.enabled:
            self._jetstream.reload(options.jetstream)
        else:
            self._stop_jetstream()

    def _begins_jetstream(self, options: Options) -> bool:
        """Return whether this process must now start JetStream; only worker 0 does."""
        return self._jetstream is None and options.jetstream.enabled and self._is_first

    def _prepare_leafnodes(self, options: Options) -> Callable[[], None]:
        """Check leaf node options; return the function that applies them. Raises: ConfigError."""
        nodes = self._leafnodes or self._make_leafnodes(self.broker)
        put_in_force = nodes.prepare_reload(options)

        def apply() -> None:
            self._use_leafnodes(nodes)
            put_in_force()

        return apply

    def _prepare_tls(self, options: Options) -> list[Callable[[], None]]:
        """Build contexts for new handshakes; return functions that apply them.

        Raises:
            ConfigError: a table is invalid.
        """
        from midge.server.listeners.tls import for_anybody  # noqa: PLC0415 - as above

        listeners = (
            (self._tls, options.tls),
            (self._https_tls, for_anybody(options.tls)),
            (self._websocket_tls, options.websocket.tls),
        )
        return [
            contexts.prepare(table)
            for contexts, table in listeners
            if contexts is not None and table.enabled
        ]

    def end_surplus(self, first_cid: int) -> None:
        """Close the connections from `first_cid` on, which exceed the limit of all workers."""
        for connection in self.connections():
            if connection.cid >= first_cid:
                self.broker.admission.turn_away(connection, "connections")

    def _end_surplus(self) -> None:
        """Close the newest connections if the limit is now lower than their number."""
        if self._worker is not None:
            return  # the parent counts the connections of all workers
        allowed = max(0, self.options.limits.max_connections)
        for connection in self.connections()[allowed:]:
            self.broker.admission.turn_away(connection, "connections")

    def _limit_anew(self) -> None:
        """Apply the current limits to the connected clients."""
        broker = self.broker
        limits, keepalive = self.options.limits, self.options.keepalive
        broker.closed.limit(limits.max_closed_clients)
        for connection in self.connections():
            connection.channel.max_pending_bytes = limits.max_pending_bytes
            connection.parser.max_control_line = limits.max_control_line_bytes
            if connection.identity is None:
                connection.parser.max_payload = limits.max_payload_bytes
            connection.channel.keepalive.interval_s = broker.ping_interval_s(
                connection.listener_kind
            )
            connection.channel.keepalive.ping_max = keepalive.ping_max
        if self._state is not None:
            self._state.configured_at = broker.clock.wall()

    async def lame_duck(self, processes: int = 1) -> None:
        """Refuse new clients, notify the others, and close them one by one; then return.

        `processes` of one server do so in parallel.
        """
        await self.announce_lame_duck()
        await self.close_clients_slowly(processes)

    async def announce_lame_duck(self) -> None:
        """Refuse new clients, and ask the others to leave."""
        broker = self.broker
        await self._close_listeners()
        broker.lame_duck = True
        if self._events is not None:
            self._events.lame_duck()
        if self._cluster is not None:
            self._cluster.announce()
        for connection in list(broker.clients.values()):
            connection.renew_info()

    async def close_clients_slowly(self, processes: int = 1) -> None:
        """Wait for clients to leave by themselves, then close the remaining ones one by one."""
        from midge.server.broker.lame_duck import close_slowly  # noqa: PLC0415 - once, if ever

        await close_slowly(self.broker, processes)

    def pause_accepting(self) -> None:
        """Stop listening for a while: new connections are refused, and the port stays ours."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            with contextlib.suppress(OSError):
                self._reserved = reserve(self.broker.host, self.broker.port)

    def resume_accepting(self) -> None:
        """Listen again on the same address."""
        self._release_port()
        if self._listener is None and not self.broker.lame_duck:
            self._listener = Listener(self.broker, self._tls)
            self._listener.open(self.broker.host, self.broker.port)

    def _release_port(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    def urls(self) -> dict[str, list[str]]:
        """Return the URLs of the listeners by kind, for example `nats`."""
        urls = {"nats": [f"nats://{host_in_url(self.broker.host)}:{self.broker.port}"]}
        if self._leafnodes is not None and self._leafnodes.listener is not None:
            host, port = self._leafnodes.address
            urls["leafnodes"] = [f"nats-leaf://{host_in_url(host)}:{port}"]
        if self._cluster is not None and self._cluster.listener is not None:
            host, port = self._cluster.address
            urls["cluster"] = [f"nats-route://{host_in_url(host)}:{port}"]
        if self._websocket is not None:
            host, port = self._websocket_address
            scheme = "wss" if self._websocket.is_encrypted else "ws"
            urls["websocket"] = [f"{scheme}://{host_in_url(host)}:{port}"]
        if self._monitoring is not None:
            urls["monitoring"] = self._monitoring.urls()
        return urls

    def links(self) -> list[str]:
        """Return the names of the servers that are linked to this one: routes, then leaf nodes."""
        routes = () if self._cluster is None else self._cluster.routes.values()
        leaves = () if self._leafnodes is None else self._leafnodes.links.values()
        return [link.name for link in (*routes, *leaves)]

    async def page(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return this worker's part of a monitoring page.

        Raises:
            MidgeError: an argument is wrong.
        """
        from midge.server.monitoring.arguments import BadArgument  # noqa: PLC0415 - see below
        from midge.server.monitoring.whole import own_page  # noqa: PLC0415 - for workers only

        assert self._state is not None, "asked once it has started"
        try:
            return await own_page(self._state, name, arguments)
        except BadArgument as error:
            raise MidgeError(str(error)) from None

    def connections(self) -> list[Connection]:
        """List the live connections."""
        return list(self.broker.clients.values())

    async def _drained(self) -> None:
        """Wait until the transports are gone; abort them after the time limit.

        This uses real time, because a virtual clock that stands still must not keep a server from
        stopping.
        """
        broker = self.broker
        if not await broker.emptied(self.options.shutdown.flush_timeout_s):
            broker.abort_all()
            if not await broker.emptied(_ABORT_S):
                log.error("transports_left")


def _contexts_of(table: Tls) -> TlsContexts | None:
    """Return the contexts that `table` describes, or None if it does not turn TLS on."""
    if not table.enabled:
        return None
    from midge.server.listeners.tls import TlsContexts  # noqa: PLC0415 - only for servers that use it

    return TlsContexts(table)
