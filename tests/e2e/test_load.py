"""The side-by-side load itself: nats-server against nats-server, and servers that misbehave."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import frames, load
from bench.flow import Flow
from bench.metrics import ScenarioError
from bench.servers import Command, StartError, running

NATS_SERVER = str(Path(sys.executable).parent / "nats-server")
SMALL = ["publish_16", "fanout_10", "queue_4", "request_64", "churn"]


def test_every_kind_of_scenario_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, document = tmp_path / "page.md", tmp_path / "out.json"
    words = [NATS_SERVER, NATS_SERVER, "--rounds", "1", "--seconds", "0.1", "--only", *SMALL]
    assert load.main([*words, "--markdown", str(page), "--json", str(document)]) == 0
    assert "fan-out 10, 16 B" in capsys.readouterr().out
    assert page.read_text().count("| rate |") == len(SMALL)
    scenarios = json.loads(document.read_text())["scenarios"]
    assert [scenario["name"] for scenario in scenarios] == SMALL
    for scenario in scenarios:
        assert all(round_["rate"] > 0 for side in "ab" for round_ in scenario[side])


def test_the_same_over_tls(capsys: pytest.CaptureFixture[str]) -> None:
    words = [NATS_SERVER, NATS_SERVER, "--rounds", "1", "--seconds", "0.1", "--tls"]
    assert load.main([*words, "--only", "one_16", "request_1"]) == 0
    assert "latency p99" in capsys.readouterr().out


def test_a_command_that_is_no_server_is_said_with_its_output(tmp_path: Path) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\necho this is no server\nexit 3\n")
    script.chmod(0o755)
    command = Command.parse(str(script))
    with (
        pytest.raises(StartError, match=r"(?s)ended with status 3.*this is no server"),
        running(command),
    ):
        pass


# Delivers a fixed PUB frame to its subscriber, but not exactly once each.
UNFAITHFUL = """
import asyncio, sys

FRAME, DELIVERY = %r, %r
subscribers = []

async def serve(reader, writer):
    writer.write(b"INFO {}\\r\\n")
    while line := await reader.readline():
        if line.startswith(b"SUB"):
            subscribers.append(writer)
        elif line.startswith(b"PING"):
            writer.write(b"PONG\\r\\n")
        elif line.startswith(b"PUB"):
            await reader.readexactly(len(FRAME) - len(line))
            subscribers[0].write(DELIVERY)
    writer.close()

async def main():
    port = int(sys.argv[sys.argv.index("-p") + 1])
    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        await server.serve_forever()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda msg: msg + msg, "deliveries expected, got"),
        (lambda _msg: b"", "bytes never arrived|stopped receiving"),
        (lambda msg: msg[:-2] + b"!" + msg[-2:], "no message|deliveries expected, got"),
    ],
    ids=["doubled", "lost", "torn"],
)
def test_an_unfaithful_server_fails_the_scenario(
    damage: Callable[[bytes], bytes],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.flow.STALL_TIMEOUT_S", 3.0)
    flow = Flow(name="faithful", title="", payload_bytes=10_000)
    (subject,) = flow.subject_names(0)
    payload = b"x" * flow.payload_bytes
    script = tmp_path / "server.py"
    delivery = damage(frames.msg(subject, b"1", payload))
    script.write_text(UNFAITHFUL % (frames.pub(subject, payload), delivery))
    command = Command("unfaithful", (sys.executable, str(script)))
    with running(command) as server, pytest.raises(ScenarioError, match=complaint):
        flow.run(server, 0.05)
