"""The Delta format: the same files under a log that every reader of Delta understands."""

import pytest
from deltalake import DeltaTable

from midge.pipeline.lake.tables import Lake

COLUMNS = "segment string, reason string, size_bytes long, modified timestamp, seen timestamp"
DISCONNECTS = (
    "server string, account string, reason string, disconnects long, clients long, "
    "slow_consumers long, mean_duration_s double"
)


@pytest.fixture
def lake(spark, tmp_path):
    return Lake(spark, str(tmp_path / "lake"), "delta")


def bad_files(spark, *names):
    return spark.createDataFrame([(name, "bad", 1, None, None) for name in names], COLUMNS)


def log_of(lake, name):
    return DeltaTable(lake.path(name))


def test_a_growing_table_has_one_commit_per_batch(spark, lake):
    for batch, name in enumerate(["a", "b", "c"]):
        assert lake.append("bronze/quarantine", bad_files(spark, name), batch)
    log = log_of(lake, "bronze/quarantine")
    assert [entry["operation"] for entry in log.history()].count("WRITE") == 3
    found = log.to_pyarrow_table()
    assert sorted(zip(found["segment"].to_pylist(), found["batch"].to_pylist(), strict=True)) == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]
    # The same rows, read as plain Parquet.
    assert lake.read("bronze/quarantine").count() == 3


def test_a_repeated_batch_is_neither_written_nor_committed_again(spark, lake):
    lake.append("bronze/quarantine", bad_files(spark, "a"), 0)
    version = log_of(lake, "bronze/quarantine").version()
    assert not lake.append("bronze/quarantine", bad_files(spark, "a"), 0)
    assert log_of(lake, "bronze/quarantine").version() == version


def test_a_crash_between_write_and_commit_is_mended_by_the_repeat(spark, lake):
    plain = Lake(spark, lake.storage.root, "parquet")
    plain.append("bronze/quarantine", bad_files(spark, "a"), 0)
    lake.append("bronze/quarantine", bad_files(spark, "a"), 0)
    assert log_of(lake, "bronze/quarantine").to_pyarrow_table()["segment"].to_pylist() == ["a"]


def test_a_replaced_table_shows_only_its_last_version(spark, lake):
    for reason in ("first", "second"):
        frame = spark.createDataFrame([("s", "$G", reason, 1, 1, 0, 0.5)], DISCONNECTS)
        lake.replace("gold/disconnects", frame)
    found = log_of(lake, "gold/disconnects").to_pyarrow_table()
    assert found["reason"].to_pylist() == ["second"]
    assert [row.reason for row in lake.read("gold/disconnects").collect()] == ["second"]
