"""`midge bench` against nats-server, over real sockets."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import servers
from midge import cli
from midge.client.benchmark.busy import CpuUsage, server_processes
from midge.client.benchmark.counting_client import CountingClient
from midge.client.options import ClientOptions

NATS_SERVER = servers.Command.parse(str(Path(sys.executable).parent / "nats-server"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with servers.running(NATS_SERVER) as server:
        yield f"nats://{server.address.host}:{server.address.port}"


def measured(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert cli.main(["bench", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_publish(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("pub", "a", "--count", "1001", "--clients", "2", "--size", "3", "--server", url)
    role = measured(capsys, *words)["roles"]["publish"]
    assert (role["messages"], role["payload_bytes"], len(role["clients"])) == (1001, 3003, 2)


@pytest.mark.parametrize("size", ["0", "16", "100k"])
def test_publish_with_subscribers(url: str, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("pub", "a", "--count", "500", "--clients", "2", "--sub", "3", "--size", size)
    roles = measured(capsys, *words, "--server", url)["roles"]
    assert [client["messages"] for client in roles["subscribe"]["clients"]] == [500, 500, 500]
    assert roles["subscribe"]["payload_bytes"] == 3 * roles["publish"]["payload_bytes"]


def test_request(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("request", "a", "--count", "500", "--clients", "2", "--in-flight", "8")
    document = measured(capsys, *words, "--responders", "2", "--server", url)
    assert document["roles"]["request"]["messages"] == 500
    latency_us = document["latency_us"]
    assert 0 < latency_us["min"] <= latency_us["p50"] <= latency_us["p99"] <= latency_us["max"]


def test_the_server_of_a_port_is_found_and_its_cpu_time_grows(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    port = int(url.rpartition(":")[2])
    pids = server_processes("127.0.0.1", port)
    assert len(pids) == 1
    before = CpuUsage.now(pids).server_s
    usage = measured(capsys, "pub", "a", "--count", "100k", "--sub", "1", "--server", url)["usage"]
    assert usage["generator_cpus"] > 0
    assert usage["server_cpus"] >= 0
    assert (CpuUsage.now(pids).server_s or 0) > (before or 0)
    assert server_processes("192.0.2.1", port) == []
    assert CpuUsage.now([]).server_s is None


def test_request_that_nobody_answers(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "request", "a", "--responders", "0", "--server", url]) == 1
    assert "no responders" in capsys.readouterr().err


def test_a_payload_that_is_too_large(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = "midge bench: the server takes at most 1048576 bytes, and the payload has 2000000\n"
    for run in (["pub", "a", "--size", "2m"], ["request", "a", "--reply-size", "2m"]):
        assert cli.main(["bench", *run, "--count", "2", "--server", url]) == 1
        assert capsys.readouterr().err == refused


def test_tls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, key = servers.make_certificate(tmp_path)
    flags = ["--tls", "--tlscert", str(certificate), "--tlskey", str(key)]
    with servers.running(NATS_SERVER, flags) as server:
        address = f"127.0.0.1:{server.address.port}"
        words = ("pub", "a", "--count", "200", "--sub", "1", "--tls-ca-file", str(certificate))
        roles = measured(capsys, *words, "--server", f"tls://{address}")["roles"]
        assert roles["subscribe"]["messages"] == 200
        assert cli.main(["bench", "pub", "a", "--server", f"nats://{address}"]) == 1
        assert "certificate refused: self-signed certificate" in capsys.readouterr().err


@pytest.mark.parametrize(("queue", "publishes"), [("", 20), ("q", 40)])
async def test_subscribe_until_all_has_come(url: str, queue: str, publishes: int) -> None:
    count = "20" if not queue else "40"
    words = ["bench", "sub", "b.>", "--clients", "2", "--count", count, "--server", url, "--json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "midge",
        *words,
        *(["--queue", queue] if queue else []),
        stdout=subprocess.PIPE,
    )
    publisher = CountingClient()
    await publisher.connect(ClientOptions.parse({"servers": url}))
    finished = asyncio.ensure_future(process.communicate())
    # Its subscriptions are there as soon as a request to their subject finds a responder, and
    # every publish may come too early: so publish until it has what it waits for.
    while not finished.done():
        publisher.write(b"PUB b.x 2\r\nhi\r\n" * publishes)
        await publisher.flush()
        await asyncio.wait([finished], timeout=0.05)
    await publisher.close()
    output, _ = await finished
    role = json.loads(output)["roles"]["subscribe"]
    assert role["messages"] >= 40
    assert role["payload_bytes"] == 2 * role["messages"]
