"""Tar archives, cut anywhere, and their faults."""

from __future__ import annotations

import io
import tarfile

import pytest

from midge.jetstream.archive.entries import ArchiveError
from midge.jetstream.archive.tar import TarReader

FILES = {
    "meta.inf": b"{}",
    "msgs/1.blk": bytes(range(256)) * 9,
    "empty": b"",
    "obs/C/é": b"x" * 512,
}


def packed(form: int, files: dict[str, bytes] = FILES) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as writer:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1.5
            writer.addfile(info, io.BytesIO(data))
    return out.getvalue()


def read(data: bytes, step: int) -> dict[str, bytes]:
    reader = TarReader()
    found: dict[str, bytes] = {}
    whole = set()
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        while (piece := reader.next_piece()) is not None:
            assert piece.name not in whole
            found[piece.name] = found.get(piece.name, b"") + piece.data
            if piece.is_last:
                whole.add(piece.name)
                assert len(found[piece.name]) == piece.size
    reader.finish()
    assert whole == set(found)
    return found


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
@pytest.mark.parametrize("step", [7, 512, 100_000])
def test_files_are_read_however_they_come(form: int, step: int) -> None:
    long_name = {"obs/" + "n" * 80 + "/" + "m" * 90: b"long"}
    assert read(packed(form, FILES | long_name), step) == FILES | long_name


def test_the_end_may_be_missing() -> None:
    whole = packed(tarfile.PAX_FORMAT).rstrip(b"\x00")
    assert read(whole, 1000) == FILES


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (b"x" * 2000, "archive/tar: invalid tar header"),
        (b"x" * 20, "unexpected EOF"),
        (packed(tarfile.PAX_FORMAT)[:3000], "unexpected EOF"),
        (packed(tarfile.USTAR_FORMAT).replace(b"meta.inf", b"meta.inx"), "invalid tar header"),
        (packed(tarfile.PAX_FORMAT).replace(b" mtime=", b"9mtime="), "invalid tar header"),
    ],
)
def test_damage_is_told(wrong: bytes, told: str) -> None:
    with pytest.raises(ArchiveError, match=told):
        read(wrong, 1000)


def test_only_files_are_taken() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as writer:
        info = tarfile.TarInfo("obs")
        info.type = tarfile.DIRTYPE
        writer.addfile(info)
    with pytest.raises(ArchiveError, match="unexpected content"):
        read(out.getvalue(), 1000)


def test_large_sizes_are_binary() -> None:
    head = bytearray(packed(tarfile.GNU_FORMAT)[:512])
    head[124:136] = b"\x80" + (1 << 40).to_bytes(11, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\x00 " % sum(head)
    reader = TarReader()
    reader.feed(head + b"abc")
    piece = reader.next_piece()
    assert piece is not None
    assert (piece.size, piece.data, piece.is_last) == (1 << 40, b"abc", False)
    with pytest.raises(ArchiveError, match="unexpected EOF"):
        reader.finish()
