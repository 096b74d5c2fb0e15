"""Leaf nodes as a server starts and stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    def start(self) -> None:
        """Connect to the remotes, and stay connected."""
        for table in self._broker.options.leafnodes.remotes:
            if table.urls and not table.disabled:
                remote = Remote(self.nodes, table)
                self._remotes.append(remote)
                remote.start()

    async def stop(self) -> None:
        """Connect no more, and close the links."""
        remotes, self._remotes = self._remotes, []
        for remote in remotes:
            await remote.stop()
        self.nodes.close()
