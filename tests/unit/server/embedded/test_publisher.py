"""Publishing within the process: checks, counts and caches."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import midge
from midge.server.embedded import publisher
from midge.testing import Capture


@pytest.fixture
async def server() -> AsyncIterator[midge.Server]:
    async with midge.Server(port=-1, max_payload=100) as running:
        yield running


def test_a_message_that_nobody_sees_is_counted(server: midge.Server) -> None:
    assert server.publish("a.b", b"12345") == 0
    assert server.publish("a.b", "ä", {"k": "v"}) == 0
    assert server.stats.in_messages == 2
    assert server.stats.in_bytes == 5 + 2 + len(b"NATS/1.0\r\nk: v\r\n\r\n")


@pytest.mark.parametrize("listens", [True, False], ids=["heard", "unheard"])
def test_what_cannot_be_is_refused_whether_anybody_hears_it_or_not(
    server: midge.Server, listens: bool
) -> None:
    if listens:
        server.subscribe(">")
    for subject in ("a.*", "a b", b"a..b", "a\r\nPUB b 0"):
        with pytest.raises(ValueError, match="subject: expected literal tokens"):
            server.publish(subject)
        with pytest.raises(ValueError, match="reply: expected literal tokens"):
            server.publish("a", reply=subject)
    with pytest.raises(ValueError, match="message: expected at most 100 bytes, got 101"):
        server.publish("a", bytes(101))
    with pytest.raises(ValueError, match="header k"):
        server.publish("a", headers={"k": "x\r\ny"})
    with pytest.raises(TypeError):
        server.publish("a", 5)  # type: ignore[arg-type]
    assert server.stats.in_messages == 0


async def test_subjects_beyond_those_remembered(server: midge.Server) -> None:
    heard = server.subscribe("n.*")
    count = publisher.SUBJECTS_MAX * 2 + 1
    for _ in range(2):
        for number in range(count):
            assert server.publish(f"n.{number}") == 1
    heard.unsubscribe()
    subjects = [message.subject async for message in heard]
    assert subjects == [f"n.{number}" for number in range(count)] * 2


async def test_text_and_bytes_are_the_same_subject(server: midge.Server) -> None:
    heard = server.subscribe(b"caf\xc3\xa9")
    assert server.publish("café", "1", reply="r") == 1
    assert server.publish("café".encode(), b"2", reply=b"r") == 1
    first, second = await heard.next(), await heard.next()
    assert (first.subject, first.reply) == (second.subject, second.reply) == ("café", "r")


def test_an_observer_sees_what_nobody_subscribed_to(server: midge.Server) -> None:
    capture = Capture()
    server.broker.watch_messages(capture)
    server.publish("a", b"x", {"k": ["1", "2"]}, "r")
    server.broker.unwatch_messages(capture)
    server.publish("a", b"y")
    (message,) = capture.messages
    assert (message.payload, message.headers, message.reply) == (b"x", {"k": ["1", "2"]}, "r")


@pytest.mark.parametrize("size", [0, 9, 10, 1023, 1024, 70_000])
async def test_every_size_comes_through(size: int) -> None:
    async with midge.Server(port=-1) as server:
        heard = server.subscribe("a")
        for headers in (None, {"k": "v"}):
            server.publish("a", b"x" * size, headers)
            message = await heard.next()
            assert message.payload == b"x" * size
            assert message.headers == ({} if headers is None else {"k": ["v"]})


async def test_mappings_apply() -> None:
    mapping = {
        "source": "old.*",
        "destinations": [{"destination": "new.$1", "weight_percent": 100}],
    }
    async with midge.Server(port=-1, mappings=[mapping]) as server:
        heard = server.subscribe("new.*")
        assert server.publish("old.a", b"1") == 1
        assert (await heard.next()).subject == "new.a"
