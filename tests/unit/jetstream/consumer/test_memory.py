"""What an idle consumer takes: ten thousand of them must not matter."""

from __future__ import annotations

import gc
import tracemalloc

from midge.jetstream.consumer import stored_state
from tests.support.consumer_rig import Rig

COUNT = 300
IN_MEMORY_BYTES = 1_800
"""Measured: 1,660, of which 100 are the rig's; names, filter and configuration included."""

STORED_BYTES = 160
"""Measured: 133, with names of 11 and filters of 12 characters; a file store has it in memory."""


def make(rig: Rig, prefix: str) -> None:
    for number in range(COUNT):
        rig.create(f"{prefix}{number:05d}", filter_subject=f"a.1.{prefix}.{number:05d}")


def test_an_idle_consumer_takes_little_memory(is_pure_build: bool) -> None:
    rig = Rig()
    make(rig, "first")
    gc.collect()
    tracemalloc.start()
    try:
        make(rig, "worker")
        gc.collect()
        taken_bytes = tracemalloc.get_traced_memory()[0] / COUNT
    finally:
        tracemalloc.stop()
    # Interpreted, a consumer is a dictionary of attributes.
    assert taken_bytes < (5_000 if is_pure_build else IN_MEMORY_BYTES)


def test_little_is_stored_of_a_consumer_that_is_as_most_are() -> None:
    rig = Rig()
    consumer = rig.create(
        "worker00001",
        filter_subject="idle.1.00001",
        metadata={"_nats.req.level": "0"},
    )
    assert len(stored_state.snapshot(consumer.acks)) < STORED_BYTES


def test_what_is_not_usual_is_stored() -> None:
    rig = Rig()
    for number, keys in enumerate(
        (
            {"ack_policy": "none", "deliver_policy": "new", "max_deliver": 3},
            {"metadata": {"a": "b"}, "max_ack_pending": 5, "backoff_ns": [1, 2], "ack_wait_ns": 1},
            {"is_durable": False, "max_waiting": 7, "inactive_threshold_ns": 10**9},
            {"deliver_subject": "push.here"},
        )
    ):
        consumer = rig.create(f"C{number}", **keys)
        assert (
            stored_state.restore(stored_state.snapshot(consumer.acks), ()).config == consumer.config
        )


def test_a_state_that_was_stored_before_anything_was_left_out() -> None:
    config = (
        b'{"durable_name":"C","deliver_policy":"all","ack_policy":"none","replay_policy":"instant"}'
    )
    head = b'{"config":%b,"created":5}' % config
    restored = stored_state.restore(len(head).to_bytes(4, "little") + head + bytes(14 * 8), ())
    assert (restored.config.ack_policy, restored.config.name) == ("none", "")
    assert (restored.config.max_waiting, restored.config.ack_wait_ns) == (0, 0)
