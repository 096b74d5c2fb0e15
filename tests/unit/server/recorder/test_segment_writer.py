"""The writer's thread: rolling, failing disks, and counts."""

import os
import threading

import pyarrow.parquet as pq
import pytest

from midge import Server
from midge.protocol.frame import compose
from midge.server.config.options import Recorder as RecorderOptions
from midge.server.recorder import segment_writer
from midge.server.recorder.message_rows import MessageRows
from midge.server.recorder.segment_writer import ROLL, SegmentWriter
from midge.server.recorder.segments import RecordingSegment

HOUR = 480_000


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Try again at once after a failure."""
    monkeypatch.setattr(segment_writer, "_RETRY_S", 0.0)


def make_writer(tmp_path, **options):
    writer = SegmentWriter(RecorderOptions(directory=str(tmp_path), **options), "s")
    writer.start()
    return writer


def rows_of(count, hour=HOUR, payload=b""):
    rows = MessageRows(count)
    rows.hour = hour
    for number in range(count):
        subject = rows.subject_code(b"a.%d" % (number % 3))
        time_us = hour * 3_600_000_000 + number
        rows.add(time_us, rows.account_code("A"), 1, subject, compose(b"a", payload), 1, 0, True)
    return rows


def segments(tmp_path):
    return sorted(tmp_path.rglob("part-*.parquet"))


def counts(tmp_path):
    return [pq.read_metadata(path).num_rows for path in segments(tmp_path)]


def test_stopping_writes_what_is_queued(tmp_path):
    writer = make_writer(tmp_path)
    writer.put(rows_of(10))
    writer.put(rows_of(5))
    assert writer.stop(30)
    assert counts(tmp_path) == [15]
    assert (writer.written, writer.taken, writer.lost, writer.segments) == (15, 15, 0, 1)
    assert len(writer.free) == 2


def test_what_is_left_when_it_ends_does_not_wait_for_a_quiet_machine(tmp_path, monkeypatch):
    priorities = []

    def finish(self):
        priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        original(self)

    original = RecordingSegment.finish
    monkeypatch.setattr(RecordingSegment, "finish", finish)
    writer = make_writer(tmp_path)
    writer.put(rows_of(10))
    assert writer.stop(30)
    assert priorities == [os.getpriority(os.PRIO_PROCESS, threading.get_native_id())]
    assert counts(tmp_path) == [10]


async def test_rows_of_a_server_that_stops_are_not_left_to_the_thread_of_low_priority(
    tmp_path, monkeypatch
):
    threads = []

    def write(self, table):
        threads.append(threading.current_thread().name)
        return original(self, table)

    original = RecordingSegment.write
    monkeypatch.setattr(RecordingSegment, "write", write)
    async with Server(port=-1, recorder={"directory": str(tmp_path)}) as server:
        server.publish("orders.new", "tea")
    assert set(threads) == {"midge-recorder-end"}


def test_ending_gives_up_on_a_disk_that_hangs(tmp_path, monkeypatch):
    def finish(self):
        goes_on.wait(30)
        original(self)

    goes_on = threading.Event()
    original = RecordingSegment.finish
    monkeypatch.setattr(RecordingSegment, "finish", finish)
    writer = make_writer(tmp_path)
    writer.put(rows_of(10))
    assert not writer.stop(0.01)
    goes_on.set()
    [last] = [each for each in threading.enumerate() if each.name == "midge-recorder-end"]
    last.join(30)
    assert counts(tmp_path) == [10]


def test_it_rolls_when_told_when_large_and_on_the_hour(tmp_path):
    writer = make_writer(tmp_path, roll_size_bytes=100_000)
    writer.put(rows_of(1))
    writer.put(ROLL)
    writer.put(rows_of(2))
    writer.put(rows_of(3, HOUR + 1))
    writer.put(rows_of(4, HOUR + 1, bytes(range(256)) * 500))
    writer.put(rows_of(5, HOUR + 1))
    assert writer.stop(30)
    assert sum(counts(tmp_path)) == 15
    assert len({path.parent for path in segments(tmp_path)}) == 2
    assert counts(tmp_path)[:2] == [1, 2]


def fail_once(monkeypatch, name, error):
    original = getattr(RecordingSegment, name)
    failures = [error]

    def failing(self, *arguments):
        if failures:
            raise failures.pop()
        return original(self, *arguments)

    monkeypatch.setattr(RecordingSegment, name, failing)


@pytest.mark.parametrize("step", ["write", "finish"])
def test_a_full_disk_costs_the_open_segment_and_no_more(tmp_path, monkeypatch, step):
    fail_once(monkeypatch, step, OSError(28, "No space left on device"))
    writer = make_writer(tmp_path)
    writer.put(rows_of(10))
    writer.put(ROLL)
    writer.put(rows_of(5))
    assert writer.stop(30)
    assert counts(tmp_path) == [5]
    assert (writer.written, writer.lost, writer.errors) == (5, 10, 1)
    assert not list(tmp_path.rglob(".part-*"))


def test_failures_are_logged_once_in_a_while(tmp_path, monkeypatch):
    logged = []
    monkeypatch.setattr(
        segment_writer.log, "error", lambda event, **fields: logged.append((event, fields))
    )

    def failing(self, *arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(RecordingSegment, "write", failing)
    writer = make_writer(tmp_path)
    for _ in range(50):
        writer.put(rows_of(2))
    assert writer.stop(30)
    assert (writer.errors, writer.lost) == (50, 100)
    [(event, fields)] = logged
    assert event == "recording_failed"
    assert "Input/output error" in fields["error"]


def test_a_directory_that_cannot_be_is_an_error_at_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        make_writer(tmp_path / "file" / "records")
