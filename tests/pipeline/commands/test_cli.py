"""The commands, from their arguments to what they print and leave behind."""

import argparse
import json
import logging
import signal
from contextlib import contextmanager

import pytest

from midge.pipeline.commands import cli
from midge.pipeline.commands import lake_commands as commands
from midge.pipeline.commands import record as record_command
from midge.pipeline.commands import replay as replay_command
from midge.pipeline.commands import terminal as console
from midge.pipeline.fleet.fleet import build_fleet
from midge.pipeline.fleet.recorded import Simulation
from midge.pipeline.records.files import list_segments
from midge.pipeline.records.format import MESSAGES


def call(module, *words):
    parser = argparse.ArgumentParser(prog="midge")
    module.add_arguments(parser)
    return module.run(parser.parse_args([str(word) for word in words]))


@pytest.fixture(scope="module")
def simulation():
    return Simulation(build_fleet(vans=6), 60.0).run()


@pytest.fixture
def records(simulation, tmp_path):
    simulation.write(tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def one_session(spark, monkeypatch):
    """Make the commands use the existing session; a second one cannot be started."""

    @contextmanager
    def session(settings, show, **_options):
        with commands.spark_errors_reported("Spark"):
            yield spark

    monkeypatch.setattr(commands, "session", session)


def test_from_records_to_report_plan_and_match(
    one_session, simulation, records, tmp_path, capsys, monkeypatch
):
    """One lake through every command that uses it, as a user would go."""
    lake = tmp_path / "lake"
    bad = list_segments(records, MESSAGES)[0].with_name("part-midge-1-000777.parquet")
    bad.write_bytes(b"nothing")
    assert call(cli, "run", "--records", records, "--lake", lake) == 0
    told = capsys.readouterr()
    assert f"{simulation.truth.total:,} messages from" in told.out
    assert "000777.parquet: not a readable Parquet file" in told.err

    # Nothing new: neither Spark nor a table is touched until there is a file more, or one less.
    with monkeypatch.context() as patched:
        patched.setattr(commands, "session", lambda *_: pytest.fail("Spark was started"))
        assert call(cli, "run", "--records", records, "--lake", lake) == 0
    assert capsys.readouterr().out == f"nothing new since the last run: {lake}\n"
    (lake / "gold" / "rates").rename(lake / "gold" / "_rates")
    worse = bad.with_name("part-midge-1-000778.parquet")
    worse.write_bytes(b"nothing")
    assert call(cli, "run", "--records", records, "--lake", lake) == 0
    told = capsys.readouterr()
    assert told.out.startswith("0 messages from 0 segments in 1 batch, 15 gold tables")
    assert "000778.parquet" in told.err
    assert (lake / "gold" / "rates").is_dir()

    report = tmp_path / "out" / "report.html"
    assert call(cli, "report", "--lake", lake, "--output", report, "--title", "Our <fleet>") == 0
    assert "Our &lt;fleet&gt;" in report.read_text()
    some = tmp_path / "some.html"
    long_ago = "2001-01-01T00:00/2001-01-02"
    assert call(cli, "report", "--lake", lake, "--output", some, "--times", long_ago) == 0
    assert "Every subscription was used." in some.read_text()

    patterns = tmp_path / "patterns.txt"
    patterns.write_text("# all vans\nfleet.*.van.>\n\nsvc.route.eta\nnobody.here\n")
    capsys.readouterr()
    assert call(cli, "match", "--lake", lake, "--patterns", patterns) == 0
    vans = sum(
        count
        for subject, count in simulation.truth.messages.items()
        if ".van." in f".{subject}" and subject.startswith("fleet.")
    )
    assert f"{vans:,}" in capsys.readouterr().out

    config = tmp_path / "other.toml"
    config.write_text("[pipeline]\nwindow_s = 5\n")
    words = ("run", "--records", records, "--lake", lake, "--config", config)
    capsys.readouterr()
    assert call(cli, *words) == 1
    assert "made with window_s = 60, and this run says window_s = 5" in capsys.readouterr().err

    change = tmp_path / "change.toml"
    change.write_text('servers = 2\n[[remove]]\nclient = "dashboard-*"\n')
    assert call(cli, "plan", change, "--lake", lake, "--json") == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["recorded"]["totals"]["messages"] == simulation.truth.total
    assert len(outcome["proposed"]["servers"]) == 2
    before, after = (
        outcome[name]["totals"]["plain_deliveries"] for name in ("recorded", "proposed")
    )
    assert 0 < after < before


def test_sigterm_ends_a_command_with_a_line(monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(commands, "run_job", lambda _: signal.raise_signal(signal.SIGTERM))
    assert call(cli, "run") == 1
    assert capsys.readouterr().err == "midge pipeline run: ended by SIGTERM\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_stream_follows_until_told_to_stop(
    one_session, simulation, records, tmp_path, capsys, monkeypatch
):
    make_job = commands.make_job

    def make_stopping_job(*args, **options):
        job = make_job(*args, **options)
        note = job._note

        def note_and_stop(*details):
            note(*details)
            signal.raise_signal(signal.SIGTERM)

        job._note = note_and_stop
        return job

    monkeypatch.setattr(commands, "make_job", make_stopping_job)
    config = tmp_path / "midge.toml"
    config.write_text(
        f"[pipeline]\nrecords_directory = '{records}'\nlake_directory = '{tmp_path / 'lake'}'\n"
        "trigger_interval_s = 0.5\ngold_interval_s = 1000\n"
    )
    assert call(cli, "stream", "--config", config, "--for", 120) == 0
    assert f"{simulation.truth.total:,} messages from" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--records", "nowhere"], "midge pipeline run: nowhere: no such directory"),
        (["stream", "--records", "nowhere"], "nowhere: no such directory"),
        (["report", "--lake", "nowhere"], "midge pipeline report: nowhere: no such directory"),
        (["plan", "nowhere.toml"], "nowhere.toml"),
        (["run", "--config", "nowhere.toml"], "nowhere.toml"),
        (["demo", "--directory", "."], "is not empty; name a new directory"),
    ],
)
def test_errors_are_one_line(words, message, capsys):
    assert call(cli, *words) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (cli, ["demo", "--vans", "-1"], "--vans: expected a whole number above 0, got '-1'"),
        (cli, ["demo", "--speed", "0"], "--speed: expected a number above 0, got '0'"),
        (cli, ["demo", "--seconds", "inf"], "--seconds: expected a number above 0, got 'inf'"),
        (cli, ["stream", "--for", "soon"], "--for: expected a number above 0, got 'soon'"),
        (cli, ["match", "--limit", "0"], "--limit: expected a whole number above 0, got '0'"),
        (cli, ["plan", "x", "--servers", "²"], "--servers: expected a whole number above 0"),
        (cli, ["run", "--spark", "a"], "--spark: expected KEY=VALUE, got 'a'"),
        (record_command, ["x", "--for", "-1"], "--for: expected a number above 0, got '-1'"),
        (replay_command, ["x", "--connections", "0"], "expected a whole number above 0, got '0'"),
    ],
)
def test_a_number_without_meaning_is_named(command, words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        call(command, *words)
    assert message in capsys.readouterr().err


def test_a_pattern_without_meaning_is_named(one_session, tmp_path, records, capsys):
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("a.b\na..b\n")
    words = ("match", "--patterns", patterns, "--messages", records / "messages")
    assert call(cli, *words) == 2
    assert f"'a..b' is not a valid subject ({patterns}:2)" in capsys.readouterr().err


def test_paths_that_spark_can_do_nothing_with_are_named(one_session, tmp_path, records, capsys):
    junk = tmp_path / "junk.parquet"
    junk.write_bytes(b"junk")
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("fleet.>\n")
    messages = ("--messages", records / "messages", "--patterns", patterns)
    for option, words in (
        ("messages", ("--messages", tmp_path / "nowhere")),
        ("messages", ("--messages", junk)),
        ("patterns", (*messages, "--patterns", junk)),
        ("output", (*messages, "--output", records)),
    ):
        assert call(cli, "match", "--patterns", patterns, *words) == 1
        told = capsys.readouterr().err
        assert told.startswith(f"midge pipeline match: {option}: ")
        assert told.count("\n") == 1


def test_replay_from_the_command_line(records, simulation, nats_server, capsys):
    words = [records, "--server", nats_server.url, "--speed", "max", "--subject", "svc.>"]
    assert call(replay_command, *words, "--rewrite", "svc.*.*:test.$1", "--no-reply") == 0
    services = sum(
        count for subject, count in simulation.truth.messages.items() if subject.startswith("svc.")
    )
    told = capsys.readouterr().out
    assert told.startswith(f"{services:,} messages in ")
    assert f"{simulation.truth.total - services:,} left out" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--speed", "fast"], "speed: expected a number or max, got 'fast'"),
        (["--since", "noon"], "since: expected a time such as 2026-03-02T08:50:00Z, got 'noon'"),
        (["--rewrite", "a"], "rewrite: expected SOURCE:DESTINATION"),
        (["--server", "nats://127.0.0.1:9"], "cannot connect"),
    ],
)
def test_replay_says_what_is_wrong(records, words, message, capsys):
    assert call(replay_command, records, *words) == (1 if message == "cannot connect" else 2)
    told = capsys.readouterr().err
    assert told.startswith("midge replay: ")
    assert message in told


def test_a_lake_that_cannot_be_is_told_before_spark_starts(records, tmp_path, capsys):
    place = tmp_path / "file"
    place.write_text("")
    assert call(cli, "run", "--records", records, "--lake", place / "lake") == 1
    assert capsys.readouterr().err.endswith("file/lake: cannot be made: not a directory\n")


def test_what_spark_raises_is_one_line(one_session, records, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(commands, "make_job", lambda spark, *_, **__: spark.sql("nonsense"))
    lake = tmp_path / "lake"
    assert call(cli, "run", "--records", records, "--lake", lake) == 1
    told = capsys.readouterr().err
    assert told.startswith("midge pipeline run: Spark: ")
    assert told.count("\n") == 1


def test_an_interrupt_raises_and_logs_no_trace(capfd):
    before = signal.getsignal(signal.SIGINT)
    record = logging.LogRecord("root", 40, "/x/py4j/java_gateway.py", 1, "trace", None, None)
    with console.quiet_interrupts():
        logging.getLogger().handle(record)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert logging.getLogger().filters == []
    assert capfd.readouterr() == ("", "")


def test_replay_without_records_says_so(tmp_path, capsys):
    assert call(replay_command, tmp_path) == 1
    assert "holds no records" in capsys.readouterr().err
