"""A server for `unittest` test cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from midge.server.embedded.threaded import run_in_thread
from midge.testing.capture import Capture
from midge.testing.simulated_disk import with_disk
from midge.testing.strict import StrictMode
from midge.testing.tracing import TraceKeeper

if TYPE_CHECKING:
    from midge.server.embedded.threaded import ThreadedServer


class NatsServerMixin:
    """Gives each test a server: `self.nats_server`, `self.nats_url` and `self.nats_capture`.

    Put it before `TestCase` or `IsolatedAsyncioTestCase` among the base classes. `nats_options` are
    the server's settings; with `nats_strict`, a test fails for the bugs of its clients.
    """

    nats_options: ClassVar[dict[str, Any]] = {}
    nats_strict: ClassVar[bool] = False
    nats_server: ThreadedServer
    nats_url: str
    nats_capture: Capture

    def setUp(self) -> None:
        """Start the server."""
        super().setUp()  # type: ignore[misc]
        self.nats_server = run_in_thread(**with_disk({"port": -1, **self.nats_options}))
        self.addCleanup(self.nats_server.stop)  # type: ignore[attr-defined]
        self.nats_url = self.nats_server.client_url()
        self.nats_capture = Capture()
        strict = StrictMode()
        keeper = TraceKeeper(strict)
        self.nats_server.call(keeper.watch)
        self.nats_server.call(lambda _: keeper.attach(self.nats_capture))
        if self.nats_strict:
            self.addCleanup(self._report_bugs, strict)  # type: ignore[attr-defined]

    def _report_bugs(self, strict: StrictMode) -> None:
        running = self.nats_server.is_running
        bugs = self.nats_server.call(lambda _: strict.take()) if running else strict.take()
        if bugs:
            self.fail("client bugs:\n" + "\n".join(bugs))  # type: ignore[attr-defined]
