"""`midge pub`, `sub` and `request`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from midge.client.client import NatsClient
from midge.client.options import ClientOptions
from midge.protocol.client_side import publish_frame
from tests.e2e.client_commands.conftest import Run, until_shown
from tests.support.processes import Server


def options(server: Server) -> ClientOptions:
    return ClientOptions.parse({"servers": server.url})


@pytest.fixture
def listener(jetstream_server: Server) -> Any:
    with NatsClient(options(jetstream_server)) as client:
        yield client


def test_a_message_is_published_with_headers_and_reply(ok: Run, listener: NatsClient) -> None:
    listener.subscribe(b"greet.>")
    listener.ping()
    ok("pub", "greet.joe", "hello", "-H", "A: 1", "-H", "A: 2", "--reply", "answers")
    (message,) = listener.receive(5)
    assert message.subject == b"greet.joe"
    assert message.reply == b"answers"
    assert message.payload == b"hello"
    assert message.headers == b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"


def test_lines_of_standard_input_are_messages(ok: Run, listener: NatsClient) -> None:
    listener.subscribe(b"lines")
    listener.ping()
    done = ok("pub", "lines", "--lines", "--json", stdin=b"one\ntwo\r\nthree")
    assert done.json == {"published": 3}
    seen: list[bytes] = []
    while len(seen) < 3:
        seen += [message.payload for message in listener.receive(5)]
    assert seen == [b"one", b"two", b"three"]


def test_standard_input_is_one_message(ok: Run, listener: NatsClient) -> None:
    listener.subscribe(b"whole")
    listener.ping()
    ok("pub", "whole", "--count", 2, stdin=b"\x00\xff\n")
    seen: list[bytes] = []
    while len(seen) < 2:
        seen += [message.payload for message in listener.receive(5)]
    assert seen == [b"\x00\xff\n"] * 2


def test_published_to_a_stream_and_acknowledged(ok: Run, run: Run, stream: str) -> None:
    assert ok("pub", f"{stream}.a", "x", "--ack").out == f"stored in {stream} as 1\n"
    done = ok("pub", f"{stream}.a", "y", "--ack", "--count", 1000, "--json")
    assert done.json == {"published": 1000, "duplicates": 0, "stream": stream, "seq": 1001}
    ok("pub", f"{stream}.a", "z", "--ack", "-H", "Nats-Msg-Id: 7")
    again = ok("pub", f"{stream}.a", "z", "--ack", "-H", "Nats-Msg-Id: 7")
    assert again.out == f"stored in {stream} as 1002 (duplicate)\n"
    refused = run("pub", f"{stream}.a", "z", "--ack", "-H", "Nats-Expected-Last-Sequence: 5")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == f"midge pub: {stream}.a: wrong last sequence: 1002\n"
    nowhere = run("pub", "no.stream.here", "z", "--ack")
    assert nowhere.err == "midge pub: no.stream.here: no stream takes this subject\n"


def test_what_the_server_would_not_take_is_not_sent(run: Run) -> None:
    done = run("pub", "big", stdin=bytes(2 << 20))
    assert done.code == 1
    assert done.err == "midge pub: the message has 2,097,152 bytes, the server takes 1,048,576\n"


@pytest.fixture
def responder(jetstream_server: Server) -> Any:
    """Answer requests to `svc.<n>` n times with the request's payload."""
    stop = threading.Event()
    with NatsClient(options(jetstream_server)) as client:
        client.subscribe(b"svc.*")
        client.ping()

        def serve() -> None:
            while not stop.is_set():
                for message in client.receive(0.05):
                    for _ in range(int(message.subject.rpartition(b".")[2])):
                        client.send(
                            publish_frame(message.reply, b"", message.headers, message.payload)
                        )

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        stop.set()
        thread.join()


