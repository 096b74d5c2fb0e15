"""Segments on disk: names, numbers, leftovers and retention."""

import os
import subprocess
import sys

import pyarrow as pa

from midge.server.recorder.segments import Numbering, RecordingSegment, file_safe, retain

SCHEMA = pa.schema([pa.field("time", pa.int64())])
HOUR = 13 * 24 + 5  # 1970-01-14, five o'clock


def finished(path, size=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def aged(path, modified_s):
    os.utime(path, (modified_s, modified_s))
    return path


def test_a_segment_is_invisible_until_it_is_whole(tmp_path):
    segment = RecordingSegment(tmp_path / "part-s-000000.parquet", SCHEMA, HOUR)
    segment.write(pa.table({"time": [1, 2]}, SCHEMA))
    assert [path.name[0] for path in tmp_path.iterdir()] == ["."]
    segment.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["part-s-000000.parquet"]


def test_an_abandoned_segment_leaves_nothing(tmp_path):
    RecordingSegment(tmp_path / "part-s-000000.parquet", SCHEMA, HOUR).abandon()
    assert list(tmp_path.iterdir()) == []


def test_paths_tell_data_set_date_hour_server_and_number(tmp_path):
    numbering = Numbering(tmp_path, "my server/1")
    numbering.path("messages", HOUR)
    path = numbering.path("messages", HOUR)
    expected = "messages/date=1970-01-14/hour=05/part-my_server_1-000001.parquet"
    assert str(path.relative_to(tmp_path)) == expected


def test_numbers_go_on_after_a_restart(tmp_path):
    finished(Numbering(tmp_path, "s").path("clients", HOUR))
    assert Numbering(tmp_path, "s").path("clients", HOUR).name == "part-s-000001.parquet"
    assert Numbering(tmp_path, "other").path("clients", HOUR).name == "part-other-000000.parquet"


def test_what_a_dead_process_left_is_removed_and_a_live_ones_is_not(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    directory = tmp_path / "messages" / "date=1970-01-14" / "hour=05"
    dead = finished(directory / f".part-s-000000.parquet.{ended.pid}")
    alive = finished(directory / f".part-s-000001.parquet.{os.getppid()}")
    foreign = finished(directory / f".part-t-000000.parquet.{ended.pid}")
    Numbering(tmp_path, "s")
    assert not dead.exists()
    assert alive.exists()
    assert foreign.exists()


def test_names_that_no_path_can_hold():
    assert file_safe("a/b c") == "a_b_c"
    assert file_safe("") == "_"


def test_old_segments_go_and_empty_directories_with_them(tmp_path):
    numbering = Numbering(tmp_path, "s")
    old = aged(finished(numbering.path("messages", HOUR)), 1000)
    new = aged(finished(numbering.path("interest", HOUR)), 1900)
    assert retain(tmp_path, age_s=500, total_bytes=0, now_s=2000) == 1
    assert not old.parent.exists()
    assert not old.parent.parent.exists()
    assert new.exists()


def test_the_oldest_go_while_all_are_too_large(tmp_path):
    numbering = Numbering(tmp_path, "s")
    paths = [
        aged(finished(numbering.path(data_set, HOUR), size=10), modified_s)
        for modified_s, data_set in ((3, "messages"), (1, "messages"), (2, "interest"))
    ]
    assert retain(tmp_path, age_s=0, total_bytes=20, now_s=10) == 1
    assert [path.exists() for path in paths] == [True, False, True]


def test_without_limits_everything_stays(tmp_path):
    path = aged(finished(Numbering(tmp_path, "s").path("messages", HOUR)), 0)
    assert retain(tmp_path, 0, 0) == 0
    assert path.exists()


def test_only_segments_are_deleted(tmp_path):
    notes = aged(finished(tmp_path / "messages" / "notes.txt"), 0)
    retain(tmp_path, age_s=1, total_bytes=0)
    assert notes.exists()
