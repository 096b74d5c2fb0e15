"""Captures of messages and deliveries, and the texts of their assertions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

import midge
from midge.testing import Capture, Captured, SettlingClient
from midge.testing.tracing import TraceKeeper


class Scene(NamedTuple):
    server: midge.Server
    client: SettlingClient
    capture: Capture


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A client called till, on a server that is captured."""
    async with midge.Server(port=-1) as server:
        keeper, capture = TraceKeeper(), Capture()
        keeper.watch(server)
        keeper.attach(capture)
        client = await SettlingClient.connected(server.url, name="till")
        yield Scene(server, client, capture)
        await client.close()
        keeper.detach(capture)
        server.publish("after")
        assert "after" not in [message.subject for message in capture.messages]


def complaint(capture: Capture, pattern: str, **wanted: object) -> str:
    """Return what an assertion says that does not hold."""
    with pytest.raises(AssertionError) as raised:
        capture.assert_published(pattern, **{"timeout_s": 0, **wanted})  # type: ignore[arg-type]
    return str(raised.value)


async def test_published_messages_and_who_took_them(scene: Scene) -> None:
    scene.server.subscribe("a.>")
    await scene.client.publish("a.b", b"1", reply="r", headers={"k": "v"})
    await scene.client.flush()
    scene.server.publish("x", b"\xff")
    first, second = scene.capture.messages
    assert (first.subject, first.text, first.headers, first.reply) == (
        "a.b",
        "1",
        {"k": ["v"]},
        "r",
    )
    assert (first.client, first.deliveries) == ("till", 1)
    assert (second.text, second.client, second.deliveries) == ("\\xff", "", 0)
    assert scene.capture.assert_published("a.*", payload="1", headers={"k": "v"}) == [first]
    scene.capture.assert_nothing_published("b.>")
    scene.capture.clear()
    scene.capture.assert_nothing_published()


async def test_deliveries_are_told_apart_by_client(scene: Scene) -> None:
    desk = await SettlingClient.connected(scene.server.url, name="desk")
    for client in (desk, scene.client):
        await client.subscribe("a.*")
        await client.flush()
    await scene.client.publish("a.b", b"1")
    await scene.client.flush()
    scene.capture.assert_delivered("a.b", count=2, payload=b"1")
    (message,) = scene.capture.assert_delivered("a.*", to="desk", count=1)
    assert message in scene.capture.delivered
    scene.capture.assert_nothing_delivered(to="nobody")
    with pytest.raises(AssertionError) as raised:
        scene.capture.assert_delivered("a.b", to="shop", timeout_s=0)
    assert str(raised.value).splitlines() == [
        "expected at least 1 message delivered on 'a.b' to client 'shop', got none",
        "delivered (2 in all; = as expected, ~ only the subject is):",
        *(f"  ~ a.b  b'1'  to {name}" for name in [one.client for one in scene.capture.delivered]),
    ]
    await desk.close()


async def test_what_faults_do_to_deliveries_is_captured(scene: Scene) -> None:
    await scene.client.subscribe("a.*")
    await scene.client.flush()
    with scene.server.faults.duplicate(to="till", copies=3), scene.server.faults.drop("a.lost"):
        scene.server.publish("a.b")
        scene.server.publish("a.lost")
    scene.capture.assert_delivered("a.b", to="till", count=3)
    scene.capture.assert_nothing_delivered("a.lost")


