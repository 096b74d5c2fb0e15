"""The tables of a lake: each batch is one commit, and a replaced table is replaced in one."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from midge.pipeline.lake import delta_log
from midge.pipeline.lake.lake_table import LakeError, LakeTable
from midge.pipeline.lake.tables import Lake
from tests.pipeline.tables.workers import compile_kill_points

COLUMNS = "segment string, reason string, size_bytes long, modified timestamp, seen timestamp"
DISCONNECTS = (
    "server string, account string, reason string, disconnects long, clients long, "
    "slow_consumers long, mean_duration_s double"
)
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DATED = LakeTable("silver/test", "a row", "n bigint, text string, time timestamp", True, "time")
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("time", pa.timestamp("us", "UTC"))])


@pytest.fixture
def lake(spark, tmp_path):
    return Lake(spark, str(tmp_path / "lake"))


def bad_files(spark, *names):
    return spark.createDataFrame([(name, "bad", 1, None, None) for name in names], COLUMNS)


def log_of(lake, name):
    return DeltaTable(lake.path(name))


def test_a_growing_table_has_one_commit_per_batch(spark, lake):
    for batch, name in enumerate(["a", "b"]):
        assert lake.append("bronze/quarantine", bad_files(spark, name), batch)
    small = bad_files(spark, "c").toArrow()
    assert lake.append("bronze/quarantine", small, 2)
    log = log_of(lake, "bronze/quarantine")
    assert [entry["operation"] for entry in log.history()].count("WRITE") == 3
    found = log.to_pyarrow_table()
    assert sorted(zip(found["segment"].to_pylist(), found["batch"].to_pylist(), strict=True)) == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]
    assert [row.segment for row in lake.read_batch("bronze/quarantine", 1).collect()] == ["b"]
    before = lake.read_before("bronze/quarantine", 2).collect()
    assert sorted(row.segment for row in before) == ["a", "b"]


def test_a_repeated_batch_is_neither_written_nor_committed_again(spark, lake):
    lake.append("bronze/quarantine", bad_files(spark, "a"), 0)
    version = log_of(lake, "bronze/quarantine").version()
    assert not lake.append("bronze/quarantine", bad_files(spark, "a"), 0)
    assert log_of(lake, "bronze/quarantine").version() == version


def test_files_of_a_crash_before_the_commit_are_in_no_version(spark, lake):
    lake._write("bronze/quarantine", bad_files(spark, "a").selectExpr("*", "0L AS batch"))
    assert lake.read("bronze/quarantine").count() == 0
    lake.append("bronze/quarantine", bad_files(spark, "a"), 0)
    assert [row.segment for row in lake.read("bronze/quarantine").collect()] == ["a"]


def test_a_replaced_table_shows_only_its_last_version_and_keeps_the_files_of_readers(spark, lake):
    rows = {}
    for reason in ("first", "second"):
        frame = spark.createDataFrame([("s", "$G", reason, 1, 1, 0, 0.5)], DISCONNECTS)
        lake.replace("gold/disconnects", frame)
        rows[reason] = lake.read("gold/disconnects")
    found = log_of(lake, "gold/disconnects").to_pyarrow_table()
    assert found["reason"].to_pylist() == ["second"]
    for reason, read in rows.items():
        assert [row.reason for row in read.collect()] == [reason]


# Without Spark


def write(log, numbers, batch, per_day=1):
    rows = [
        {"n": n, "text": f"t{n}" * (1 + 40 * (n == 3)), "time": NOON + timedelta(days=n // per_day)}
        for n in numbers
    ]
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches()
    files = list(delta_log.write_files(batches, log.url, SCHEMA, "time"))
    log.commit(files, SCHEMA.append(pa.field("date", pa.date32())), batch)
    log.refresh()
    return files


def numbers(log):
    return sorted(log.handle.to_pyarrow_table()["n"].to_pylist())


def test_a_file_holds_one_date_and_has_statistics(tmp_path):
    log = delta_log.DeltaLog(f"file://{tmp_path}/t", DATED)
    files = write(log, range(4), 0, per_day=2)
    assert [each.date for each in files] == ["2026-03-02", "2026-03-03"]
    stats = [json.loads(each.stats) for each in files]
    assert stats[0]["numRecords"] == 2
    assert stats[0]["minValues"] == {"n": 0, "text": "t0", "time": "2026-03-02T12:00:00.000000Z"}
    # Long texts have none, since a cut maximum would be too small.
    assert stats[1]["maxValues"] == {"n": 3, "time": "2026-03-03T12:00:00.000000Z"}
    assert log.rows == 4
    assert len(log.files("n", 2, 9)) == len(log.files("time", NOON + timedelta(hours=1))) == 1
    found = log.handle.to_pyarrow_table(filters=[("n", ">", 2)])
    assert (found["n"].to_pylist(), [str(day) for day in found["date"].to_pylist()]) == (
        [3],
        ["2026-03-03"],
    )


def test_days_are_replaced_in_one_commit(tmp_path):
    log = delta_log.DeltaLog(f"file://{tmp_path}/t", DATED)
    write(log, range(4), 0)
    rows = [{"n": 11, "text": "new", "time": NOON + timedelta(days=1)}]
    files = delta_log.write_files(
        pa.Table.from_pylist(rows, SCHEMA).to_batches(), log.url, SCHEMA, "time"
    )
    log.commit(files, SCHEMA, dates=["2026-03-03", "2026-03-04"])
    log.refresh()
    assert numbers(log) == [0, 3, 11]
    assert log.batch == 0


def test_old_days_go_and_many_files_become_few(tmp_path, monkeypatch):
    log = delta_log.DeltaLog(f"file://{tmp_path}/t", DATED)
    for batch in range(delta_log.FILES_MAX + 2):
        write(log, [batch], batch, per_day=20)
    log.tidy()
    assert (numbers(log), len(log.files("n"))) == (list(range(34)), 2)
    assert log.batch == 33
    log.tidy(keep_days=1)
    assert len(log.dates()) == 2
    log.tidy(keep_days=0.5)
    assert numbers(log) == list(range(20, 34))


def test_the_log_removes_its_old_files(tmp_path, monkeypatch):
    assert delta_log._PROPERTIES["delta.logRetentionDuration"] == "interval 1 hour"
    monkeypatch.setitem(delta_log._PROPERTIES, "delta.logRetentionDuration", "interval 0 seconds")
    log = delta_log.DeltaLog(f"file://{tmp_path}/t", DATED)
    for batch in range(105):
        write(log, [batch] if batch % 20 == 0 else [], batch, per_day=200)
    assert len(list((tmp_path / "t" / "_delta_log").glob("*.json"))) < 20
    assert (numbers(log), log.batch) == ([0, 20, 40, 60, 80, 100], 104)


def test_writers_whose_clocks_are_an_hour_off(tmp_path):
    """A clock that is ahead makes the log look old; what a handle has not read yet is removed."""
    url = f"file://{tmp_path}/t"
    log = delta_log.DeltaLog(url, DATED)
    write(log, [0], 0)
    library = str(compile_kill_points(tmp_path))
    program = "from tests.pipeline.lake import test_delta_log as t; t.write_batches({!r}, {}, {})"
    for first, last, off_s in ((1, 5, -3600), (6, 120, 3600)):
        subprocess.run(
            [sys.executable, "-c", program.format(url, first, last)],
            env={**os.environ, "LD_PRELOAD": library, "CLOCK_OFF_S": str(off_s)},
            check=True,
        )
    assert not (tmp_path / "t" / "_delta_log" / f"{2:020}.json").exists()
    with pytest.raises(LakeError, match=r"cannot be read: .*File not found"):
        log.batch  # noqa: B018
    log.refresh()
    assert (numbers(log), log.batch) == (list(range(121)), 120)
    write(log, [121], 121)
    assert (numbers(log), log.batch) == (list(range(122)), 121)
    log.tidy(keep_days=10)
    assert numbers(log) == list(range(111, 122))


def write_batches(url, first, last):
    log = delta_log.DeltaLog(url, DATED)
    for batch in range(first, last + 1):
        write(log, [batch], batch)
