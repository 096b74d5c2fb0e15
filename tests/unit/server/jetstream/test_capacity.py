"""How much JetStream may use by default."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

import midge
from midge.jetstream.errors import JetStreamError
from midge.server.config.jetstream import JetStream
from midge.server.jetstream import capacity

DISK = 4 << 20


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make all directories appear to lie on a disk of 4 MiB, which holds the store alone."""

    def usage(_: Path) -> SimpleNamespace:
        store = tmp_path / "jetstream"
        used = sum(one.stat().st_blocks * 512 for one in store.iterdir()) if store.is_dir() else 0
        return SimpleNamespace(f_bavail=DISK - used, f_frsize=1)

    monkeypatch.setattr(os, "statvfs", usage)
    return tmp_path


def limit(place: Path) -> int:
    return capacity.disk_limit(JetStream(enabled=True, store_dir=str(place)))


async def test_the_default_limit_of_the_disk_is_the_same_after_a_restart(small_disk: Path) -> None:
    before = limit(small_disk)
    assert before == DISK // 4 * 3
    async with midge.Server(port=-1, jetstream=str(small_disk)) as server:
        stream = await server.jetstream.add_stream("S", ["s"])
        for _ in range(40):
            await stream.publish("s", bytes(60_000))
    assert before - 4096 <= limit(small_disk) <= before
    async with midge.Server(port=-1, jetstream=str(small_disk)) as server:
        stream = server.jetstream.stream("S")
        for _ in range(5):
            await stream.publish("s", bytes(60_000))

        async def fill() -> None:
            for _ in range(20):
                await stream.publish("s", bytes(60_000))

        with pytest.raises(JetStreamError, match="insufficient resources"):
            await fill()


def test_files_of_others_are_not_the_store(small_disk: Path) -> None:
    (small_disk / "jetstream").mkdir()
    (small_disk / "jetstream" / "notes").write_bytes(bytes(100_000))
    assert limit(small_disk) < DISK // 4 * 3 - 70_000
