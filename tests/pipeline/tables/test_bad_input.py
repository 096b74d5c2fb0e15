"""Bad input to tables: one clear line, and nothing half committed.

Each kind of bad input meets every command that can meet it. All files of the table and of its
quarantine are compared byte by byte. Commands run in processes of their own where the disk, the
clock or the environment is another one, and in the test's process elsewhere.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from midge import cli
from midge.pipeline.delta import delta_reason_of
from midge.pipeline.errors import TableError
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.scanning import read_table
from midge.pipeline.tables.table_handle import QUARANTINE_SUFFIX, TableHandle
from midge.tables import (
    create_table,
    land,
    latest,
    rebuild,
    scan,
    scan_duckdb,
    scan_polars,
    scan_rows,
)
from tests.pipeline.conftest import Stream
from tests.pipeline.tables.test_tables import fill, numbers, on_midge, orders, server, table
from tests.pipeline.tables.workers import compile_kill_points

__all__ = ["orders", "server", "table"]  # the fixtures
pytestmark = pytest.mark.timeout(300)
WAIT_S = 100
HOUR_S = 3600
MAKING = ("add", "build")
COMMANDS = ("status", "sql", "sql --landed", "serve", "compact", "rebuild", *MAKING, "rm")

_PANIC = re.compile(
    r"\nthread 'tokio-rt-worker' \(\d+\) panicked at \S+/object_store-0\.13\.\d+/src/buffered\.rs:"
    r"\d+:\d+:\nAlready shut down\n(?:stack backtrace:\n)?note: [^\n]+\n"
)
"""What deltalake 1.6 writes to stderr by itself: on a full disk, its object_store panics in a
thread after it has returned the error."""


class Place:
    """The table at `url`, and the server and the store of its stream."""

    def __init__(self, url, server):
        self.url = str(url)
        self._server = ["--server", server.url]
        self._store = ["--store", str(server.config_path.parent)]

    def words(self, command, stream="ORDERS", more=()):
        """Return the arguments of `midge` for one of COMMANDS."""
        sql = ["sql", "SELECT sum(n) FROM t", f"t={self.url}", "--csv"]
        made = [self.url, stream, "--column", "n:int64", *more]
        return {
            "status": ["table", "status", self.url, *self._server],
            "sql": [*sql, *self._server],
            "sql --landed": [*sql, "--landed"],
            "serve": ["table", "serve", self.url, *self._server],
            "compact": ["table", "compact", self.url],
            "rebuild": ["table", "rebuild", self.url, "--column", "n:double"],
            "add": ["table", "add", *made, *self._server],
            "build": ["table", "build", *made, *self._store],
            "rm": ["table", "rm", self.url, "--yes"],
        }[command]

    def contents(self):
        """Return the files of the table and its quarantine; a lock is no part of them."""
        roots = (Path(self.url), Path(self.url + QUARANTINE_SUFFIX))
        files = (path for root in roots for path in [root, *root.rglob("*")] if path.is_file())
        return {path: path.read_bytes() for path in files if path.name != "_midge.lock"}

    @contextmanager
    def unchanged(self):
        """Expect the same files, and the same directory, behind the block."""
        before = Path(self.url).exists(), self.contents()
        yield
        assert (Path(self.url).exists(), self.contents()) == before


def called(command):
    """Return the name that a command's errors begin with."""
    return "midge sql" if command.startswith("sql") else f"midge table {command}"


def refused(place, command, capsys, **given):
    """Run a command that fails and changes nothing; return its only line, without its name."""
    with place.unchanged():
        assert cli.main(place.words(command, **given)) == 1
    (line,) = "".join(capsys.readouterr()).splitlines()
    start = f"{called(command)}: "
    assert line.startswith(start)
    return line.removeprefix(start)


def works(place, command, capsys, **given):
    """Run a command that does not fail; return its lines."""
    assert cli.main(place.words(command, **given)) == 0
    return "".join(capsys.readouterr()).splitlines()


