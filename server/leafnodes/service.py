"""Leaf nodes as a server starts, changes and stops them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from midge.server.auth.client_tls import build_client_context
from midge.server.channels.closed_reason import ClosedReason
from midge.server.clients.observer import Observer
from midge.server.errors import ConfigError
from midge.server.leafnodes.accepted import Accepted
from midge.server.leafnodes.listener import LeafListener
from midge.server.leafnodes.nodes import LeafNodes
from midge.server.leafnodes.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Callable

    from midge.server.broker.broker import Broker
    from midge.server.broker.expiry import WhyEnded
    from midge.server.config.leafnodes import LeafRemote
    from midge.server.config.options import Options
    from midge.server.leafnodes.link import LeafLink
    from midge.server.links.interest import Interests
    from midge.server.listeners.doors import Doors


class LeafNodeService(Observer):
    """The links of `broker`, as its options describe them."""

    def __init__(self, broker: Broker, interests: Interests) -> None:
        self.nodes = LeafNodes(broker, interests)
        self._broker = broker
        self._remotes: list[Remote] = []
        self._stopping: set[asyncio.Task[None]] = set()
        self._listener: LeafListener | None = None
        broker.observers.append(self)

    def start(self, doors: Doors) -> None:
        """Take leaf nodes at `doors`, and connect to the remotes and stay connected.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: the settings name what cannot be.
        """
        table = self._broker.options.leafnodes
        if table.port:
            self._listener = LeafListener(self.nodes)
            self._listener.open_by(doors, "leafnodes", table.host, table.port)
        for remote in _enabled(self._broker.options):
            self._begin(Remote(self.nodes, remote))

    def _begin(self, remote: Remote) -> None:
        self._remotes.append(remote)
        remote.start()

    @property
    def address(self) -> tuple[str, int] | None:
        """Where leaf nodes connect; None where they do not."""
        return None if self._listener is None else self._listener.address

    @property
    def make_link(self) -> Callable[[tuple[str, int]], LeafLink] | None:
        """The factory for links of leafs that come by WebSocket; None where none are accepted."""
        return None if self._listener is None else self._listener.make_websocket_link

    def tokens_scanned(self, why_ended: WhyEnded) -> None:
        """Close the links whose users have been taken back."""
        for link in list(self.nodes.links.values()):
            if isinstance(link.side, Accepted):
                link.side.end_if(link, why_ended)

    # Changes while serving.

    def cluster_renamed(self) -> None:
        """Link anew to the remotes that have been told the old name, as nats-server does.

        A leaf that has connected to this server is told the new name when it comes again.
        """
        for remote in self._remotes:
            remote.tell_anew()

    def prepare_reload(self, options: Options) -> Callable[[], None]:
        """Check `options` and return what puts them in force, once they are the broker's.

        Raises:
            ConfigError: they cannot be; nothing has changed.
        """
        table = options.leafnodes
        renew_port = None if self._listener is None else self._listener.prepare(table)
        for index, remote in enumerate(table.remotes):
            self._check(remote, f"leafnodes.remotes[{index}]")

        def put_in_force() -> None:
            if renew_port is not None:
                renew_port()
            self._follow(_enabled(options))
            for link in list(self.nodes.links.values()):
                link.parser.max_payload = options.limits.max_payload_bytes
                link.max_interest = self.nodes.max_interest()
                if isinstance(link.side, Accepted):
                    link.side.ask_again(link)

        return put_in_force

    def _check(self, table: LeafRemote, where: str) -> None:
        """Raise ConfigError where `table` names what cannot be."""
        try:
            if table.urls:
                Remote(self.nodes, table)
        except ValueError as error:
            raise ConfigError(str(error), key=f"{where}.urls") from error
        build_client_context(table.tls, f"{where}.tls")

    def _follow(self, tables: list[LeafRemote]) -> None:
        """Keep the links that are still described, end the others, and begin those that are new."""
        for remote in self._remotes[:]:
            known = next((table for table in tables if remote.take(table)), None)
            if known is not None:
                tables.remove(known)
                continue
            self._remotes.remove(remote)
            end = remote.stop(ClosedReason.CLIENT_CLOSED)
            stopping = asyncio.get_running_loop().create_task(end)
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
        for table in tables:
            self._begin(Remote(self.nodes, table))

    async def stop(self) -> None:
        """Connect no more, and close the links."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        remotes, self._remotes = self._remotes, []
        for remote in remotes:
            await remote.stop()
        await asyncio.gather(*self._stopping)
        self.nodes.close()


def _enabled(options: Options) -> list[LeafRemote]:
    """Return the remotes that are to be connected to."""
    return [table for table in options.leafnodes.remotes if table.urls and not table.disabled]
