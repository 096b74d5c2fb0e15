"""Leaf nodes as a server starts and stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midge.server.leafnodes.listener import LeafListener
from midge.server.leafnodes.nodes import LeafNodes
from midge.server.leafnodes.remote import Remote

if TYPE_CHECKING:
    from midge.server.broker.broker import Broker


class LeafNodeService:
    """The links of `broker`, as its options describe them."""

    def __init__(self, broker: Broker) -> None:
        self.nodes = LeafNodes(broker)
        self._broker = broker
        self._remotes: list[Remote] = []
        self._listener: LeafListener | None = None

    def start(self) -> None:
        """Take leaf nodes, and connect to the remotes and stay connected.

        Raises:
            OSError: the address cannot be bound.
            ConfigError: the settings name what cannot be.
        """
        if self._broker.options.leafnodes.port:
            self._listener = LeafListener(self.nodes)
            self._listener.open()
        for table in self._broker.options.leafnodes.remotes:
            if table.urls and not table.disabled:
                remote = Remote(self.nodes, table)
                self._remotes.append(remote)
                remote.start()

    @property
    def address(self) -> tuple[str, int] | None:
        """Where leaf nodes connect; None where they do not."""
        return None if self._listener is None else self._listener.address

    async def stop(self) -> None:
        """Connect no more, and close the links."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        remotes, self._remotes = self._remotes, []
        for remote in remotes:
            await remote.stop()
        self.nodes.close()
