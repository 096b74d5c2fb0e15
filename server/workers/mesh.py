"""The links of one worker with all others, and what waits until they know the same."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from midge.protocol import errors
from midge.server.channels.closed_reason import ClosedReason
from midge.server.channels.loop_adapter import forget, protocol_for
from midge.server.clients.observer import Observer
from midge.server.log.logger import get_logger
from midge.server.workers.barrier import Barrier, Round
from midge.server.workers.interest import Interest, Told
from midge.server.workers.link import WorkerLink

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from midge.server.broker.broker import Broker
    from midge.server.links.interest import Interests
    from midge.server.routing.account import Account
    from midge.server.routing.client import Client
    from midge.server.workers.link import WorkerPart
    from midge.server.workers.outside import Outside
    from midge.sublist.subscription import RemoteSubscription

log = get_logger()


class Mesh(Observer):
    """The other workers, as worker `index` of `broker` knows them.

    `lost` is called with the number of a worker whose link has ended by itself.
    """

    def __init__(self, broker: Broker, index: int, lost: Callable[[int], None]) -> None:
        self.broker = broker
        self.index = index
        self.links: dict[int, WorkerLink] = {}
        self.interest = Interest(lambda: broker.router.observer is None)
        self.outside: Outside | None = None  # where this worker has links to other servers
        self._lost = lost
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._barrier = Barrier(self._asked, asyncio.get_running_loop().call_soon)
        for account in list(broker.accounts.values()):
            self.interest.watch(account)
        broker.observers.append(self)
        broker.barrier = self._barrier.wait

    def attach(self, peer: int, end: socket.socket) -> None:
        """Link with worker `peer` over the socket `end`, in place of a link that there was."""
        before = self.links.pop(peer, None)
        if before is not None:
            before.close(ClosedReason.CLIENT_CLOSED)
        side = Side(self)
        receivers = self.interest.receivers
        link = WorkerLink(self.broker, self.broker.take_cid(), peer, side, receivers)
        self.links[peer] = side.link = link
        side.told = Told(self.interest, link, self.broker.turns, side.ask_postponed)
        task = asyncio.ensure_future(self._connect(link, end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, link: WorkerLink, end: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        protocol = protocol_for(loop, link.channel)
        end.setblocking(False)
        link.channel.bare_socket = end
        try:
            await loop.create_unix_connection(lambda: protocol, sock=end)
        except OSError as error:
            forget(protocol)
            end.close()
            log.error("worker_link_failed", worker=link.index, error=str(error))
            link.close(ClosedReason.READ_ERROR)
            link.channel.let_go()

    def link_outside(self, interests: Interests) -> None:
        """Pass on interest between the workers and the links to other servers."""
        from midge.server.workers.outside import Outside  # noqa: PLC0415 - few have such links

        self.outside = Outside(interests, self.interest)
        for link in self.links.values():
            for part in link.parts():
                self.outside.add(part)

    async def settled(self) -> None:
        """Wait until every other worker has taken all interest of this one."""
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

    def left(self, link: WorkerLink) -> None:
        """Forget a link that has ended."""
        if self.links.get(link.index) is link:
            del self.links[link.index]
            if not self._is_closing:
                self._lost(link.index)

    def _asked(self) -> list[Side]:
        return [link.side for link in self.links.values()]

    # Called by the broker.

    def account_made(self, account: Account) -> None:
        """Also announce the interest in a new account."""
        self.interest.watch(account)

    def subscribed(self, connection: Any, subscription: Any) -> None:
        """Note that the client's next PONG has to wait for the other workers."""
        connection.is_unsettled = True

    def unsubscribed(self, connection: Any, subscription: Any, cause: str) -> None:
        """Note the same."""
        connection.is_unsettled = True


class Side:
    """This end of one link."""

    link: WorkerLink
    told: Told

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self._postponed: list[Round] = []
        self._is_open = False

    def transport_failed(self, link: WorkerLink, error: Exception) -> None:
        """Do nothing: the parent sees a worker end."""

    def answered(self, link: WorkerLink) -> None:
        """Do nothing: links between workers are not compressed."""

    def opened(self, link: WorkerLink) -> None:
        """Tell all interest, for there is nothing to be agreed on."""
        self._is_open = True
        link.start()
        self._mesh.interest.join(self.told)

    def closed(self, link: WorkerLink) -> None:
        """Tell nothing more, and have nothing wait for an answer."""
        self._is_open = False
        self._mesh.interest.leave(self.told)
        self.told.end()
        if self._mesh.outside is not None:
            for part in link.parts():
                self._mesh.outside.remove(part)
        self._mesh.left(link)
        self._release()

    def lost(self, link: WorkerLink) -> None:
        """Do nothing when the transport is lost."""

    # The barrier.

    def ask_taken(self, round_: Round) -> None:
        """Ask whether all has been taken that was told; once all of it has been told."""
        if self._is_open and self.told.is_done:
            self.link.ask_taken(round_)
        else:
            self._postponed.append(round_)

    def ask_postponed(self) -> None:
        """Start the postponed rounds, because all interest has been announced."""
        postponed, self._postponed = self._postponed, []
        for round_ in postponed:
            self.link.ask_taken(round_)

    def _release(self) -> None:
        postponed, self._postponed = self._postponed, []
        for round_ in postponed:
            round_.taken()
        self.link.release_asked()

    # What a link asks: everything is allowed between workers.

    def interest_changed(self, source: Client, told: RemoteSubscription, change: int) -> None:
        """Announce it to other servers; the worker that has the interest tells the workers."""
        if self._mesh.outside is not None:
            self._mesh.outside.wanted_inside(cast("WorkerPart", source), told, change)

    def part_made(self, part: WorkerPart) -> None:
        """Take note that the link carries another account."""
        if self._mesh.outside is not None:
            self._mesh.outside.add(part)

    def allows_interest(self, link: WorkerLink, subject: bytes) -> bool:
        """Allow all interest."""
        return True

    def refuse_surplus(self, link: WorkerLink) -> None:
        """Do nothing: the number of connections is unlimited."""

    def refuse_subject(self, link: WorkerLink) -> None:
        """Log what cannot be: the other worker has checked it."""
        log.error("worker_link_error", worker=link.index, error="interest in no subject")

    def refuse_message(self, link: WorkerLink, subject: bytes) -> None:
        """Do nothing: no message is refused."""

    def refuse_oversized(self, link: WorkerLink) -> None:
        """Do nothing: no message is too large."""

    def on_connect(self, link: WorkerLink, document: bytes) -> None:
        """Ignore an introduction; workers know each other."""

    def on_info(self, link: WorkerLink, document: bytes) -> None:
        """Ignore an introduction."""

    def on_peer_error(self, link: WorkerLink, text: bytes) -> None:
        """Log what the other worker found wrong."""
        error = errors.quote(text[:256])
        log.error("worker_link_error", worker=link.index, error=error)
