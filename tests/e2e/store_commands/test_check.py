"""`midge store check`: what it says of a whole store, of a damaged one, and that it only reads."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import midge
from midge import cli
from midge.protocol.frame import compose
from midge.server.config.options import JetStream, Options
from midge.server.errors import ConfigError


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    """Make a store with two streams and a consumer."""
    path = tmp_path / "store"
    async with midge.Server(port=-1, jetstream=str(path)) as server:
        stream = await server.jetstream.add_stream("ORDERS", ["orders.*"])
        for number in range(100):
            await stream.publish(f"orders.{number % 3}", f"order {number:03d}")
        async with stream.consume("billing") as messages:
            await (await messages.next()).ack()
        await server.jetstream.call("STREAM.MSG.DELETE.ORDERS", {"seq": 5})
        await server.jetstream.add_stream("EMPTY", ["empty"])
    return path


def files(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.rglob("*") if one.is_file()}


def check(path: Path, capsys: Any) -> tuple[int, Any, str]:
    before = files(path)
    code = cli.main(["store", "check", str(path), "--json"])
    assert files(path) == before
    out, err = capsys.readouterr()
    return code, json.loads(out or "null"), err


async def test_a_whole_store(store: Path, capsys: Any) -> None:
    code, found, err = check(store, capsys)
    assert (code, err, found["damages"]) == (0, "", [])
    orders, empty = found["streams"]
    assert (orders["account"], orders["stream"], orders["messages"]) == ("$G", "ORDERS", 99)
    assert (orders["first_seq"], orders["last_seq"], orders["consumers"]) == (1, 100, 1)
    assert (empty["stream"], empty["messages"]) == ("EMPTY", 0)
    assert cli.main(["store", "check", str(store)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("$G > ORDERS: 99 messages, ")
    assert lines[-1] == "2 streams, 99 messages, every checksum matched"


async def test_an_erased_message_is_no_loss(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its bytes were overwritten on request; a start says nothing of it either."""
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        assert (await server.jetstream.stream("ORDERS").state()).messages == 99
    assert "jetstream_data_lost" not in caplog.text


async def test_a_damaged_message_is_named(store: Path, capsys: Any) -> None:
    (segment,) = [path for path, data in all_files(store) if b"order 041" in data]
    data = bytearray(segment.read_bytes())
    at = data.index(b"order 041")
    data[at : at + 9] = b"?????????"
    segment.write_bytes(data)
    code, found, err = check(store, capsys)
    assert (code, err) == (1, "")
    assert found["streams"][0]["lost"] == [42]
    (damage,) = found["damages"]
    assert damage.startswith(f"{segment.name} at ")
    assert damage.endswith(" bytes, message 42 of $G > ORDERS")
    assert cli.main(["store", "check", str(store)]) == 1
    out = capsys.readouterr().out
    assert "\n  lost: 1 message: 42\n" in out
    assert out.endswith(" messages, 1 message lost\n")


async def test_what_was_lost_with_bytes_that_say_nothing_is_not_called_none(
    store: Path, capsys: Any
) -> None:
    """Whole groups are zeros, as where the disk has lost a page: there may have been messages."""
    (segment,) = [path for path, data in all_files(store) if b"order 041" in data]
    data = bytearray(segment.read_bytes())
    start, end = ((data.index(text) + len(text) + 7) & ~7 for text in (b"order 040", b"order 044"))
    data[start:end] = bytes(end - start)
    segment.write_bytes(data)
    code, found, _ = check(store, capsys)
    lost = [42, 43, 44, 45]
    assert (code, found["streams"][0]["messages"], found["streams"][0]["lost"]) == (1, 95, lost)
    assert found["damages"] == [f"{segment.name} at {start}: {end - start} bytes"]
    assert cli.main(["store", "check", str(store)]) == 1
    out = capsys.readouterr().out
    told = f"4 messages lost, {end - start} bytes of unknown content lost"
    assert out.endswith(f" 95 messages, {told}\n")


async def test_a_torn_end_is_told(store: Path, capsys: Any) -> None:
    (segment,) = [path for path, data in all_files(store) if b"order 041" in data]
    whole = segment.read_bytes().rstrip(b"\0")
    segment.write_bytes(whole + b"torn" * 10)
    code, found, _ = check(store, capsys)
    assert (code, found["damages"]) == (0, [])
    (told,) = found["torn"]
    place, position, length = re.fullmatch(r"(\S+) at (\d+): (\d+) bytes", told).groups()
    assert (place, int(position) + int(length)) == (segment.name, len(whole) + 40)
    assert int(length) >= 40
    assert cli.main(["store", "check", str(store)]) == 0
    assert f"\ntorn: {found['torn'][0]}; the next start cuts that off\n" in capsys.readouterr().out


