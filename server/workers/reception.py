"""The parent's listening sockets: each connection is accepted, handed to a worker, and let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.listeners.accepting import Acceptor
from midge.server.log.logger import get_logger

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from midge.server.clock import Clock
    from midge.server.workers.balancer import WorkerLoad
    from midge.server.workers.worker_pool import WorkerPool

_LOOK_AGAIN_S = 0.02  # while no worker takes connections, which the system queues meanwhile

log = get_logger()


class Reception:
    """Hands connections to the workers of `pool`; `max_connections` says how many there may be.

    Those of a kind that `is_firsts` names are the first worker's, as long as that takes any.
    Client ids are given out here, so that no two connections of the server have the same. Nothing
    is ever read from a connection.
    """

    def __init__(
        self,
        pool: WorkerPool,
        max_connections: Callable[[], int],
        is_firsts: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.refused = 0
        self._is_firsts = is_firsts
        self._pool = pool
        self._max_connections = max_connections
        self._last_cid = 4  # nats-server's internal clients take the first few

    def is_open(self) -> bool:
        """Return whether any worker takes connections."""
        return any(worker.is_ready for worker in self._pool.balancer.workers)

    def receive(self, kind: str, accepted: socket.socket, peer: tuple[str, int]) -> None:
        """Hand `accepted` to the least loaded worker that has room for it, and close the copy."""
        balancer = self._pool.balancer
        self._last_cid += 1
        note = {
            "to": kind,
            "host": peer[0],
            "port": peer[1],
            "cid": self._last_cid,
            "full": balancer.load() >= self._max_connections(),
        }
        for worker in self._by_preference(kind):
            process = self._pool.process(worker.index)
            if process is not None and process.hand_over(note, accepted):
                worker.handed += 1
                break
        else:
            self.refused += 1
            log.error("handover_refused", peer=f"{peer[0]}:{peer[1]}")
        accepted.close()

    def _by_preference(self, kind: str) -> list[WorkerLoad]:
        workers = self._pool.balancer.by_load()
        if self._is_firsts(kind):
            workers.sort(key=lambda worker: worker.index)
        return workers


class ListeningSocket(Acceptor):
    """A listening socket for connections of a `kind`."""

    def __init__(self, clock: Clock, kind: str, reception: Reception) -> None:
        super().__init__(clock)
        self._kind = kind
        self._reception = reception

    def _room(self) -> int:
        if self._reception.is_open():
            return super()._room()
        self._stop_accepting(_LOOK_AGAIN_S)
        return 0

    def _begin(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        self._reception.receive(self._kind, accepted, peer)
