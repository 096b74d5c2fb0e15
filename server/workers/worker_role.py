"""One worker's part in a server of several: its number, the names of the whole, its sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midge.server.errors import ConfigError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from midge.server.broker.server_info import Neighbours
    from midge.server.broker.server_keys import ServerKeys
    from midge.server.listeners.connection_source import Address
    from midge.server.listeners.tcp import Listener
    from midge.server.peers.ledger import Ledger


class WorkerRole:
    """Worker `index` of a server whose names are `keys`; `source` has the sockets from the parent.

    Worker 0 has the parts that exist once: JetStream, monitoring and the system account's
    services. `ask_others` sends a question to all other workers. `states` is the parent's last
    report about all workers. `ledger` has the interest of the links to them, and
    `neighbours_changed` is called with other servers' addresses for clients.
    """

    def __init__(
        self,
        index: int,
        keys: ServerKeys,
        source: HandedSockets,
        ask_others: Callable[[str, dict[str, Any]], Awaitable[list[Any]]],
    ) -> None:
        self.index = index
        self.keys = keys
        self.source = source
        self.ask_others = ask_others
        self.ledger: Ledger | None = None
        self.neighbours_changed: Callable[[Neighbours], object] = _nothing
        self.states: list[dict[str, Any]] = []
        self.refused = 0
        self.restarts = 0

    @property
    def is_first(self) -> bool:
        """Whether this worker has what there can be only one of."""
        return self.index == 0


def _nothing(_: object) -> None:
    """Do nothing."""


class KnownNeighbours:
    """The cluster that the server is in, as worker 0 has reported it."""

    def __init__(self, name: str, urls: dict[str, list[str]], *, is_dynamic: bool) -> None:
        self.name = name
        self.is_dynamic = is_dynamic
        self._urls = urls

    def urls(self, kind: str, *, with_own: bool = True) -> list[str]:
        """Return the addresses to which a `kind` of clients may connect."""
        return self._urls[kind]


class HandedSockets:
    """The listeners of a worker, which get their connections from the parent.

    `addresses` are the parent's, by kind, and `received` counts the connections so far; `taken` is
    called after each of them.
    """

    def __init__(self, addresses: dict[str, Address]) -> None:
        self.received = 0
        self.taken: Callable[[], None] | None = None
        self._addresses = addresses
        self._listeners: dict[str, Listener] = {}
        self._sockets: dict[str, socket.socket] = {}

    def name(self, addresses: dict[str, Address]) -> None:
        """Take the parent's addresses."""
        self._addresses = addresses

    def open(self, kind: str, listener: Listener, host: str, port: int) -> Address:
        """Pass the connections of a kind to `listener`."""
        self._listeners[kind] = listener
        return self._addresses[kind]

    def listen(
        self, kind: str, host: str, port: int, backlog: int
    ) -> tuple[socket.socket, Address]:
        """Return the listening socket that the parent has handed over.

        Raises:
            ConfigError: it has not.
        """
        found = self._sockets.pop(kind, None)
        if found is None:
            raise ConfigError(f"no listening socket for {kind} came from the parent process")
        return found, self._addresses[kind]

    def keep(self, kind: str, listening: socket.socket) -> None:
        """Take a listening socket from the parent."""
        listening.setblocking(False)
        self._sockets[kind] = listening

    def take(self, kind: str, note: dict[str, Any], accepted: socket.socket) -> None:
        """Take a connection from the parent, and give it to the listener of its kind."""
        self.received += 1
        accepted.setblocking(False)
        listener = self._listeners.get(kind)
        if listener is None:
            accepted.close()  # the server is about to end
            return
        listener.take(accepted, (note["host"], note["port"]), note["cid"], full=note["full"])
        if self.taken is not None:
            self.taken()