def test_a_request_prints_its_answer(ok: Run, responder: None) -> None:
    assert ok("request", "svc.1", "ping", "--raw").out == "ping\n"
    done = ok("request", "svc.1", "ping", "-H", "A: b", "--json")
    assert done.json["headers"] == {"A": ["b"]}
    assert done.json["payload"] == "ping"
    shown = ok("request", "svc.1", "ping", "-H", "A: b").out.splitlines()
    assert shown[1:] == ["A: b", "", "ping"]


def test_a_request_takes_several_answers(run: Run, ok: Run, responder: None) -> None:
    assert ok("request", "svc.3", "x", "--replies", 2, "--raw").out == "x\nx\n"
    request = ("request", "svc.3", "x", "--raw", "--replies")
    done, _ = until_shown(run, (*request, 0), 3)
    assert (done.code, done.out, done.err) == (0, "x\nx\nx\n", "")
    short, timeout = until_shown(run, (*request, 9), 3)
    assert short.code == 1
    assert short.err == f"midge request: 3 answers from svc.3 within {timeout}\n"


def test_a_request_that_nobody_answers(run: Run) -> None:
    done = run("request", "nobody.here", "x")
    assert (done.code, done.err) == (1, "midge request: nobody answers requests to nobody.here\n")


def spawn(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "midge", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def publish_until_ended(
    client: NatsClient, subject: bytes, process: subprocess.Popen[bytes]
) -> None:
    while process.poll() is None:
        client.send(publish_frame(subject, b"", b"", "é€".encode()))
        client.receive(0.02)


def test_messages_are_printed_as_they_come(jetstream_server: Server, listener: NatsClient) -> None:
    words = ["sub", "news.>", "--count", "2", "--json", "--server", jetstream_server.url]
    with spawn(*words) as process:
        publish_until_ended(listener, b"news.today", process)
        assert process.stdout is not None
        lines = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    assert lines == [{"subject": "news.today", "payload": "é€"}] * 2


def test_a_subscriber_ends_with_its_timeout(
    ok: Run, run: Run, listener: NatsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, _ = until_shown(run, ("sub", "silence"), 0)
    assert silent == (0, "", "")
    ping = NatsClient.ping

    def ping_and_publish(client: NatsClient) -> None:
        ping(client)
        listener.send(publish_frame(b"tick", b"", b"", b"one"))
        ping(listener)

    monkeypatch.setattr(NatsClient, "ping", ping_and_publish)
    few, timeout = until_shown(run, ("sub", "tick", "--raw", "--count", 2), 1)
    assert (few.code, few.out) == (1, "one\n")
    assert few.err == f"midge sub: 1 of 2 came, and no other within {timeout}\n"


def test_an_acknowledgement_is_awaited_until_the_timeout(run: Run, listener: NatsClient) -> None:
    listener.subscribe(b"unstored")
    listener.ping()
    done, timeout = until_shown(run, ("pub", "unstored", "x", "--ack"), 0)
    assert (done.code, done.err) == (1, f"midge pub: no acknowledgement within {timeout}\n")


def test_a_reader_that_has_had_enough_is_no_traceback(
    jetstream_server: Server, listener: NatsClient
) -> None:
    command = f'"{sys.executable}" -m midge sub tick --raw --server {jetstream_server.url}'
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{command} | head -1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        publish_until_ended(listener, b"tick", process)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read().decode() == "é€\n"
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pub", "a.*", "x"], "expected a subject without wildcards, got 'a.*'"),
        (["pub", "a", "x", "-H", "nothing"], "expected NAME:VALUE, got 'nothing'"),
        (["sub", "a..b"], "expected a subject such as orders.>, got 'a..b'"),
        (["request", "a", "x", "--timeout", "5x"], "expected a duration such as 90s"),
    ],
)
def test_a_wrong_word_is_told(run: Run, words: list[str], told: str) -> None:
    done = run(*words)
    assert done.code == 2
    assert told in done.err


def test_no_server_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    from midge import cli

    assert cli.main(["pub", "a", "x", "--server", "nats://127.0.0.1:1"]) == 1
    told = capsys.readouterr().err
    assert told == "midge pub: cannot connect to NATS (127.0.0.1:1: connection refused)\n"
