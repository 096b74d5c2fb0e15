"""A server for `unittest` test cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from midge.server.threaded import run_in_thread
from midge.testing.capture import Capture

if TYPE_CHECKING:
    from midge.server.threaded import ThreadedServer


class NatsServerMixin:
    """Give each test a server: `self.nats_server`, `self.nats_url` and `self.nats_capture`.

    Stands before `TestCase` or `IsolatedAsyncioTestCase` among the base classes. `nats_options` are
    the server's settings.
    """

    nats_options: ClassVar[dict[str, Any]] = {}
    nats_server: ThreadedServer
    nats_url: str
    nats_capture: Capture

    def setUp(self) -> None:
        """Start the server."""
        super().setUp()  # type: ignore[misc]
        self.nats_server = run_in_thread(**{"port": -1, **self.nats_options})
        self.addCleanup(self.nats_server.stop)  # type: ignore[attr-defined]
        self.nats_url = self.nats_server.client_url()
        self.nats_capture = Capture()
        self.nats_server.call(lambda server: server.hub.watch_messages(self.nats_capture))
