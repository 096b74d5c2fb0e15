"""Recording any NATS server by listening to it."""

import argparse

import pytest

from midge.client.errors import OptionError
from midge.client.options import ClientOptions, ServerAddress
from midge.pipeline.commands import record as record_command
from midge.pipeline.records.files import RecordsError, list_segments, read_table
from midge.pipeline.records.format import MESSAGES
from midge.pipeline.replay.listen import TapOptions, tap
from midge.protocol.client_side import publish_frame


@pytest.fixture
def connect(nats_server):
    return ClientOptions(servers=(ServerAddress("127.0.0.1", nats_server.port, tls=False),))


def publisher(nats_server, *frames):
    """Return an `is_over` that publishes when the tap first asks, and ends when all has come."""
    asked = []

    def progress(done):
        asked.append(done.messages)

    def is_over():
        if not asked:
            with nats_server.client() as client:
                client.send(b"".join(frames))
                client.ping()
        return bool(asked) and asked[-1] >= len(frames)

    return is_over, progress


def test_what_is_published_is_in_the_records(tmp_path, nats_server, connect):
    headers = b"NATS/1.0\r\nk: v\r\nk: w\r\n\r\n"
    frames = [
        publish_frame(b"a.b", b"inbox", headers, b"\x00\xff"),
        publish_frame(b"c", b"", b"", b""),
    ]
    done = tap(tmp_path, TapOptions(connect), *publisher(nats_server, *frames))
    assert (done.messages, done.bytes, done.segments) == (2, len(headers) + 2, 1)
    first, second = read_table(tmp_path, MESSAGES).to_pylist()
    assert (first["subject"], first["reply"], first["payload"]) == ("a.b", "inbox", b"\x00\xff")
    assert first["headers"] == [("k", ["v", "w"])]
    assert (second["subject"], second["reply"], second["headers"]) == ("c", None, None)


def test_segments_roll_and_a_second_run_adds_to_the_first(tmp_path, nats_server, connect):
    for run in (1, 2):
        frames = [publish_frame(b"n.%d" % n, b"", b"", b"x") for n in range(10)]
        options = TapOptions(connect, keeps_payload=False, roll_age_s=0.0)
        tap(tmp_path, options, *publisher(nats_server, *frames))
        table = read_table(tmp_path, MESSAGES)
        assert len(table) == 10 * run
        assert table["payload"].null_count == 10 * run
        names = [path.name for path in list_segments(tmp_path, MESSAGES)]
        assert len(names) == len(set(names)) >= run


def test_only_what_was_asked_for_is_recorded(tmp_path, nats_server, connect):
    frames = [publish_frame(b"a.1", b"", b"", b"x")]
    with nats_server.client() as client:
        client.send(publish_frame(b"before", b"", b"", b"x"))
    is_over, progress = publisher(nats_server, *frames)
    tap(tmp_path, TapOptions(connect, subjects=("a.*", "b.>")), is_over, progress)
    assert read_table(tmp_path, MESSAGES)["subject"].to_pylist() == ["a.1"]


@pytest.mark.parametrize(
    ("subjects", "message"),
    [(("a..b",), "'a..b' is not a valid subject"), (("a.*", "a.b"), "'a.*' and 'a.b' overlap")],
)
def test_subjects_without_meaning_are_refused(connect, subjects, message):
    with pytest.raises(OptionError) as caught:
        TapOptions(connect, subjects=subjects)
    assert message in str(caught.value)


def test_the_command(tmp_path, nats_server, capsys):
    parser = argparse.ArgumentParser()
    record_command.add_arguments(parser)
    words = [str(tmp_path / "r"), "--server", nats_server.url, "--for", "0.1"]
    assert record_command.run(parser.parse_args(words)) == 0
    assert capsys.readouterr().out.startswith("0 messages in 0 segments")
    words = [str(tmp_path / "r"), "--server", "nats://127.0.0.1:9"]
    assert record_command.run(parser.parse_args(words)) == 1
    assert "midge record: cannot connect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--server", "nats://127.0.0.1:9"], "(127.0.0.1:9: connection refused)"),
        (
            ["--server", "http://x"],
            "--server: expected nats://host:port or tls://…, got 'http://x'",
        ),
        (
            ["--credentials-file", "nope.creds"],
            "--credentials-file: cannot read 'nope.creds': no such file or directory",
        ),
    ],
)
def test_what_goes_wrong_is_told_in_words(tmp_path, capsys, words, message):
    parser = argparse.ArgumentParser()
    record_command.add_arguments(parser)
    code = 1 if "refused" in message else 2
    assert record_command.run(parser.parse_args([str(tmp_path / "r"), *words])) == code
    assert capsys.readouterr().err.strip().endswith(message)


def test_a_directory_that_cannot_be_is_told_at_once(tmp_path, connect):
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(RecordsError, match="file: cannot be written: not a directory"):
        tap(place, TapOptions(connect), lambda: True)