async def test_a_store_without_its_identity_is_one(store: Path, capsys: Any) -> None:
    for name in ("store.a", "store.b"):
        (store / "jetstream" / name).unlink()
    code, _, err = check(store, capsys)
    told = "midge store check: the store's id cannot be read: store.a and store.b are damaged\n"
    assert (code, err) == (1, told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "there is no key in the first line"),
        (b"\nkey\n", "there is no key in the first line"),
        (b"\xff\xfe\n", "the key is not UTF-8"),
    ],
)
async def test_a_key_file_without_a_key_is_refused(
    tmp_path: Path, capsys: Any, content: bytes, told: str
) -> None:
    """A store that was to be encrypted must not be written without."""
    key_file = tmp_path / "key"
    key_file.write_bytes(content)
    for command in (["check", str(tmp_path)], ["import", str(tmp_path), "--into", "x"]):
        assert cli.main(["store", *command, "--key-file", str(key_file)]) == 1
        assert capsys.readouterr().err == f"midge store {command[0]}: {key_file}: {told}\n"


def test_standard_input_is_read_once(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"key\n")))
    keys = ["--key-file", "-", "--nats-key-file", "-"]
    assert cli.main(["store", "import", str(tmp_path), "--into", "x", *keys]) == 1
    told = "midge store import: only one of the files with keys can be standard input\n"
    assert capsys.readouterr().err == told


def all_files(path: Path) -> list[tuple[Path, bytes]]:
    return [(one, one.read_bytes()) for one in path.rglob("*") if one.is_file()]


def copy_whole(store: Path, image: Path) -> None:
    """Copy a store in use as it is at one moment: its threads may write while it is copied."""
    while True:
        before = all_files(store)
        shutil.copytree(store, image)
        if all_files(store) == before:
            return
        shutil.rmtree(image)


async def test_what_is_no_store_or_in_use(tmp_path: Path, capsys: Any) -> None:
    code, _, err = check(tmp_path, capsys)
    assert code == 1
    assert err == f"midge store check: there is no store of midge's in {tmp_path}\n"
    path = tmp_path / "used"
    async with midge.Server(port=-1, jetstream=str(path)):
        assert cli.main(["store", "check", str(path)]) == 1
    assert capsys.readouterr().err.endswith(" is in use by another process\n")


