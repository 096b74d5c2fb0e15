"""A worker process: a server without listening sockets, which does what its parent says.

It has no signals of its own: the parent takes those for all. It ends with its parent, however that
ends: the socket between them says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from midge.platforms import new_event_loop
from midge.protocol.errors import MidgeError
from midge.server.broker.server_info import CLIENTS, WEBSOCKETS
from midge.server.broker.server_keys import ServerKeys
from midge.server.clients.observer import Observer
from midge.server.config.options import Options
from midge.server.log import logger as logging
from midge.server.peers.worker_links import WorkerLinks
from midge.server.process.gc_pauses import shorten_pauses
from midge.server.process.tuning import tune
from midge.server.server import Server
from midge.server.workers.control import ControlChannel
from midge.server.workers.handover import HandoverReceiver, Note
from midge.server.workers.worker_role import HandedSockets, KnownNeighbours, WorkerRole

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.admission import Admission
    from midge.server.broker.broker import Broker
    from midge.server.broker.connection_quota import ConnectionQuota
    from midge.server.broker.server_info import Neighbours
    from midge.server.clients.connection import Connection

log = logging.get_logger()

_PARENTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that the parent takes; a terminal or systemd sends them to all processes."""

_INFO_AT_ONCE = 500  # clients that get INFO, before others have their turn

_LISTENING = ("monitoring_http", "monitoring_https", "leafnodes", "cluster")


