"""The parent of several workers: binds, accepts and hands over, and is the server to its process.

It has the interface of `midge.server.server.Server` that a daemon needs, and serves nothing itself:
whatever a client says is read by a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from midge.server.broker.server_keys import ServerKeys, may_delegate
from midge.server.clock import LoopClock
from midge.server.config.options import Logging, Options, Process
from midge.server.listeners.sockets import host_in_url, listen
from midge.server.log.logger import JOURNAL
from midge.server.workers.cpus import worker_count
from midge.server.workers.reception import ListeningSocket, Reception
from midge.server.workers.worker_pool import PATIENCE_S, WorkerPool

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable

    from midge.server.listeners.connection_source import Address

_BACKLOG = 1024
_STOP_S = 5.0  # to stop JetStream, besides what writing takes

_OWN_CIDS = 1 << 40
"""Above the numbers that the parent gives; each process has 2**24 for all but clients."""

_SCHEMES = {
    "nats": ("nats", "nats"),
    "websocket": ("websocket", "ws"),
    "monitoring_http": ("monitoring", "http"),
    "monitoring_https": ("monitoring", "https"),
    "leafnodes": ("leafnodes", "nats-leaf"),
    "cluster": ("cluster", "nats-route"),
}
"""By kind of listening socket: the kind of its URL, and the URL's scheme."""

_SERVED_BY_FIRST = ("monitoring_http", "monitoring_https", "leafnodes", "cluster")


