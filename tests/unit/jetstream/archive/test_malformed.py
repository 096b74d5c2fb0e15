"""Malformed archives: each one ends its transfer with an error, or without progress."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest

from midge.jetstream.archive import restored, tar_restore
from midge.jetstream.archive.entries import ArchiveEntry, ArchiveError
from midge.jetstream.archive.nats_store.blocks import NatsBlock
from midge.jetstream.archive.tar import TarReader
from tests.unit.jetstream.archive.test_tar_restore import OF_2_14, files_of, packed
from tests.unit.jetstream.archive.test_transfers import Rig, archive, state_entry
from tests.unit.jetstream.stream.test_admission import consumer_entry

DEEP = b"[" * 100_000
LITERALS = [
    *(b"Infinity", b"-Infinity", b"NaN", b"1e400", b"1.5", b"1_000", b"+1", b"-1", b"01"),
    *(b"1180591620717411303424", b"9" * 5000, DEEP, b'{"a":' * 100_000, b'"1"', b"true", b"[]"),
]


def refused(data: bytes, **config: Any) -> str:
    rig = Rig()
    (answer,) = rig.restore("S", data, subjects=["S.>", "s.>"], **config)
    assert answer["error"]["err_code"] == 10062, answer
    assert not rig.account.streams
    assert not rig.account.transfers.receiving
    assert rig.account.memory.used == 0
    said = str(answer["error"]["description"])
    assert "internal error" not in said
    return said


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("key", ["first_seq", "last_seq", "consumer_count"])
def test_a_number_of_the_state_that_is_none_is_refused(key: str, literal: bytes) -> None:
    body = b'{"first_seq": 1, "last_seq": 1, "%b": %b}' % (key.encode(), literal)
    assert "state.json" in refused(archive(ArchiveEntry(b"state.json", 0, 0, b"", body)))


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"1", DEEP, b"{", b"\xff"])
def test_a_state_that_is_no_object_is_refused(body: bytes) -> None:
    assert "state.json" in refused(archive(ArchiveEntry(b"state.json", 0, 0, b"", body)))


PLACES = (
    *("state", "state.delivered", "state.delivered.stream_seq", "state.ack_floor.consumer_seq"),
    *("state.pending", "state.pending.1.Sequence", "state.pending.1.Timestamp"),
    *("state.redelivered", "state.redelivered.1", "config", "config.ack_wait"),
)
NO_ERROR = ("config.ack_wait", b"-1")
"""A negative duration is a number; the rules of consumers refuse it."""


@pytest.mark.parametrize(
    ("place", "literal"),
    [(place, one) for place in PLACES for one in LITERALS if (place, one) != NO_ERROR],
)
def test_a_value_of_a_consumer_that_is_none_is_refused(place: str, literal: bytes) -> None:
    body = json.loads(consumer_entry().payload)
    body["state"] |= {"pending": {"1": {"Sequence": 1, "Timestamp": 1}}, "redelivered": {"1": 1}}
    holder = body
    *path, last = place.split(".")
    for one in path:
        holder = holder[one]
    holder[last] = "@@"
    data = json.dumps(body).encode().replace(b'"@@"', literal)
    state = state_entry(first_seq=1, last_seq=1, consumer_count=1)
    assert "consumer" in refused(archive(state, consumer_entry()._replace(payload=data)))


@pytest.mark.parametrize(
    "key", [b"-1", b"+1", b"1_0", b" 1", b"", b"x", b"9" * 5000, b"1.0", b"01"]
)
def test_a_sequence_that_is_none_is_refused(key: bytes) -> None:
    data = consumer_entry().payload.replace(
        b'"delivered"', b'"redelivered":{"%b":1},"delivered"' % key
    )
    state = state_entry(first_seq=1, last_seq=1, consumer_count=1)
    assert "consumer" in refused(archive(state, consumer_entry()._replace(payload=data)))


def pieces_of(reader: TarReader) -> int:
    """Read pieces, but not without end; return how many."""
    return sum(1 for _ in zip(range(10), iter(reader.next_piece, None), strict=False))


def headed(field: bytes, at: int = 124) -> bytes:
    """Return a tar whose head of `meta.inf` has a field changed and its checksum put right."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        info = tarfile.TarInfo("meta.inf")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"{}"))
    data = bytearray(out.getvalue())
    data[at : at + len(field)] = field
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\x00 " % sum(data[:512])
    return bytes(data)


@pytest.mark.parametrize(
    "size",
    [
        *(b"-1000\x00\x00\x00\x00\x00\x00\x00", b"+10\x00", b"1_0\x00", b"0o7\x00", b"8\x00", b"x"),
        *(b"\xff" * 12, b"\x80" + b"\xff" * 11, b"\xc0" + bytes(11)),
    ],
)
def test_a_size_that_is_none_is_refused(size: bytes) -> None:
    reader = TarReader()
    reader.feed(headed(size))
    with pytest.raises(ArchiveError, match="invalid tar header"):
        pieces_of(reader)


