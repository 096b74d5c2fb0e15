"""Several servers for one test: clusters, leaf nodes, and servers on their own."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from midge.protocol.errors import MidgeError
from midge.protocol.text import encode
from midge.server.config.account_names import GLOBAL_ACCOUNT
from midge.server.embedded.threaded import run_in_thread
from midge.testing.simulated_disk import with_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from midge.server.embedded.server import Server
    from midge.server.embedded.threaded import ThreadedServer

_WAIT_S = 60.0
_POLL_S = 0.005


class Servers:
    """Starts servers for a test on free ports, and stops them when it is over.

    `options` are keywords of `midge.Server` for all of them.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._running: list[ThreadedServer] = []
        self._stack = ExitStack()

    def start(self, **options: Any) -> ThreadedServer:
        """Start a server of its own."""
        __tracebackhide__ = True
        server = run_in_thread(**with_disk({"port": -1, **self._options, **options}))
        self._stack.callback(server.stop)
        self._running.append(server)
        return server

    def cluster(self, size: int = 3, **options: Any) -> list[ThreadedServer]:
        """Start the servers of a cluster, and return them once each has a route to each other."""
        __tracebackhide__ = True
        servers: list[ThreadedServer] = []
        for number in range(1, size + 1):
            routes = [servers[0].cluster_url] if servers else []
            table = {"port": -1, "name": "test", "routes": routes}
            name = {"server_name": f"n{number}"}
            servers.append(self.start(**{"cluster": table, **name, **options}))
        for server in servers:
            self._wait(server, lambda inner: len(inner.links) >= size - 1, "routes to the others")
        return servers

    def leaf(self, hub: ThreadedServer, **options: Any) -> ThreadedServer:
        """Start a leaf node of `hub`, which needs `leafnodes={"port": -1}`, and wait for the link.

        Raises:
            MidgeError: the hub takes no leaf nodes.
        """
        __tracebackhide__ = True
        if not hub.leafnode_url:
            raise MidgeError('the hub takes no leaf nodes: start it with leafnodes={"port": -1}')
        remotes = {"remotes": [{"urls": [hub.leafnode_url]}]}
        leaf = self.start(**{"leafnodes": remotes, **options})
        self._wait(leaf, lambda inner: bool(inner.links), "a link to the hub")
        return leaf

    def wait_for_interest(
        self, subject: str, *servers: ThreadedServer, account: str = GLOBAL_ACCOUNT
    ) -> None:
        """Wait until `servers`, or all, know a subscriber to `subject`, here or behind a link."""
        __tracebackhide__ = True

        def is_known(server: Server) -> bool:
            found = server.broker.account(account).sublist.match(encode(subject))
            return bool(found.plain or found.queues or found.remotes)

        for server in servers or self._running:
            self._wait(server, is_known, f"interest in {subject!r}")

    def _wait(self, server: ThreadedServer, is_so: Callable[[Server], bool], what: str) -> None:
        __tracebackhide__ = True
        end_s = time.monotonic() + _WAIT_S
        while not server.call(is_so):
            if time.monotonic() > end_s:
                raise MidgeError(f"{server!r} has not got {what} within {_WAIT_S:g} s")
            time.sleep(_POLL_S)

    def __iter__(self) -> Iterator[ThreadedServer]:
        return iter(list(self._running))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.clear()
        self._stack.close()
