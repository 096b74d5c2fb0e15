"""The links of one worker with all others, and the barrier that waits for their interest.

The barrier waits until every other worker has applied the announced interest: one round of PING for
all waiting clients. A link keeps its order, so the PONG to a PING shows that the interest announced
before it has been applied. All requests within one turn of the loop share a round.

Only the first worker has links to other servers. For these servers all workers are one: the first
worker announces the others' interest as its own, and announces the interest behind its links to the
other workers in the same way.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from midge.protocol import errors
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import forget, protocol_for
from midge.server.clients.observer import Observer
from midge.server.log.logger import get_logger
from midge.server.peers.ledger import Ledger
from midge.server.peers.link import Link
from midge.server.peers.worker import worker_link
from midge.server.peers.worker_interest import Numbers, WorkerAnnouncer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from midge.server.broker.broker import Broker
    from midge.sublist.subscription import RemoteSubscription

log = get_logger()


class Round:
    """One PING over each link, and the callbacks that wait for the answers."""

    def __init__(self, waiting: list[Callable[[], None]]) -> None:
        self._waiting = waiting
        self._left = 1  # until all links have been asked

    def begin(self, links: Iterable[WorkerEnd]) -> None:
        """Ask all of `links`."""
        for link in links:
            self._left += 1
            link.ask_taken(self.taken)
        self.taken()

    def taken(self) -> None:
        """Count a worker that has applied everything; after the last one, run the callbacks."""
        self._left -= 1
        if self._left == 0:
            waiting, self._waiting = self._waiting, []
            for done in waiting:
                done()


class Barrier:
    """Starts rounds over the links that `links` returns, at most one in a turn of the loop."""

    def __init__(
        self,
        links: Callable[[], Iterable[WorkerEnd]],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._links = links
        self._soon = soon
        self._waiting: list[Callable[[], None]] = []

    def wait(self, done: Callable[[], None]) -> None:
        """Call `done` when every worker has applied the interest announced so far."""
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._soon(self._begin)

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        Round(waiting).begin(list(self._links()))


class WorkerLinks(Observer):
    """The other workers, as worker `index` of `broker` knows them.

    `ledger` has the interest, for links to other servers as well. `lost` is called with the number
    of a worker whose link has ended by itself.
    """

    def __init__(self, broker: Broker, index: int, lost: Callable[[int], None]) -> None:
        self.broker = broker
        self.index = index
        self.links: dict[int, Link] = {}
        self._numbers = Numbers(lambda: broker.router.observer is None)
        self.ledger = Ledger(broker.admission.links, self._numbers)
        self._lost = lost
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._barrier = Barrier(self._asked, asyncio.get_running_loop().call_soon)
        for account in list(broker.accounts.values()):
            self.ledger.account_made(account)
        broker.observers.append(self.ledger)
        broker.observers.append(self)
        broker.barrier = self._barrier.wait

    def attach(self, peer: int, end: socket.socket) -> None:
        """Link with worker `peer` over the socket `end`, in place of a link that there was."""
        before = self.links.pop(peer, None)
        if before is not None:
            before.close(ClosedReason.CLIENT_CLOSED)
        side = WorkerEnd(self)
        receivers = self._numbers.receivers
        link = worker_link(self.broker, self.broker.take_cid(), peer, side, receivers)
        self.links[peer] = side.link = link
        side.announcer = WorkerAnnouncer(link, self.broker.turns, side.ask_postponed)
        task = asyncio.ensure_future(self._connect(link, end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, link: Link, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        protocol = protocol_for(loop, link.channel)
        end.setblocking(False)
        link.channel.bare_socket = end
        try:
            await loop.create_unix_connection(lambda: protocol, sock=end)
        except OSError as error:
            forget(protocol)
            end.close()
            log.error("worker_link_failed", worker=link.channel.peer_port, error=str(error))
            link.close(ClosedReason.READ_ERROR)
            link.channel.let_go()

    async def settled(self) -> None:
        """Wait until every other worker has applied all interest of this one."""
        is_settled = asyncio.Event()
        self._barrier.wait(is_settled.set)
        await is_settled.wait()

    def close(self) -> None:
        """End all links."""
        self._is_closing = True
        self.broker.barrier = None
        for link in list(self.links.values()):
            link.close(ClosedReason.SERVER_SHUTDOWN)
        self.broker.router.flush()

    def left(self, link: Link) -> None:
        """Forget a link that has ended."""
        if self.links.get(link.channel.peer_port) is link:
            del self.links[link.channel.peer_port]
            if not self._is_closing:
                self._lost(link.channel.peer_port)

    def _asked(self) -> list[WorkerEnd]:
        return [link.side for link in self.links.values()]

    # Called by the broker.

    def subscribed(self, connection: Any, subscription: Any) -> None:
        """Note that the client's next PONG has to wait for the other workers."""
        connection.is_unsettled = True

    def unsubscribed(self, connection: Any, subscription: Any, cause: str) -> None:
        """Note the same."""
        connection.is_unsettled = True


