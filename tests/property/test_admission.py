"""Whatever a restore has accepted, the API would have accepted."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from midge.jetstream.archive.entries import CONSUMERS, ArchiveEntry
from tests.support.commands import Reading, publish
from tests.support.jetstream_account import AccountRig
from tests.unit.jetstream.archive.test_transfers import Rig, archive, state_entry

NAMES = st.one_of(
    st.sampled_from(["C", "D", "", "a b", "a.b", "a\r\nb", "\x00sources", "é", "*", "x" * 256]),
    st.text(max_size=6),
)
SUBJECTS = st.one_of(
    st.sampled_from(
        ["s.a", "s.>", "s.*", ">", "", "s..a", "s.a b", "s.\t", "s.\x01", "x\r\nPUB y 0"]
    ),
    st.text("s.a*> \r\n\t\x00é", max_size=8),
)
NUMBERS = st.sampled_from([-2, -1, 0, 1, 5, 100_000_000, 1_000_000_000, 2**31, 2**63 - 1])


def some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


STREAMS = some(
    subjects=st.lists(SUBJECTS, max_size=2),
    retention=st.sampled_from(["limits", "workqueue", "interest"]),
    max_msg_size=NUMBERS,
    max_msgs_per_subject=NUMBERS,
    republish=st.fixed_dictionaries({"src": SUBJECTS, "dest": SUBJECTS}),
    subject_transform=st.fixed_dictionaries({"src": SUBJECTS, "dest": SUBJECTS}),
    mirror=st.fixed_dictionaries({"name": NAMES, "filter_subject": SUBJECTS}),
    consumer_limits=some(max_ack_pending=NUMBERS, inactive_threshold=NUMBERS),
    description=NAMES,
)
CONSUMERS_GIVEN = some(
    durable_name=NAMES,
    name=NAMES,
    deliver_subject=SUBJECTS,
    deliver_policy=st.sampled_from(["all", "last", "new", "by_start_sequence", "last_per_subject"]),
    opt_start_seq=st.sampled_from([0, 1, 7]),
    ack_policy=st.sampled_from(["none", "all", "explicit"]),
    ack_wait=NUMBERS,
    backoff=st.lists(NUMBERS, max_size=2),
    filter_subject=SUBJECTS,
    filter_subjects=st.lists(SUBJECTS, max_size=2),
    sample_freq=NAMES,
    max_waiting=NUMBERS,
    max_ack_pending=NUMBERS,
    flow_control=st.booleans(),
    idle_heartbeat=NUMBERS,
    max_deliver=NUMBERS,
    inactive_threshold=NUMBERS,
    num_replicas=st.sampled_from([0, 1, 2]),
    priority_policy=st.sampled_from(["none", "overflow", "pinned_client"]),
    priority_groups=st.lists(NAMES, max_size=2),
    metadata=st.dictionaries(NAMES, NAMES, max_size=1),
)
BLOCKS = st.sampled_from([b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"x"])


def published(subject: bytes, block: bytes) -> list[Any]:
    """Return what the parser of a client's connection makes of a publish."""
    line = b"HPUB %b %d %d\r\n%b\r\n" % (subject, len(block), len(block), block)
    return Reading().feed(line if block else b"PUB %b 0\r\n\r\n" % subject).commands


@settings(max_examples=300)
@given(
    config=STREAMS,
    called=NAMES,
    consumer=CONSUMERS_GIVEN,
    subject=SUBJECTS,
    block=BLOCKS,
    has_consumer=st.booleans(),
)
def test_what_a_restore_accepted_the_api_accepts(
    config: dict[str, Any],
    called: str,
    consumer: dict[str, Any],
    subject: str,
    block: bytes,
    has_consumer: bool,
) -> None:
    rig = Rig()
    body = {"config": {"name": "S", "storage": "memory", **config}, "state": {}}
    answer = rig.api("STREAM.RESTORE.S", body)
    if "error" in answer:
        return
    nowhere = {"consumer_seq": 0, "stream_seq": 0}
    described = {"config": consumer, "state": {"delivered": nowhere, "ack_floor": nowhere}}
    name = called.encode("utf-8", "surrogatepass")
    parts = [state_entry(first_seq=1, last_seq=1, consumer_count=int(has_consumer))]
    if has_consumer:
        parts.append(ArchiveEntry(CONSUMERS + name, 0, 0, b"", json.dumps(described).encode()))
    raw = subject.encode()
    parts.append(ArchiveEntry(raw, 1, 1, block, b""))
    to = answer["deliver_subject"].encode()
    for piece in (archive(*parts), b""):
        rig.account.transfers.take(to, b"_INBOX.r", piece)
        rig.work()
    if "S" not in rig.account.streams:
        return
    other = AccountRig()
    made = other.api("STREAM.CREATE.S", body["config"])
    assert "error" not in made, made
    assert published(raw, block) == [publish(raw, b"", None, block or None)]
    if has_consumer:
        name_asked = consumer.get("durable_name") or called
        kind = "DURABLE.CREATE.S" if consumer.get("durable_name") else "CREATE.S"
        asked = {"stream_name": "S", "config": {**consumer, "name": name_asked}}
        made = other.api(f"CONSUMER.{kind}.{name_asked}", asked)
        assert "error" not in made, made
