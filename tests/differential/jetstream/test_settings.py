"""Settings of the server bound streams and consumers as nats-server's do; both are asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.processes import Server, midge_command, nats_server_command

from .wire import Wire

Answers = list[Any]
Program = Callable[[Wire], Awaitable[Answers]]

LIMITS = """jetstream {
    store_dir: "@directory@"
    limits {
        max_ack_pending: 10, max_request_batch: 5, duplicate_window: "100s"
        batch { max_inflight_per_stream: 2, max_inflight_total: 3, max_msgs: 3, timeout: "1s" }
    }
}"""


def shown(answer: dict[str, Any], *keys: str) -> Any:
    """Return the error of an answer, or some of its configuration."""
    return answer.get("error") or {key: answer["config"].get(key) for key in keys}


async def streams(wire: Wire) -> None:
    for name, keys in {"T": {}, "U": {"storage": "memory"}}.items():
        config = {"name": name, "subjects": [f"{name}.>"], "allow_atomic": True, **keys}
        assert "error" not in await wire.api(f"STREAM.CREATE.{name}", config)


async def consumer(wire: Wire, name: str, **keys: Any) -> Any:
    config = {"durable_name": name, "ack_policy": "explicit", **keys}
    body = {"stream_name": "T", "config": config}
    answer = await wire.api(f"CONSUMER.CREATE.T.{name}", body)
    return shown(answer, "max_ack_pending", "max_batch")


async def pending_and_batches(wire: Wire) -> Answers:
    await streams(wire)
    found = [
        await consumer(wire, "a"),
        await consumer(wire, "b", max_ack_pending=11),
        await consumer(wire, "b", max_ack_pending=10),
        await consumer(wire, "b", max_ack_pending=-1),
        await consumer(wire, "c", ack_policy="none"),
        await consumer(wire, "d", ack_policy="none", max_ack_pending=12),
        await consumer(wire, "e", max_batch=6),
        await consumer(wire, "e", max_batch=5),
        await consumer(wire, "f", max_batch=-1),
        await consumer(wire, "g", deliver_subject="deliver"),
        await consumer(wire, "e", max_batch=7),
    ]
    for name, batch in (("a", 6), ("a", 5), ("e", 6)):
        body = json.dumps({"batch": batch, "no_wait": True}).encode()
        answer = await wire.request(f"$JS.API.CONSUMER.MSG.NEXT.T.{name}", body)
        found.append(answer and answer.headers)
    return found


async def windows(wire: Wire) -> Answers:
    window = 200 * 10**9
    found = []
    for keys in ({}, {"duplicate_window": window}, {"duplicate_window": window // 2}):
        config = {"name": "W", "subjects": ["w"], **keys}
        found.append(shown(await wire.api("STREAM.CREATE.W", config), "duplicate_window"))
    return found


async def publish(wire: Wire, subject: str, batch: str, sequence: int, commit: str = "") -> Any:
    lines = f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {sequence}\r\n"
    lines += f"Nats-Batch-Commit: {commit}\r\n" if commit else ""
    answer = await wire.request(subject, b"x", f"NATS/1.0\r\n{lines}\r\n".encode())
    return answer and answer.payload


async def sizes_of_batches(wire: Wire) -> Answers:
    await streams(wire)
    found = [await publish(wire, "T.1", "A", sequence) for sequence in (1, 2, 3, 4)]
    for last in (4, 5):
        for sequence in range(1, last + 1):
            commit = "eob" if sequence == last else ""
            found.append(await publish(wire, "T.1", f"B{last}", sequence, commit))
    return [*found, await publish(wire, "T.1", "C", 9)]


async def open_batches(wire: Wire) -> Answers:
    await streams(wire)
    wire.subscribe("abandoned", "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.>")
    found = [await publish(wire, "T.1", batch, 1) for batch in "BCD"]
    found += [await publish(wire, "U.1", batch, 1) for batch in "EFG"]
    found.append(await publish(wire, "T.1", "B", 2, "1"))
    found += [await publish(wire, "U.1", batch, 1) for batch in "HI"]
    abandoned: set[Any] = set()
    async with asyncio.timeout(60):
        while len(abandoned) < 3:
            await asyncio.sleep(0.05)
            for message in wire.taken("abandoned"):
                fields = json.loads(message.payload)
                abandoned.add((message.subject, fields["batch"], fields["reason"]))
    found.append(sorted(abandoned))
    found += [await publish(wire, "T.1", batch, 1) for batch in "JK"]
    return [*found, await publish(wire, "T.1", "C", 2, "1")]


FEATURES: tuple[dict[str, Any], ...] = (
    {},
    {"allow_msg_counter": True},
    {"allow_msg_ttl": True},
    {"allow_msg_schedules": True},
    {"subject_delete_marker_ttl": 3600 * 10**9},
    {"allow_msg_counter": True, "subject_delete_marker_ttl": 3600 * 10**9},
    {"deny_delete": True},
    {"deny_purge": True},
    {"deny_delete": True, "deny_purge": True, "subject_delete_marker_ttl": 10**9},
    {"allow_rollup_hdrs": True},
    {"persist_mode": "async"},
    {"allow_atomic": True},
    {"retention": "interest"},
    {"retention": "workqueue"},
    {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 1},
    {"sealed": True},
)


async def changes_of_features(wire: Wire) -> Answers:
    """Make a stream of each row, and change it to each row."""
    found = []
    for i, before in enumerate(FEATURES):
        for j, after in enumerate(FEATURES):
            name = f"F{i}_{j}"
            for verb, keys in (("CREATE", before), ("UPDATE", after)):
                config = {"name": name, "subjects": [name], **keys}
                answer = await wire.api(f"STREAM.{verb}.{name}", config)
                shown_keys = ("allow_msg_ttl", "allow_rollup_hdrs", "deny_purge", "max_age")
                found.append((before, after, verb, shown(answer, *shown_keys)))
    return found


async def answers_of(command: list[str], config: str, program: Program) -> Answers:
    server = Server(command, config)
    try:
        await asyncio.to_thread(server.wait_ready)
        wire = await Wire.connect(*server.address())
        found = await program(wire)
        await wire.close()
        return found
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.parametrize(
    "program",
    [pending_and_batches, windows, sizes_of_batches, open_batches, changes_of_features],
    ids=lambda p: p.__name__,
)
async def test_limits_of_the_server(program: Program) -> None:
    real = await answers_of(nats_server_command(), LIMITS, program)
    assert await answers_of(midge_command(), LIMITS, program) == real


async def too_many(wire: Wire) -> Answers:
    """Send more than may wait, all at once; return the forms of the answers."""
    await wire.api("STREAM.CREATE.T", {"name": "T", "subjects": ["T.>"]})
    wire.subscribe("acks", "acks.>")
    for number in range(3000):
        wire.publish(f"T.{number}", b"x" * 1000, reply=f"acks.{number}")
    kept: list[Any] = []
    async with asyncio.timeout(60):
        while len(kept) < 3000:
            await asyncio.sleep(0.01)
            kept += wire.taken("acks")
    refused = {(one.headers, one.payload) for one in kept if one.headers}
    stored = sum(not one.headers for one in kept)
    state = (await wire.api("STREAM.INFO.T"))["state"]
    return [sorted(refused), state["messages"] == stored > 0]


@pytest.mark.parametrize("bound", ["max_buffered_msgs: 5", "max_buffered_size: 20000"])
async def test_what_waits_for_the_disk_is_bounded(bound: str) -> None:
    config = f'jetstream {{ store_dir: "@directory@", {bound} }}'
    real = await answers_of(nats_server_command(), config, too_many)
    assert await answers_of(midge_command(), config, too_many) == real
    assert real[0]
