"""The largest and smallest numbers in each field of a request, on nats-server and on midge."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.processes import midge_command, nats_server_command

from .test_settings import Answers, Program, answers_of, shown
from .wire import Wire

MOST = (1 << 63) - 1
NUMBERS = (MOST, MOST - 1, -MOST - 1, 1 << 62, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 64, 10**30)
NOTHING_ELSE = 'jetstream { store_dir: "@directory@" }'

STREAM_KEYS = (
    *("max_consumers", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "max_msg_size"),
    *("duplicate_window", "num_replicas", "first_seq", "subject_delete_marker_ttl"),
)
CONSUMER_KEYS = (
    *("opt_start_seq", "ack_wait", "max_deliver", "rate_limit_bps", "max_waiting", "max_batch"),
    *("max_ack_pending", "idle_heartbeat", "max_expires", "max_bytes", "inactive_threshold"),
    *("num_replicas", "priority_timeout"),
)
PULL_KEYS = ("batch", "expires", "max_bytes", "idle_heartbeat", "min_pending", "min_ack_pending")
NEEDED: dict[str, dict[str, Any]] = {
    "opt_start_seq": {"deliver_policy": "by_start_sequence"},
    "priority_timeout": {"priority_policy": "pinned_client", "priority_groups": ["g"]},
}
COUNTS = ("num_ack_pending", "num_redelivered", "num_pending", "num_waiting")
MEANT_OF_PULLS = (
    ("idle_heartbeat", MOST),  # nats-server doubles the number, of which -2 is left
    ("idle_heartbeat", MOST - 1),
    ("idle_heartbeat", 1 << 62),
    ("batch", -MOST - 1),  # it counts down to the largest number
)


async def pull(wire: Wire, consumer: str, body: bytes, count: int) -> Any:
    """Return the first `count` messages or statuses that a pull request gets."""
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}", body, reply=f"pulled.{consumer}")
    got: list[Any] = []
    async with asyncio.timeout(10):
        while len(got) < count:
            await asyncio.sleep(0.002)
            got += [(one.headers, one.payload) for one in wire.taken("pulled")]
    return got


async def in_streams(wire: Wire) -> Answers:
    found = []
    for key in STREAM_KEYS:
        for number in NUMBERS:
            config = {"name": "S", "subjects": ["s"], "storage": "memory", key: number}
            answer = await wire.api("STREAM.CREATE.S", config)
            found.append((key, number, shown(answer, key)))
            if "error" not in answer:
                stored = await wire.request("s", b"x")
                found.append(stored and (stored.headers, stored.payload))
            await wire.api("STREAM.DELETE.S", {})
    return found


async def in_consumers(wire: Wire) -> Answers:
    """Three messages are pulled; none is redelivered so soon."""
    await wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    wire.subscribe("pulled", "pulled.*")
    for _ in range(3):
        await wire.request("s", b"x")
    found = []
    for key in CONSUMER_KEYS:
        for number in NUMBERS:
            for more in ({}, {"deliver_subject": "deliver"}):
                name = f"C{len(found)}"
                config = {"name": name, "ack_policy": "explicit", **more}
                config |= {"inactive_threshold": 10**11, **NEEDED.get(key, {}), key: number}
                body = {"stream_name": "S", "config": config}
                answer = await wire.api(f"CONSUMER.CREATE.S.{name}", body)
                found.append((key, number, shown(answer, key)))
                if "error" not in answer and not more and key not in NEEDED:
                    found.append(await pull(wire, name, b"3", 3))
                    info = await wire.api(f"CONSUMER.INFO.S.{name}", {})
                    found.append([info[one] for one in COUNTS])
                await wire.api(f"CONSUMER.DELETE.S.{name}", {})
    return found


async def in_pull_requests(wire: Wire) -> Answers:
    await wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    wire.subscribe("pulled", "pulled.*")
    await wire.request("s", b"x")
    found = []
    for key in PULL_KEYS:
        for number in NUMBERS:
            if (key, number) in MEANT_OF_PULLS:
                continue
            name = f"P{len(found)}"
            config = {"name": name, "ack_policy": "none"}
            await wire.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
            body = json.dumps({"batch": 1, "no_wait": True, key: number}).encode()
            found.append((key, number, await pull(wire, name, body, 1)))
    return found


async def in_pauses(wire: Wire) -> Answers:
    await wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    found = []
    for until in ("9999-12-31T23:59:59Z", "0001-01-01T00:00:01Z"):
        config = {"name": "C", "ack_policy": "none", "pause_until": until}
        made = await wire.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        paused = await wire.api("CONSUMER.PAUSE.S.C", {"pause_until": until})
        info = await wire.api("CONSUMER.INFO.S.C", {})
        found += [answer.get("pause_remaining") for answer in (made, paused, info)]
        await wire.api("CONSUMER.DELETE.S.C", {})
    return found


@pytest.mark.parametrize(
    "program", [in_streams, in_consumers, in_pull_requests, in_pauses], ids=lambda p: p.__name__
)
async def test_extreme_numbers(program: Program) -> None:
    real = await answers_of(nats_server_command(), NOTHING_ELSE, program)
    assert await answers_of(midge_command(), NOTHING_ELSE, program) == real
