"""The pytest plugin, in runs of its own, and the unittest mix-in."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import unittest
import urllib.parse
from pathlib import Path

import pytest

from midge.testing import NatsServerMixin, SettlingClient

# Whether midge is installed or not, the plugin under test is the one of this checkout.
PLUGIN = ["-p", "no:midge", "-p", "midge.testing.plugin", "-p", "no:cacheprovider"]


def run(folder: Path, root: Path, source: str, *arguments: str) -> str:
    """Run `source` as a test file; return what pytest prints."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGIN, *arguments, "test_it.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return done.stdout + done.stderr


PUBLISHES = """
    await nats_client.publish("orders.created", b"1")
    await nats_client.flush()
    nats_capture.assert_published("orders.*", count=1, payload="1")
"""

FRAMEWORK = """
import pytest
MARK
class TestClass:
    async def test_asyncio(self, orders, nats_client, nats_capture):
        await nats_client.publish("orders.created", b"1")
        assert (await orders.next_msg(timeout=30)).data == b"1"
        nats_capture.assert_delivered("orders.*", to=nats_client.options["name"], count=1)

FIXTURE
async def orders(nats_client):
    subscription = await nats_client.subscribe("orders.*")
    await nats_client.flush()
    yield subscription
    await subscription.unsubscribe()
"""


@pytest.mark.parametrize(
    ("mark", "fixture", "arguments"),
    [
        ("asyncio", "pytest_asyncio.fixture", ["-o", "asyncio_mode=strict"]),
        ("", "pytest.fixture", ["-o", "asyncio_mode=auto"]),
        (
            "asyncio(loop_scope='class')",
            "pytest_asyncio.fixture(loop_scope='class')",
            ["-o", "asyncio_mode=auto"],
        ),
        (
            "",
            "pytest_asyncio.fixture(loop_scope='session')",
            ["-o", "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session"],
        ),
        ("anyio", "pytest.fixture", ["-p", "no:asyncio", "-k", "asyncio"]),
        ("anyio", "pytest.fixture", ["-o", "asyncio_mode=strict", "-k", "asyncio"]),
    ],
    ids=["strict", "auto", "class loop", "session loop", "anyio", "anyio beside asyncio"],
)
def test_async_frameworks(
    tmp_path: Path, root: Path, mark: str, fixture: str, arguments: list[str]
) -> None:
    test = FRAMEWORK.replace("MARK", f"@pytest.mark.{mark}" if mark else "")
    test = test.replace("FIXTURE", f"@{fixture}")
    if "pytest_asyncio" in fixture:
        test = f"import pytest_asyncio\n{test}"
    if "no:asyncio" in arguments:
        (tmp_path / "conftest.py").write_text(
            "def pytest_addoption(parser):\n"
            "    parser.addini('asyncio_default_fixture_loop_scope', '')\n"
        )
    if mark == "anyio":
        test += "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    assert "1 passed" in run(tmp_path, root, test, "-W", "error", *arguments)


def test_sync_tests(tmp_path: Path, root: Path) -> None:
    test = """
def test_sync(nats_server, nats_url, nats_capture):
    assert nats_url.startswith("nats://u:p@127.0.0.1:")
    nats_server.publish("a.b", "x")
    nats_capture.assert_published("a.b", payload="x", timeout_s=5)

import pytest
@pytest.fixture(scope="session")
def nats_server_options():
    return {"user": "u", "password": "p"}
"""
    assert "1 passed" in run(tmp_path, root, test)


@pytest.mark.parametrize(("scope", "servers"), [("function", 2), ("session", 1)])
def test_the_scope_is_an_option(tmp_path: Path, root: Path, scope: str, servers: int) -> None:
    test = """
seen = set()
def test_one(nats_server):
    seen.add(nats_server)
    nats_server.faults.drop(">")
def test_two(nats_server, nats_capture):
    seen.add(nats_server)
    nats_server.publish("a")
    nats_capture.assert_published("a", count=1)
def test_count():
    assert len(seen) == SERVERS
""".replace("SERVERS", str(servers))
    assert "3 passed" in run(tmp_path, root, test, "--midge-scope", scope)


def test_workers_run_side_by_side(tmp_path: Path, root: Path) -> None:
    test = f"""
import pytest
@pytest.mark.parametrize("i", range(8))
async def test_it(nats_client, nats_capture, i):{PUBLISHES}
"""
    printed = run(tmp_path, root, test, "-n", "2", "-o", "asyncio_mode=auto")
    assert "8 passed" in printed