async def test_a_failure_shows_what_there_was_and_the_nearest(scene: Scene) -> None:
    created, wanted = (f'{{"number": {number}, "item": "tea"}}' for number in (1, 2))
    scene.server.publish("orders.created", created, {"k": "v"})
    scene.server.publish("orders.paid", "nothing like it")
    scene.server.publish("stock", "1", reply="answer")
    said = complaint(scene.capture, "orders.*", count=1, payload=wanted)
    assert said.splitlines() == [
        f"expected 1 message published on 'orders.*' with payload b'{wanted}', got none",
        "published (3 in all; = as expected, ~ only the subject is):",
        f"  ~ orders.created  b'{created}'  headers {{'k': ['v']}}  taken by nobody",
        "  ~ orders.paid  b'nothing like it'  taken by nobody",
        "    stock  b'1'  reply answer  taken by nobody",
        "the nearest, on 'orders.created' (- expected, + got):",
        "      {",
        '    -   "number": 2,',
        "    ?             ^",
        '    +   "number": 1,',
        "    ?             ^",
        '        "item": "tea"',
        "      }",
    ]


async def test_a_failure_counts_what_is_as_expected(scene: Scene) -> None:
    for _ in range(30):
        scene.server.publish("a", "1")
    said = complaint(scene.capture, "a", count=2, payload="1")
    assert "expected 2 messages published on 'a' with payload b'1', got 30" in said
    assert "\n    … 10 before\n  = a  b'1'  taken by nobody\n" in said
    assert "nearest" not in said
    assert "expected no message published on 'a', got 30" in complaint(scene.capture, "a", count=0)


@pytest.mark.parametrize(
    ("published", "wanted", "difference"),
    [
        (b"\xff\x00", b"\xff\x01", ["- b'\\xff\\x01'", "+ b'\\xff\\x00'"]),
        (b'{"a":1}', b'{"a": 1}', ["""- b'{"a": 1}'""", """+ b'{"a":1}'"""]),
        (b"one\ntwo", b"one\n2", ["  one", "- 2", "+ two"]),
        (b"1", b"2", ["- 2", "+ 1"]),
    ],
    ids=["bytes", "same JSON", "lines", "number"],
)
async def test_the_difference_suits_the_payload(
    scene: Scene, published: bytes, wanted: bytes, difference: list[str]
) -> None:
    scene.server.publish("a", published)
    shown = complaint(scene.capture, "a", payload=wanted).partition("(- expected, + got):\n")[2]
    kept = [line[4:] for line in shown.splitlines() if not line.startswith("    ?")]
    assert kept == difference


async def test_other_headers_and_long_payloads(scene: Scene) -> None:
    scene.server.publish("a", "x" * 100, {"k": "v"})
    said = complaint(scene.capture, "a", headers={"k": ["w"]})
    assert "expected at least 1 message published on 'a' with headers {'k': ['w']}" in said
    assert "xxx' and 20 bytes more  headers {'k': ['v']}" in said
    assert "nearest" not in said


ORDER = {"number": 1, "item": "tea"}


async def test_json_is_compared_as_json(scene: Scene) -> None:
    scene.server.publish("a", '{"item":"tea","number":1}')
    scene.server.publish("a", "null")
    scene.server.publish("a", b"\xff")
    (message,) = scene.capture.assert_published("a", json=ORDER, count=1)
    assert message.json == ORDER
    scene.capture.assert_published("a", json=None, count=1)
    said = complaint(scene.capture, "a", json=ORDER | {"number": 2})
    assert """on 'a' with JSON {"number": 2, "item": "tea"}, got none""" in said
    assert '-   "number": 2' in said
    assert '+   "number": 1' in said


async def test_a_predicate_decides(scene: Scene) -> None:
    def is_small(message: Captured) -> bool:
        return len(message.payload) < 2

    for payload in ("1", "22", "3"):
        scene.server.publish("a", payload)
    found = scene.capture.assert_published("a", where=is_small, count=2)
    assert [message.text for message in found] == ["1", "3"]
    said = complaint(scene.capture, "a", where=is_small, count=1)
    assert "expected 1 message published on 'a' where is_small, got 2" in said


def later(server: midge.Server, *subjects: str) -> None:
    """Publish in a later turn of the loop, one at a time."""
    loop = asyncio.get_running_loop()
    for turn, subject in enumerate(subjects, 1):
        loop.call_later(turn * 0.01, server.publish, subject, str(turn))


