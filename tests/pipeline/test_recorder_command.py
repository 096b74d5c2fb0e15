"""`midge record`: a subscriber that writes the record format, against a real nats-server."""

import threading
from collections import Counter

import pytest

from midge import cli
from midge.pipeline.client import frame
from midge.pipeline.errors import AuthorizationError, OptionError, ServerError
from midge.pipeline.options import ConnectOptions, ServerAddress
from midge.pipeline.recording import RecordOptions, record
from midge.pipeline.records import MESSAGES, list_segments, read_table
from tests.pipeline.conftest import servers_of


def options(server, *patterns, **more):
    return RecordOptions(ConnectOptions(servers_of(server.url)), patterns or (">",), **more)


def record_while(directory, chosen, publish):
    """Record in a thread while `publish` runs; return what was recorded."""
    ready = threading.Event()
    results = []
    thread = threading.Thread(
        target=lambda: results.append(record(directory, chosen, ready=ready.set))
    )
    thread.start()
    assert ready.wait(20)
    publish()
    thread.join(30)
    return results[0]


def test_what_matches_is_recorded(nats_server, tmp_path):
    headers = b"NATS/1.0\r\nk: v\r\n\r\n"

    def publish():
        with nats_server.client() as client:
            for number in range(300):
                client.send(frame(b"a.%d" % (number % 3), b"r", headers, b"%d" % number))
                client.send(frame(b"other", b"", b"", b"no"))
            client.ping()

    done = record_while(
        tmp_path, options(nats_server, "a.*", messages_max=300, roll_rows=100), publish
    )
    found = read_table(tmp_path, MESSAGES).to_pylist()
    assert done.messages == len(found) == 300
    assert done.segments == len(list_segments(tmp_path, MESSAGES)) >= 1
    assert Counter(row["subject"] for row in found) == {"a.0": 100, "a.1": 100, "a.2": 100}
    assert sorted(int(row["payload"]) for row in found) == list(range(300))
    assert {(row["reply"], row["cid"]) for row in found} == {("r", 0)}
    assert found[0]["headers"] == [("k", ["v"])]
    assert found[0]["size"] == len(headers) + len(found[0]["payload"])


def test_a_second_recording_adds_to_the_first(nats_server, tmp_path):
    def publish():
        with nats_server.client() as client:
            client.send(frame(b"a", b"", b"", b"x"))
            client.ping()

    for _ in range(2):
        record_while(tmp_path, options(nats_server, "a", messages_max=1), publish)
    assert len(list_segments(tmp_path, MESSAGES)) == 2
    assert read_table(tmp_path, MESSAGES).num_rows == 2


def test_the_command_ends_after_its_time(nats_server, tmp_path, capsys):
    arguments = ["record", str(tmp_path), "--server", nats_server.url, "--seconds", "0.3"]
    assert cli.main(arguments) == 0
    assert "0 messages" in capsys.readouterr().out


def test_no_server_is_one_line(tmp_path, capsys):
    arguments = ["record", str(tmp_path), "--server", "nats://127.0.0.1:1"]
    assert cli.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("midge record: cannot connect")
    assert error.count("\n") == 1


def test_a_subscription_that_is_forbidden_is_an_error(make_nats_server, tmp_path):
    server = make_nats_server(
        "authorization { users: [{user: u, password: p, permissions: "
        "{subscribe: {deny: secret}}}] }"
    )
    connect = ConnectOptions(servers_of(server.url), user="u", password="p")
    with pytest.raises(AuthorizationError, match="secret"):
        record(tmp_path, RecordOptions(connect, ("secret",), duration_s=5))


def test_a_server_that_goes_away_is_an_error_after_writing(nats_server, tmp_path):
    def publish():
        with nats_server.client() as client:
            client.send(frame(b"a", b"", b"", b"x"))
            client.ping()

    seen = threading.Event()
    ready = threading.Event()
    errors = []

    def run():
        try:
            record(
                tmp_path,
                options(nats_server, "a"),
                progress=lambda done, count: seen.set() if count else None,
                ready=ready.set,
            )
        except ServerError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(20)
    publish()
    assert seen.wait(20)
    nats_server.kill()
    thread.join(30)
    assert len(errors) == 1
    assert read_table(tmp_path, MESSAGES).num_rows == 1


def test_a_pattern_that_is_no_subject_is_an_error():
    connect = ConnectOptions((ServerAddress("127.0.0.1", 1, tls=False),))
    with pytest.raises(OptionError, match=r"expected a subject pattern, got 'a\.\.b'"):
        RecordOptions(connect, ("a..b",))
