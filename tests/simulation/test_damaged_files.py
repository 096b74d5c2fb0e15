"""Files of a store that are missing, of another place or store, or without their begin."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from midge.jetstream.store.file import directory as directory_module
from midge.jetstream.store.file import log, records
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.log_identity import HEAD_AT
from midge.jetstream.store.interface import StoreError
from midge.testing.simulated_disk import SimulatedDisk
from tests.simulation.damaged_files import (
    LOST,
    MISPLACED,
    contents,
    copied,
    found_in,
    identity_of_another,
    logs,
    long_store,
    opened,
    zero,
)

killed_or_closed = pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SEGMENT_MAX", 8 * 1024)


def checked(disk: SimulatedDisk) -> StoreDirectory:
    """Return the store as `midge store check` opens it."""
    return StoreDirectory(copied(disk), lambda: None, is_checked=True)


@killed_or_closed
@pytest.mark.parametrize("damage", MISPLACED)
def test_misplaced_files_keep_the_store_shut_and_unchanged(damage: str, is_killed: bool) -> None:
    disk = long_store(1, is_killed)
    assert len(logs(disk)) > 3
    right = contents(disk)
    expected = found_in(opened(copied(disk)))
    MISPLACED[damage](disk)
    wrong = contents(disk)
    with pytest.raises(StoreError, match=r"(\.log|no log|store\.a) "):
        opened(disk)
    assert contents(disk) == wrong
    assert checked(disk).damages
    for name in wrong:
        disk.entries.pop(name)
    for name, data in right.items():
        disk.create(name).write(0, data)
    assert found_in(opened(disk)) == expected


@killed_or_closed
@pytest.mark.parametrize("foreign", ["store.a", "store.b"])
def test_of_two_identities_the_one_counts_that_the_logs_know(foreign: str, is_killed: bool) -> None:
    disk = long_store(1, is_killed)
    expected = found_in(opened(copied(disk)))
    right = bytes(disk.entries[foreign].data)
    identity_of_another(disk, foreign)
    wrong = bytes(disk.entries[foreign].data)
    assert checked(disk).aside == [f"{foreign} of another store"]
    assert found_in(opened(disk)) == expected
    assert disk.entries[foreign].data[:HEAD_AT].rstrip(b"\0") == right[:HEAD_AT].rstrip(b"\0")
    assert disk.entries[f"{foreign}.aside"].data == wrong
    assert opened(disk).aside == []


def test_identities_that_no_log_confirms_are_refused() -> None:
    disk = long_store(1)
    identity_of_another(disk, "store.a")
    for name in logs(disk):
        zero(disk, name, 1 << 30)
    wrong = contents(disk)
    with pytest.raises(StoreError, match="of different stores"):
        opened(disk)
    disk.entries.pop("store.b")
    disk.create(logs(long_store(1))[0]).write(0, b"something" * 100)
    with pytest.raises(StoreError, match="no log has a record"):
        opened(disk)
    assert wrong["store.a"] == disk.entries["store.a"].data


@killed_or_closed
@pytest.mark.parametrize("zeroed", [4, 512, 600, 3000, 6000])
def test_a_log_without_its_begin_is_damaged_and_not_cut(zeroed: int, is_killed: bool) -> None:
    whole = long_store(1, is_killed)
    expected = found_in(opened(copied(whole)))
    for name in logs(whole):
        disk = copied(whole)
        zero(disk, name, zeroed)
        before = disk.entries[name].data.rstrip(b"\0")
        if not before:
            continue
        directory = opened(disk)
        repaired = directory.repaired
        assert directory.damages or directory.aside or repaired, name
        kept = disk.entries.get(name, disk.entries.get(f"{name}.aside")).data
        assert kept.startswith(before) or repaired
        for number, stream in found_in(directory).items():
            assert stream.kept.items() <= expected[number].kept.items()


@killed_or_closed
def test_bytes_behind_the_end_that_are_no_torn_write_are_not_cut(is_killed: bool) -> None:
    disk = long_store(1, is_killed)
    expected = found_in(opened(copied(disk)))
    name = logs(disk)[-1]
    data = disk.entries[name].data
    end = len(data.rstrip(b"\0")) + 7 & ~7
    data[end:] = b"not a record" * 1000
    before = bytes(data)
    directory = opened(disk)
    assert [(one.position, one.length) for one in directory.damages] == [(end, 12000)]
    assert disk.entries[name].data == before
    assert found_in(directory) == expected


@pytest.mark.parametrize("at", [0, 30, 85, 120, 300, -20])
def test_a_flipped_byte_of_a_last_group_that_was_whole_does_not_cut_it(at: int) -> None:
    """No later group says that it had been synced: all of it is there, and it was acknowledged."""
    disk = long_store(1, is_killed=True)
    expected = found_in(opened(copied(disk)))
    name = logs(disk)[-1]
    data = disk.entries[name].data
    end = len(data.rstrip(b"\0"))
    start = last_group(data, end)
    data[start + at if at >= 0 else end + at] ^= 0x10
    directory = opened(disk)
    assert directory.torn == []
    found = found_in(directory)
    lost = sum(len(expected[n].kept) - len(found[n].kept) for n in expected)
    assert lost <= 1
    assert bool(directory.damages) == bool(lost)


def last_group(data: bytearray, end: int) -> int:
    """Return where the last group of a log begins."""
    at = 0
    while (following := at + int.from_bytes(data[at + 48 : at + 56], "little")) < end:
        at = following
    return at


def test_a_first_group_without_its_begin_is_put_aside() -> None:
    """What a power failure leaves of a first group looks like that, and so may data."""
    disk = SimulatedDisk(1)
    directory = opened(disk)
    stream = directory.create_stream(b"$G", b"S", b"config")
    stream.append(b"a", b"", b"x" * 1000, 1)
    directory.flush()
    disk.pump()
    disk = copied(disk)
    (name,) = logs(disk)
    zero(disk, name, 512)
    before = bytes(disk.entries[name].data)
    directory = opened(disk)
    assert (list(directory.streams()), directory.aside) == ([], [f"{name}, whose begin is lost"])
    assert disk.entries[f"{name}.aside"].data == before
    assert directory.log.segments[-1].number == 2
    again = opened(copied(disk))
    assert (again.aside, again.log.segments[-1].number) == ([], 3)


@killed_or_closed
@pytest.mark.parametrize("damage", LOST)
def test_what_is_lost_with_a_log_is_told_and_comes_back_with_it(
    damage: str, is_killed: bool
) -> None:
    """Every start says it, the streams stay, and after a stop no sequence is given out twice."""
    disk = long_store(1, is_killed)
    right = contents(disk)
    expected = found_in(opened(copied(disk)))
    LOST[damage](disk)
    assert checked(disk).damages
    directory = opened(disk)
    assert directory.damages
    found = found_in(directory)
    assert found.keys() == expected.keys()
    for stream in directory.streams():
        kept = found[stream.number].kept
        assert kept.items() <= expected[stream.number].kept.items()
        missed = expected[stream.number].kept.keys() - kept.keys()
        assert missed <= stream.lost or stream.lost_bytes > 0
        assert stream.lost <= missed
        if not stream.lost_bytes:
            assert stream.last_seq == expected[stream.number].last_seq
        assert stream.append(b"a.new", b"", b"new", 1000) == stream.last_seq
    for _ in range(2):
        directory.close()
        directory = opened(copied(disk))
        assert directory.damages
    for name, data in right.items():
        if name.endswith(".log"):
            disk.create(name).write(0, data)
    directory = opened(disk)
    assert not [one for one in directory.damages if "missing" in one.note]
    found = found_in(directory)
    for number, stream in expected.items():
        again = found[number].kept
        kept = {seq: message for seq, message in again.items() if message[1] != b"a.new"}
        assert kept.items() <= stream.kept.items()
        if not is_killed:  # else the new message may have a sequence of the lost end
            assert len(again) - len(kept) == 1
            assert kept == stream.kept


def test_messages_of_a_stream_that_no_record_names_are_damage_and_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So are those of stores whose logs begin without the streams' configurations."""
    with monkeypatch.context() as patch:
        patch.setattr(StoreDirectory, "_repeat_configs", lambda _: None)
        disk = long_store(1, is_killed=True)
    expected = found_in(opened(copied(disk)))
    first = logs(disk)[0]
    right = disk.entries.pop(first)
    for name in ("store.a", "store.b"):
        del disk.entries[name].data[HEAD_AT:]
    for _ in range(2):
        directory = opened(disk)
        assert [one.name for one in directory.streams() if one.name != b"NEW"] == []
        told = [re.fullmatch(r"(\d+) messages of stream (\d), which has no name", str(one))
                for one in directory.damages]  # fmt: skip
        assert [one[2] for one in told if one] == ["1", "2"]
        assert all(one and int(one[1]) > 60 for one in told)
        assert directory.create_stream(b"$G", b"NEW", b"config").number > 2
        for _ in range(30):
            directory.tick()
            disk.pump()
        directory.close()
    disk.entries[first] = right
    found = found_in(opened(disk))
    assert {number: found[number] for number in expected} == expected


