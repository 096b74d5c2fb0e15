"""Nothing enters a store, or leaves it, that would become a line of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midge.jetstream.archive.entries import CONSUMERS, ArchiveEntry
from midge.jetstream.consumer.ack_subject import AckSubject
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.memory_store import MemoryStore
from midge.jetstream.store.store import Store
from midge.jetstream.stream import admission
from midge.protocol.errors import UnsendableError
from midge.protocol.frame import Frame, compose
from midge.server.internal.internal_publisher import InternalPublisher
from midge.server.jetstream.account_sink import AccountSink, Interest
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.routing.router import Router
from midge.server.routing.subscription import RoutedSubscription
from tests.support.jetstream_account import AccountRig, FileAccountRig
from tests.support.transports import Transport
from tests.unit.jetstream.archive.test_tar_restore import OF_2_14, files_of, packed
from tests.unit.jetstream.archive.test_transfers import Rig, archive, state_entry

ENDS = ["a b", "a\tb", "a\rb", "a\nb", "a 0\r\n\r\nMSG x 1 0\r\n"]
NOWHERE = {"consumer_seq": 0, "stream_seq": 0}


def consumer_entry(called: str = "C", **config: Any) -> ArchiveEntry:
    state = {"delivered": NOWHERE, "ack_floor": NOWHERE}
    body = {"config": {"ack_policy": "explicit", **config}, "state": state}
    return ArchiveEntry(CONSUMERS + called.encode(), 0, 0, b"", json.dumps(body).encode())


def message(subject: str, block: bytes = b"") -> ArchiveEntry:
    return ArchiveEntry(subject.encode(), 1, 1, block, b"")


def refusal(rig: Rig, *packed: ArchiveEntry, consumers: int = 0, **config: Any) -> str:
    """Return why an archive is refused; empty when it is not."""
    state = state_entry(first_seq=1, last_seq=1, consumer_count=consumers)
    (answer,) = rig.restore("S", archive(state, *packed), subjects=["s.>"], **config)
    if "error" not in answer:
        rig.exchange("$JS.API.STREAM.DELETE.S")
        return ""
    assert answer["error"]["err_code"] == 10062
    assert not rig.account.streams
    assert not rig.account.transfers.receiving
    rig.wire.replies.clear()
    return str(answer["error"]["description"])


@pytest.mark.parametrize("subject", [*ENDS, "", ".", "a..b", "a.", ".a", "x" * 40_000])
def test_an_archive_with_a_subject_that_nobody_can_publish_to_is_refused(subject: str) -> None:
    assert "subject" in refusal(Rig(), message(subject))


@pytest.mark.parametrize("subject", ["a", "s.\x01", "s.*", "s.>", "s.\x00.é"])
def test_an_archive_with_a_subject_that_clients_publish_to_is_not(subject: str) -> None:
    assert refusal(Rig(), message(subject)) == ""


@pytest.mark.parametrize("block", [b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nA: " + b"x" * 65_535])
def test_an_archive_with_headers_that_are_never_stored_is_refused(block: bytes) -> None:
    assert "header block" in refusal(Rig(), message("s.x", block))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("@", {"name": "@"}),
        ("@", {"durable_name": "@"}),
        ("@", {}),
        ("C", {"durable_name": "@"}),
        ("C", {"durable_name": "C", "deliver_subject": "@"}),
        ("C", {"durable_name": "C", "filter_subject": "@"}),
        ("C", {"durable_name": "C", "filter_subjects": ["x", "@"]}),
        ("C", {"durable_name": "C", "priority_policy": "overflow", "priority_groups": ["@"]}),
        ("C", {"durable_name": "C", "sample_freq": "@"}),
    ],
)
def test_an_archive_with_a_consumer_that_a_request_cannot_make_is_refused(
    end: str, name: str, config: dict[str, Any]
) -> None:
    told = json.loads(json.dumps(config).replace("@", json.dumps(end)[1:-1]))
    entry = consumer_entry(name.replace("@", end), **told)
    assert "consumer" in refusal(Rig(), entry, message("s.x"), consumers=1)


@pytest.mark.parametrize(
    ("config", "stream"),
    [
        ({"ack_policy": "none"}, {"retention": "workqueue"}),
        ({"deliver_policy": "last"}, {"retention": "workqueue"}),
        ({"max_ack_pending": 11}, {"consumer_limits": {"max_ack_pending": 10}}),
        ({"deliver_policy": "by_start_sequence"}, {}),
        ({"durable_name": "\x00sources"}, {}),
        ({"num_replicas": 3}, {}),
        ({"metadata": {"a": "x" * 200_000}}, {}),
        ({"durable_name": "x" * 300}, {}),
    ],
)
def test_an_archive_with_a_consumer_against_the_rules_is_refused(
    config: dict[str, Any], stream: dict[str, Any]
) -> None:
    entry = consumer_entry(config.get("durable_name", "C"), **config)
    assert "consumer" in refusal(Rig(), entry, message("s.x"), consumers=1, **stream)


def test_consumers_that_cannot_stand_side_by_side_are_refused() -> None:
    one = consumer_entry("C", filter_subject="s.a.*")
    other = consumer_entry("D", filter_subject="s.*.b")
    assert "consumer" in refusal(Rig(), one, other, consumers=2, retention="workqueue")
    assert "twice" in refusal(Rig(), one, one, consumers=2)
    assert refusal(Rig(), one, other, consumers=2) == ""


@pytest.mark.parametrize("end", ENDS)
def test_a_backup_of_an_older_server_is_held_to_the_same(end: str) -> None:
    files = files_of(OF_2_14)
    meta = files["obs/C/meta.inf"].replace(b'"durable_name":"C"', b'"durable_name":%b')
    changed = {**files, "obs/C/meta.inf": meta % json.dumps(end).encode()}
    rig = Rig()
    (answer,) = rig.restore("S", packed(changed), subjects=["S.>"])
    assert answer["error"]["err_code"] == 10062
    assert not rig.account.streams


@pytest.mark.parametrize("end", ENDS)
def test_no_store_takes_such_a_subject(end: str) -> None:
    directory = FileAccountRig().directory
    for store in (MemoryStore(), directory.create_stream(b"$G", b"S", b"")):
        with pytest.raises(StoreError, match="blank"):
            store.append(end.encode(), b"", b"", 1)
        assert (store.messages, store.last_seq) == (0, 0)
        assert store.append(b"a", b"", b"", 1) == 1


@pytest.mark.parametrize("end", ENDS)
def test_no_line_has_such_a_subject(end: str) -> None:
    raw = end.encode()
    for subject, reply in ((raw, None), (b"a", raw)):
        with pytest.raises(UnsendableError):
            compose(subject, b"", reply)
    with pytest.raises(UnsendableError):
        AckSubject(b"$JS.ACK.S.%b." % raw)
    account = Account("A")
    router = Router()
    sink = AccountSink(account, InternalPublisher(router), Interest(account))
    client = Client(1, account, ChunkPool())
    client.outbound.attach(Transport())
    account.add(RoutedSubscription(b">", None, b"1", client))
    for subject, reply in ((raw, b""), (b"a", raw)):
        assert sink.send(subject, reply, b"", b"x") == 0
        assert sink.send(subject, reply, b"NATS/1.0\r\nA: b\r\n\r\n", b"x") == 0
        assert not sink.deliver(b"a", subject, reply, b"", b"x")
    assert client.out_messages == 0
    account.add(RoutedSubscription(b">", b"q", b"2", client))
    assert sink.send(raw, b"", b"", b"x") == 0
    assert sink.send(b"a", b"b", b"", b"x") == 2


def forged(subject: bytes) -> Frame:
    """Return a frame with a subject that no parser makes."""
    frame = compose(b"x" * len(subject), b"payload")
    start = frame.base + frame.subject_start
    frame.buffer[start : start + len(subject)] = subject
    return frame


def recovered(disk_rig: FileAccountRig) -> FileAccountRig:
    """Return what a server finds that starts on the same disk."""
    disk_rig.settle()
    again = FileAccountRig()
    again.disk = disk_rig.disk
    disk_rig.directory.close()
    again.directory = StoreDirectory(disk_rig.disk, lambda: None)
    again.reasons = {}
    again.account.stream_quarantined = again.reasons.__setitem__
    for store in again.directory.streams():
        again.account.recover(store)
    return again


def stored_config(store: Store, **changed: Any) -> bytes:
    config = json.loads(store.config())
    config["config"] |= changed
    return json.dumps(config).encode()


def snapshot(**config: Any) -> bytes:
    head = json.dumps({"config": config, "created": 1, "usual": 1}, separators=(",", ":")).encode()
    return len(head).to_bytes(4, "little") + head


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", ["subject", "name", "deliver", "filter", "subjects", "durable"])
def test_a_store_that_holds_such_a_thing_is_set_aside_at_the_start(end: str, place: str) -> None:
    rig = FileAccountRig()
    rig.create("GOOD", subjects=["g.>"], storage="file")
    store = rig.create("A", subjects=["a.>"], storage="file").store
    store.append(b"a.x", b"", b"kept", 1)
    if place == "subject":
        store.append_frame(forged(end.encode()), 1)
    elif place == "subjects":
        store.save_config(stored_config(store, subjects=["a.>", end]))
    elif place == "name":
        store.save_consumer(end.encode(), snapshot(ack_policy="explicit"))
    elif place == "durable":
        store.save_consumer(b"C", snapshot(durable_name=end))
    elif place == "filter":
        store.save_consumer(b"C", snapshot(filter_subjects=["a", end]))
    else:
        store.save_consumer(b"C", snapshot(deliver_subject=end))
    again = recovered(rig)
    assert set(again.account.streams) == {"GOOD"}
    assert set(again.reasons) == {"A"}
    assert "invalid" in again.reasons["A"]
    assert all(ord(one) >= 0x20 for one in again.reasons["A"])
    for request in ("STREAM.INFO.A", "STREAM.PURGE.A", "STREAM.MSG.GET.A"):
        answer = again.api(request, {"seq": 1} if "GET" in request else b"")
        assert answer["error"]["err_code"] == 10194
    assert (
        again.api("STREAM.CREATE.A", {"name": "A", "storage": "file"})["error"] == answer["error"]
    )
    assert again.api("STREAM.DELETE.A")["success"]
    assert again.api("STREAM.INFO.A")["error"]["err_code"] == 10059
    assert "error" not in again.api("STREAM.CREATE.A", {"name": "A", "storage": "file"})
    assert set(recovered(again).account.streams) == {"GOOD", "A"}


def test_a_subject_that_is_gone_does_not_set_a_store_aside() -> None:
    rig = FileAccountRig()
    store = rig.create("A", storage="file").store
    seq = store.append_frame(forged(b"a b"), 1)
    assert admission.stored_problem(store)
    store.remove(seq)
    assert admission.stored_problem(store) == ""
    assert set(recovered(rig).account.streams) == {"A"}


def test_names_with_odd_letters_are_taken_up() -> None:
    rig = FileAccountRig()
    rig.create("é\x7f", subjects=["a.>", "é.*"], storage="file", description="a\r\nb <c>")
    config = {"durable_name": "ü<>".rstrip(">"), "ack_policy": "all", "description": "a\nb c"}
    body = {"stream_name": "é\x7f", "config": {**config, "filter_subject": "é.>"}}
    answer = rig.api(f"CONSUMER.DURABLE.CREATE.é\x7f.{config['durable_name']}", body)
    assert "error" not in answer
    again = recovered(rig)
    assert again.reasons == {}
    (consumer,) = again.account.streams["é\x7f"].consumers
    assert consumer.name == config["durable_name"].encode()


def test_a_mirror_does_not_take_a_subject_that_nobody_can_publish_to() -> None:
    rig = AccountRig()
    origin = rig.create()
    rig.create("M", subjects=[], mirror={"name": "A"})
    origin.store.append_frame(forged(b"a b"), 1)
    origin.readers.announce_when_durable()
    rig.clock.advance(3)
    assert rig.account.streams["M"].store.messages == 0


def test_a_transform_does_not_make_a_subject_that_nobody_can_publish_to() -> None:
    rig = AccountRig()
    made = {"src": "a.*", "dest": "b.{{split(1,-)}}"}
    store = rig.create(subject_transform=made, allow_atomic=True).store
    assert rig.publish("a.--")["error"]["err_code"] == 10077
    assert rig.publish("a.x-y")["seq"] == 1
    rig.publish("a.x", b"", {"Nats-Batch-Id": "i", "Nats-Batch-Sequence": "1"})
    last = {"Nats-Batch-Id": "i", "Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}
    assert rig.publish("a.--", b"", last)["error"]["err_code"] == 10077
    assert store.messages == 1