class WorkerEnd:
    """This end of one link."""

    link: Link
    announcer: WorkerAnnouncer

    def __init__(self, mesh: WorkerLinks) -> None:
        self._mesh = mesh
        self._postponed: list[Callable[[], None]] = []
        self._is_open = False

    def transport_failed(self, link: Link, error: Exception) -> None:
        """Do nothing: the parent sees a worker end."""

    def answered(self, link: Link) -> None:
        """Do nothing: links between workers are not compressed."""

    def opened(self, link: Link) -> None:
        """Announce all interest at once: workers have nothing to negotiate."""
        self._is_open = True
        link.start()
        self._mesh.ledger.join(self.announcer)

    def closed(self, link: Link) -> None:
        """Announce nothing more, and release everything that waits for an answer."""
        self._is_open = False
        self._mesh.ledger.leave(self.announcer)
        self.announcer.end()
        self._mesh.left(link)
        self._release()

    def lost(self, link: Link) -> None:
        """Do nothing when the transport is lost."""

    # The barrier.

    def ask_taken(self, taken: Callable[[], None]) -> None:
        """Start a barrier round, now or once all interest has been announced."""
        if self._is_open and self.announcer.is_done:
            self.link.ask_taken(taken)
        else:
            self._postponed.append(taken)

    def ask_postponed(self) -> None:
        """Start the postponed rounds, because all interest has been announced."""
        postponed, self._postponed = self._postponed, []
        for taken in postponed:
            self.link.ask_taken(taken)

    def _release(self) -> None:
        postponed, self._postponed = self._postponed, []
        for taken in postponed:
            taken()
        self.link.release_asked()

    # What a link asks: everything is allowed between workers.

    def interest_changed(self, source: Any, told: RemoteSubscription, change: int) -> None:
        """Announce it to other servers; the worker that has the interest tells the workers."""
        if self._mesh.ledger.has_peers:
            ledger = self._mesh.ledger.of(source.account)
            ledger.link_changed(source, told.subject, told.queue, change)

    def allows_interest(self, link: Link, subject: bytes) -> bool:
        """Allow all interest."""
        return True

    def refuse_surplus(self, link: Link) -> None:
        """Do nothing: the number of connections is unlimited."""

    def refuse_subject(self, link: Link) -> None:
        """Log an error that cannot happen: the other worker has checked the subject."""
        log.error(
            "worker_link_error", worker=link.channel.peer_port, error="interest in no subject"
        )

    def refuse_message(self, link: Link, subject: bytes) -> None:
        """Do nothing: no message is refused."""

    def refuse_oversized(self, link: Link) -> None:
        """Do nothing: no message is too large."""

    def on_connect(self, link: Link, document: bytes) -> None:
        """Ignore an introduction; workers know each other."""

    def on_info(self, link: Link, document: bytes) -> None:
        """Ignore an introduction."""

    def on_peer_error(self, link: Link, text: bytes) -> None:
        """Log an error that the other worker has found."""
        error = errors.quote(text[:256])
        log.error("worker_link_error", worker=link.channel.peer_port, error=error)
