"""The pytest plugin: `nats_server`, `nats_url`, `nats_client` and `nats_capture`.

The server runs in a thread of the test process, so sync tests and those of pytest-asyncio and anyio
use it alike, and every xdist worker has its own. Nothing of the server is imported before a test
asks for it.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from midge.server.threaded import ThreadedServer
    from midge.testing.capture import Capture
    from midge.testing.strict import StrictMode
    from midge.testing.tracing import TraceKeeper

_SCOPES = ("function", "class", "module", "session")
_STRICT = ("off", "warn", "error")


class _Running(NamedTuple):
    server: ThreadedServer
    keeper: TraceKeeper
    strict: StrictMode


_RUNNING = pytest.StashKey[list[_Running]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the scope of the server and how strict it is."""
    group = parser.getgroup("midge", "NATS server")
    scope = "how long one nats_server lives: " + ", ".join(_SCOPES)
    strict = "what a client's bug does to its test: " + ", ".join(_STRICT)
    group.addoption("--midge-scope", choices=_SCOPES, help=scope)
    group.addoption("--midge-strict", choices=_STRICT, help=strict)
    parser.addini("midge_scope", scope, default="function")
    parser.addini("midge_strict", strict, default="off")


def _setting(config: pytest.Config, name: str, choices: tuple[str, ...]) -> Any:
    value = config.getoption(name) or config.getini(name)
    if value not in choices:
        raise pytest.UsageError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
    return value


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ARG001 - pytest's names
    return _setting(config, "midge_scope", _SCOPES)


@pytest.fixture(scope=_scope)
def nats_server_options() -> dict[str, Any]:
    """Return the server's settings, as keywords of `midge.Server`; override it to change them."""
    return {}


@pytest.fixture(scope=_scope)
def nats_server(
    request: pytest.FixtureRequest, nats_server_options: dict[str, Any]
) -> Iterator[ThreadedServer]:
    """Run a NATS server on a free port, as a `midge.ThreadedServer`."""
    from midge.server.threaded import run_in_thread
    from midge.testing.strict import StrictMode
    from midge.testing.tracing import TraceKeeper

    strict = StrictMode()
    keeper = TraceKeeper(strict)
    with run_in_thread(**{"port": -1, **nats_server_options}) as server:
        server.call(lambda inner: inner.hub.observers.append(keeper))
        running = _Running(server, keeper, strict)
        everywhere = request.config.stash.setdefault(_RUNNING, [])
        everywhere.append(running)
        yield server
        everywhere.remove(running)


@pytest.fixture(scope=_scope)
def nats_url(nats_server: ThreadedServer) -> str:
    """Return the URL of the server, with credentials where everybody shares them."""
    return nats_server.client_url()


@pytest.fixture
def nats_capture(nats_server: ThreadedServer) -> Iterator[Capture]:
    """Keep everything that is published during the test."""
    from midge.testing.capture import Capture

    capture = Capture()
    nats_server.call(lambda server: server.hub.watch_messages(capture))
    yield capture
    nats_server.call(lambda server: server.hub.look_away(capture))


@pytest.fixture
def nats_client(request: pytest.FixtureRequest, nats_url: str) -> Any:
    """Return a nats-py client, connected while an async test runs, in its own loop."""
    from midge.testing.client import SettlingClient

    item = request.node
    if not inspect.iscoroutinefunction(item.obj):
        raise pytest.UsageError(f"{item.nodeid}: nats_client needs an async test")
    client = SettlingClient()
    item.obj = _connected(item.obj, client, nats_url, item.name)
    return client


def _connected(test: Any, client: Any, url: str, name: str) -> Any:
    """Wrap an async test to run with `client` connected, whatever framework runs it."""

    @functools.wraps(test)
    async def run(*arguments: Any, **fixtures: Any) -> None:
        await client.connect(url, name=name, allow_reconnect=False)
        try:
            await test(*arguments, **fixtures)
        finally:
            await client.close()

    return run


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a trace begin with its test."""
    for running in item.config.stash.get(_RUNNING, []):
        running.keeper.lines.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Report the bugs of a test's clients as it was asked for."""
    result = yield
    servers = item.config.stash.get(_RUNNING, [])
    mode = _setting(item.config, "midge_strict", _STRICT) if servers else "off"
    if mode != "off":
        bugs = [bug for one in servers for bug in _take_bugs(one)]
        if bugs and mode == "error":
            pytest.fail("client bugs:\n" + "\n".join(bugs), pytrace=False)
        for bug in bugs:
            _warn(bug)
    return result


def _take_bugs(running: _Running) -> list[str]:
    return running.server.call(lambda _: running.strict.take())


def _warn(bug: str) -> None:
    from midge.testing.strict import ClientBugWarning

    warnings.warn(bug, ClientBugWarning, stacklevel=2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    """Show the server's trace of a test that failed."""
    report: pytest.TestReport = yield
    if report.when == "call" and report.failed:
        for running in item.config.stash.get(_RUNNING, []):
            lines = list(running.keeper.lines)
            report.sections.append(("NATS trace", "\n".join(lines) or "nobody connected"))
    return report