def test_every_log_names_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams without a message in it are named, too, a few a turn, within a bound."""
    monkeypatch.setattr(log, "SEGMENT_MAX", 64 * 1024)
    disk = SimulatedDisk(1)
    turns: list[Callable[[], None]] = []
    directory = StoreDirectory(disk, lambda: None, turns.append)
    streams = [directory.create_stream(b"$G", b"S%d" % n, b"config" * 10) for n in range(200)]
    for number in range(250):
        streams[0].append(b"a", b"", b"x" * 500, number)
        directory.flush()
        while disk.pump() or turns:
            if turns:
                turns.pop(0)()
                directory.flush()
    assert len(logs(disk)) > 3
    for name in logs(disk):
        assert all(b"S%d" % n in disk.entries[name].data for n in (0, 1, 100, 199)), name
    monkeypatch.setattr(directory_module, "_REPEATED_MAX", 20 * 200)
    size = 0
    before = logs(disk)
    for number in range(200):
        streams[0].append(b"a", b"", b"x" * 500, number)
        directory.flush()
        while disk.pump() or turns:
            if turns:
                turns.pop(0)()
                directory.flush()
        for name in set(logs(disk)) - set(before):
            size = max(size, disk.entries[name].data.count(b"config" * 10))
    assert 0 < size < 25


def test_an_older_version_may_remove_logs() -> None:
    """It knows no head: its groups show that it was here, and nothing counts as missing."""
    disk = long_store(1)
    first = logs(disk)[0]
    head = {name: bytes(disk.entries[name].data) for name in ("store.a", "store.b")}
    directory = opened(disk)
    for stream in directory.streams():
        stream.append(b"a", b"", b"x", 1)
    directory.close()
    for name, data in head.items():
        disk.entries[name].data[:] = data
    newest = disk.entries[f"{directory.log.segments[-1].number:016x}.log"].data
    number = directory.log.segments[-1].number
    length = int.from_bytes(newest[48:56], "little")
    newest[13] = 0  # as that version writes it
    sealed = newest[:length]
    records.seal(sealed, length, directory.log.seed, number, 0)
    newest[:length] = sealed
    disk.entries.pop(first)
    assert [str(one) for one in opened(copied(disk)).damages if "missing" in str(one)] == []
    newest[13] = 4
    sealed = newest[:length]
    records.seal(sealed, length, directory.log.seed, number, 0)
    newest[:length] = sealed
    assert [str(one) for one in opened(disk).damages] == [f"{first}: the file is missing"]


def test_a_hole_costs_no_ids_of_messages_that_were_removed_before() -> None:
    """A stream that begins behind a hole has records below its first message: they name ids."""
    disk = SimulatedDisk(1)
    directory = opened(disk)
    one = directory.create_stream(b"$G", b"ONE", b"config")
    for number in range(3):
        one.append(b"a", b"", b"x" * 100, number)
        directory.flush()
        disk.pump()
    two = directory.create_stream(b"$G", b"TWO", b"config")
    for number in range(4):
        two.append(b"a", b"", b"x", number, 0, 0, b"id%d" % number)
    two.remove(1)
    directory.close()
    (name,) = logs(disk)
    data = disk.entries[name].data
    at = data.index(b"x" * 100)
    data[at - 80 : at + 50] = bytes(130)
    directory = opened(disk)
    assert directory.damages
    found = {stream.name: stream for stream in directory.streams()}
    assert [seq for _, seq, _ in found[b"TWO"].ids()] == [1, 2, 3, 4]
    assert found[b"TWO"].lost == set()
