"""Captures of what is published and delivered, and what their assertions say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

import midge
from midge.testing import Capture, SettlingClient
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
        keeper.attach(capture, server)
        client = await SettlingClient.connected(server.url, name="till")
        yield Scene(server, client, capture)
        await client.close()
        keeper.detach(capture, server)
        server.publish("after")
        assert "after" not in [message.subject for message in capture.messages]


def complaint(capture: Capture, pattern: str, **wanted: object) -> str:
    """Return what an assertion says that does not hold."""
    with pytest.raises(AssertionError) as raised:
        capture.assert_published(pattern, timeout_s=0, **wanted)  # type: ignore[arg-type]
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


def test_nothing_at_all_and_patterns_that_cannot_be() -> None:
    assert complaint(Capture(), ">").endswith("got none\nnothing was published")
    with pytest.raises(ValueError, match="pattern"):
        Capture().assert_published("a..b")