def ran(words, until=None, **environment):
    """Run a command, until SIGTERM after `until` has returned; return exit code and lines."""
    process = subprocess.Popen(
        [sys.executable, "-m", "midge", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    first = ""
    try:
        if until is not None:
            first = until(process.stdout)
            process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=WAIT_S)
    finally:
        process.kill()
        process.wait()
    return process.returncode, _PANIC.sub("", first + rest).splitlines()


def first_error(out):
    """Return the output of a server of tables up to its first error."""
    text = ""
    while ": not landed: " not in text:
        line = out.readline()
        assert line, text
        text += line
    return text


@pytest.fixture
def place(table, server):
    """The table of the fixture `table`."""
    return Place(table, server)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library that fills the disk and moves the clock of a process."""
    return str(compile_kill_points(tmp_path_factory.mktemp("kill_points")))


# No table.


def nothing(_):
    return "is no Delta table"


def a_file(path):
    path.write_text("mine")
    return "is no Delta table"


def a_directory_of_others(path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    return "is no Delta table"


def a_table_of_others(path):
    DeltaTable.create(str(path), schema=Decoder({"n": "int64"}).schema)
    return "is a Delta table, but not one of a stream"


@on_midge
@pytest.mark.parametrize("made", [nothing, a_file, a_directory_of_others, a_table_of_others])
def test_what_is_no_table(made, orders, server, tmp_path, capsys):
    place = Place(tmp_path / "t", server)
    said = made(Path(place.url))
    for command in COMMANDS:
        if command in MAKING and made in (nothing, a_directory_of_others):
            continue  # they make a table there
        if command == "sql --landed" and made is a_table_of_others:
            assert works(place, command, capsys) == ["sum(n)", '""']
            continue
        is_file = command in MAKING and made is a_file
        expected = "cannot be written to: file exists" if is_file else said
        assert refused(place, command, capsys) == f"{place.url}: {expected}", command


@on_midge
@pytest.mark.parametrize("made", [nothing, a_file, a_directory_of_others, a_table_of_others])
def test_what_is_no_table_of_the_functions(made, orders, server, tmp_path):
    place = Place(tmp_path / "t", server)
    said = made(Path(place.url))
    url = place.url
    with duckdb.connect() as connection:
        for function in (
            lambda: land(url, server.url),
            lambda: rebuild(url, {"n": "double"}),
            lambda: scan(url, server.url),
            lambda: scan_polars(url, server.url),
            lambda: scan_duckdb(connection, "t", url, server.url),
            lambda: list(scan_rows(url, server.url)),
            lambda: latest(url, server.url),
            lambda: read_table(None, url),
        ):
            with place.unchanged(), pytest.raises(TableError) as caught:
                function()
            assert str(caught.value) == f"{url}: {said}"


@on_midge
@pytest.mark.parametrize("command", MAKING)
def test_a_table_is_made_beside_the_files_of_others(command, orders, server, tmp_path, capsys):
    place = Place(tmp_path / "t", server)
    a_directory_of_others(Path(place.url))
    works(place, command, capsys)
    assert TableHandle(place.url).source.stream == "ORDERS"
    assert Path(place.url, "notes.txt").read_text() == "mine"


@on_midge
@pytest.mark.parametrize("part", ["[", "]", "^", "|", "\\", "\t", "%41"])
def test_a_path_that_deltalake_does_not_take(part, orders, server, tmp_path, capsys):
    place = Place(tmp_path / f"a{part}b" / "t", server)
    for command in COMMANDS:
        said = f"{place.url}: cannot be a table: deltalake takes no {part!r} in a path"
        assert refused(place, command, capsys) == said, command
    assert list(tmp_path.iterdir()) == []


@on_midge
@pytest.mark.parametrize("part", [*" !\"#$%&'()*+,:;<=>?@`{}~", "ü", "%4g"])
def test_every_other_path(part, orders, server, tmp_path, capsys):
    fill(orders, 5)
    place = Place(tmp_path / f"a{part}b" / "t", server)
    works(place, "build", capsys)
    assert works(place, "sql --landed", capsys) == ["sum(n)", "10"]
    fill(orders, 5, start=5)
    assert works(place, "sql", capsys) == ["sum(n)", "45"]
    works(place, "rebuild", capsys)
    assert works(place, "sql --landed", capsys) == ["sum(n)", "10.0"]
    works(place, "compact", capsys)
    works(place, "rm", capsys)
    assert not Path(place.url).exists()


# Another stream.


@on_midge
@pytest.mark.parametrize("command", MAKING)
def test_the_table_of_another_stream(place, command, orders, server, capsys):
    fill(orders, 5)
    land(place.url, server.url)
    others = Stream(orders.client, "OTHERS", ["others.>"])
    try:
        line = refused(place, command, capsys, stream="OTHERS")
    finally:
        others.delete()
    assert line == f"{place.url}: is a table of stream 'ORDERS', not of stream 'OTHERS'"


@on_midge
def test_a_table_of_other_messages_or_columns(place, orders, server, capsys):
    fill(orders, 5)
    land(place.url, server.url)
    line = refused(place, "add", capsys, more=["--subject", "orders.1"])
    assert line == f"{place.url}: was made with subject '', not with subject 'orders.1'"
    line = refused(place, "add", capsys, more=["--infer"])
    assert line == f"{place.url}: was made with infers False, not with infers True"
    for more in (["--column", "m:int64"], ["--column", "d:date", "--partition-by", "d"]):
        line = refused(place, "add", capsys, more=more)
        assert line == f"{place.url}: has other columns or partitions: use midge table rebuild"


@on_midge
def test_a_stream_that_was_made_again(place, orders, server, capsys):
    fill(orders, 5)
    land(place.url, server.url)
    orders.delete()
    orders.create()
    fill(orders, 9)
    again = (
        re.escape(place.url) + r": stream ORDERS was made at \S+Z, and the table holds the one that"
        r" was made at \S+Z: make another table"
    )
    for command in ("status", "sql", *MAKING):
        assert re.fullmatch(again, refused(place, command, capsys)), command
    with place.unchanged():
        code, lines = ran(place.words("serve"), first_error)
    assert code == 1
    assert re.fullmatch(f"{re.escape(place.url)}: not landed: {again}", lines[0])
    assert lines[1:] == [
        f"{place.url}: 0 rows in 0 commits",
        f"midge table serve: not up to date: {place.url}",
    ]
    assert works(place, "sql --landed", capsys) == ["sum(n)", "10"]
    works(place, "compact", capsys)
    works(place, "rebuild", capsys)
    assert (numbers(scan(place.url, None)), TableHandle(place.url).position) == ([0, 1, 2, 3, 4], 5)


@on_midge
def test_a_stream_that_is_gone(place, orders, server, capsys):
    fill(orders, 5)
    land(place.url, server.url)
    orders.delete()
    try:
        for command in ("status", "sql", "add"):
            assert refused(place, command, capsys) == "stream ORDERS: not found"
        assert "there is no stream ORDERS of account $G" in refused(place, "build", capsys)
        with place.unchanged():
            code, lines = ran(place.words("serve"), first_error)
        assert (code, lines[0]) == (1, f"{place.url}: not landed: stream ORDERS: not found")
        assert len(lines) == 3
    finally:
        orders.create()


# Damaged files.


def cut(path):
    """Cut a file in halves; return what puts it right again."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return lambda: path.write_bytes(whole)


def newest_entry(url):
    return max(Path(url, "_delta_log").glob("*.json"))


def checkpoint_of(url):
    """Make a checkpoint and remove the log before it; return the checkpoint."""
    DeltaTable(url).create_checkpoint()
    for each in Path(url, "_delta_log").glob("*.json"):
        each.unlink()
    (checkpoint,) = Path(url, "_delta_log").glob("*.checkpoint.parquet")
    return checkpoint


def cut_checkpoint(url):
    cut(checkpoint_of(url))


def cut_log(url):
    cut(newest_entry(url))


def zeros_in_the_log(url):
    newest_entry(url).write_bytes(bytes(300))


def entry_lost(url):
    min(Path(url, "_delta_log").glob("*.json")).unlink()


@on_midge
@pytest.mark.parametrize("damage", [cut_checkpoint, cut_log, zeros_in_the_log, entry_lost])
def test_a_damaged_log(place, damage, orders, server, capsys):
    fill(orders, 5)
    land(place.url, server.url)
    damage(place.url)
    for command in COMMANDS:
        line = refused(place, command, capsys)
        assert line.startswith(f"{place.url}: cannot be read: "), command
    for function in (scan, scan_polars, latest, land):
        with place.unchanged(), pytest.raises(TableError, match="cannot be read") as caught:
            function(place.url, server.url)
        assert "\n" not in str(caught.value)


@on_midge
@pytest.mark.parametrize("backtrace", ["0", "1", "full"])
def test_a_stack_is_no_part_of_the_line(place, backtrace, orders, server):
    fill(orders, 5)
    land(place.url, server.url)
    cut_log(place.url)
    with place.unchanged():
        code, lines = ran(place.words("status"), RUST_BACKTRACE=backtrace)
    assert code == 1
    (line,) = lines
    assert line.startswith(f"midge table status: {place.url}: cannot be read: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Kernel error: bad\n   0: <unknown>\n   1: clone3\n", "Kernel error: bad"),
        ("a\n  \u21b3 b\n   0: c", "a: b"),
        ("Invalid: no magic. Detail: Python exception: Traceback (most", "Invalid: no magic."),
        ("lost.\n. Detail: Python exception: Traceback\n  File", "lost."),
        ("", "DeltaError()"),
    ],
)
def test_the_line_of_an_error_of_deltalake(text, line):
    error = DeltaError(text) if text else DeltaError()
    assert delta_reason_of(error) == line


