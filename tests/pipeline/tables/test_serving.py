"""`midge table`: make, serve, show and compact tables of streams."""

import signal
import subprocess
import sys
import time

import pytest
from deltalake import DeltaTable

from midge import cli
from midge.pipeline.spark_source.reader import Columns
from midge.pipeline.tables import serving
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.landing import Landed
from midge.pipeline.tables.serving import Job, TableServer, TableTask
from midge.pipeline.tables.table_handle import Source, TableHandle, create
from midge.tables import create_table, land, scan
from tests.pipeline.tables.test_tables import fill, numbers, orders, server, table

__all__ = ["orders", "server", "table"]  # the fixtures
pytestmark = pytest.mark.timeout(120)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for 60 s"
        time.sleep(0.02)


def test_add_makes_a_table_with_columns(orders, server, tmp_path, capsys):
    url = str(tmp_path / "t")
    add = ["table", "add", url, "ORDERS", "--server", server.url, "--column"]
    assert cli.main([*add, "n:int64"]) == 0
    assert TableHandle(url).layout.columns == {"n": "int64"}
    assert cli.main([*add, "n:double"]) == 1
    assert cli.main([*add, "n"]) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [
        "midge table add: --column: expected NAME:KIND, got 'n'"
    ]


def test_status_shows_lag_and_size(table, orders, server, capsys):
    fill(orders, 30)
    land(table, server.url)
    fill(orders, 12, start=30)
    assert cli.main(["table", "status", table, "--server", server.url]) == 0
    assert TableHandle(table).size()[:2] == (30, 1)
    words = capsys.readouterr().out.replace("│", " ").split()
    at = words.index("ORDERS")
    assert words[at + 1 : at + 5] == ["30", "12", "30", "1"]


def test_compact_joins_files_and_keeps_rows_and_position(table, orders, server, capsys):
    for start in range(0, 50, 10):
        fill(orders, 10, start=start)
        land(table, server.url)
    assert cli.main(["table", "compact", table]) == 0
    assert "5 files joined into 1" in capsys.readouterr().out
    assert (TableHandle(table).size()[:2], TableHandle(table).position) == ((50, 1), 50)
    fill(orders, 10, start=50)
    land(table, server.url)
    assert numbers(scan(table, None)) == list(range(60))


def test_compact_of_no_table_leaves_no_directory(tmp_path, capsys):
    assert cli.main(["table", "compact", str(tmp_path / "none")]) == 1
    assert "is no Delta table" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_serve_lands_until_sigterm_and_then_a_last_time(table, orders, server):
    fill(orders, 100)
    command = [sys.executable, "-m", "midge", "table", "serve", table, "--every", "600"]
    process = subprocess.Popen(
        [*command, "--server", server.url], stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: TableHandle(table).position == 100)
        fill(orders, 20, start=100)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, f"{table}: 120 rows in 2 commits\n")
    assert numbers(scan(table, None)) == list(range(120))


def test_a_table_that_fails_is_tried_again_and_holds_up_no_other(
    table, orders, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(serving, "_BACK_OFF_S", 0.05)
    fill(orders, 10)
    late = str(tmp_path / "late")
    tables = TableServer()
    tables.change({url: Job(url, server.url, 0.05) for url in (late, table)})
    wait_for(lambda: tables.tasks[table].landed.rows == 10)
    wait_for(lambda: "is no Delta table" in tables.tasks[late].error)
    create_table(late, "ORDERS", server.url)
    wait_for(lambda: tables.tasks[late].landed.rows == 10)
    assert tables.stop(60) == []
    assert [task.error for task in tables.tasks.values()] == ["", ""]
    assert DeltaTable(late).to_pyarrow_table().num_rows == 10


def test_stop_names_a_table_that_hangs(monkeypatch):
    import threading

    release = threading.Event()

    def hang(url, _server):
        if url == "hangs":
            release.wait(60)
        return Landed()

    monkeypatch.setattr(serving, "land", hang)
    tables = TableServer()
    tables.change({name: Job(name, "") for name in ("hangs", "works")})
    assert tables.stop(0.5) == ["hangs"]
    release.set()
    assert tables.stop(60) == []


def test_changed_jobs_add_remove_and_compact(table, orders, server, tmp_path):
    first, second = (str(tmp_path / name) for name in ("first", "second"))
    job = Job(first, server.url, 0.05, stream="ORDERS", infer=True, compact_commits=3)
    tables = TableServer()
    tables.change({"one": job})
    for start in range(0, 60, 10):
        fill(orders, 10, start=start)
        wait_for(lambda upto=start + 10: tables.tasks["one"].landed.position == upto)
    tables.change({"two": Job(second, server.url, 0.05, stream="ORDERS")})
    wait_for(lambda: tables.tasks["two"].landed.rows == 60)
    assert list(tables.tasks) == ["two"]
    assert tables.stop(60) == []
    assert numbers(scan(first, None)) == list(range(60))
    assert TableHandle(first).size()[1] <= 3


def test_ls_and_rm(table, orders, server, tmp_path, capsys):
    fill(orders, 5)
    orders.publish(1, payload=b"bad")
    land(table, server.url)
    assert cli.main(["table", "ls", str(tmp_path)]) == 0
    words = capsys.readouterr().out.replace("│", " ").split()
    at = words.index("ORDERS")
    assert words[at + 1 : at + 4] == ["6", "5", "1"]
    assert cli.main(["table", "rm", str(tmp_path), "--yes"]) == 1
    assert cli.main(["table", "rm", table, "--yes"]) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("partition_by", [(), ("day",)])
def test_a_day_of_landings_leaves_few_files_and_opens_as_fast_as_at_first(
    partition_by, tmp_path, monkeypatch
):
    """One landing a minute for 24 hours, compacted as `[[tables]]` does by default."""
    url = str(tmp_path / "t")
    columns = {"n": "int64", "day": "date"} if partition_by else {"n": "int64"}
    create(url, Decoder(columns), Source("S", "then"), partition_by)
    minute_ns, rows = 60 * 10**9, 200

    def land_some(_url, _server):
        table = TableHandle(url)
        seqs = list(range(table.position + 1, table.position + 1 + rows))
        times = [seq * minute_ns // rows for seq in seqs]
        payloads = [b'{"n": %d}' % seq for seq in seqs]
        messages = Columns(seqs, times, [b"a"] * rows, payloads, [b""] * rows)
        table.append(table.decoder().decode(messages), seqs[-1])
        return Landed(rows=rows, commits=1, position=seqs[-1])

    monkeypatch.setattr(serving, "land", land_some)
    task = TableTask("t", Job(url, "", compact_commits=60))
    costs = []
    for minute in range(24 * 60):
        task._land()
        if minute % 60 == 59:
            begin = time.process_time()
            for _ in range(5):
                TableHandle(url)
            costs.append((time.process_time() - begin) / 5)
    count, files, _ = TableHandle(url).size()
    assert count == 24 * 60 * rows
    assert files <= 1.2 * (1 + len(partition_by))
    assert sum(costs[-3:]) <= 2 * sum(costs[:3]), costs