@pytest.mark.parametrize(
    "record",
    [
        *(b"9" * 5000 + b" size=1\n", b"-1 size=1\n", b"1_0 size=1\n", b"09 size=1\n", b"0 a=b\n"),
        *(b"11 size=-1\n", b"12 size=1\n", b"11 size=+1\n", b"12 size=1_0\n", b"99 size=1\n"),
        *(b"11 size=12x", b"9 size12\n", b"5009 size=" + b"9" * 4998 + b"\n"),
        "11 size=\u0661\n".encode(),
    ],
)
def test_an_extended_head_that_is_none_is_refused(record: bytes) -> None:
    head = bytearray(headed(b"%011o\x00" % len(record))[:512])
    head[156] = ord("x")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\x00 " % sum(head)
    reader = TarReader()
    reader.feed(bytes(head) + record + bytes(-len(record) % 512) + headed(b""))
    with pytest.raises(ArchiveError, match="invalid tar header"):
        pieces_of(reader)


@pytest.mark.parametrize("name", ["meta.inf", "obs/C/meta.inf"])
@pytest.mark.parametrize(
    "data", [b"", b"[]", DEEP, b"Infinity", b'{"name":' + DEEP, b"\xff", b" " * (1 << 20) + b"{}"]
)
def test_an_older_backup_with_such_a_file_is_refused(name: str, data: bytes) -> None:
    refused(packed({**files_of(OF_2_14), name: data}))


def test_consumers_take_only_so_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_CONSUMERS_MAX_BYTES", 1 << 20)
    files = {f"obs/C{number}/meta.inf": b" " * (1 << 18) for number in range(5)}
    assert "states of the consumers are larger" in refused(packed({**files_of(OF_2_14), **files}))


@pytest.mark.parametrize(
    "data", [b"cmp\x01", b"cmp\x01\xff\xff", b"cmp\x00\x80", b"cmp\x01" + b"\xff" * 20]
)
def test_a_compressed_block_that_is_cut_is_noted(data: bytes) -> None:
    block = NatsBlock("S", 1, data + b"\x80" * 8)
    assert block.records == []
    assert block.damages


def test_an_unforeseen_error_ends_the_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    rig = Rig()
    monkeypatch.setattr(rig.account, "_save", broken)
    (answer,) = rig.restore(
        "S", archive(state_entry(first_seq=1), ArchiveEntry(b"s", 1, 1, b"", b"x"))
    )
    said = answer["error"]["description"]
    assert said == "restore failed: internal error: ZeroDivisionError: oops"
    assert rig.account.streams == {}
    assert rig.account.transfers.receiving == {}
    assert rig.account.memory.used == rig.account.server_limits.reserved_memory == 0
    monkeypatch.setattr(tar_restore.TarRestore, "work", broken)
    (answer, *_) = rig.restore("S", packed(files_of(OF_2_14)))
    assert answer["error"]["err_code"] == 10062


def test_a_transfer_that_hardly_moves_ends() -> None:
    rig = Rig()
    body = {"config": {"name": "S", "storage": "memory"}, "state": {}}
    to = rig.api("STREAM.RESTORE.S", body)["deliver_subject"].encode()
    whole = archive(state_entry(first_seq=1))
    for at in range(12):
        assert rig.account.transfers.take(to, b"_INBOX.r", whole[at : at + 1])
        rig.clock.advance(4.9)
    assert rig.account.transfers.receiving
    rig.account.transfers.take(to, b"_INBOX.r", whole[12:13])
    rig.clock.advance(4.9)
    assert rig.account.transfers.receiving == {}


def test_what_an_archive_says_is_gone_is_removed_in_turns() -> None:
    files = files_of(OF_2_14)
    del files["msgs/index.db"]
    rig = Rig()
    body = {"config": {"name": "S", "storage": "memory", "subjects": ["S.>"]}, "state": {}}
    to = rig.api("STREAM.RESTORE.S", body)["deliver_subject"].encode()
    rig.account.transfers.take(to, b"_INBOX.r", packed(files))
    rig.work()
    (receiving,) = rig.account.transfers.receiving.values()
    reader = receiving._unpacker._reader
    assert isinstance(reader, tar_restore.TarRestore)
    reader._gone |= set(range(100, 5000))
    turns = []
    work = receiving._unpacker.work
    receiving._unpacker.work = lambda budget: turns.append(1) or work(budget)  # type: ignore[method-assign]
    rig.account.transfers.take(to, b"_INBOX.r", b"")
    while rig.account.transfers.receiving:
        rig.work()
    assert len(turns) >= 4
    assert "S" in rig.account.streams
