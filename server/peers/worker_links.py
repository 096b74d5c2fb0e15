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
from midge.server.peers.compression import OFF, Compression
from midge.server.peers.end import End
from midge.server.peers.ledger import Ledger
from midge.server.peers.link import Link
from midge.server.peers.service import LinkService
from midge.server.peers.worker import worker_link
from midge.server.peers.worker_interest import Numbers, WorkerAnnouncer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from midge.server.broker.broker import Broker
    from midge.sublist.subscription import RemoteSubscription

log = get_logger()


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
        """Send PING over each link; after the last answer, run the callbacks."""
        waiting, self._waiting = self._waiting, []
        left = 1  # until all links have been asked

        def taken() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                for done in waiting:
                    done()

        for link in list(self._links()):
            left += 1
            link.ask_taken(taken)
        taken()


class WorkerLinks(LinkService, Observer):
    """The links of worker `index` of `broker`, by the number of the other worker.

    `ledger` has the interest, for links to other servers as well. `lost` is called with the number
    of a worker whose link has ended by itself.
    """

    def __init__(self, broker: Broker, index: int, lost: Callable[[int], None]) -> None:
        self._numbers = Numbers(lambda: broker.router.observer is None)
        LinkService.__init__(self, broker, Ledger(broker.admission.links, self._numbers))
        self.index = index
        self._lost = lost
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._barrier = Barrier(self._asked, asyncio.get_running_loop().call_soon)
        for account in list(broker.accounts.values()):
            self.ledger.account_made(account)
        broker.observers.append(self.ledger)
        broker.observers.append(self)
        broker.barrier = self._barrier.wait

    def attach(self, peer: int, sock: socket.socket) -> None:
        """Link with worker `peer` over `sock`, in place of a link that there was."""
        before = self.links.pop(peer, None)
        if before is not None:
            before.close(ClosedReason.CLIENT_CLOSED)
        end = WorkerEnd(self)
        receivers = self._numbers.receivers
        link = worker_link(self.broker, self.broker.take_cid(), peer, end, receivers)
        self.links[peer] = end.link = link
        end.announcer = WorkerAnnouncer(link, self.broker.turns, end.ask_postponed)
        task = asyncio.ensure_future(self._connect(link, sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, link: Link, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        protocol = protocol_for(loop, link.channel)
        sock.setblocking(False)
        link.channel.bare_socket = sock
        try:
            await loop.create_unix_connection(lambda: protocol, sock=sock)
        except OSError as error:
            forget(protocol)
            sock.close()
            log.error("worker_link_failed", worker=link.channel.peer_port, error=str(error))
            link.close(ClosedReason.READ_ERROR)
            link.channel.dispose()

    async def settled(self) -> None:
        """Wait until every other worker has applied all interest of this one."""
        is_settled = asyncio.Event()
        self._barrier.wait(is_settled.set)
        await is_settled.wait()

    def close(self) -> None:
        """End all links."""
        self._is_closing = True
        self.broker.barrier = None
        self.close_all(ClosedReason.SERVER_SHUTDOWN)
        self.broker.router.flush()

    def leave(self, link: Link) -> None:
        """Forget a link that has ended."""
        if self.links.get(link.channel.peer_port) is link:
            del self.links[link.channel.peer_port]
            if not self._is_closing:
                self._lost(link.channel.peer_port)

    def _asked(self) -> list[WorkerEnd]:
        return [link.end for link in self.links.values()]

    # Called by the broker.

    def subscribed(self, connection: Any, subscription: Any) -> None:
        """Note that the client's next PONG has to wait for the other workers."""
        connection.is_unsettled = True

    def unsubscribed(self, connection: Any, subscription: Any, cause: str) -> None:
        """Note the same."""
        connection.is_unsettled = True


class WorkerEnd(End):
    """This end of one link; everything is allowed between workers."""

    link: Link
    announcer: WorkerAnnouncer

    def __init__(self, service: WorkerLinks) -> None:
        End.__init__(self, service, Compression(OFF, ()))
        self._postponed: list[Callable[[], None]] = []
        self._is_open = False

    def opened(self, link: Link) -> None:
        """Announce all interest at once: workers have nothing to negotiate."""
        self._is_open = True
        link.start()
        self._service.ledger.join(self.announcer)

    def closed(self, link: Link) -> None:
        """Announce nothing more, and release everything that waits for an answer."""
        self._is_open = False
        self._service.ledger.leave(self.announcer)
        self.announcer.end()
        self._service.leave(link)
        postponed, self._postponed = self._postponed, []
        for taken in postponed:
            taken()
        link.release_asked()

    def lost(self, link: Link) -> None:
        """Do nothing: the server does not wait for its links to other workers."""

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

    # Interest and errors.

    def interest_changed(self, source: Any, remote: RemoteSubscription, change: int) -> None:
        """Announce it to other servers; the worker that has the interest informs the workers."""
        if self._service.ledger.has_peers:
            ledger = self._service.ledger.of(source.account)
            ledger.link_changed(source, remote.subject, remote.queue, change)

    def allows_interest(self, link: Link, subject: bytes) -> bool:
        """Allow all interest."""
        return True

    def refuse_subject(self, link: Link) -> None:
        """Log an error that cannot happen: the other worker has checked the subject."""
        self._log_error(link, "interest in no subject")

    def on_peer_error(self, link: Link, text: bytes) -> None:
        """Log an error that the other worker has found."""
        self._log_error(link, errors.quote(text[:256]))

    def _log_error(self, link: Link, error: str) -> None:
        log.error("worker_link_error", worker=link.channel.peer_port, error=error)