@on_midge
def test_a_damaged_hint_is_not_needed(place, orders, server, capsys):
    fill(orders, 5)
    land(place.url, server.url)
    DeltaTable(place.url).create_checkpoint()
    Path(place.url, "_delta_log", "_last_checkpoint").write_text("{")
    fill(orders, 5, start=5)
    assert works(place, "sql", capsys) == ["sum(n)", "45"]
    land(place.url, server.url)
    works(place, "rebuild", capsys)
    assert numbers(scan(place.url, None)) == list(range(10))


def a_file_cut(path):
    return cut(path)


def a_file_lost(path):
    whole = path.read_bytes()
    path.unlink()
    return lambda: path.write_bytes(whole)


@on_midge
@pytest.mark.parametrize("damage", [a_file_cut, a_file_lost])
def test_damaged_rows(place, damage, orders, server, capsys):
    """Readers get an error; messages that come later land all the same."""
    fill(orders, 5)
    land(place.url, server.url)
    (path,) = Path(place.url).glob("*.parquet")
    mend = damage(path)
    for command in ("sql", "sql --landed", "rebuild"):
        line = refused(place, command, capsys)
        assert line.startswith(f"{place.url}: cannot be read: ")
    assert path.name in line
    for function in (
        lambda: list(scan_rows(place.url, None)),
        lambda: rebuild(place.url, {"n": "double"}, infer=True),
    ):
        with place.unchanged(), pytest.raises(TableError, match="cannot be read") as caught:
            function()
        assert "\n" not in str(caught.value)
    fill(orders, 5, start=5)
    assert land(place.url, server.url).rows == 5
    mend()
    works(place, "rebuild", capsys)
    assert numbers(scan(place.url, None)) == list(range(10))


