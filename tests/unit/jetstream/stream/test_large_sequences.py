"""Sequences end at 2^63 - 1; beyond that nothing is set, searched or listed without end."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from midge.jetstream.archive.entries import ArchiveEntry
from midge.jetstream.config.names import SEQ_MAX
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.stream import admission, details
from tests.support.jetstream_account import AccountRig, FileAccountRig
from tests.unit.jetstream.archive.test_transfers import Rig, archive, state_entry
from tests.unit.jetstream.stream.test_admission import consumer_entry, recovered, refusal

BEYOND = [SEQ_MAX + 1, 2**64 - 2, 2**64 - 1]
EDGES = [SEQ_MAX - 1, SEQ_MAX, *BEYOND]


def code(answer: dict[str, Any]) -> int:
    return int(answer.get("error", {}).get("err_code", 0))


@pytest.mark.parametrize("seq", BEYOND)
def test_no_request_sets_such_a_sequence(seq: int) -> None:
    rig = AccountRig()
    rig.create()
    assert code(rig.api("STREAM.CREATE.B", {"name": "B", "first_seq": seq})) == 10052
    assert code(rig.api("STREAM.PURGE.A", {"seq": seq})) == 10003
    source = {"name": "A", "opt_start_seq": seq}
    assert code(rig.api("STREAM.CREATE.B", {"name": "B", "mirror": source})) == 10052
    assert code(rig.api("STREAM.CREATE.B", {"name": "B", "sources": [source]})) == 10052
    config = {"name": "C", "deliver_policy": "by_start_sequence", "opt_start_seq": seq}
    asked = {"stream_name": "A", "config": {**config, "ack_policy": "explicit"}}
    assert code(rig.api("CONSUMER.CREATE.A.C", asked)) == 10094
    del asked["config"]["deliver_policy"], asked["config"]["opt_start_seq"]
    assert code(rig.api("CONSUMER.CREATE.A.C", asked)) == 0
    assert code(rig.api("CONSUMER.RESET.A.C", {"seq": seq})) == 10204
    assert rig.account.streams["A"].store.last_seq == 0


@pytest.mark.parametrize(
    "make", [MemoryStore, lambda: FileAccountRig().directory.create_stream(b"$G", b"A", b"")]
)
def test_the_last_sequence_can_be_used_and_none_after_it(make: Any) -> None:
    store = make()
    store.skip_to(SEQ_MAX - 1)
    for seq in BEYOND:
        with pytest.raises(StoreError, match="sequence"):
            store.append(b"a", b"", b"", 1, seq)
        with pytest.raises(StoreError, match="sequence"):
            store.skip_to(seq)
    assert store.append(b"a", b"", b"", 1) == SEQ_MAX
    for _ in range(2):
        with pytest.raises(StoreError, match="sequence"):
            store.append(b"a", b"", b"", 1)
    assert (store.messages, store.last_seq) == (1, SEQ_MAX)


def test_a_publisher_gets_an_error_once_all_sequences_are_used() -> None:
    rig = AccountRig()
    rig.create(first_seq=SEQ_MAX)
    assert rig.publish("a.1")["seq"] == SEQ_MAX
    for _ in range(2):
        assert rig.publish("a.1")["error"]["err_code"] == 10077
        rig.exchange("a.1", b"", reply="")
    assert rig.api("STREAM.INFO.A")["state"]["last_seq"] == SEQ_MAX


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("STREAM.MSG.GET.A", {"seq": 0}),
    ("STREAM.MSG.GET.A", {"seq": 0, "next_by_subj": "a.>"}),
    ("STREAM.MSG.GET.A", {"seq": 0, "next_by_subj": "a.1"}),
    ("STREAM.MSG.DELETE.A", {"seq": 0}),
    ("STREAM.PURGE.A", {"seq": 0, "filter": "a.*"}),
    ("STREAM.PURGE.A", {"seq": 0, "filter": "a.1"}),
    ("STREAM.PURGE.A", {"keep": 0}),
    ("STREAM.PURGE.A", {"keep": 0, "filter": "a.*"}),
    ("DIRECT.GET.A", {"seq": 0}),
    ("DIRECT.GET.A", {"seq": 0, "next_by_subj": "a.>"}),
    ("DIRECT.GET.A", {"seq": 0, "batch": 2}),
    ("DIRECT.GET.A", {"seq": 0, "batch": 2, "next_by_subj": "a.*"}),
    ("DIRECT.GET.A", {"multi_last": ["a.>"], "up_to_seq": 0}),
    ("DIRECT.GET.A", {"multi_last": ["a.>"], "seq": 0, "batch": 2}),
    ("CONSUMER.RESET.A.C", {"seq": 0}),
    ("STREAM.SNAPSHOT.A", {"deliver_subject": "_INBOX.to", "chunk_size": 0}),
    ("STREAM.SNAPSHOT.A", {"deliver_subject": "_INBOX.to", "window_size": 0}),
]


@pytest.mark.parametrize("first", [1, SEQ_MAX - 2])
@pytest.mark.parametrize(("subject", "body"), REQUESTS)
def test_every_request_with_a_large_number_is_answered(
    first: int, subject: str, body: dict[str, Any]
) -> None:
    (varied,) = [name for name, value in body.items() if value == 0]
    for seq in EDGES:
        rig = AccountRig()
        rig.create(first_seq=first, allow_direct=True)
        for number in range(3):
            rig.publish(f"a.{number}")
        config = {"name": "C", "ack_policy": "explicit"}
        assert code(rig.api("CONSUMER.CREATE.A.C", {"stream_name": "A", "config": config})) == 0
        sent = rig.exchange(f"$JS.API.{subject}", {**body, varied: seq})
        rig.clock.advance(0.1)
        assert [one for one in sent if one[0] == "_INBOX.1"], (subject, seq)
        assert rig.api("STREAM.INFO.A", {"deleted_details": True})["state"]["last_seq"] <= SEQ_MAX


@pytest.mark.parametrize("name", ["Last-Sequence", "Last-Subject-Sequence"])
@pytest.mark.parametrize("digits", [*map(str, EDGES), str(10**30), "2" * 5000])
def test_an_expectation_of_a_large_sequence_is_refused(name: str, digits: str) -> None:
    rig = AccountRig()
    rig.create()
    rig.publish("a.1")
    error = rig.publish("a.1", b"", {f"Nats-Expected-{name}": digits})["error"]
    assert error["err_code"] == 10071


@pytest.mark.parametrize("seq", BEYOND)
@pytest.mark.parametrize("key", ["first_seq", "last_seq"])
def test_an_archive_with_such_a_state_is_refused(seq: int, key: str) -> None:
    rig = Rig()
    state = {"first_seq": 1, "last_seq": 1, "consumer_count": 0, key: seq}
    (answer,) = rig.restore("S", archive(state_entry(**state)))
    assert code(answer) == 10062
    assert not rig.account.streams


@pytest.mark.parametrize("seq", BEYOND)
def test_an_archive_with_such_a_message_is_refused(seq: int) -> None:
    assert "sequence" in refusal(Rig(), ArchiveEntry(b"s", 1, seq, b"", b""))


@pytest.mark.parametrize("seq", BEYOND)
@pytest.mark.parametrize(
    "place",
    [("delivered", "stream_seq"), ("delivered", "consumer_seq"), ("ack_floor", "stream_seq")],
)
def test_an_archive_with_such_a_consumer_is_refused(seq: int, place: tuple[str, str]) -> None:
    entry = consumer_entry()
    body = json.loads(entry.payload)
    body["state"][place[0]] = {"consumer_seq": 0, "stream_seq": 0, place[1]: seq}
    changed = entry._replace(payload=json.dumps(body).encode())
    assert "consumer" in refusal(Rig(), changed, consumers=1)
    body = json.loads(entry.payload)
    for key, value in (("pending", {"Sequence": 1, "Timestamp": 1}), ("redelivered", 1)):
        body["state"][key] = {str(seq): value}
        changed = entry._replace(payload=json.dumps(body).encode())
        assert "consumer" in refusal(Rig(), changed, consumers=1)


def test_a_store_beyond_the_last_sequence_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = FileAccountRig()
    rig.create("A", storage="file", first_seq=1000)
    assert not recovered(rig).reasons
    monkeypatch.setattr(admission, "SEQ_MAX", 998)
    assert set(recovered(rig).reasons) == {"A"}


def gapped(monkeypatch: pytest.MonkeyPatch, *, most: int = 1000, piece: int = 50) -> AccountRig:
    monkeypatch.setattr(details, "SEQUENCES_MAX", most)
    monkeypatch.setattr(details, "PIECE_SEQUENCES", piece)
    rig = AccountRig()
    store = rig.create().store
    for seq in (5, 10, 10**12, 10**12 + 1, 10**15):
        store.append(b"a.x", b"", b"", 1, seq)
    return rig


def listed(rig: AccountRig, **body: Any) -> dict[str, Any]:
    sent = rig.exchange("$JS.API.STREAM.INFO.A", {"deleted_details": True, **body})
    while not sent:
        rig.clock.advance(0.001)
        sent = rig.outbox.sent
    return dict(json.loads(sent[0][2]))


def test_the_list_of_a_large_gap_has_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = gapped(monkeypatch)
    state = listed(rig)["state"]
    assert state["num_deleted"] == 10**15 - 5 + 1 - 5
    assert state["deleted"] == [6, 7, 8, 9, *range(11, 1007)]
    after = 10**12 + 2
    gone = [*range(6, 10), *range(11, 2020)]
    for offset in (0, 1, 4, 500, 1000):
        assert listed(rig, offset=offset)["state"]["deleted"] == gone[offset : offset + 1000]
    far = listed(rig, offset=10**12 - 7)["state"]["deleted"]
    assert far == [10**12 - 1, *range(after, after + 999)][-1000:] or far[-1] >= after
    end = listed(rig, offset=state["num_deleted"] - 3)["state"]["deleted"]
    assert end == [10**15 - 3, 10**15 - 2, 10**15 - 1]
    assert "deleted" not in listed(rig, offset=state["num_deleted"])["state"]
    assert "deleted" not in listed(rig, offset=2**63 - 1)["state"]


def test_many_small_gaps_are_passed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = gapped(monkeypatch, most=10, piece=20)
    rig.api("STREAM.DELETE.A")
    store = rig.create().store
    for seq in range(2, 2000, 2):
        store.append(b"a.x", b"", b"", 1, seq)
    assert not rig.exchange("$JS.API.STREAM.INFO.A", {"deleted_details": True, "offset": 900})
    assert listed(rig, offset=900)["state"]["deleted"] == list(range(1803, 1823, 2))


def test_lists_end_when_their_requester_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = gapped(monkeypatch, most=10**9)
    looked = itertools.count()
    gap = details._gap

    def counted(*given: Any) -> Any:
        next(looked)
        return gap(*given)

    monkeypatch.setattr(details, "_gap", counted)
    rig.exchange("$JS.API.STREAM.INFO.A", {"deleted_details": True}, reply="gone.1")
    for _ in range(20):
        rig.clock.advance(0.001)
    assert not rig.outbox.sent
    assert next(looked) < 5
