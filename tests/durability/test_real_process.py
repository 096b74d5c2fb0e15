"""Every answer of the real server is preceded by the sync that covers it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.direct_writes import can_write_direct
from tests.durability.calls import Call, read_calls
from tests.durability.judging import check_images, early
from tests.durability.preloading import preloaded
from tests.durability.publisher import Publisher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="preloading is Linux's")

_WINDOW = 50


async def publish(client: Publisher, numbers: range) -> None:
    """Publish a marker each, a window of them at a time, half of them with an id, some twice."""
    pending: set[asyncio.Future[bytes]] = set()
    for number in numbers:
        name = f"m-{number:07d}"
        headers = f"Nats-Msg-Id: {name}\r\n".encode() if number % 2 else b""
        body = b"<%b>" % name.encode() + b"x" * (number % 700)
        pending.add(client.send(f"s{number % 3}.a", body, name, headers))
        if number % 10 == 1:  # the answer to a duplicate, too, waits for the first one's sync
            pending.add(client.send(f"s{number % 3}.a", body, name + ".again", headers))
        if len(pending) >= _WINDOW:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*pending)


async def publish_alone(client: Publisher, numbers: range) -> None:
    """Publish a marker each, one at a time."""
    for number in numbers:
        name = f"m-{number:07d}"
        await client.send("s0.a", b"<%b>" % name.encode() + b"x" * (number % 700), name)


async def command(client: Publisher) -> None:
    """Ask for changes one after the other, each of which is to be on the disk when answered."""
    consumer = {"stream_name": "S0", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    asked = iter(range(1, 100))

    async def ask(subject: str, body: object) -> None:
        answer = await client.ask(f"$JS.API.{subject}", body, f"c-{next(asked):07d}")
        assert "error" not in answer, answer

    await ask("CONSUMER.CREATE.S0.C", consumer)
    await ask("STREAM.MSG.DELETE.S0", {"seq": 3})
    await ask("STREAM.PURGE.S1", {"seq": 5})
    await ask("STREAM.PURGE.S1", {"filter": "s1.*"})
    await ask("STREAM.UPDATE.S2", {"name": "S2", "subjects": ["s2.*"], "max_msgs": 100_000})
    await ask("STREAM.CREATE.T", {"name": "T", "subjects": ["t"]})
    await ask("STREAM.DELETE.T", {})
    await ask("CONSUMER.DELETE.S0.C", {})


async def exercise_alone(url: str, count: int) -> None:
    client = await Publisher.connect(url)
    config = {"name": "S0", "subjects": ["s0.*"], "storage": "file"}
    await client.ask("$JS.API.STREAM.CREATE.S0", config, "c-0009000")
    await publish_alone(client, range(count))
    await client.close()


async def exercise(url: str, count: int) -> None:
    clients = [await Publisher.connect(url) for _ in range(3)]
    for i in range(3):
        config = {"name": f"S{i}", "subjects": [f"s{i}.*"], "storage": "file"}
        await clients[0].ask(f"$JS.API.STREAM.CREATE.S{i}", config, f"c-{9000 + i:07d}")
    each = count // 3
    await asyncio.gather(
        *(publish(client, range(i * each, (i + 1) * each)) for i, client in enumerate(clients))
    )
    await command(clients[0])
    for client in clients:
        await client.close()


def logged(
    shim: Path,
    path: Path,
    count: int,
    fault: str = "0",
    work: Callable[[str, int], Coroutine[Any, Any, None]] = exercise,
) -> list[Call]:
    with preloaded(shim, path / "calls", path / "store", fault) as server:
        asyncio.run(work(server.url, count))
        server.process.kill()
        server.process.wait()
    return list(read_calls(path / "calls"))


def test_no_answer_leaves_before_its_sync(shim: Path, tmp_path: Path) -> None:
    calls = logged(shim, tmp_path, 3_000)
    acked, too_early = early(calls)
    assert acked == 3_000
    assert too_early == []
    check_images(calls, 20, 1)


def test_answers_before_the_sync_are_found(shim: Path, tmp_path: Path) -> None:
    acked, too_early = early(logged(shim, tmp_path, 300, "1"))
    assert acked == 300
    assert len(too_early) > 300


def test_messages_one_at_a_time_are_written_past_the_page_cache(
    shim: Path, tmp_path: Path, is_pure_build: bool
) -> None:
    calls = logged(shim, tmp_path, 1_500, work=exercise_alone)
    assert early(calls) == (1_500, [])
    is_direct = any(call.kind == "D" for call in calls)
    assert is_direct == (not is_pure_build and can_write_direct(tmp_path))
    check_images(calls, 20, 3)


def test_such_an_answer_before_its_sync_is_found(shim: Path, tmp_path: Path) -> None:
    acked, too_early = early(logged(shim, tmp_path, 300, "1", exercise_alone))
    assert acked == 300
    assert len(too_early) >= 300


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_thousand_images(shim: Path, tmp_path: Path) -> None:
    calls = logged(shim, tmp_path, 9_000)
    assert early(calls) == (9_000, [])
    check_images(calls, 1_000, 2)
