"""The pytest plugin: `nats_server`, `nats_url`, `nats_client`, `nats_capture`, `nats_clock`.

With streams: `nats_jetstream`, `nats_stream`, `nats_kv` and `nats_disk`; for more servers and TLS:
`nats_servers`, `nats_cluster` and `nats_certificates`.

The server runs in a thread of the test process, so plain tests and tests of pytest-asyncio and
anyio use it alike, and every xdist worker has its own. The plugin imports the server only when a
test uses it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import inspect
import re
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from midge.server.embedded.server import Server
    from midge.server.embedded.threaded import ThreadedServer
    from midge.testing.bucket_under_test import Buckets
    from midge.testing.capture import Capture
    from midge.testing.certificates import Certificates
    from midge.testing.clock import ThreadedClock
    from midge.testing.several_servers import Servers
    from midge.testing.simulated_disk import SimulatedDisk
    from midge.testing.stream_under_test import Streams
    from midge.testing.strict import StrictMode
    from midge.testing.tracing import TraceKeeper

_SCOPES = ("function", "class", "module", "session")
_STRICT = ("off", "warn", "error")

_STREAM_FIXTURES = {"nats_jetstream", "nats_stream", "nats_kv", "nats_disk"}

_OWED_MAX_S = 0.5
"""How long strict mode waits for acks that tasks of other clients have not sent yet."""

_ASYNCIO_MIN = 1, 1
"""Oldest version of pytest-asyncio that can register a fixture under another name."""


class _Running(NamedTuple):
    server: ThreadedServer
    keeper: TraceKeeper
    strict: StrictMode


_RUNNING = pytest.StashKey[list[_Running]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options for the server's scope and its strict mode."""
    group = parser.getgroup("midge", "NATS server")
    scope = "how long one nats_server lives: " + ", ".join(_SCOPES)
    strict = "what a client's bug does to its test: " + ", ".join(_STRICT)
    group.addoption("--midge-scope", choices=_SCOPES, help=scope)
    group.addoption("--midge-strict", choices=_STRICT, help=strict)
    parser.addini("midge_scope", scope, default="function")
    parser.addini("midge_strict", strict, default="off")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse invalid settings before tests are collected."""
    _setting(config, "midge_scope", _SCOPES)
    _setting(config, "midge_strict", _STRICT)


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
    from midge.server.embedded.threaded import run_in_thread
    from midge.testing.strict import StrictMode
    from midge.testing.tracing import TraceKeeper

    strict = StrictMode()
    keeper = TraceKeeper(strict)
    supplied = {"port": -1, **_time(request), **_streams(request), **nats_server_options}
    if supplied.get("jetstream") is True:
        from midge.testing.simulated_disk import with_disk

        supplied = with_disk(supplied)
    with run_in_thread(**supplied) as server:
        server.call(keeper.watch)
        running = _Running(server, keeper, strict)
        everywhere = request.config.stash.setdefault(_RUNNING, [])
        everywhere.append(running)
        yield server
        _report_bugs(request.config, [running])


def _time(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the test's clock for the server, if the test uses one."""
    if "nats_clock" not in request.fixturenames:
        return {}
    from midge.testing.clock import ManualClock

    return {"clock": ManualClock()}


