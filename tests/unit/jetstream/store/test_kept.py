"""A stream's memory depends on its messages, not on the removed ones."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import midge
from midge.testing import simulated_disk
from tests.support.jetstream_account import FileAccountRig

BATCH = 128
SUBJECT_BYTES = 511
"""So long that the names of those that have gone, over 64 KiB, are squeezed out once a batch."""

MESSAGES = 4096
"""Number of subjects whose consumers a stream remembers, before it drops all of them."""

WARM_UP = MESSAGES + BATCH
KEPT_MAX = 4
"""Bytes a message: a row of the index alone has 20. The consumer's changes take 1.5 until they are
64 KiB, when its state takes their place."""


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


COUNTED = [Path(midge.__file__).parent, Path(__file__).parents[3]]
"""Folders whose allocations count; compiled code allocates for the test that calls it. A thread of
the test run keeps 36 bytes for each test that is reported meanwhile, which are hundreds when other
processes run them faster."""

TRACED = [tracemalloc.Filter(True, str(folder / "*")) for folder in COUNTED]


def traced_bytes() -> int:
    """Return the memory allocated here and in midge, without the contents of the simulated disk."""
    gc.collect()
    disk = tracemalloc.Filter(False, simulated_disk.__file__)
    snapshot = tracemalloc.take_snapshot().filter_traces([*TRACED, disk])
    return sum(one.size for one in snapshot.statistics("filename"))


def work_off(rig: FileAccountRig, first: int, last: int) -> None:
    """Publish messages, each of a subject and an id of its own; have them delivered and acked."""
    consumer = rig.account.streams["A"].consumers.get(b"C")
    pull = {"batch": BATCH, "expires": 10**9}
    for number in range(first, last + 1):
        rig.exchange(f"a.{number:0{SUBJECT_BYTES}}", b"x", {"Nats-Msg-Id": str(number)})
        if number % BATCH == 0:
            rig.exchange("$JS.API.CONSUMER.MSG.NEXT.A.C", pull)
            rig.settle()
            for reply in rig.outbox.delivered:
                consumer.ack(reply, b"", b"")
            rig.outbox.delivered.clear()
            rig.clock.advance(1.0)
            rig.directory.tick()
            rig.settle()


def test_a_work_queue_keeps_nothing_of_what_has_been_acked() -> None:
    rig = FileAccountRig()
    stream = rig.create("A", storage="file", retention="workqueue", duplicate_window=2 * 10**9)
    config = {"durable_name": "C", "ack_policy": "explicit"}
    rig.api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})
    work_off(rig, 1, WARM_UP)
    before = traced_bytes()
    work_off(rig, WARM_UP + 1, WARM_UP + MESSAGES)
    after = traced_bytes()
    assert (stream.store.messages, stream.store.last_seq) == (0, WARM_UP + MESSAGES)
    assert after - before <= MESSAGES * KEPT_MAX


def test_what_others_allocate_meanwhile_does_not_count() -> None:
    text = json.dumps(list(range(1000, 2000)))
    before = traced_bytes()
    numbers = json.loads(text)
    assert len(numbers) == 1000
    assert traced_bytes() - before < 4096
