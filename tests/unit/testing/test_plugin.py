"""The pytest plugin, in runs of its own, and the unittest mix-in."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
import urllib.parse
from pathlib import Path

import pytest

from midge.testing import Capture, NatsServerMixin, SettlingClient

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


@pytest.mark.parametrize(
    ("mark", "arguments"),
    [
        ("@pytest.mark.asyncio", ["-o", "asyncio_mode=strict"]),
        ("", ["-o", "asyncio_mode=auto"]),
        ("@pytest.mark.anyio", ["-p", "no:asyncio", "-k", "asyncio"]),
    ],
    ids=["asyncio-strict", "asyncio-auto", "anyio"],
)
def test_async_frameworks(tmp_path: Path, root: Path, mark: str, arguments: list[str]) -> None:
    test = f"import pytest\n{mark}\nasync def test_asyncio(nats_client, nats_capture):{PUBLISHES}"
    if "anyio" in mark:
        test += "\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
        arguments = ["-p", "no:asyncio", "-o", "asyncio_default_fixture_loop_scope=function"]
        (tmp_path / "conftest.py").write_text(
            "def pytest_addoption(parser):\n"
            "    parser.addini('asyncio_default_fixture_loop_scope', '')\n"
        )
    assert "1 passed" in run(tmp_path, root, test, *arguments)


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
def test_two(nats_server):
    seen.add(nats_server)
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
    assert "expected 2 on 'orders.*' with payload b'2', got 0" in printed
    assert "~ orders.created b'1' -> 0" in printed
    trace = printed.partition("NATS trace")[2]
    assert "-> PUB orders.created 1" in trace


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


def test_the_client_needs_an_async_test(tmp_path: Path, root: Path) -> None:
    printed = run(tmp_path, root, "def test_it(nats_client):\n    pass\n")
    assert "test_it: nats_client needs an async test" in printed


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


def test_a_capture_refuses_a_pattern_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="pattern"):
        Capture().assert_published("a..b")


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
