"""The journal: forms, levels, limits, files, and that nothing about it can fail."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from midge.server.config.options import Logging
from midge.server.log import logger as logging
from midge.server.log.formats import printable, sentence
from midge.server.log.output import FileOutput, StreamOutput
from midge.server.log.rate_limit import OFFENDERS_MAX, OffenderLimiter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOMENT = 1_795_232_973.181474


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def library_journal() -> Iterator[None]:
    yield
    logging.JOURNAL.reset()
    structlog.reset_defaults()


def journal(**settings: Any) -> io.StringIO:
    stream = io.StringIO()
    logging.configure(Logging(**settings), stream=stream, wall_clock=lambda: MOMENT)
    return stream


def test_nats_form_is_nats_servers_line() -> None:
    stream = journal(format="nats", logtime_utc=True)
    logging.get_logger().info("server_ready")
    expected = rf"\[{os.getpid()}\] 2026/11/21 \d\d:\d\d:33\.181474 \[INF\] Server is ready\n"
    assert re.fullmatch(expected, stream.getvalue())


def test_nats_form_without_time() -> None:
    stream = journal(format="nats", logtime=False)
    logging.get_logger().fatal("server_failed", error="no")
    assert stream.getvalue() == f"[{os.getpid()}] [FTL] no\n"


@pytest.mark.parametrize(
    ("event", "fields", "line"),
    [
        ("client_listener_started", {"address": "h:1"}, "Listening for client connections on h:1"),
        (
            "protocol_received",
            {"cid": 5, "peer": "h:1", "client": "shop", "line": b"PUB a 10"},
            'h:1 - cid:5 - "shop" - <<- [PUB a 10]',
        ),
        ("never_heard_of", {"a": 1, "b": "x"}, "Never heard of: a=1 b=x"),
        (
            "jetstream_ready",
            {"store_bytes": 3 << 20, "recovery_s": 0.25, "flag": True},
            "JetStream ready: store=3.0 MiB recovery=0.25 s flag=True",
        ),
        ("never_heard_of", {}, "Never heard of"),
        ("client_closed", {}, "Client connection closed: <no reason>"),
    ],
)
def test_sentences(event: str, fields: dict[str, Any], line: str) -> None:
    assert sentence(event, fields) == line


def test_json_form_is_one_object_per_line() -> None:
    stream = journal(format="json")
    logging.get_logger(cid=7).info("client_connected", name=b"a\xff\n", time="forged")
    line = json.loads(stream.getvalue())
    assert line["event"] == "client_connected"
    assert line["time"].startswith("2026-11-21T")
    assert (line["cid"], line["level"], line["name"]) == (7, "info", "a\\xff\\n")


def test_human_form_names_the_event_and_fields() -> None:
    stream = journal(format="human")
    logging.get_logger().warning("slow_consumer_closed", cid=7)
    assert re.search(r"\[warning *\] Slow consumer closed +cid=7\n", stream.getvalue())


@pytest.mark.parametrize(
    ("event", "fields", "shown"),
    [
        ("id_announced", {"server_id": "N"}, "Server id +server_id=N"),
        ("jetstream_ready", {"store_bytes": 3 << 20}, r"JetStream ready +store='3\.0 MiB'"),
        ("x_y", {"a_bytes": 12, "b_bytes": 1 << 60}, r"X y +a='12 B' b='1048576\.0 TiB'"),
        ("x", {"a_s": 0.25, "is_s": True}, r"X +a='0\.25 s' is_s=True"),
        ("x", {"a_bytes": "none"}, "X +a_bytes=none"),
    ],
)
def test_human_form_has_words_and_units(event: str, fields: dict[str, Any], shown: str) -> None:
    stream = journal(format="human")
    logging.get_logger().info(event, **fields)
    assert re.search(rf"\] {shown}\n", stream.getvalue())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_human_form_is_in_colour_on_a_terminal() -> None:
    stream = Terminal()
    logging.configure(Logging(format="human"), stream=stream, wall_clock=lambda: MOMENT)
    logging.get_logger().warning("slow_consumer_closed", reason="it's late")
    assert "\x1b[33m\x1b[1mwarning  \x1b[0m" in stream.getvalue()
    assert """\x1b[36mreason\x1b[0m=\x1b[35m"it's late"\x1b[0m""" in stream.getvalue()


def test_auto_form_is_json_without_a_terminal() -> None:
    stream = journal()
    logging.get_logger().info("server_ready")
    assert json.loads(stream.getvalue())["event"] == "server_ready"


@pytest.mark.parametrize("form", ["human", "json", "nats"])
def test_what_a_peer_sent_never_starts_a_line_or_drives_a_terminal(form: str) -> None:
    stream = journal(format=form)
    evil = "a\n[1] [INF] forged\x1b[2J\x9b\u202e\x00"
    logging.get_logger(cid=1, peer="h:1", client=evil).error("protocol_error", error=evil)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text[:-1].isprintable()


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, ["info_event", "warning_event"]),
        ({"debug": True}, ["debug_event", "info_event", "warning_event"]),
        ({"trace": True}, ["trace_event", "info_event", "warning_event"]),
        (
            {"debug": True, "trace": True},
            ["trace_event", "debug_event", "info_event", "warning_event"],
        ),
    ],
)
def test_levels(settings: dict[str, bool], shown: list[str]) -> None:
    stream = journal(format="json", **settings)
    log = logging.get_logger()
    for level in ("trace", "debug", "info", "warning"):
        getattr(log, level)(f"{level}_event")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == shown
    assert log.is_tracing == settings.get("trace", False)
    assert log.is_debugging == (settings != {})


def test_a_reload_reaches_loggers_that_were_bound_before() -> None:
    journal(format="json")
    log = logging.get_logger().bind(cid=1)
    stream = journal(format="json", debug=True)
    log.debug("now_shown")
    assert "now_shown" in stream.getvalue()


def test_structlogs_own_loggers_write_to_the_journal() -> None:
    stream = journal(format="json")
    structlog.get_logger().bind(cid=3).info("client_connected")
    assert json.loads(stream.getvalue())["cid"] == 3


def test_fields_are_bound_and_unbound() -> None:
    stream = journal(format="json")
    log = logging.get_logger(cid=1).bind(peer="x")
    log.unbind("cid").info("one")
    log.try_unbind("cid", "nothing").info("two")
    log.new(name="n").info("three")
    with pytest.raises(KeyError):
        log.unbind("nothing")
    fields = [set(json.loads(line)) & {"cid", "peer", "name"} for line in _lines(stream)]
    assert fields == [{"peer"}, {"peer"}, {"name"}]


def test_structlog_is_adopted_once_something_has_imported_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "structlog")
    stream = journal(format="json")
    structlog.get_logger().info("before")
    monkeypatch.setitem(sys.modules, "structlog", structlog)
    logging.adopt_structlog()
    structlog.get_logger().info("after")
    assert [json.loads(line)["event"] for line in _lines(stream)] == ["after"]


def _lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_as_a_library_events_go_to_the_standard_logger(caplog: pytest.LogCaptureFixture) -> None:
    logging.JOURNAL.reset()
    logging.get_logger(cid=1).warning("slow_consumer_closed")
    assert caplog.messages == ["slow_consumer_closed cid=1"]
    with caplog.at_level("INFO", logger="midge"):
        logging.get_logger().info("server_ready")
        logging.get_logger().debug("client_connected")
    assert caplog.messages[1:] == ["server_ready "]
    assert not logging.get_logger().is_tracing


def test_one_peer_cannot_fill_the_log() -> None:
    clock = Clock()
    stream = io.StringIO()
    options = Logging(format="json", max_lines_per_offender_per_s=2)
    logging.configure(options, stream=stream, clock=clock)
    log = logging.get_logger()
    for port in range(10):
        log.error("protocol_error", peer=f"10.0.0.1:{port}")
    log.error("protocol_error", peer="10.0.0.2:1")
    log.info("client_connected", peer="10.0.0.1:9")
    clock.now += 1
    log.error("protocol_error", peer="10.0.0.1:1")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 5
    assert lines[-1]["suppressed"] == 8


def test_the_offender_limiter_is_bounded() -> None:
    limiter = OffenderLimiter(1, Clock())
    for number in range(3 * OFFENDERS_MAX):
        assert limiter.admit(f"{number}:1", {})
    assert len(limiter._seconds) <= OFFENDERS_MAX


def test_a_broken_stream_loses_lines_and_counts_them() -> None:
    stream = io.StringIO()
    output = StreamOutput(stream)
    stream.close()
    output.write("x")
    assert output.lost == 1


def test_a_log_file_is_reopened_after_a_rename(tmp_path: Path) -> None:
    file = tmp_path / "midge.log"
    logging.configure(Logging(file=str(file), format="nats", logtime=False))
    log = logging.get_logger()
    log.info("first_event")
    file.rename(tmp_path / "old.log")
    log.info("second_event")
    logging.JOURNAL.reopen()
    log.info("third_event")
    assert "Second event" in (tmp_path / "old.log").read_text()
    assert file.read_text() == f"[{os.getpid()}] [INF] Third event\n"


def test_a_log_file_rotates_by_size_and_old_ones_go(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "midge.log"
    options = Logging(file=str(file), file_size_limit_bytes=10, file_max_count=3)
    output = FileOutput(options, clock)
    events = []
    for number in range(6):
        clock.now += 1
        output.write(f"line {number}")
        events += output.events
        output.events.clear()
    output.close()
    assert file.read_text() == ""
    rotated = sorted(tmp_path.glob("midge.log.*"))
    assert [one.read_text() for one in rotated] == ["line 2\nline 3\n", "line 4\nline 5\n"]
    assert [event for event, _ in events] == [*["log_rotated"] * 3, "log_purged"]
    assert events[-2][1] == {"file": str(rotated[-1])}


def test_the_new_file_says_where_the_old_one_is(tmp_path: Path) -> None:
    file = tmp_path / "midge.log"
    options = Logging(file=str(file), file_size_limit_bytes=20, format="nats", logtime=False)
    logging.configure(options)
    logging.get_logger().info("first_event", text="x" * 150)
    (full,) = tmp_path.glob("midge.log.*")
    assert re.fullmatch(r"midge\.log\.(\d\d\d\d)(\.\d\d){5}\.\d{9}", full.name)
    line = f'[{os.getpid()}] [INF] Rotated log, backup saved as "{full}"\n'
    assert file.read_text() == line


def test_a_log_file_that_cannot_be_opened_never_fails(tmp_path: Path) -> None:
    clock = Clock()
    directory = tmp_path / "later"
    output = FileOutput(Logging(file=str(directory / "midge.log")), clock)
    output.write("lost")
    assert output.lost == 1
    directory.mkdir()
    output.write("lost too, since the next attempt is a second away")
    clock.now += 2
    output.write("kept")
    output.close()
    assert (directory / "midge.log").read_text() == "kept\n"


def test_a_full_disk_never_fails() -> None:
    output = FileOutput(Logging(file="/dev/full"))
    output.write("x")
    output.close()
    assert output.lost == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [("plain ü", "plain ü"), (b"\xc3\xbc\x80", "ü\\x80"), ("\r\n", "\\r\\n"), (5, "5"), ("", "")],
)
def test_printable(value: Any, text: str) -> None:
    assert printable(value) == text


def test_exception_names_the_error() -> None:
    stream = journal(format="json")
    try:
        raise ValueError("odd\nvalue")
    except ValueError:
        logging.get_logger().exception("hook_failed")
    assert json.loads(stream.getvalue())["error"] == "ValueError: odd\nvalue"