class Supervisor:
    """A server of several worker processes, as `options` say."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._keys = ServerKeys(are_used=may_delegate(options))
        self._accounts: dict[str, None] = {}  # that came with their clients, in operator mode
        self._digest = ""
        self._neighbours: dict[str, Any] = {}  # the last report of worker 0 about the cluster
        self._load_again: Callable[[], Awaitable[None]] | None = None
        self._pool: WorkerPool | None = None
        self._reception: Reception | None = None
        self._listening: dict[str, ListeningSocket] = {}
        self._sockets: dict[str, socket.socket] = {}
        self._addresses: dict[str, Address] = {}

    @property
    def server_id(self) -> str:
        """The public key of the whole server, new at each start."""
        return self._keys.server_id

    @property
    def pool(self) -> WorkerPool:
        """The workers, once started."""
        assert self._pool is not None, "started"
        return self._pool

    # Start and stop.

    async def start(self) -> None:
        """Bind, start the workers, and take clients when all of them are ready.

        Raises:
            OSError: an address cannot be bound.
            MidgeError: a worker could not start.
        """
        clock = LoopClock()
        silence_s = self.options.limits.write_deadline_s
        pool = self._pool = WorkerPool(self, worker_count(self.options), clock, silence_s)
        self._reception = Reception(
            pool, lambda: self.options.limits.max_connections, self._is_firsts
        )
        try:
            self._bind()
            await pool.start()
        except BaseException:
            self._unbind()
            raise
        for kind in ("websocket", "nats"):
            if kind in self._sockets:
                one = self._listening[kind] = ListeningSocket(clock, kind, self._reception)
                one.adopt(self._sockets.pop(kind))

    def _is_firsts(self, kind: str) -> bool:
        """Return whether connections of `kind` may be leaf nodes; inside TLS only a worker sees."""
        return kind == "websocket" and self.options.leafnodes.port != 0

    def _bind(self) -> None:
        options = self.options
        monitoring = options.monitoring
        wanted = {
            "monitoring_https": (monitoring.host or options.listen.host, monitoring.https_port),
            "monitoring_http": (monitoring.host or options.listen.host, monitoring.http_port),
            "websocket": (options.websocket.host, options.websocket.port),
            "leafnodes": (options.leafnodes.host, options.leafnodes.port),
            "cluster": (options.cluster.host, options.cluster.port),
        }
        if monitoring.https_port:
            del wanted["monitoring_http"]
        for kind, (host, port) in wanted.items():
            if port:
                self._sockets[kind], self._addresses[kind] = listen(host, port, _BACKLOG)
        listening = listen(options.listen.host, options.listen.port, _BACKLOG)
        self._sockets["nats"], self._addresses["nats"] = listening

    def _unbind(self) -> None:
        for one in self._listening.values():
            one.close()
        self._listening = {}
        for listening in self._sockets.values():
            listening.close()
        self._sockets = {}

    async def stop(self) -> None:
        """Stop accepting, and stop the workers, which write their pending output."""
        self._unbind()
        if self._pool is not None:
            await self._pool.stop(self.options.shutdown.flush_timeout_s + _STOP_S)

    async def lame_duck(self) -> None:
        """Refuse new clients, and have the workers close the others one by one; then return."""
        for one in self._listening.values():
            one.close()
        await self.pool.ask_all("lame_duck", processes=self.pool.size)

    # Settings.

    def reload_on_request(self, load_again: Callable[[], Awaitable[None]]) -> None:
        """Call `load_again` for the system account's `RELOAD`; it may raise MidgeError."""
        self._load_again = load_again

    def name_configuration(self, digest: str) -> None:
        """Show `digest`, of the file that the options came from, in monitoring from now on."""
        self._digest = digest
        if self._pool is not None:
            self._pool.send_all("digest", digest=digest)

    async def reload(self, options: Options) -> None:
        """Apply new options in all workers, or in none.

        Raises:
            ConfigError: an option is invalid, or cannot be changed while running.
            MidgeError: a worker cannot apply them, so none has.
        """
        from midge.server.config.reload_rules import check_reload  # noqa: PLC0415 - most never reload

        check_reload(self.options, options)
        async with self.pool.changing:
            try:
                await self.pool.ask_all("prepare", options=self._for_workers(options))
            except BaseException:
                self.pool.send_all("discard")
                raise
            self.options = options  # a worker that starts from here on starts with these
            await self.pool.ask_all("apply")
            await self._end_surplus()

    async def _end_surplus(self) -> None:
        """End the newest connections where the limit is now lower than their number."""
        most = self.options.limits.max_connections
        if self.pool.balancer.load() <= most:
            return
        cids = sorted(cid for own in await self.pool.ask_all("cids") for cid in own)
        if len(cids) > most:
            self.pool.send_all("end_surplus", first_cid=cids[most])

    def _for_workers(self, options: Options) -> Options:
        """Return `options` without the parent's files: log file, pid file, ports file."""
        form = "nats" if JOURNAL.form_name == "plain" else JOURNAL.form_name or "json"
        log = replace(options.logging, file="", syslog=False, remote_syslog="", format=form)
        log = replace(log, file_size_limit_bytes=Logging().file_size_limit_bytes)
        return replace(options, logging=log, process=Process())

    def urls(self) -> dict[str, list[str]]:
        """Return the URLs of the listeners by kind, `nats` among them."""
        urls: dict[str, list[str]] = {}
        for kind, (shown, scheme) in _SCHEMES.items():
            if kind in self._addresses:
                host, port = self._addresses[kind]
                if kind == "websocket" and self.options.websocket.tls.enabled:
                    scheme = "wss"  # noqa: PLW2901 - the same thing, encrypted
                urls.setdefault(shown, []).append(f"{scheme}://{host_in_url(host)}:{port}")
        return urls

    # What the pool needs.

    def first_notice(self, index: int) -> dict[str, Any]:
        """Return the first message to worker `index`, with the options in force."""
        return {
            "index": index,
            "count": worker_count(self.options),
            "options": self._for_workers(self.options),
            "keys": {
                "server_id": self._keys.server_id,
                "xkey": self._keys.xkey,
                "seeds": self._keys.seeds,
            },
            "accounts": list(self._accounts),
            "neighbours": self._neighbours,
            "addresses": self._addresses,
            "digest": self._digest,
            "first_cid": _OWN_CIDS + (256 * self.pool.restarts + index << 24),
            "can_reload": self._load_again is not None,
        }

    def sockets_of(self, index: int) -> Iterable[tuple[str, socket.socket]]:
        """List the listening sockets that worker `index` serves itself."""
        found = _SERVED_BY_FIRST if index == 0 else ()
        return [(kind, self._sockets[kind]) for kind in found if kind in self._sockets]

    async def answer(self, worker: int, kind: str, body: dict[str, Any]) -> Any:
        """Do what a worker asks for: a `reload`, or that all make the plan of an `account`.

        Raises:
            MidgeError: it cannot be done.
        """
        if kind == "reload" and self._load_again is not None:
            await self._load_again()
        elif kind == "account":
            self._accounts[body["name"]] = None  # for workers that start later
            self.pool.send_starting("account", name=body["name"])
            await self.pool.ask_all("account", PATIENCE_S, but=worker, name=body["name"])

    def neighbours_changed(self, worker: int, found: dict[str, Any]) -> None:
        """Send worker 0's report about the cluster to all workers, for their clients."""
        self._neighbours = found
        self.pool.send_all("neighbours", but=worker, **found)

    def states_changed(self) -> None:
        """Send worker 0 the states of all workers, for monitoring."""
        reception = self._reception
        self.pool.send(
            0,
            "states",
            states=self.pool.states(),
            refused=0 if reception is None else reception.refused,
            restarts=self.pool.restarts,
        )
