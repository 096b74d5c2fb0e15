"""Several servers in one test, TLS with certificates made on the fly, hypothesis strategies."""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import TYPE_CHECKING

import nats.errors
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midge
from midge.protocol.headers import find_malformed, parse_headers
from midge.sublist.subjects import is_valid_publish_subject, is_valid_subject, matches
from midge.testing import Captured, Certificates, Servers, SettlingClient, strategies
from tests.unit.testing.test_plugin import run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_cluster_and_a_leaf() -> None:
    threads = threading.active_count()
    with Servers() as servers:
        first, second, third = servers.cluster(3, leafnodes={"port": -1})
        assert [sorted(one.links) for one in (first, third)] == [["n2", "n3"], ["n1", "n2"]]
        leaf = servers.leaf(second)
        assert [name for name in second.links if name in ("n1", "n3")] == ["n1", "n3"]
        with leaf.subscribe("orders.*") as orders:
            servers.wait_for_interest("orders.new")
            for server in (first, second, third, leaf):
                server.publish("orders.new", server.options.server_name)
            assert sorted(orders.next(60).text for _ in range(4)) == ["", "n1", "n2", "n3"]
        assert len(list(servers)) == 4
    assert threading.active_count() == threads


def test_a_hub_must_take_leaf_nodes() -> None:
    with (
        Servers() as servers,
        pytest.raises(midge.MidgeError, match=r'start it with leafnodes=\{"port": -1\}'),
    ):
        servers.leaf(servers.start())


async def test_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "new")
    options = certificates.server_options(verify_and_map=True)
    users = [{"user": "till@shop.example"}]
    async with midge.Server(port=-1, users=users, **options) as server:
        context = certificates.client_context("till", email="till@shop.example")
        client = await SettlingClient.connected(server.url, tls=context)
        assert [one.user for one in server.connections] == ["till@shop.example"]
        await client.close()
        for refused in (
            certificates.client_context(),
            Certificates(tmp_path / "other").client_context("till", email="till@shop.example"),
        ):
            with pytest.raises((ssl.SSLError, nats.errors.Error, OSError)):
                await SettlingClient.connected(
                    server.url, tls=refused, allow_reconnect=False, connect_timeout=30
                )
        await asyncio.sleep(0)


PLUGIN = """
import ssl
import pytest

@pytest.fixture
def nats_server_options(nats_certificates):
    return nats_certificates.server_options(verify=True)

@pytest.fixture
def nats_client_options(nats_certificates):
    context = nats_certificates.client_context("till")
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    return {"tls": context}

async def test_tls(nats_client, nats_url, nats_capture):
    assert nats_url.startswith("tls://")
    await nats_client.publish("orders.new", b"1")
    await nats_client.flush()
    nats_capture.assert_published("orders.new", count=1)

def test_cluster(nats_cluster, nats_servers):
    one, two = nats_cluster(2)
    with two.subscribe("a") as messages:
        nats_servers.wait_for_interest("a", one)
        one.publish("a", "x")
        assert messages.next(30).text == "x"
"""


def test_the_plugin(tmp_path: Path, root: Path) -> None:
    shown = run(tmp_path, root, PLUGIN, "-o", "asyncio_mode=auto", "-n", "2")
    assert "2 passed" in shown, shown


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""The first draw of a process looks through all modules, which takes seconds here."""


@UNHURRIED
@given(strategies.subjects(), strategies.patterns(), strategies.tokens())
def test_subjects_and_patterns_are_valid(subject: str, pattern: str, token: str) -> None:
    assert is_valid_publish_subject(subject.encode())
    assert is_valid_subject(pattern.encode())
    assert "." not in token


@UNHURRIED
@given(st.data())
def test_matching_patterns_match(data: st.DataObject) -> None:
    subject = data.draw(strategies.subjects(prefix="orders"))
    assert subject.startswith("orders.")
    pattern = data.draw(strategies.matching_patterns(subject))
    assert matches(subject.encode(), pattern.encode())


@UNHURRIED
@given(strategies.messages())
def test_messages_can_be_sent(message: Captured) -> None:
    lines = [f"{name}: {one}\r\n" for name, values in message.headers.items() for one in values]
    block = f"NATS/1.0\r\n{''.join(lines)}\r\n".encode()
    assert find_malformed(block) is None
    assert parse_headers(block) == message.headers
