"""Backups of nats-server before 2.15, as written by 2.10 and 2.14, whole and damaged."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from midge.jetstream.archive.framing import S2Reader, S2Writer
from tests.unit.jetstream.archive.older_samples import OF_2_10, OF_2_14
from tests.unit.jetstream.archive.test_transfers import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def files_of(archive: bytes) -> dict[str, bytes]:
    reader = S2Reader()
    reader.feed(archive)
    out = bytearray()
    while (block := reader.next_block()) is not None:
        out += block
    found = {}
    with tarfile.open(fileobj=io.BytesIO(bytes(out))) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
    return found


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    writer = S2Writer()
    writer.write(out.getvalue())
    writer.finish()
    return writer.take()


def restored(rig: Rig, *pieces: bytes) -> dict[str, Any]:
    (answer,) = rig.restore("S", *pieces, subjects=["S.>"])
    return answer


def messages(rig: Rig) -> dict[int, tuple[bytes, bytes, bytes]]:
    store = rig.account.lookup("S").store
    found = {}
    seq = store.next_seq((), 1)
    while seq:
        message = store.load(seq)
        assert message is not None
        found[seq] = (message.subject, message.headers, message.payload)
        seq = store.next_seq((), seq + 1)
    return found


KEPT = {
    7: (b"S.a", b"NATS/1.0\r\nLang: en\r\n\r\n", b"third"),
    10: (b"S.b", b"", b"sixth"),
}


@pytest.mark.parametrize("archive", [OF_2_10, OF_2_14], ids=["2.10", "2.14"])
@pytest.mark.parametrize("size", [1, 300, 5000])
def test_older_backups_are_restored(rig: Rig, archive: bytes, size: int) -> None:
    pieces = [archive[at : at + size] for at in range(0, len(archive), size)]
    state = restored(rig, *pieces)["state"]
    assert (state["messages"], state["num_deleted"]) == (2, 2)
    assert (state["first_seq"], state["last_seq"], state["consumer_count"]) == (7, 10, 2)
    assert messages(rig) == KEPT
    info = rig.api("CONSUMER.INFO.S.C")
    assert (info["ack_floor"]["stream_seq"], info["delivered"]["stream_seq"]) == (7, 10)
    assert (info["num_ack_pending"], info["num_pending"]) == (1, 0)
    assert info["config"]["ack_wait"] == 3600 * 10**9
    assert rig.api("CONSUMER.INFO.S.D")["delivered"]["stream_seq"] == 10


def test_tombstones_say_what_is_gone_where_the_index_is_missing(rig: Rig) -> None:
    files = files_of(OF_2_14)
    del files["msgs/index.db"]
    assert restored(rig, packed(files))["state"]["last_seq"] == 10
    assert messages(rig) == KEPT


def test_what_the_index_says_is_gone_is_removed(rig: Rig) -> None:
    """The blocks alone, without their tombstones, would restore deleted messages."""
    files = files_of(OF_2_14)
    block = next(name for name in files if name.endswith(".blk"))
    files[block] = without_tombstones(files[block])
    assert restored(rig, packed(files))["state"]["messages"] == 2
    assert messages(rig) == KEPT


def without_tombstones(block: bytes) -> bytes:
    out = b""
    while block:
        size = int.from_bytes(block[:4], "little") & 0x7FFFFFFF
        if not int.from_bytes(block[4:12], "little") >> 62:
            out += block[:size]
        block = block[size:]
    return out


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("meta.inf", None, "meta.inf: no such file or directory"),
        ("meta.inf", b'{"name":"OTHER"}', "stream names do not match"),
        ("meta.inf", b"[]", "meta.inf: Expected `object`, got `array`"),
        ("obs/C/meta.inf", None, 'error restoring consumer ["C"]: '),
        ("obs/C/o.dat", b"\xff", 'error restoring consumer ["C"]: corrupt state file'),
        ("errors.txt", b"no room", "the backup is incomplete: no room"),
        ("msgs/1.idx", b"", "backups of nats-server before 2.10 are not supported"),
        ("msgs/9.blk", bytes(30), "block 9: 30 bytes at 0 are no records"),
    ],
)
def test_what_is_wrong_is_told(rig: Rig, name: str, data: bytes | None, told: str) -> None:
    files = files_of(OF_2_14)
    if data is None:
        del files[name]
    else:
        files[name] = data
    description = restored(rig, packed(files))["error"]["description"]
    assert description.startswith(f"restore failed: {told}")
    assert rig.account.streams == {}


def test_a_flipped_bit_in_a_message_is_told(rig: Rig) -> None:
    files = files_of(OF_2_14)
    (name,) = (name for name in files if name.endswith(".blk"))
    files[name] = files[name].replace(b"third", b"thurd")
    told = restored(rig, packed(files))["error"]["description"]
    assert told.startswith("restore failed: block ")
    assert told.endswith(" is damaged")