async def test_a_file_that_cannot_be_read_is_named(
    store: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (segment,) = [path for path, data in all_files(store) if b"order 041" in data]
    open_file = os.open

    def refuse(path: Any, *args: Any, **more: Any) -> int:
        if Path(path) == segment:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_file(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    assert cli.main(["store", "check", str(store)]) == 1
    assert capsys.readouterr().err == f"midge store check: {segment}: Permission denied\n"


async def test_an_encrypted_store_needs_its_key(tmp_path: Path, capsys: Any) -> None:
    path, key_file = tmp_path / "store", tmp_path / "key"
    key_file.write_text("a key\n")
    table = Options(jetstream=JetStream(enabled=True, store_dir=str(path), encryption_key="a key"))
    async with midge.Server(table, port=-1) as server:
        stream = await server.jetstream.add_stream("ORDERS", ["orders.*"])
        await stream.publish("orders.1", "order 1")
    assert not any(b"order" in data for data in files(path).values())
    code, _, err = check(path, capsys)
    assert (code, err) == (1, "midge store check: the store is encrypted, and no key is given\n")
    assert cli.main(["store", "check", str(path), "--key-file", str(key_file)]) == 0
    assert capsys.readouterr().out.endswith("1 stream, 1 message, every checksum matched\n")
    key_file.write_text("another key\n")
    assert cli.main(["store", "check", str(path), "--key-file", str(key_file)]) == 1
    expected = "midge store check: the store is encrypted with another key\n"
    assert capsys.readouterr().err == expected


async def test_files_of_another_place_keep_the_server_from_starting(
    store: Path, capsys: Any
) -> None:
    """All that was acknowledged is back once the right files are."""
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        await server.jetstream.stream("EMPTY").publish("empty", "1")
    first, second = sorted((store / "jetstream").glob("*.log"))[:2]
    right = first.read_bytes(), second.read_bytes()
    first.write_bytes(right[1])
    second.write_bytes(right[0])
    code, found, _ = check(store, capsys)
    assert code == 1
    told = [f"{one.name} at 0: " for one in (first, second)]
    assert [one[: len(told[0])] for one in found["damages"]] == told
    assert found["damages"][0].endswith(f" bytes, has the records of {second.name}")
    before = files(store)
    with pytest.raises(ConfigError, match=f"{first.name} has the records of {second.name}"):
        async with midge.Server(port=-1, jetstream=str(store)):
            pass
    assert files(store) == before
    first.write_bytes(right[0])
    second.write_bytes(right[1])
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        assert (await server.jetstream.stream("ORDERS").state()).messages == 99
        assert (await server.jetstream.stream("EMPTY").state()).messages == 1


async def test_an_identity_of_another_store_is_put_aside(
    store: Path, tmp_path: Path, capsys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with midge.Server(port=-1, jetstream=str(tmp_path / "other")):
        pass
    other = (tmp_path / "other" / "jetstream" / "store.a").read_bytes()
    (store / "jetstream" / "store.a").write_bytes(other)
    code, found, _ = check(store, capsys)
    assert (code, found["damages"], found["aside"]) == (1, [], ["store.a of another store"])
    assert cli.main(["store", "check", str(store)]) == 1
    out = capsys.readouterr().out
    assert "aside: store.a of another store; the next start gives it another name\n" in out
    assert out.endswith(" 99 messages, 1 file of no use\n")
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        assert (await server.jetstream.stream("ORDERS").state()).messages == 99
    assert "jetstream_file_put_aside file='store.a of another store'" in caplog.text
    assert (store / "jetstream" / "store.a.aside").read_bytes() == other
    code, found, _ = check(store, capsys)
    assert (code, found["aside"]) == (0, [])


async def test_a_stream_with_a_line_end_in_a_subject_is_invalid(
    store: Path, capsys: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        engine = server.jetstream_engine
        assert engine is not None
        frame = compose(b"orders._", b"")
        frame.buffer[frame.base + frame.subject_end - 1] = ord("\n")
        engine.accounts["$G"].streams.streams["ORDERS"].store.append_frame(frame, 1)
    code, found, _ = check(store, capsys)
    assert code == 1
    invalid = 'a message has the subject "orders.\\n", which is invalid'
    assert [one["invalid"] for one in found["streams"]] == [invalid, ""]
    assert cli.main(["store", "check", str(store)]) == 1
    assert f"  invalid: {invalid}; a start sets" in capsys.readouterr().out
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        info = await server.jetstream.call("STREAM.NAMES")
        assert info["streams"] == ["EMPTY"]
    assert "jetstream_stream_quarantined" in caplog.text


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("how", ["missing", "emptied", "zeroed"])
async def test_a_lost_log_is_named_and_told_in_the_state(
    store: Path, tmp_path: Path, capsys: Any, is_killed: bool, which: int, how: str
) -> None:
    async with midge.Server(port=-1, jetstream=str(store)) as server:
        stream = server.jetstream.stream("ORDERS")
        for number in range(50):
            await stream.publish("orders.9", f"more {number}")
        await server.jetstream.stream("EMPTY").publish("empty", "1")
        copy_whole(store, tmp_path / "image")  # as a SIGKILL leaves it
    path = tmp_path / "image" if is_killed else store
    (path / "jetstream" / "lock").unlink()
    log = [one for one, data in all_files(path) if one.suffix == ".log" and any(data)]
    file = sorted(log)[which]
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if how == "emptied" else bytes(file.stat().st_size))
    code, found, _ = check(path, capsys)
    told = "the file is missing" if how == "missing" else "the file ends early"
    assert (code, len(found["damages"])) == (1, 1)
    assert found["damages"][0].startswith(file.name)
    assert found["damages"][0].endswith(told)
    async with midge.Server(port=-1, jetstream=str(path)) as server:
        info = await server.jetstream.call("STREAM.INFO.ORDERS")
        if which == 0:  # the removal of the fifth message is lost, too
            assert info["state"]["lost"]["msgs"] == [*range(1, 101)]
        elif is_killed:
            assert info["state"]["lost"]["bytes"] > 0
        else:
            assert info["state"]["lost"]["msgs"] == [*range(101, 151)]
            assert info["state"]["last_seq"] == 150
