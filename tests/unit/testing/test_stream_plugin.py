"""The plugin with streams: its fixtures, the capture, and strict mode, in runs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.testing.test_plugin import PLUGIN, run

if TYPE_CHECKING:
    from pathlib import Path

FIXTURES = """
import pytest

async def test_jetstream(nats_jetstream, nats_stream, nats_capture):
    orders = nats_stream("ORDERS", "orders.>", max_age=60)
    ack = await nats_jetstream.publish("orders.new", b"tea", headers={"Shop": "1"})
    assert ack.seq == 1
    (kept,) = await nats_capture.wait_stored("orders.*", stream="ORDERS", count=1, payload="tea")
    assert (kept.seq, kept.headers) == (1, {"Shop": ["1"]})
    assert orders.messages == [kept]
    assert (await nats_jetstream.stream_info("ORDERS")).config.max_age == 60
    nats_capture.assert_nothing_stored("invoices.>")

def test_without_a_loop(nats_stream, nats_capture):
    orders = nats_stream("ORDERS")
    assert orders.publish("orders.new", "tea") == 1
    info = orders.consumer("workers", ack_wait=5, backoff=[1, 2], max_deliver=3)
    assert info["config"]["backoff"] == [10**9, 2 * 10**9]
    assert orders.consumers["workers"]["num_pending"] == 1
    assert (orders.last("orders.new").text, orders.get(7)) == ("tea", None)
    assert orders.purge() == 1
    assert (orders.messages, orders.state["last_seq"]) == ([], 1)
    nats_capture.assert_stored("orders.new", count=1)
    with pytest.raises(Exception, match="10058"):
        nats_stream("ORDERS", "other")

async def test_kv(nats_jetstream, nats_kv):
    settings = nats_kv("settings", history=2)
    bucket = await nats_jetstream.key_value("settings")
    for value in (b"1", b"2", b"3"):
        await bucket.put("limit", value)
    assert settings.get("limit") == b"3"
    assert [one.payload for one in settings.history("limit")] == [b"2", b"3"]
    assert settings.put("color", "red") == 4
    assert (await bucket.get("color")).value == b"red"
    settings.delete("limit")
    assert (settings.get("limit"), settings.values) == (None, {"color": b"red"})

async def test_time_and_disk(nats_jetstream, nats_stream, nats_clock, nats_disk, nats_server):
    orders = nats_stream("ORDERS", max_age=3600)
    await nats_jetstream.publish("orders.new", b"tea")
    with nats_server.faults.failing_disk():
        with pytest.raises(Exception, match="EIO"):
            await nats_jetstream.publish("orders.new", b"coffee")
    await nats_clock.elapse(3600)  # nothing expires on a store that has failed
    assert [message.text for message in orders.messages] == ["tea"]
    assert nats_server.call(lambda _: nats_disk.power_failed()).names()
"""


@pytest.mark.parametrize("path", ["orders/tests/test_packing.py", "edge/test_device.py"])
def test_examples(root: Path, path: str) -> None:
    """Two of them; the others need packages that the tests do not install."""
    folder, _, file = path.partition("/")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGIN, file],
        cwd=root / "examples" / folder,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_fixtures(tmp_path: Path, root: Path) -> None:
    shown = run(tmp_path, root, FIXTURES, "-o", "asyncio_mode=auto")
    assert "4 passed" in shown, shown


def test_a_shared_server_has_streams_if_its_options_say_so(tmp_path: Path, root: Path) -> None:
    source = """
import pytest

@pytest.fixture(scope="session")
def nats_server_options():
    return {"jetstream": True}

@pytest.mark.parametrize("n", [1, 2])
def test_each_has_its_own(nats_stream, n):
    assert nats_stream("ORDERS").publish("orders", "x") == 1
"""
    shown = run(tmp_path, root, source, "--midge-scope=session")
    assert "2 passed" in shown, shown
    first = "def test_before(nats_server): pass\n\n"  # the server is started for this one
    source = first + source.replace("return {", "return {} and {")
    shown = run(tmp_path, root, source, "--midge-scope=session")
    assert "nats_stream needs a server with streams" in shown


def test_a_failure_shows_what_is_stored(tmp_path: Path, root: Path) -> None:
    source = """
def test_it(nats_stream, nats_capture):
    nats_stream("ORDERS").publish("orders.new", "tea")
    nats_capture.assert_stored("orders.*", stream="INVOICES", timeout_s=0)
"""
    shown = run(tmp_path, root, source)
    assert "expected at least 1 message stored on 'orders.*' in stream 'INVOICES'" in shown
    assert "orders.new  b'tea'  in ORDERS as 1" in shown


def test_what_cannot_be_made_is_told_without_a_trace_of_midge(tmp_path: Path, root: Path) -> None:
    source = """
def test_stream(nats_stream):
    nats_stream("a b")

def test_bucket(nats_kv):
    nats_kv("a.b")

def test_consumer(nats_stream):
    nats_stream("ORDERS").consumer("a.b")

def test_backup(nats_stream, tmp_path):
    nats_stream("ORDERS", backup=tmp_path)

def test_recording(nats_stream, tmp_path):
    nats_stream("ORDERS", recording=tmp_path)
