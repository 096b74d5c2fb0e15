"""The entries of an archive."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midge.jetstream.archive import entries
from midge.jetstream.archive.entries import ArchiveEntry, ArchiveError, EntryReader
from tests.unit.jetstream.archive.samples import SNAPSHOT
from tests.unit.jetstream.archive.test_s2 import unpacked

ENTRIES = st.builds(
    ArchiveEntry,
    st.binary(max_size=20),
    st.integers(-(1 << 62), 1 << 62),
    st.integers(0, (1 << 64) - 1),
    st.binary(max_size=20),
    st.binary(max_size=300),
)


def read(data: bytes, step: int = 1 << 20) -> list[ArchiveEntry]:
    reader = EntryReader(1 << 20)
    found = []
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
        while (entry := reader.next_entry()) is not None:
            found.append(entry)
    assert reader.left() == 0
    return found


def test_what_nats_server_wrote_is_read() -> None:
    state, consumer, *messages, end = read(unpacked(SNAPSHOT), 1000)
    assert state.name == entries.STATE
    assert json.loads(state.payload)["consumer_count"] == 1
    assert consumer.name == b"consumers/C"
    assert set(json.loads(consumer.payload)) == {"config", "state"}
    assert [(one.seq, one.name) for one in messages] == [(1, b"s.long"), (3, b"s.2"), (4, b"s.3")]
    assert messages[1].headers == b"NATS/1.0\r\nLang: en\r\n\r\n"
    assert messages[1].payload == b"to be or not to be, that is the question 2"
    assert messages[0].time_ns > 1_700_000_000_000_000_000
    assert end == (b"", 0, 0, b"", b"")


@given(st.lists(ENTRIES, max_size=5), st.integers(1, 50))
def test_any_cut_gives_the_same_entries(given: list[ArchiveEntry], step: int) -> None:
    data = entries.MAGIC + b"".join(entries.pack(*one) for one in given)
    assert read(data, step) == given


def test_the_end_is_an_entry_of_nothing() -> None:
    assert entries.pack(b"", 0, 0, b"", b"") == entries.END


@pytest.mark.parametrize(
    "data",
    [
        b"NATSARC2" + entries.END,
        entries.MAGIC + b"\xff" * 11,
        entries.MAGIC + b"\xff\xff\xff\x7f\x00\x00\x00\x00",  # a name of 256 MiB
        entries.MAGIC + b"\x00\x00\x00\x00\xff\xff\xff\x7f",  # such a payload
    ],
)
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    reader = EntryReader(1 << 20)
    reader.feed(data)
    with pytest.raises(ArchiveError):
        reader.next_entry()
