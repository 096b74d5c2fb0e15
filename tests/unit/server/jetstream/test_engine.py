"""JetStream of a server, from its start to its stop."""

import asyncio
import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import midge
from midge.jetstream.errors import JetStreamError
from midge.server.config.options import JetStream, Listen, Options
from midge.server.errors import ConfigError
from midge.server.jetstream.filesystem import note_imported
from midge.server.routing.account import Account
from midge.server.routing.client import Client
from midge.server.routing.outbound import ChunkPool
from midge.server.server import Server
from midge.testing import SimulatedDisk
from midge.testing.simulated_disk import SimulatedFile
from tests.support.transports import Transport

IDENTITY = b"midge store\n1\n4ad23b76c644586406c6ea89b6a31db4\n4a7d94b7\n"
"""The file that says which store it is, as it is written without encryption."""


async def started() -> Server:
    """Start a server with JetStream in memory."""
    options = Options(listen=Listen(port=-1), jetstream=JetStream(enabled=True, in_memory=True))
    server = Server(options)
    await server.start()
    return server


async def test_pages_see_no_jetstream_after_its_stop() -> None:
    server = await started()
    state = server._state
    assert state is not None
    assert state.jetstream is server.jetstream is not None
    await server.stop()
    assert state.jetstream is None


async def test_a_file_is_no_storage_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    jetstream = JetStream(enabled=True, store_dir=str(file))
    with pytest.raises(ConfigError, match="storage directory is not a directory"):
        await Server(Options(listen=Listen(port=-1), jetstream=jetstream)).start()


async def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    segment = tmp_path / "jetstream" / "0000000000000001.log"
    segment.mkdir(parents=True)  # a directory cannot be opened for writing, not even by root
    for name in ("store.a", "store.b"):
        (tmp_path / "jetstream" / name).write_bytes(IDENTITY)
    with pytest.raises(ConfigError) as caught:
        async with midge.Server(port=-1, jetstream=str(tmp_path)):
            pass
    assert str(caught.value) == f"jetstream.store_dir: {segment}: Is a directory"


async def test_a_temporary_directory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = Options(listen=Listen(port=-1), jetstream=JetStream(enabled=True))
    server = Server(options)
    caplog.set_level("INFO", "midge")
    await server.start()
    await server.stop()
    place = tmp_path / "nats" / "jetstream"
    assert f"jetstream_store_temporary store_dir='{place}'" in caplog.messages
    (started,) = [line for line in caplog.messages if line.startswith("jetstream_started ")]
    assert f"store_dir='{place}'" in started


async def test_a_default_directory_in_use_gives_way_and_an_explicit_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = Server(Options(listen=Listen(port=-1), jetstream=JetStream(enabled=True)))
    second = Server(Options(listen=Listen(port=-1), jetstream=JetStream(enabled=True)))
    await first.start()
    try:
        await second.start()
        await second.stop()
        other = tmp_path / f"nats-{os.getpid()}" / "jetstream"
        assert (other / "store.a").exists()
        (moved,) = [line for line in caplog.messages if "jetstream_store_moved" in line]
        assert f"store_dir='{other}'" in moved
        explicit = JetStream(enabled=True, store_dir=str(tmp_path / "nats"))
        with pytest.raises(ConfigError, match=f"{tmp_path}/nats/jetstream is in use by another"):
            await Server(Options(listen=Listen(port=-1), jetstream=explicit)).start()
    finally:
        await first.stop()


async def test_a_wrong_key_is_one_clear_line(tmp_path: Path) -> None:
    def options(key: str, previous: str = "") -> Options:
        jetstream = JetStream(
            enabled=True,
            store_dir=str(tmp_path),
            encryption_key=key,
            prev_encryption_key=previous,
        )
        return Options(listen=Listen(port=-1), jetstream=jetstream)

    for key, previous in (("old", ""), ("new", "old"), ("new", "")):
        server = Server(options(key, previous))
        await server.start()
        await server.stop()
    for key, text in (("old", "with another key"), ("", "and no key is given")):
        with pytest.raises(
            ConfigError, match=f"jetstream.encryption_key: the store is encrypted.* {text}"
        ):
            await Server(options(key)).start()


async def test_what_else_is_in_the_directory_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with midge.Server(port=-1, jetstream=str(tmp_path)):
        pass
    assert "foreign" not in caplog.text
    place = tmp_path / "jetstream"
    for name in ("notes.log", *"abcde"):
        (place / name).touch()
    async with midge.Server(port=-1, jetstream=str(tmp_path)):
        pass
    (told,) = [line for line in caplog.messages if "jetstream_foreign_files" in line]
    assert "a, b, c, d, e, 1 more" in told
    caplog.clear()
    (place / "$G" / "streams" / "ORDERS").mkdir(parents=True)
    (place / "$G" / "streams" / "ORDERS" / "meta.inf").touch()
    with pytest.raises(ConfigError, match=r"\(\$G/ORDERS\).* run: midge store import /"):
        async with midge.Server(port=-1, jetstream=str(tmp_path)):
            pass
    ignoring = {"store_dir": str(tmp_path), "enabled": True, "ignore_nats_streams": True}
    async with midge.Server(port=-1, jetstream=ignoring):
        pass
    note_imported(place, ["$G/ORDERS"])
    async with midge.Server(port=-1, jetstream=str(tmp_path)):
        pass
    for line in (one for one in caplog.messages if "jetstream_foreign_files" in one):
        assert "a, b, c, d, e, 1 more" in line


