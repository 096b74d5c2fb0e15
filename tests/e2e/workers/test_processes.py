"""What becomes of the processes of several workers: ends, restarts, signals and reloads."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import nats.errors
import nats.js.errors
import pytest
from cryptography import x509

from midge.testing import SettlingClient
from tests.support.keys import Authority, pem
from tests.support.processes import Server, midge_command
from tests.support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nats.aio.msg import Msg

TIMEOUT_S = 60
WORKERS = ("--workers", "2")
_STARTED = re.compile(r"Worker started: worker=(\d) worker_pid=(\d+)")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(midge_command(), "debug: false\nhttp: 127.0.0.1:-1\n", WORKERS) as started:
        yield started


def pids(server: Server) -> dict[int, int]:
    """Return the process id of each worker that has started last, by its number."""
    return {int(number): int(pid) for number, pid in _STARTED.findall(server.log)}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    except FileNotFoundError:
        return False
    return state.split()[0] != "Z"


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():
            await asyncio.sleep(0.01)


async def until_logged(server: Server, text: str) -> None:
    await until(lambda: text in server.log)


async def until_refused(client: SettlingClient) -> None:
    """Return when requests of JetStream's API are answered with "no responders".

    A request that the parent had sent to a worker that then ended has no answer.
    """
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await client.request("$JS.API.INFO", timeout=1)
            except nats.errors.NoRespondersError:
                return
            except nats.errors.TimeoutError:
                continue


@contextmanager
def sockets(server: Server, count: int) -> Iterator[list[socket.socket]]:
    opened = [socket.create_connection(server.address(), TIMEOUT_S) for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            one.close()


async def info_by_websocket(server: Server) -> dict[str, object]:
    """Return the INFO that the first frame after an upgrade has."""
    host, port = server.address("websocket")
    reader, writer = await asyncio.open_connection(host, port)
    lines = (
        "GET / HTTP/1.1",
        f"Host: {host}:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "\r\n",
    )
    writer.write("\r\n".join(lines).encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    line = await reader.readuntil(b"\r\n")
    writer.close()
    await writer.wait_closed()
    info: dict[str, object] = json.loads(line[line.index(b'{"') :])
    return info


async def health(server: Server) -> bytes:
    reader, writer = await asyncio.open_connection(*server.address("monitoring"))
    writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_killed_worker_is_started_again_and_one_that_keeps_ending_waits(
    server: Server,
) -> None:
    found: list[bytes] = []

    async def take(message: Msg) -> None:
        found.append(message.data)

    clients = [
        await SettlingClient.connected(server.url, reconnect_time_wait=0.05) for _ in range(4)
    ]
    for client in clients:
        await client.subscribe("still", cb=take)
        await client.flush()
    before = pids(server)
    os.kill(before[1], signal.SIGKILL)
    await until(lambda: pids(server)[1] != before[1])
    await until(lambda: all(client.is_connected for client in clients))
    assert sum(client.stats["reconnects"] for client in clients) == 2
    assert pids(server)[0] == before[0]
    for client in clients:
        await client.flush()
    for i, client in enumerate(clients):
        await client.publish("still", b"%d" % i)
        await client.flush()
    await until(lambda: len(found) >= 16)
    assert sorted(found) == sorted([b"0", b"1", b"2", b"3"] * 4)
    assert "Worker ended: worker=1" in server.log
    for client in clients:
        await client.close()
    for _ in range(2):
        known = pids(server)[1]
        os.kill(known, signal.SIGKILL)
        await until(lambda known=known: pids(server)[1] != known or "Worker delayed" in server.log)
    await until_logged(server, "Worker delayed: worker=1 delay=1 s")
    answer = await health(server)
    assert answer.startswith(b"HTTP/1.0 503")
    assert b"worker 1 keeps ending" in answer
    async with asyncio.timeout(TIMEOUT_S):
        while not (await health(server)).startswith(b"HTTP/1.0 200"):
            await asyncio.sleep(0.05)


async def test_workers_go_with_a_killed_parent() -> None:
    server = Server(midge_command(), "", WORKERS).wait_ready()
    workers = pids(server).values()
    assert all(is_running(pid) for pid in workers)
    server.process.kill()
    await until(lambda: not any(is_running(pid) for pid in workers))
    server.stop()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR2"])
async def test_signals_that_end_it_end_all(name: str) -> None:
    server = Server(midge_command(), "", WORKERS).wait_ready()
    workers = pids(server).values()
    for pid in workers:  # as a terminal or systemd does
        os.kill(pid, signal.Signals[name])
    server.signal(name)
    assert await asyncio.to_thread(server.process.wait, TIMEOUT_S) == 0
    assert not any(is_running(pid) for pid in workers)
    assert "Server Exiting.." in server.log
    assert "Worker ended" not in server.log
    server.stop()


async def test_a_reload_reaches_all_or_none(server: Server) -> None:
    server.signal("SIGHUP", "max_payload: 1kb\nhttp: 127.0.0.1:-1\n")
    await until_logged(server, "Reloaded server configuration")
    raws = [await Raw.open(server.url) for _ in range(4)]
    assert [raw.info["max_payload"] for raw in raws] == [1024] * 4
    server.signal("SIGHUP", "max_payload: 2kb\nleafnodes { port: -1 }\nhttp: 127.0.0.1:-1\n")
    await until_logged(server, "leafnodes.port")
    raws += [await Raw.open(server.url) for _ in range(2)]
    assert [raw.info["max_payload"] for raw in raws[4:]] == [1024] * 2
    known = pids(server)[1]
    os.kill(known, signal.SIGKILL)
    await until(lambda: pids(server)[1] != known)
    raws += [await Raw.open(server.url) for _ in range(4)]
    assert {raw.info["max_payload"] for raw in raws} == {1024}
    for raw in raws:
        await raw.close()


async def test_a_reload_leaves_jetstream_with_the_first_worker(tmp_path: Path) -> None:
    """Also after off and on again: two workers with the same streams would be two servers."""
    jetstream = f'jetstream {{ store_dir: "{tmp_path}" }}\n'
    with Server(midge_command(), jetstream, WORKERS) as server:
        for number, config in enumerate(
            ["debug: false\n" + jetstream, "jetstream: off\n", jetstream]
        ):
            server.signal("SIGHUP", config)
            told = "Reloaded server configuration"
            await until(lambda: server.log.count(told) > number)  # noqa: B023 - within the round
        assert "JetStream not started" not in server.log
        started = re.findall(r"\[(\d+)\] .* JetStream started", server.log)
        assert started == [str(pids(server)[0])] * 2


async def test_connections_are_limited_over_all() -> None:
    with Server(midge_command(), "max_connections: 5\n", WORKERS) as server:
        raws = [await Raw.open(server.url) for _ in range(5)]
        for raw in raws:
            assert await raw.connect() == b""
        surplus = await Raw.open(server.url)
        assert b"maximum connections exceeded" in await surplus.until_end()
        await surplus.close()
        await raws[0].close()
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                another = await Raw.open(server.url)
                answer = await another.connect()
                if answer == b"":
                    break
                await another.close()
        for raw in [*raws[1:], another]:
            await raw.close()


async def test_the_log_is_the_parents(tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("log") / "server.log"
    flags = (*WORKERS, "-l", str(log), "-D")
    with Server(midge_command(), "", flags) as server:
        with sockets(server, 2):
            await until(lambda: log.read_text().count("Client connection created") == 2)
        log.rename(log.with_suffix(".old"))
        server.signal("SIGUSR1")
        await until(lambda: log.exists() and "File log re-opened" in log.read_text())
        with sockets(server, 2):
            await until(lambda: log.read_text().count("Client connection created") == 2)
        lines = log.with_suffix(".old").read_text().splitlines()
        assert all(re.match(r"\[\d+\] \d{4}/\d\d/\d\d ", line) for line in lines)


async def test_streams_outlive_their_worker() -> None:
    config = 'jetstream { store_dir: "@directory@/js" }\n'
    with Server(midge_command(), config, WORKERS) as server:
        first = await Raw.open(server.url)
        client = await SettlingClient.connected(server.url, allow_reconnect=False)
        other = client.jetstream(timeout=TIMEOUT_S)
        await other.add_stream(name="S", subjects=["s"])
        for i in range(20):
            await other.publish("s", b"%d" % i)
        known = pids(server)[0]
        server.signal("SIGSTOP")  # nothing is started again meanwhile
        os.kill(known, signal.SIGKILL)
        await until_refused(client)
        with pytest.raises(nats.js.errors.NoStreamResponseError):
            await other.publish("s", b"lost")  # at once, and not when its time is up
        server.signal("SIGCONT")
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                try:
                    await other.publish("s", b"after")
                    break
                except nats.js.errors.NoStreamResponseError:
                    await asyncio.sleep(0.01)
        await until(lambda: pids(server)[0] != known)
        state = (await other.stream_info("S")).state
        assert state.messages == 21
        messages = [await other.get_msg("S", seq=i + 1) for i in range(20)]
        assert [message.data for message in messages] == [b"%d" % i for i in range(20)]
        await client.close()
        await first.close()


async def test_clients_by_tls_and_by_websocket_are_handed_over_too() -> None:
    authority = Authority()
    certificate, key = authority.issue("CN=localhost", [x509.DNSName("localhost")])
    files = {"cert.pem": pem(certificate), "key.pem": key}
    config = """
websocket { listen: "127.0.0.1:-1", no_tls: true }
tls { cert_file: "@directory@/cert.pem", key_file: "@directory@/key.pem" }
"""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    found: list[bytes] = []

    async def take(message: Msg) -> None:
        found.append(message.data)

    with Server(midge_command(), config, WORKERS, files=files) as server:
        clients = [
            await SettlingClient.connected(
                server.url, tls=context, tls_hostname="localhost", allow_reconnect=False
            )
            for _ in range(2)
        ]
        infos = [await info_by_websocket(server) for _ in range(2)]
        assert [info["client_id"] for info in infos] == [7, 8]
        for client in clients:
            await client.subscribe("x", cb=take)
            await client.flush()
        for client in clients:
            await client.publish("x", b"")
            await client.flush()
        await until(lambda: len(found) == 4)
        for client in clients:
            await client.close()