async def test_a_coroutine_waits_for_what_is_on_its_way(scene: Scene) -> None:
    later(scene.server, "a", "b", "a")
    first, *_ = await scene.capture.wait_published("a", timeout_s=60)
    assert first.text == "1"
    await scene.capture.wait_published("a", count=2, timeout_s=60)
    await scene.client.subscribe("a")
    await scene.client.flush()
    later(scene.server, "a")
    await scene.capture.wait_delivered("a", to="till", count=1, timeout_s=60)
    with pytest.raises(AssertionError, match="expected at least 1 message published on 'c'"):
        await scene.capture.wait_published("c", timeout_s=0.01)


async def test_one_too_many_is_noticed_while_it_is_quiet(scene: Scene) -> None:
    later(scene.server, "a", "b", "a")
    with pytest.raises(AssertionError) as raised:
        await scene.capture.wait_published("a", count=1, timeout_s=5, quiet_s=5)
    assert "expected 1 message published on 'a' and no more within 5 s, got 2" in str(raised.value)
    found = await scene.capture.wait_published("a", count=2, quiet_s=0.02)
    assert len(found) == 2
    await scene.capture.wait_nothing_published("c", quiet_s=0.01)
    await scene.capture.wait_nothing_delivered(quiet_s=0)
    later(scene.server, "c")
    with pytest.raises(AssertionError, match="expected no message published on 'c'"):
        await scene.capture.wait_nothing_published("c", quiet_s=5)


async def test_blocking_where_a_loop_runs_is_told_at_once(scene: Scene) -> None:
    scene.server.publish("a")
    hint = "use: await nats_capture.wait_published(…)"
    for wanted in ({"count": 2}, {"payload": "x"}, {"count": 1, "quiet_s": 600.0}):
        begun_s = time.monotonic()
        said = complaint(scene.capture, "a", **{"timeout_s": 600.0, **wanted})
        assert said.endswith(hint)
        assert time.monotonic() - begun_s < 60
    # What cannot be mended by waiting is not blamed on that.
    assert hint not in complaint(scene.capture, "a", count=0, timeout_s=600.0)
    with pytest.raises(AssertionError, match=r"use: await .*wait_nothing_published"):
        scene.capture.assert_nothing_published("b", quiet_s=600.0)
    scene.capture.assert_published("a", count=1)


def test_a_thread_waits_as_long_as_it_is_quiet() -> None:
    with midge.run_in_thread(port=-1) as server:
        keeper, capture = TraceKeeper(), Capture()
        server.call(keeper.watch)
        server.call(lambda _: keeper.attach(capture))
        server.publish("a")
        capture.assert_published("a", count=1, quiet_s=0.01)
        server.call(lambda inner: later(inner, "a"))
        with pytest.raises(AssertionError, match="and no more within 30 s, got 2"):
            capture.assert_published("a", count=1, quiet_s=30)


async def test_a_coroutine_waits_for_a_server_in_another_thread() -> None:
    with midge.run_in_thread(port=-1) as server:
        keeper, capture = TraceKeeper(), Capture()
        server.call(keeper.watch)
        server.call(lambda _: keeper.attach(capture))
        server.call(lambda inner: later(inner, "a", "a"))
        await capture.wait_published("a", count=2, timeout_s=30)


def test_keywords_without_meaning_are_named() -> None:
    with pytest.raises(ValueError, match="quiet_s: needs a count"):
        Capture().assert_published("a", quiet_s=1.0)
    with pytest.raises(TypeError, match="'playload'"):
        Capture().assert_published("a", playload="x")  # type: ignore[call-arg]


def test_nothing_at_all_and_patterns_that_cannot_be() -> None:
    assert complaint(Capture(), ">").endswith("got none\nnothing was published")
    with pytest.raises(ValueError, match="pattern"):
        Capture().assert_published("a..b")