@on_midge
@pytest.mark.parametrize("damage", [a_file_cut, a_file_lost])
def test_damaged_rows_of_a_bucket(damage, orders, server, tmp_path):
    url = str(tmp_path / "bucket")
    create_table(url, "ORDERS", server.url, columns={"op": "operation"})
    fill(orders, 5)
    land(url, server.url)
    (path,) = Path(url).glob("*.parquet")
    mend = damage(path)
    with pytest.raises(TableError, match=rf"^{re.escape(url)}: cannot be read: [^\n]*$"):
        latest(url, None)
    mend()
    assert latest(url, None).num_rows == 5


@on_midge
@pytest.mark.parametrize("damage", [a_file_cut, a_file_lost])
def test_damaged_rows_of_a_quarantine(place, damage, orders, server, capsys):
    fill(orders, 5)
    orders.publish(1, payload=b"bad 1")
    land(place.url, server.url)
    (path,) = Path(place.url + QUARANTINE_SUFFIX).glob("*.parquet")
    mend = damage(path)
    line = refused(place, "rebuild", capsys)
    assert line.startswith(f"{place.url}{QUARANTINE_SUFFIX}: cannot be read: ")
    mend()
    works(place, "rebuild", capsys)
    assert quarantined(place.url) == [b"bad 1"]


