"""The file store on a real directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.interface import StoreError
from midge.jetstream.store.real_disk import RealDisk


class Store:
    """A store directory on the running loop."""

    def __init__(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        self.disk = RealDisk(str(path), loop.add_reader, loop.remove_reader)
        self.directory = StoreDirectory(self.disk, lambda: loop.call_soon(self.directory.flush))

    async def settled(self) -> None:
        done = asyncio.Event()
        self.directory.log.barrier(done.set)
        self.directory.flush()
        await asyncio.wait_for(done.wait(), 10)


async def test_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "js")
    stream = store.directory.create_stream(b"$G", b"ORDERS", b"{}")
    for i in range(1000):
        stream.append(b"orders.%d" % (i % 7), b"" if i % 3 else b"NATS/1.0\r\n\r\n", b"p%d" % i, i)
    assert stream.visible_seq == 0
    assert stream.load(1000).payload == b"p999"
    await store.settled()
    assert stream.visible_seq == 1000
    stream.remove(500)
    stream.purge(None, 100)
    await store.settled()
    store.directory.close()
    store = Store(tmp_path / "js")
    (again,) = store.directory.streams()
    assert (again.account, again.name, again.config()) == (b"$G", b"ORDERS", b"{}")
    assert (again.first_seq, again.last_seq, again.messages) == (100, 1000, 900)
    assert again.visible_seq == 1000
    assert again.bytes == stream.bytes
    for seq in range(1, 1001):
        message = again.load(seq)
        if seq < 100 or seq == 500:
            assert message is None
        else:
            i = seq - 1
            assert (message.seq, message.time_ns) == (seq, i)
            assert message.subject == b"orders.%d" % (i % 7)
            assert message.headers == (b"" if i % 3 else b"NATS/1.0\r\n\r\n")
            assert message.payload == b"p%d" % i
    assert store.directory.damages == []
    store.directory.close()


async def test_a_directory_is_opened_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="in use by another process"):
        Store(tmp_path)
    store.directory.close()


async def test_other_files_are_neither_read_nor_removed(tmp_path: Path) -> None:
    """Whatever their suffix: a foreign log file is not a segment and not damage."""
    store = Store(tmp_path)
    store.directory.create_stream(b"$G", b"ORDERS", b"{}").append(b"orders", b"", b"1", 1)
    await store.settled()
    store.directory.close()
    strangers = ["00.log", "FFFFFFFFFFFFFFFF.log", "backup.new", "notes.log", "notes.log.new"]
    for name in strangers:
        (tmp_path / name).write_text("hello\n")
    unfinished = tmp_path / "0000000000000001.log.new"
    unfinished.touch()
    store = Store(tmp_path)
    (again,) = store.directory.streams()
    assert (again.messages, store.directory.damages) == (1, [])
    assert [(tmp_path / name).read_text() for name in strangers] == ["hello\n"] * 5
    assert not unfinished.exists()
    store.directory.close()


async def test_an_idle_store_is_small(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"s", b"", b"x", 1)
    await store.settled()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 192 * 1024
    store.directory.close()
    store = Store(tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4096
    store.directory.close()


async def test_erased_bytes_are_gone_from_the_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"s", b"", b"a secret", 1, 0, 0, b"id-1")
    stream.append(b"s", b"", b"no secret", 2)
    stream.remove(1, True)
    await store.settled()
    content = b"".join(path.read_bytes() for path in tmp_path.glob("*.log"))
    assert b"a secret" not in content
    assert b"no secret" in content
    store.directory.close()
    store = Store(tmp_path)
    (again,) = store.directory.streams()
    assert (again.first_seq, again.last_seq, again.messages) == (2, 2, 1)
    assert again.load(2).payload == b"no secret"
    assert list(again.ids()) == [(b"id-1", 1, 1)]
    assert again.lost == set()
    store.directory.close()


async def test_consumers_and_their_operations_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    for i in range(5):
        stream.append(b"s", b"", b"x", i)
    stream.save_consumer(b"c", b"state")
    stream.log_consumer(b"c", b"ack 2", 2)
    stream.log_consumer(b"c", b"ack 3")
    stream.save_consumer(b"gone", b"x")
    stream.delete_consumer(b"gone")
    await store.settled()
    store.directory.close()
    store = Store(tmp_path)
    (again,) = store.directory.streams()
    assert list(again.consumers()) == [(b"c", b"state", [b"ack 2", b"ack 3"])]
    assert [seq for seq in range(1, 6) if again.exists(seq)] == [1, 3, 4, 5]
    store.directory.close()


async def test_with_an_interval_what_is_written_counts_as_durable(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.directory.set_sync_interval(2)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.append(b"s", b"", b"x", 1)
    await store.settled()
    assert stream.visible_seq == 1
    log = store.directory.log
    assert log.synced_position == 0
    store.directory.tick()
    assert log.synced_position == 0
    store.directory.tick()
    for _ in range(3):  # both copies of the head are written, too
        log.committer.settle()
    assert (log.synced_segment, log.synced_position) == (1, log.segments[-1].end)
    store.directory.close()
    store = Store(tmp_path)
    (again,) = store.directory.streams()
    assert again.last_seq == 1
    store.directory.close()


async def test_an_async_stream_does_not_wait(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stream = store.directory.create_stream(b"$G", b"S", b"{}")
    stream.is_async = True
    stream.append(b"s", b"", b"x", 1)
    assert stream.visible_seq == 1
    called: list[int] = []
    stream.barrier(lambda: called.append(1))
    assert called == [1]
    store.directory.close()
