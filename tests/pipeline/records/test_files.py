"""The record format's readers and writer, without Spark."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midge.pipeline.records.files import (
    RecordsError,
    check_segment,
    list_segments,
    read_table,
    require_records,
    write_records,
    write_segment,
)
from midge.pipeline.records.format import (
    CLIENTS,
    DATA_SETS,
    INTEREST,
    MESSAGES,
    schema_mismatch,
    segment_path,
)

START = datetime(2026, 3, 2, 8, 59, 58, tzinfo=UTC)


def message(seconds, subject="a.b"):
    return {
        "time": START + timedelta(seconds=seconds),
        "server": "s1",
        "account": "$G",
        "cid": 1,
        "subject": subject,
        "reply": None,
        "headers": [("k", ["v", "w"])],
        "payload": b"\x00\xff",
        "size": 2,
        "plain_deliveries": 1,
        "queue_deliveries": 0,
        "no_interest": False,
    }


def test_a_segment_lies_under_its_date_and_hour(tmp_path):
    path = segment_path(tmp_path, MESSAGES, START, "s1", 7)
    expected = "messages/date=2026-03-02/hour=08/part-s1-000007.parquet"
    assert str(path.relative_to(tmp_path)) == expected


def test_a_server_name_cannot_leave_the_directory(tmp_path):
    path = segment_path(tmp_path, MESSAGES, START, "../../etc/x", 1)
    assert path.parent == segment_path(tmp_path, MESSAGES, START, "s", 1).parent


def test_rows_come_back_as_they_were_written_and_split_by_hour(tmp_path):
    rows = [message(seconds) for seconds in range(5)]
    paths = write_records(tmp_path, MESSAGES, "s1", rows, rows_per_segment=2)
    hours = [path.parent.name for path in paths]
    assert hours == ["hour=08", "hour=09", "hour=09"]
    assert read_table(tmp_path, MESSAGES).to_pylist() == rows
    assert read_table(tmp_path, MESSAGES, ["time", "cid"]).column_names == ["time", "cid"]


def test_segments_are_listed_in_the_order_they_were_written(tmp_path):
    rows = [message(seconds / 100) for seconds in range(12)]
    paths = write_records(tmp_path, MESSAGES, "s1", rows, rows_per_segment=1)
    late = paths[-1].rename(paths[-1].with_name("part-s1-1000000.parquet"))
    assert list_segments(tmp_path, MESSAGES) == [*paths[:-1], late]


def test_half_written_files_are_invisible(tmp_path):
    write_records(tmp_path, MESSAGES, "s1", [message(0)])
    whole = list_segments(tmp_path, MESSAGES)
    whole[0].with_name(".part-s1-000009.parquet.tmp").write_bytes(b"PAR1 half")
    assert list_segments(tmp_path, MESSAGES) == whole


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def damage(path):
    """Change bytes of a data page, and leave the footer good."""
    data = bytearray(path.read_bytes())
    data[8:200] = bytes(192)
    path.write_bytes(bytes(data))


def replace_by_text(path):
    path.write_text("not parquet at all")


def empty(path):
    path.write_bytes(b"")


def replace_by_foreign(path):
    pq.write_table(pa.table({"x": [1]}), path)


def replace_by_other_types(path):
    table = pq.read_table(path)
    index = table.schema.get_field_index("size")
    pq.write_table(table.set_column(index, "size", pa.array(["2"] * len(table))), path)


def drop_a_time(path):
    table = pq.read_table(path)
    nothing = pa.nulls(len(table), table.schema.field("time").type)
    pq.write_table(table.set_column(0, "time", nothing), path)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (cut, "not a readable Parquet file"),
        (damage, "not a readable Parquet file"),
        (replace_by_text, "not a readable Parquet file"),
        (empty, "not a readable Parquet file"),
        (replace_by_foreign, "column 'time' is missing"),
        (replace_by_other_types, "column 'size' is string, expected int64"),
        (drop_a_time, "column 'time' has a null"),
    ],
)
def test_a_bad_segment_is_set_aside_with_its_reason(tmp_path, spoil, reason):
    rows = [message(seconds, f"subject.{seconds}") for seconds in range(3, 103)]
    good, bad = write_records(tmp_path, MESSAGES, "s1", rows, rows_per_segment=50)
    spoil(bad)
    found = []
    assert read_table(tmp_path, MESSAGES, on_bad=found.append).to_pylist() == rows[:50]
    assert [each.path for each in found] == [bad]
    assert reason in found[0].reason
    assert check_segment(good, MESSAGES) is None


def test_a_segment_that_retention_took_away_is_named(tmp_path):
    assert check_segment(tmp_path / "gone.parquet", MESSAGES) == "gone before it was read"


def test_more_columns_and_other_layouts_of_the_same_types_are_welcome():
    fields = [*MESSAGES.schema, pa.field("trace", pa.string())]
    index = MESSAGES.schema.get_field_index("subject")
    fields[index] = pa.field("subject", pa.dictionary(pa.int32(), pa.large_string()))
    assert schema_mismatch(pa.schema(fields), MESSAGES) is None


def test_no_directory_and_no_records_are_clear_errors(tmp_path):
    with pytest.raises(RecordsError, match="no such directory"):
        require_records(tmp_path / "nowhere")
    with pytest.raises(RecordsError, match="expected messages/, interest/, clients/"):
        require_records(tmp_path)
    write_segment(tmp_path / "clients" / "x.parquet", CLIENTS.schema.empty_table())
    require_records(tmp_path)


def test_an_empty_data_set_reads_as_no_rows(tmp_path):
    for data_set in DATA_SETS.values():
        assert read_table(tmp_path, data_set).schema.names == data_set.schema.names
    assert INTEREST.schema.field("queue").nullable
