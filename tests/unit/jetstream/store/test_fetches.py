"""A reader that waits for data on the disk is notified once, and not too many wait."""

from __future__ import annotations

import pytest

from midge.jetstream.store.file import fetches
from midge.jetstream.store.file.fetches import Fetches
from midge.jetstream.store.file.group import Segment
from midge.testing.simulated_disk import PAGE, SimulatedDisk

PAGES = 8


class Reader:
    """Reads pages, and counts the notifications that one is there."""

    def __init__(self) -> None:
        self.told = 0

    def fetched(self) -> None:
        self.told += 1


class Cold:
    """A segment of which nothing is in memory."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.segment = Segment(1, self.disk.create("1"), PAGES * PAGE, PAGES * PAGE)
        self.segment.file.write(0, b"".join(bytes([number]) * PAGE for number in range(PAGES)))
        self.segment.file.sync()
        self.disk.drop_pages()
        self.fetches = Fetches(self.disk)

    def read(self, page: int, reader: Reader) -> bytes | None:
        data = self.fetches.read(self.segment, page * PAGE, PAGE, PAGE, PAGE, reader)
        return None if data is None else bytes(data)


def test_all_who_wait_for_one_thing_are_told_once() -> None:
    cold = Cold()
    readers = [Reader() for _ in range(1000)]
    for reader in readers * 3:
        assert cold.read(5, reader) is None
    assert cold.disk.pump_fetch()
    assert not cold.disk.pump_fetch(), "it is fetched once for all"
    assert [reader.told for reader in readers] == [1] * 1000
    assert cold.read(5, readers[0]) == b"\5" * PAGE
    assert cold.disk.cold_reads == 0


def test_when_many_wait_others_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that requests are held that come faster than the disk answers."""
    monkeypatch.setattr(fetches, "_WAITERS_MAX", 3)
    cold = Cold()
    readers = [Reader() for _ in range(3)]
    for again in range(2):
        for page, reader in enumerate(readers):
            assert cold.read(page, reader) is None
        assert cold.read(3, Reader()) == b"\3" * PAGE
        assert cold.disk.cold_reads == 1
        for _ in range(3):
            assert cold.disk.pump_fetch()
        assert cold.read(4 + again, Reader()) is None, "there is room again"
        assert cold.disk.pump_fetch()
        cold.disk.drop_pages()
        for page, reader in enumerate(readers):  # fetched pages are read in any case
            assert cold.read(page, reader) == bytes([page]) * PAGE
        cold.disk.drop_pages()
        cold.disk.cold_reads = 0


def test_what_nobody_asked_for_any_more_is_fetched_again() -> None:
    """A reader that needs something else first may want it much later."""
    cold = Cold()
    reader = Reader()
    for page in (1, 2):
        assert cold.read(page, reader) is None
        assert cold.disk.pump_fetch()
    assert cold.read(2, reader) == b"\2" * PAGE
    cold.disk.drop_pages()
    assert cold.read(1, reader) is None
    assert cold.disk.pump_fetch()
    assert cold.read(1, reader) == b"\1" * PAGE
    assert cold.disk.cold_reads == 0