@on_midge
def test_a_damaged_quarantine(place, orders, server, capsys):
    """It is committed first, so a message for it holds up the table."""
    fill(orders, 5)
    orders.publish(1, payload=b"bad 1")
    land(place.url, server.url)
    mend = cut(newest_entry(place.url + QUARANTINE_SUFFIX))
    fill(orders, 5, start=5)
    orders.publish(1, payload=b"bad 2")
    said = f"{place.url}{QUARANTINE_SUFFIX}: cannot be read: "
    for command in ("compact", "rebuild", "build"):
        assert refused(place, command, capsys).startswith(said), command
    with place.unchanged():
        code, lines = ran(place.words("serve"), first_error)
    assert (code, len(lines)) == (1, 3)
    assert lines[0].startswith(f"{place.url}: not landed: {said}")
    assert (numbers(scan(place.url, None)), TableHandle(place.url).position) == ([0, 1, 2, 3, 4], 6)
    mend()
    land(place.url, server.url)
    assert numbers(scan(place.url, None)) == list(range(10))
    assert quarantined(place.url) == [b"bad 1", b"bad 2"]


def quarantined(url):
    return TableHandle(url).quarantined().sort_by("sequence").column("payload").to_pylist()


# A full disk.


def filled(library, url, *operation):
    """Run an operation on copies of a table, with more and more room; return the errors of each."""
    command = [sys.executable, "-m", "tests.pipeline.tables.filling", library, url, *operation]
    environment = {**os.environ, "LD_PRELOAD": library}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr
    errors = [json.loads(line) for line in done.stdout.splitlines()]
    for writes, said in enumerate(errors[:-1]):
        assert len(said) == 1, (writes, said)
        assert "No space left on device" in said[0], (writes, said)
    assert errors[-1] == []
    assert len(errors) > 1, "the operation wrote nothing"
    return errors


@on_midge
def test_a_disk_that_fills_while_messages_land(place, orders, server, library):
    fill(orders, 50)
    orders.publish(1, payload=b"bad 1")
    land(place.url, server.url)
    fill(orders, 50, start=50)
    orders.publish(1, payload=b"bad 2")
    before, after = list(range(50)), list(range(100))
    errors = filled(library, place.url, "land", server.url)
    found = set()
    for writes, said in enumerate(errors):
        url = f"{place.url}{writes}"
        rows, bad = numbers(scan(url, None)), quarantined(url)
        assert rows == (before if said else after)
        assert bad[:1] + bad[1:] == [b"bad 1", b"bad 2"][: len(bad)]
        found.add((len(rows), len(bad)))
        land(url, server.url)
        assert (numbers(scan(url, None)), quarantined(url)) == (after, [b"bad 1", b"bad 2"])
        assert TableHandle(url).position == 102
    assert found == {(50, 1), (50, 2), (100, 2)}  # the quarantine comes first


@on_midge
@pytest.mark.parametrize("operation", ["rebuild", "compact"])
def test_a_disk_that_fills_while_a_table_is_written_anew(
    place, operation, orders, server, library, capsys
):
    """A rebuild commits the table and then the quarantine, and says which of them failed."""
    for start in range(0, 30, 10):
        fill(orders, 10, start=start)
        orders.publish(1, payload=b"bad")
        land(place.url, server.url)
    given = [word if word != place.url else "TABLE" for word in place.words(operation)]
    failed = set()
    for writes, said in enumerate(filled(library, place.url, *given)):
        url = f"{place.url}{writes}"
        table = TableHandle(url)
        assert numbers(scan(url, None)) == list(range(30))
        assert (table.position, quarantined(url)) == (33, [b"bad"] * 3)
        of_quarantine = bool(said) and f"{url}{QUARANTINE_SUFFIX}: " in said[0]
        if said:
            failed.add("quarantine" if of_quarantine else "table")
        is_new = operation == "rebuild" and (not said or of_quarantine)
        assert table.layout.columns["n"] == ("double" if is_new else "int64")
        works(Place(url, server), operation, capsys)
        assert numbers(scan(url, None)) == list(range(30))
        assert quarantined(url) == [b"bad"] * 3
    assert failed == {"table", "quarantine"}


@on_midge
@pytest.mark.parametrize("command", MAKING)
def test_a_disk_that_fills_while_a_table_is_made(
    command, orders, server, library, tmp_path, capsys
):
    fill(orders, 20)
    place = Place(tmp_path / "t", server)
    given = [word if word != place.url else "TABLE" for word in place.words(command)]
    wanted = list(range(20)) if command == "build" else []
    for writes, said in enumerate(filled(library, place.url, *given)):
        url = f"{place.url}{writes}"
        if Path(url, "_delta_log").exists() and list(Path(url, "_delta_log").glob("*.json")):
            assert numbers(scan(url, None)) == ([] if said else wanted)
        else:
            assert said
        works(Place(url, server), command, capsys)
        assert numbers(scan(url, None)) == wanted