def test_a_failure_shows_the_difference_and_the_trace(tmp_path: Path, root: Path) -> None:
    test = """
async def test_it(nats_client, nats_capture):
    await nats_client.publish("orders.created", b"1")
    await nats_client.flush()
    nats_capture.assert_published("orders.*", count=2, payload="2")
"""
    printed = run(tmp_path, root, test, "-o", "asyncio_mode=auto")
    assert "expected 2 messages published on 'orders.*' with payload b'2', got none" in printed
    assert "~ orders.created  b'1'  from test_it  taken by nobody" in printed
    trace = printed.partition("NATS trace")[2]
    assert "-> PUB orders.created 1" in trace


def test_a_failing_fixture_shows_the_trace(tmp_path: Path, root: Path) -> None:
    test = """
import pytest
@pytest.fixture
async def orders(nats_client):
    await nats_client.publish("orders.created", b"1")
    await nats_client.flush()
    raise RuntimeError("no desk")
async def test_it(orders):
    pass
"""
    printed = run(tmp_path, root, test, "-o", "asyncio_mode=auto")
    assert "1 error" in printed
    assert "-> PUB orders.created 1" in printed.partition("NATS trace")[2]


def test_a_clock_of_the_server(tmp_path: Path, root: Path) -> None:
    test = """
import socket
def test_silence(nats_server, nats_clock):
    with socket.create_connection(("127.0.0.1", nats_server.port), timeout=30) as client:
        with client.makefile("rb") as lines:
            assert lines.readline().startswith(b"INFO")
            before = nats_clock.wall()
            nats_clock.advance(3600)
            assert lines.readlines()[-1].startswith(b"-ERR 'Stale Connection'")
    assert (nats_clock.monotonic(), nats_clock.wall() - before) == (3600, 3600)

async def test_clients_are_served(nats_client, nats_capture, nats_clock):
    PUBLISHES
""".replace("PUBLISHES", PUBLISHES.strip())
    assert "2 passed" in run(tmp_path, root, test, "-o", "asyncio_mode=auto")
    printed = run(tmp_path, root, test, "--midge-scope", "session", "-k", "silence")
    assert "nats_clock needs a server for each test, not for each session" in printed


BUGGY = """
async def test_it(nats_client):
    await nats_client.publish("orders.*", b"1")
    nats_client._transport.write(b"UNSUB 99\\r\\n")
    nats_client._transport.write(b"UNSUB \\xff\\r\\n")
    nats_client._transport.write(b"HPUB a 12 12\\r\\nNATS/2.0\\r\\n\\r\\n\\r\\n")
    nats_client._transport.write(b"PUB a b.* 0\\r\\n\\r\\n")
    await nats_client.flush()
"""


@pytest.mark.parametrize(("mode", "outcome"), [("off", "1 passed"), ("error", "1 failed")])
def test_strict_mode_names_bug_and_offender(
    tmp_path: Path, root: Path, mode: str, outcome: str
) -> None:
    printed = run(tmp_path, root, BUGGY, "-o", "asyncio_mode=auto", "--midge-strict", mode)
    assert outcome in printed
    for bug in ("publish to 'orders.*'", "unknown sid '99'", "malformed", "reply subject 'b.*'"):
        assert (f"{bug}" in printed) is (mode == "error")
    assert ("(test_it, python3" in printed) is (mode == "error")


def test_strict_mode_can_warn(tmp_path: Path, root: Path) -> None:
    printed = run(tmp_path, root, BUGGY, "-o", "asyncio_mode=auto", "--midge-strict", "warn")
    assert "ClientBugWarning: client 5 (test_it" in printed
    assert "1 passed, 5 warnings" in printed


LEFT_OVER = """
import pytest

async def test_failing(nats_client):
    await nats_client.publish("orders.*", b"1")
    await nats_client.flush()
    raise RuntimeError("of its own")

async def test_good(nats_client):
    await nats_client.publish("orders.created", b"1")

async def test_ends_at_once(nats_client):
    await nats_client.publish("orders.>", b"1")

@pytest.fixture
async def untidy(nats_client):
    yield
    await nats_client.publish("orders.late.*", b"1")
    await nats_client.flush()

async def test_untidy(untidy):
    pass
"""


@pytest.mark.parametrize("scope", ["function", "session"])
def test_strict_mode_blames_the_right_test(tmp_path: Path, root: Path, scope: str) -> None:
    arguments = ["-o", "asyncio_mode=auto", "--midge-strict", "error", "--midge-scope", scope]
    printed = run(tmp_path, root, LEFT_OVER, *arguments)
    assert "2 failed, 2 passed, 2 errors" in printed
    for test, bug in (
        ("ERROR at teardown of test_failing", "publish to 'orders.*'"),
        (" test_ends_at_once ", "publish to 'orders.>'"),
        ("ERROR at teardown of test_untidy", "publish to 'orders.late.*'"),
    ):
        assert bug in printed.partition(test)[2].partition("\n___")[0]