"""
    shown = run(tmp_path, root, source)
    for problem in (
        "name of a stream: expected [^\\s.*>/\\\\]+, got 'a b'",
        "name of a bucket: expected [A-Za-z0-9_-]+, got 'a.b'",
        "name of a consumer: expected [^\\s.*>/\\\\]+, got 'a.b'",
        "there is no backup in ",
        "there is no recording in ",
    ):
        assert f"MidgeError: {problem}" in shown, f"{problem}\n{shown}"
    assert "midge/testing/" not in shown, shown
    assert "midge/server/" not in shown, shown


HEAD = """
import asyncio
import pytest

@pytest.fixture
def orders(nats_stream):
    stream = nats_stream("ORDERS", "orders.>")
    stream.consumer("workers", ack_wait=30)
    stream.publish("orders.new", "tea")
    return stream

@pytest.fixture
async def message(orders, nats_jetstream):
    workers = await nats_jetstream.pull_subscribe_bind("workers", "ORDERS")
    (message,) = await workers.fetch(1, timeout=30)
    return message

async def test_it(orders, message, nats_client, nats_jetstream, nats_server, nats_clock):
"""

PUBLISH = "with pytest.raises(Exception):\n        await nats_jetstream.publish('orders.new', b'x',"

MISTAKES = {
    "not acknowledged": (
        "pass",
        "consumer 'workers' of stream ORDERS: 1 message is not acknowledged: 1\n",
    ),
    "acknowledged twice": (
        "await message.ack(); await nats_client.publish(message.reply, b'+ACK')",
        "message 1 of consumer 'workers' (stream ORDERS) is acknowledged a second time",
    ),
    "too late": (
        "await nats_clock.elapse(31); await message.ack()",
        "ack of message 1 of consumer 'workers' (stream ORDERS) after its ack wait (30s): it comes",
    ),
    "progress too late": (
        (
            "await nats_clock.elapse(31); await message.in_progress(); await nats_client.flush();"
            "await message.term()"
        ),
        "after its ack wait (30s)",
    ),
    "not a kind of ack": (
        "await message.ack_sync(); await nats_client.publish(message.reply, b'done')",
        "with the payload b'done', which means nothing",
    ),
    "no such message": (
        (
            "await message.ack(); await nats_client.publish("
            "'$JS.ACK.ORDERS.workers.1.9.9.1700000000000000000.0', b'')"
        ),
        "ack of message 9 of consumer 'workers' (stream ORDERS), which the stream has not got",
    ),
    "no such consumer": (
        "nats_server.faults.delete_consumer('ORDERS', 'workers'); await message.ack()",
        "ack of message 1 of consumer 'workers' (stream ORDERS), which is not there",
    ),
    "no confirmation asked for": (
        "await message.ack(); await nats_client.publish('orders.new', b'x')",
        "publish to 'orders.new', which stream ORDERS takes, asks for no confirmation (PubAck)",
    ),
    "no confirmation read": (
        "await message.ack(); await nats_client.publish('orders.new', b'x', reply='nowhere')",
        "publish to 'orders.new', which stream ORDERS takes: nobody reads its confirmation",
    ),
    "a sequence of the future": (
        f"await message.ack()\n    {PUBLISH} headers={{'Nats-Expected-Last-Sequence': '7'}})",
        "with Nats-Expected-Last-Sequence 7, and the stream has come to 1",
    ),
    "a sequence that is no number": (
        (
            f"await message.ack()\n    {PUBLISH} timeout=0.2,"
            " headers={'Nats-Expected-Last-Subject-Sequence': 'x'})"
        ),
        "with Nats-Expected-Last-Subject-Sequence: expected a number, got 'x'",
    ),
    "another stream": (
        f"await message.ack()\n    {PUBLISH} stream='INVOICES')",
        "publish to 'orders.new' expects stream INVOICES, and ORDERS takes it",
    ),
}

FAULTLESS = {
    "acknowledged": "await message.ack()",
    "refused": "await message.nak()",
    "refused for later": "await message.nak(delay=60)",
    "given up": "await message.term()",
    "in progress and then done": "await message.in_progress(); await message.ack()",
    "in time again": "await nats_clock.elapse(29); await message.ack()",
    "the ack was lost": (
        "nats_server.faults.lose_ack(); await message.ack(); await nats_client.flush();"
        "await nats_clock.elapse(31)"
    ),
    "others were faster": (
        "await message.ack()\n    orders.publish('orders.new', 'coffee')\n"
        f"    {PUBLISH} headers={{'Nats-Expected-Last-Sequence': '1'}})"
    ),
}


def source_of(bodies: list[str]) -> str:
    """Return the source of a test for each of `bodies`."""
    head, one = HEAD[: HEAD.index("async def test_it")], HEAD[HEAD.index("async def test_it") :]
    named = (one.replace("test_it", f"test_{i}") + f"    {body}\n" for i, body in enumerate(bodies))
    return head + "".join(named)


STRICT = ("-o", "asyncio_mode=auto", "--midge-strict=error")


def test_mistakes_fail_a_strict_test(tmp_path: Path, root: Path) -> None:
    source = source_of([body for body, _ in MISTAKES.values()])
    shown = run(tmp_path, root, source, *STRICT)
    for mistake, (_, bug) in MISTAKES.items():
        assert bug in shown, f"{mistake}\n{shown}"
    assert shown.count("\nclient bugs:\n") == len(MISTAKES), shown


def test_what_is_no_mistake_passes(tmp_path: Path, root: Path) -> None:
    shown = run(tmp_path, root, source_of(list(FAULTLESS.values())), *STRICT)
    assert f"{len(FAULTLESS)} passed" in shown, shown