class Worker:
    """A worker process, from its first message to or from the parent to the last."""

    def __init__(self, control_socket: socket.socket, way: socket.socket) -> None:
        self._control_socket = control_socket
        self._control = ControlChannel(self._answer, self._on_notice, self._orphaned)
        self._receiver = HandoverReceiver(way, self._receive)
        self._source = HandedSockets({})
        self._server: Server | None = None
        self._mesh: WorkerLinks | None = None
        self._early_links: list[tuple[int, socket.socket]] = []
        self._early_notices: list[tuple[str, dict[str, Any]]] = []
        self._worker: WorkerRole | None = None
        self._quota: ConnectionQuota | None = None
        self._apply: Callable[[], None] | None = None
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Serve until the parent says stop, or has ended."""
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: self._control, sock=self._control_socket)
        self._receiver.start()
        await self._ending.wait()
        self._receiver.close()
        if self._server is not None:
            await self._server.stop()
        if self._mesh is not None:
            self._mesh.close()
        self._control.close()

    def _orphaned(self) -> None:
        self._ending.set()

    # Messages on the channel that hands over sockets.

    def _receive(self, note: Note, handed: socket.socket) -> None:
        kind = note["to"]
        if kind in _LISTENING:
            self._source.keep(kind, handed)
        elif kind != "link":
            self._source.take(kind, note, handed)
        elif self._mesh is None:
            self._early_links.append((note["peer"], handed))
        else:
            self._mesh.attach(note["peer"], handed)

    # What the parent says.

    def _on_notice(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "stop":
            self._ending.set()
        elif self._server is None:
            self._early_notices.append((kind, body))
        else:
            self._take(self._server, kind, body)

    def _take(self, server: Server, kind: str, body: dict[str, Any]) -> None:
        """Do what the parent says to `server`."""
        if kind == "discard":
            self._apply = None
        elif kind == "digest":
            server.name_configuration(body["digest"])
        elif kind == "quota" and self._quota is not None:
            self._quota.answered(body["answers"])
        elif kind == "neighbours":
            self._take_neighbours(server, body)
            _renew_info(server.broker, list(server.broker.clients.values()))
        elif kind == "account":
            server.broker.admission.plan_for(body["name"])
        elif kind == "end_surplus":
            server.end_surplus(body["first_cid"])
        elif kind == "states" and self._worker is not None:
            self._worker.states = body["states"]
            self._worker.refused = body["refused"]
            self._worker.restarts = body["restarts"]

    async def _answer(self, kind: str, body: dict[str, Any]) -> Any:
        """Do what the parent asks for. Raises: MidgeError, OSError."""
        if kind == "start":
            await self._start(body)
        elif self._server is None:
            raise MidgeError(f"the worker has not started, and cannot {kind}")
        elif kind == "prepare":
            options = msgspec.convert(body["options"], Options)
            self._apply = self._prepare(self._server, options)
        elif kind == "apply" and self._apply is not None:
            self._apply()
            self._apply = None
        elif kind == "lame_duck":
            await self._server.lame_duck(body["processes"])
        elif kind == "account":
            self._server.broker.admission.plan_for(body["name"])
        elif kind == "cids":
            return list(self._server.broker.clients)
        elif kind == "page":
            return await self._server.page(body["name"], body["arguments"])
        return None

    async def _start(self, body: dict[str, Any]) -> None:
        """Start the server, and join the other workers."""
        await self._receiver.received(body["handed"])  # all sockets handed over before this message
        options = msgspec.convert(body["options"], Options)
        logging.configure(options.logging)
        source = self._source
        source.name({kind: (host, port) for kind, (host, port) in body["addresses"].items()})
        worker = WorkerRole(body["index"], ServerKeys(**body["keys"]), source, self._ask_others)
        self._worker = worker
        server = self._server = Server(options, worker=worker)
        server.name_configuration(body["digest"])
        server.broker.number_from(body["first_cid"])
        if body["can_reload"]:
            server.reload_on_request(self._ask_for_reload)
        worker.neighbours_changed = self._send_neighbours
        self._take_neighbours(server, body["neighbours"])
        self._count_elsewhere(server.broker.admission, body["accounts"])
        early, self._early_notices = self._early_notices, []
        for kind, fields in early:
            self._take(server, kind, fields)
        mesh = self._mesh = WorkerLinks(server.broker, worker.index, self._link_lost)
        worker.ledger = mesh.ledger
        tune(server, options)
        await server.start()
        logging.adopt_structlog()
        LoadReport(server.broker, source, self._control).start()
        links, self._early_links = self._early_links, []
        for peer, end in links:
            mesh.attach(peer, end)
        await mesh.settled()

    def _count_elsewhere(self, admission: Admission, accounts: list[str]) -> None:
        """Make the parent count connections, and announce `accounts` to all workers."""

        def send(lines: list[Any]) -> None:
            self._control.send("quota", lines=lines)

        async def make_known(name: str) -> None:
            with contextlib.suppress(MidgeError):  # the parent is ending
                await self._control.ask("account", name=name)

        self._quota = admission.count_elsewhere(send)
        self._quota.first_of = make_known
        for name in accounts:
            admission.plan_for(name)

    def _send_neighbours(self, cluster: Neighbours) -> None:
        urls = {kind: list(cluster.urls(kind)) for kind in (CLIENTS, WEBSOCKETS)}
        self._control.send(
            "neighbours", name=cluster.name, is_dynamic=cluster.is_dynamic, urls=urls
        )

    @staticmethod
    def _take_neighbours(server: Server, found: dict[str, Any]) -> None:
        """Take what the first worker says of the cluster; nothing without a cluster."""
        if found:
            server.broker.cluster = KnownNeighbours(**found)

    def _prepare(self, server: Server, options: Options) -> Callable[[], None]:
        """Check `options`; return what puts them in force. Raises: ConfigError."""
        put_in_force = server.prepare_reload(options)

        def apply() -> None:
            put_in_force()
            logging.configure(options.logging)

        return apply

    async def _ask_others(self, kind: str, body: dict[str, Any]) -> list[Any]:
        answers: list[Any] = await self._control.ask("others", what=kind, asked=body)
        return answers

    async def _ask_for_reload(self) -> None:
        await self._control.ask("reload")

    def _link_lost(self, peer: int) -> None:
        self._control.send("link_lost", peer=peer)


def _renew_info(broker: Broker, left: list[Connection]) -> None:
    """Send INFO to clients, to some now and to the rest in later turns."""
    for _ in range(min(len(left), _INFO_AT_ONCE)):
        left.pop().renew_info()
    if left:
        asyncio.get_running_loop().call_soon(_renew_info, broker, left)


def main() -> None:
    """Run a worker on the two sockets whose descriptors are the arguments."""
    for number in _PARENTS:
        signal.signal(number, signal.SIG_IGN)
    shorten_pauses()
    control, way = [socket.socket(fileno=int(argument)) for argument in sys.argv[1:3]]
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_run(control, way))


async def _run(control: socket.socket, way: socket.socket) -> None:
    await Worker(control, way).run()


_SETTLE_S = 0.05  # by then most sockets handed over have become connections


class LoadReport(Observer):
    """Counts the connections of `broker` for the parent, which counts those that it hands over.

    It reports an end in the next turn of the loop, so that a full server has room again at once. It
    reports new connections a little later, because the parent has counted them already.
    """

    def __init__(self, broker: Broker, source: HandedSockets, control: ControlChannel) -> None:
        self._broker = broker
        self._source = source
        self._control = control
        self._is_due = False
        self._is_expected = False

    def start(self) -> None:
        """Report from now on."""
        self._broker.observers.append(self)
        self._source.taken = self._expect

    def client_connected(self, connection: Any) -> None:
        """See a client that has been let in."""
        self._expect()

    def client_closed(self, connection: Any) -> None:
        """See a connection end."""
        if not self._is_due:
            self._is_due = True
            self._broker.clock.call_later(0, self._send_load)

    def _expect(self) -> None:
        """Count again in a moment."""
        if not self._is_expected:
            self._is_expected = True
            self._broker.clock.call_later(_SETTLE_S, self._count)

    def _count(self) -> None:
        self._is_expected = False
        self._send_load()

    def _send_load(self) -> None:
        self._is_due = False
        self._control.send("load", received=self._source.received, open=len(self._broker.clients))


if __name__ == "__main__":
    main()