def test_the_client_needs_a_framework(tmp_path: Path, root: Path) -> None:
    arguments = ["-p", "no:asyncio", "-p", "no:anyio", "-W", "ignore"]
    printed = run(tmp_path, root, "async def test_it(nats_client):\n    pass\n", *arguments)
    assert "nats_client needs pytest-asyncio or anyio to run the test" in printed


def test_the_client_needs_an_async_test(tmp_path: Path, root: Path) -> None:
    printed = run(tmp_path, root, "def test_it(nats_client):\n    pass\n")
    assert "test_it: nats_client needs an async test" in printed
    assert "plugin.py" not in printed, "the test's author has no use for our traceback"


def test_the_client_needs_nats_py(tmp_path: Path, root: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys; sys.modules['nats'] = None")
    arguments = ["-o", "asyncio_mode=auto"]
    printed = run(tmp_path, root, "async def test_it(nats_client):\n    pass\n", *arguments)
    assert "test_it: nats_client needs nats-py; python -m pip install 'pytest" in printed
    use = "import midge.testing\ndef test_it():\n    midge.testing.SettlingClient\n"
    printed = run(tmp_path, root, use)
    assert "midge.testing.SettlingClient needs nats-py; python -m pip install" in printed


def test_certificates_need_cryptography(tmp_path: Path, root: Path) -> None:
    (tmp_path / "conftest.py").write_text("import sys; sys.modules['cryptography'] = None")
    printed = run(tmp_path, root, "def test_it(nats_certificates):\n    pass\n")
    assert "midge.testing.Certificates needs cryptography; python -m pip install" in printed


def test_the_client_needs_a_pytest_asyncio_that_works(tmp_path: Path, root: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import importlib.metadata as m\nreal = m.version\n"
        "m.version = lambda name: '1.0.0' if name == 'pytest-asyncio' else real(name)\n"
    )
    test = "async def test_it(nats_client):\n    pass\n"
    printed = run(tmp_path, root, test, "-o", "asyncio_mode=auto")
    assert "test_it: nats_client needs pytest-asyncio 1.1 or newer, found 1.0.0" in printed
    assert "pip install 'pytest-asyncio>=1.1'" in printed
    assert "plugin.py" not in printed


@pytest.mark.parametrize("name", ["midge_scope", "midge_strict"])
def test_a_setting_without_meaning_is_told_at_once(tmp_path: Path, root: Path, name: str) -> None:
    printed = run(tmp_path, root, "def test_it():\n    pass\n", "-o", f"{name}=foo")
    assert f"ERROR: {name}: expected one of " in printed
    assert "got 'foo'" in printed
    assert "Traceback" not in printed


def test_the_plugin_costs_nothing_when_unused(tmp_path: Path, root: Path) -> None:
    test = """
import sys
def test_it():
    ours = {name for name in sys.modules if name.split(".")[0] == "midge"}
    assert ours == {"midge", "midge.testing", "midge.testing.plugin"}
    assert not {"asyncio", "nats", "msgspec", "structlog", "uvloop"} & set(sys.modules)
"""
    # Without the plugins of async tests, which import asyncio themselves.
    others = ["-p", "no:asyncio", "-p", "no:anyio", "-p", "no:timeout", "-p", "no:xdist"]
    others += ["-p", "no:faulthandler", "-p", "no:benchmark", "-p", "no:hypothesispytest"]
    assert "1 passed" in run(tmp_path, root, test, *others)


class MixinTest(NatsServerMixin, unittest.TestCase):
    nats_options = {"server_name": "mixed"}  # noqa: RUF012 - declared by the mix-in

    def test_server_and_capture(self) -> None:
        assert urllib.parse.urlsplit(self.nats_url).port == self.nats_server.port
        self.nats_server.publish("a", "1")
        self.nats_capture.assert_published("a", count=1)
        self.nats_capture.assert_nothing_published("b")


class AsyncMixinTest(NatsServerMixin, unittest.IsolatedAsyncioTestCase):
    async def test_a_client(self) -> None:
        client = await SettlingClient.connected(self.nats_url)
        await client.publish("a", b"1")
        await client.flush()
        self.nats_capture.assert_published("a", count=1, payload=b"1")
        await client.close()


def test_the_mixin_can_be_strict() -> None:
    class StrictMixinTest(NatsServerMixin, unittest.TestCase):
        nats_strict = True

        def test_bugs(self) -> None:
            with socket.create_connection(
                ("127.0.0.1", self.nats_server.port), timeout=30
            ) as client:
                client.sendall(b'CONNECT {"name":"till"}\r\nPUB a.* 0\r\n\r\nPING\r\n')
                with client.makefile("rb") as lines:
                    while lines.readline() != b"PONG\r\n":
                        pass

    result = StrictMixinTest("test_bugs").run()
    assert result is not None
    ((_, traceback),) = result.failures
    assert "client 5 (till): publish to 'a.*'" in traceback