def _streams(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Configure streams for a test that asks for them."""
    return {"jetstream": True} if _STREAM_FIXTURES & set(request.fixturenames) else {}


@pytest.fixture(scope=_scope)
def nats_url(nats_server: ThreadedServer) -> str:
    """Return the URL of the server, with credentials if all clients share them."""
    return nats_server.client_url()


@pytest.fixture
def nats_capture(request: pytest.FixtureRequest, nats_server: ThreadedServer) -> Iterator[Capture]:
    """Return a capture of the messages published, and delivered to clients, during the test."""
    from midge.testing.capture import Capture

    capture = Capture()
    running = request.config.stash[_RUNNING]
    keeper = next(one.keeper for one in running if one.server is nats_server)
    nats_server.call(lambda _: keeper.attach(capture))
    yield capture
    if nats_server.is_running:
        nats_server.call(lambda _: keeper.detach(capture))


@pytest.fixture
def nats_client_options() -> dict[str, Any]:
    """Return the options of `nats_client`, as keywords of `nats.connect`; override to change them.

    The client reconnects within a twentieth of a second after a restart of the server.
    """
    return {"reconnect_time_wait": 0.05, "max_reconnect_attempts": -1}


@pytest.fixture
def nats_client(request: pytest.FixtureRequest) -> Any:
    """Return a nats-py client, connected in the loop of the async test that uses it."""
    item = request.node
    name = _client_fixture(item)
    client = request.getfixturevalue(name)
    if _strictness(item.config) != "off":
        server = request.getfixturevalue("nats_server")
        running = next(one for one in item.config.stash[_RUNNING] if one.server is server)
        item.obj = _flushing(item.obj, client, running)
    return client


def _client_fixture(item: Any) -> str:
    """Return the name of the fixture for a test's framework and loop, after importing it."""
    plugins = item.config.pluginmanager
    if importlib.util.find_spec("nats") is None:
        from midge.extras import install_command

        needed = install_command("testing")
        raise _mistake(f"{item.nodeid}: nats_client needs nats-py; {needed}")
    if not inspect.iscoroutinefunction(item.obj):
        raise _mistake(f"{item.nodeid}: nats_client needs an async test")
    asyncio_mark = item.get_closest_marker("asyncio")
    if asyncio_mark is not None and plugins.hasplugin("asyncio"):
        _require_asyncio_version(item)
        plugins.import_plugin("midge.testing.asyncio_client")
        default = item.config.getini("asyncio_default_test_loop_scope") or "function"
        return f"_nats_client_in_{asyncio_mark.kwargs.get('loop_scope') or default}_loop"
    if "anyio_backend" in item.fixturenames:
        plugins.import_plugin("midge.testing.anyio_client")
        return "_nats_client_in_anyio_loop"
    wanted = "pytest-asyncio or anyio to run the test"
    raise _mistake(f"{item.nodeid}: nats_client needs {wanted}")


def _require_asyncio_version(item: Any) -> None:
    """Fail with the required version, because an older one fails with an unclear traceback."""
    found = importlib.metadata.version("pytest-asyncio")
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < _ASYNCIO_MIN:
        least = ".".join(map(str, _ASYNCIO_MIN))
        raise _mistake(
            f"{item.nodeid}: nats_client needs pytest-asyncio {least} or newer, found {found}; "
            f"python -m pip install 'pytest-asyncio>={least}'"
        )


def _mistake(text: str) -> BaseException:
    """Return the exception that fails a test for its author's mistake, without our traceback."""
    return pytest.fail.Exception(text, pytrace=False)


def _flushing(test: Any, client: Any, running: _Running) -> Any:
    """Wrap an async test to end once the server has all its messages, for strict mode."""

    async def settle() -> None:
        import asyncio

        end_s = time.monotonic() + _OWED_MAX_S
        while running.server.call(lambda _: running.strict.is_owed_acks()):
            if time.monotonic() > end_s:
                return
            await asyncio.sleep(_OWED_MAX_S / 50)

    @functools.wraps(test)
    async def run(*arguments: Any, **fixtures: Any) -> None:
        await test(*arguments, **fixtures)
        if client.is_connected:
            with contextlib.suppress(Exception):  # a fault may delay the flush
                await client.flush(1)
        await settle()

    return run


@pytest.fixture
def nats_clock(request: pytest.FixtureRequest, nats_server: ThreadedServer) -> ThreadedClock:
    """Return the clock of the server, which stands still until `advance(seconds)` moves it."""
    from midge.testing.clock import ThreadedClock

    _require_own_server(request, "nats_clock")
    return ThreadedClock(nats_server)


def _require_own_server(request: pytest.FixtureRequest, fixture: str) -> None:
    scope = _scope("nats_server", request.config)
    if scope != "function":
        raise _mistake(f"{fixture} needs a server for each test, not for each {scope}")


@pytest.fixture
def nats_disk(request: pytest.FixtureRequest, nats_server: ThreadedServer) -> SimulatedDisk:
    """Return the disk of the server's file streams, which is simulated and whose power can fail."""
    _require_own_server(request, "nats_disk")
    return cast("SimulatedDisk", nats_server.call(lambda server: server.disk))


@pytest.fixture
def nats_jetstream(request: pytest.FixtureRequest, nats_client: Any) -> Any:
    """Return nats-py's JetStream context of `nats_client`."""
    _require_streams(request, "nats_jetstream")
    return nats_client.jetstream()


@pytest.fixture
def nats_stream(request: pytest.FixtureRequest, nats_server: ThreadedServer) -> Iterator[Streams]:
    """Return the maker of streams for the test: `nats_stream("ORDERS", "orders.>", max_age=60)`."""
    from midge.testing.stream_under_test import Streams

    _require_streams(request, "nats_stream")
    with Streams(nats_server) as streams:
        yield streams


@pytest.fixture
def nats_kv(request: pytest.FixtureRequest, nats_server: ThreadedServer) -> Iterator[Buckets]:
    """Return the maker of key-value buckets for the test: `nats_kv("settings", history=5)`."""
    from midge.testing.bucket_under_test import Buckets

    _require_streams(request, "nats_kv")
    with Buckets(nats_server) as buckets:
        yield buckets


@pytest.fixture
def nats_servers() -> Iterator[Servers]:
    """Return the maker of further servers: `start`, `cluster(3)`, `leaf(hub)`."""
    from midge.testing.several_servers import Servers

    with Servers() as servers:
        yield servers


@pytest.fixture
def nats_cluster(nats_servers: Servers) -> Callable[..., list[ThreadedServer]]:
    """Return the maker of a cluster: `nats_cluster(3, jetstream=True)`."""
    return nats_servers.cluster


@pytest.fixture(scope="session")
def nats_certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return an authority for TLS, which issues certificates to servers and clients."""
    from midge.testing import Certificates

    return Certificates(tmp_path_factory.mktemp("certificates"))


def _require_streams(request: pytest.FixtureRequest, fixture: str) -> None:
    server = request.getfixturevalue("nats_server")
    if not server.options.jetstream.enabled:
        needed = 'a server with streams: let nats_server_options return {"jetstream": True}'
        raise _mistake(f"{fixture} needs {needed}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the trace with its test."""
    for running in item.config.stash.get(_RUNNING, []):
        running.keeper.lines.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Report the bugs of a test's clients in the configured way."""
    result = yield
    _report_bugs(item.config, item.config.stash.get(_RUNNING, []))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Clear faults and reported bugs from a server that outlives its test."""
    result = yield
    servers = item.config.stash.get(_RUNNING, [])
    for running in servers:
        if running.server.is_running:
            running.server.call(_end_faults)
    _report_bugs(item.config, servers)
    return result


def _report_bugs(config: pytest.Config, servers: list[_Running]) -> None:
    """Fail or warn for the bugs that the clients of `servers` have shown since the last call."""
    mode = _strictness(config) if servers else "off"
    bugs = [] if mode == "off" else [bug for one in servers for bug in _take_bugs(one)]
    if bugs and mode == "error":
        pytest.fail("client bugs:\n" + "\n".join(bugs), pytrace=False)
    for bug in bugs:
        _warn(bug)


def _strictness(config: pytest.Config) -> Any:
    return _setting(config, "midge_strict", _STRICT)


def _take_bugs(running: _Running) -> list[str]:
    if not running.server.is_running:
        return running.strict.take()
    return running.server.call(lambda _: running.strict.take())


def _end_faults(server: Server) -> None:
    from midge.protocol.errors import MidgeError

    with contextlib.suppress(MidgeError):  # a restart has ended them
        server.faults.clear()


def _warn(bug: str) -> None:
    from midge.testing.strict import ClientBugWarning

    warnings.warn(bug, ClientBugWarning, stacklevel=2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, pytest.TestReport]:
    """Add the server's trace to the report of a failed test."""
    report: pytest.TestReport = yield
    if report.failed:
        for running in item.config.stash.get(_RUNNING, []):
            lines = list(running.keeper.lines)
            report.sections.append(("NATS trace", "\n".join(lines) or "nobody connected"))
    if call.when == "teardown":
        everywhere = item.config.stash.get(_RUNNING, [])
        everywhere[:] = [running for running in everywhere if running.server.is_running]
    return report