@on_midge
def test_a_server_of_tables_on_a_full_disk(place, orders, server, library):
    """In a process of its own, with rows alone, so that these are what the disk does not take."""
    fill(orders, 50)
    land(place.url, server.url)
    fill(orders, 50, start=50)
    with place.unchanged():
        code, lines = ran(place.words("serve"), first_error, LD_PRELOAD=library, FULL_DISK="0")
    assert code == 1
    assert lines[0].startswith(f"{place.url}: not landed: {place.url}: cannot be written to: ")
    assert "No space left on device" in lines[0]
    assert lines[1:] == [
        f"{place.url}: 0 rows in 0 commits",
        f"midge table serve: not up to date: {place.url}",
    ]
    land(place.url, server.url)
    assert numbers(scan(place.url, None)) == list(range(100))


@on_midge
def test_a_full_disk_does_not_keep_readers_out(place, orders, server, library):
    fill(orders, 10)
    land(place.url, server.url)
    full = {"LD_PRELOAD": library, "FULL_DISK": "0"}
    with place.unchanged():
        assert ran(place.words("sql"), **full) == (0, ["sum(n)", "45"])
        assert ran(place.words("sql --landed"), **full) == (0, ["sum(n)", "45"])
        assert ran(place.words("status"), **full)[0] == 0
    code, lines = ran(place.words("rm"), **full)
    assert (code, lines) == (0, [f"{place.url}: deleted"])
    assert not Path(place.url).exists()


# A lost object store.


@on_midge
@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "rm"])
def test_a_lost_object_store(command, orders, server, monkeypatch, capsys):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    line = refused(Place("s3://bucket/orders", server), command, capsys)
    assert line.startswith("s3://bucket/orders: cannot be read: ")
    assert "hidden" not in line


# A clock that is an hour off.


@on_midge
def test_a_clock_that_is_an_hour_off(place, orders, server, library):
    """Rows and versions keep the order of their commits, and no version loses a file."""
    fill(orders, 10)
    land(place.url, server.url)
    for end, off_s in ((20, -HOUR_S), (30, HOUR_S), (40, 0)):
        fill(orders, 10, start=end - 10)

        def landed(_, end=end):
            deadline = time.monotonic() + WAIT_S
            while TableHandle(place.url).position < end:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            return ""

        preload = {"LD_PRELOAD": library, "CLOCK_OFF_S": str(off_s)}
        served = ran(place.words("serve"), landed, **preload)
        assert served == (0, [f"{place.url}: 10 rows in 1 commit"])
        assert ran(place.words("compact"), **preload)[0] == 0
        assert ran(place.words("sql"), **preload) == (0, ["sum(n)", str(sum(range(end)))])
    times = [each["timestamp"] // 1000 for each in reversed(DeltaTable(place.url).history())]
    assert max(times) - min(times) > HOUR_S  # the clock was off
    handles = (DeltaTable(place.url, version=each) for each in range(1, len(times)))
    versions = [sorted(each.to_pyarrow_table()["n"].to_pylist()) for each in handles]
    assert [len(each) for each in versions] == [10, 20, 20, 30, 30, 40, 40]
    assert versions[-1] == list(range(40))


@on_midge
@pytest.mark.parametrize("off_s", [-HOUR_S, HOUR_S])
def test_a_table_that_a_clock_an_hour_off_made(off_s, orders, server, library, tmp_path):
    fill(orders, 10)
    place = Place(tmp_path / "t", server)
    preload = {"LD_PRELOAD": library, "CLOCK_OFF_S": str(off_s)}
    assert ran(place.words("build"), **preload)[0] == 0
    assert TableHandle(place.url).position == 10
    create_table(place.url, "ORDERS", server.url, columns={"n": "int64"})  # it is there already
    fill(orders, 10, start=10)
    land(place.url, server.url)
    assert ran(place.words("rebuild"), **preload) == (0, [f"{place.url}: 20 rows"])
    fill(orders, 10, start=20)
    land(place.url, server.url)
    assert numbers(scan(place.url, None)) == list(range(30))
