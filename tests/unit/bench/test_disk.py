"""The figures of the disk that results pages show."""

import errno
import mmap
import os
from pathlib import Path

import pytest

from bench import disk


def test_every_group_and_page_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    write = os.pwrite

    def counted(file: int, data: mmap.mmap | memoryview, position: int) -> int:
        calls.append(len(data))
        return write(file, data, position)

    monkeypatch.setattr(os, "pwrite", counted)
    monkeypatch.setattr(os, "fdatasync", lambda _: calls.append(0))

    speed = disk.measure(2, tmp_path)

    assert calls == [6 << 20, 0] * 4 + [4096, 0] * 200
    assert min(speed.new, speed.again, speed.page_us) > 0
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_direct_writes_is_measured_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open
    refused: list[str] = []

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_DIRECT:
            refused.append(path)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return opened(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)

    assert disk.measure(1, tmp_path).new > 0
    assert len(refused) == 1


def test_the_line_names_its_units() -> None:
    line = str(disk.DiskSpeed(0.314e9, 3.4e9, 118.4))

    assert line == (
        "6 MiB synced at 0.31 GB/s in new room, at 3.4 in the same again, 4 KiB in 118 µs"
    )