async def test_what_follows_from_a_result_of_the_disk_is_written_at_once() -> None:
    server = await started()
    engine = server.jetstream
    assert engine is not None
    router = engine._broker.router
    client = Client(1, Account("A"), ChunkPool())
    transport = Transport()
    client.outbound.attach(transport)

    def answer() -> None:
        client.outbound.append(b"+OK\r\n")
        router.touch(client)
        raise ZeroDivisionError

    readers: dict[int, Callable[[], None]] = {}
    loop = SimpleNamespace(add_reader=readers.__setitem__)
    engine._add_reader(cast(asyncio.AbstractEventLoop, loop), 7, answer)
    with pytest.raises(ZeroDivisionError):
        readers[7]()
    assert bytes(transport.written) == b"+OK\r\n"
    await server.stop()


async def names(server: midge.Server) -> list[str]:
    return (await server.jetstream.call("STREAM.NAMES"))["streams"] or []


async def test_a_failed_sync_leaves_the_streams_that_are_on_the_disk() -> None:
    disk = SimulatedDisk()
    async with midge.Server(port=-1, jetstream=True, disk=disk) as server:
        kept = await server.jetstream.add_stream("KEPT", ["kept"])
        await kept.publish("kept", b"1")
        disk.fail_sync_at = 0
        with pytest.raises((JetStreamError, TimeoutError, midge.MidgeError)):
            await server.jetstream.add_stream("LOST", ["lost"])
        assert await names(server) == ["KEPT"]


async def test_a_failed_sync_brings_back_a_stream_whose_deletion_is_not_on_the_disk() -> None:
    disk = SimulatedDisk()
    async with midge.Server(port=-1, jetstream=True, disk=disk) as server:
        kept = await server.jetstream.add_stream("KEPT", ["kept"])
        await kept.publish("kept", b"1")
        body = {"stream_name": "KEPT", "config": {"durable_name": "c", "ack_policy": "explicit"}}
        await server.jetstream.call("CONSUMER.CREATE.KEPT.c", body)
        disk.fail_sync_at = 0
        with pytest.raises((JetStreamError, TimeoutError, midge.MidgeError)):
            await server.jetstream.call("STREAM.DELETE.KEPT")
        assert await names(server) == ["KEPT"]
        found = await server.jetstream.call("STREAM.MSG.GET.KEPT", {"seq": 1})
        assert found["message"]["subject"] == "kept"


@pytest.mark.parametrize("fault", ["sync", "write"])
async def test_requests_whose_changes_the_disk_has_lost_are_refused(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that may not grow fails a write as a disk fails a sync: all is lost, and answered."""
    disk = SimulatedDisk()

    def too_large(file: SimulatedFile, position: int, data: bytes) -> None:
        raise OSError(errno.EFBIG, "File too large")

    async with midge.Server(port=-1, jetstream=True, disk=disk) as server:
        kept = await server.jetstream.add_stream("KEPT", ["kept"])
        await kept.publish("kept", b"1")
        if fault == "sync":
            disk.fail_sync_at = 0
        else:
            monkeypatch.setattr(SimulatedFile, "write", too_large)
        durable = {"durable_name": "c", "ack_policy": "explicit"}
        calls = {
            "STREAM.CREATE.LOST": {"name": "LOST", "subjects": ["lost"]},
            "STREAM.UPDATE.KEPT": {"name": "KEPT", "subjects": ["kept"], "max_msgs": 5},
            "STREAM.MSG.DELETE.KEPT": {"seq": 1},
            "STREAM.PURGE.KEPT": {},
            "CONSUMER.CREATE.KEPT.c": {"stream_name": "KEPT", "config": durable},
            "STREAM.DELETE.KEPT": None,
        }
        for _ in range(2):  # together with the failure, and after it
            told = await asyncio.gather(
                *(server.jetstream.call(subject, body) for subject, body in calls.items()),
                return_exceptions=True,
            )
            assert [type(one) for one in told] == [JetStreamError] * len(calls), told
        assert await names(server) == ["KEPT"]


async def test_a_consumer_that_found_nothing_has_delivered_nothing_after_a_restart(
    tmp_path: Path,
) -> None:
    """nats-server does not store how far a consumer has looked."""
    config = {"durable_name": "c", "ack_policy": "explicit", "filter_subject": "s.none"}
    body = {"stream_name": "S", "config": {**config, "deliver_subject": "deliver"}}
    async with midge.Server(port=-1, jetstream=str(tmp_path)) as server:
        stream = await server.jetstream.add_stream("S", ["s.*"])
        await stream.publish("s.one", b"1")
        await server.jetstream.call("CONSUMER.CREATE.S.c", body)
    async with midge.Server(port=-1, jetstream=str(tmp_path)) as server:
        server.subscribe("deliver")
        await server.jetstream.stream("S").publish("s.two", b"2")
        info = await server.jetstream.call("CONSUMER.INFO.S.c")
        assert info["delivered"] == {"consumer_seq": 0, "stream_seq": 0}
