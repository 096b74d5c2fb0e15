"""Abuse by time: slow, silent, stopped and racing. Rows 1, 3, 12, 14, 28 and 30 of the table."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import threading
import time

import pytest

from tests.abuse.conftest import TIMEOUT_S, Target, Victim, ask, read_to_end, wait_until
from tests.support.processes import Server, midge_command


@pytest.mark.row(1)
def test_a_slow_connect_is_cut_on_time(victim: Victim) -> None:
    config = "authorization { user: u, password: p, timeout: 1 }"
    with victim(config, connect='{"verbose":false,"user":"u","pass":"p"}') as target:
        client = target.dial(is_connected=False)
        begun = time.monotonic()
        sent = 0
        with contextlib.suppress(ConnectionError):
            for byte in target.connect_line * 100:
                client.sendall(bytes([byte]))
                sent += 1
                client.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    answer = client.recv(1000)
                    break
        assert answer == b"-ERR 'Authentication Timeout'\r\n"
        assert time.monotonic() - begun > 0.9
        assert sent < 60  # in 3 s at least; on a slow machine a client has sent less by then


@pytest.mark.row(3)
def test_a_dead_peer_is_found(victim: Victim) -> None:
    with victim('ping_interval: "300ms"\nping_max: 2\n') as target:
        silent = target.dial()
        assert read_to_end(silent).endswith(b"-ERR 'Stale Connection'\r\n")


@pytest.mark.row(3)
def test_a_peer_that_takes_nothing_is_cut(victim: Victim) -> None:
    """A stopped process takes what its socket has room for, and then nothing more."""
    with victim('write_deadline: "1s"\n') as target:
        stopped = target.open(receive_bytes=4096)
        stopped.sendall(target.connect_line)
        ask(stopped, b"SUB dead 1")
        publisher = target.dial()
        message = b"PUB dead 65536\r\n" + b"x" * 65536
        ask(publisher, *[message] * 200)
        wait_until(lambda: "Slow Consumer Detected" in target.server.log, "its end")
        assert ask(publisher, message) == b"PONG\r\n"


@pytest.mark.row(3)
def test_a_peer_that_never_reads_its_last_words_is_cut(victim: Victim) -> None:
    with victim('write_deadline: "1s"\n') as target:
        publisher = target.dial()
        files = target.descriptors()
        for number in range(4):
            deaf = target.open(receive_bytes=4096)
            deaf.sendall(target.connect_line)
            ask(deaf, b"SUB deaf%d 1" % number)
            message = b"PUB deaf%d 1000000\r\n" % number + b"x" * 1_000_000
            ask(publisher, *[message] * 16)
            deaf.sendall(b"NONSENSE\r\n")
        target.wait_for_descriptors(files)


@pytest.mark.row(12)
def test_running_out_of_files_is_survived(victim: Victim) -> None:
    with victim() as target:
        files = target.descriptors()
        _, hard = resource.prlimit(target.server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(target.server.pid, resource.RLIMIT_NOFILE, (files + 20, hard))
        crowd = [target.open() for _ in range(60)]
        wait_until(lambda: target.descriptors() >= files + 18, "the limit")
        for client in crowd:
            client.close()
        target.wait_for_descriptors(files + 5)
        client = target.dial()
        assert ask(client, b"SUB a 1", b"PUB a 1", b"x") == b"MSG a 1 1\r\nx\r\nPONG\r\n"
        assert target.server.log.count("accept") < 50


@pytest.mark.row(14)
def test_a_log_on_a_full_disk_stops_nobody(victim: Victim) -> None:
    with victim('log_file: "/dev/full"\nhttp: 127.0.0.1:-1\n') as target:
        for _ in range(50):
            read_to_end(_sent(target, b"NONSENSE\r\n"))
        assert ask(target.dial(), b"SUB a 1", b"PUB a 1", b"x") == b"MSG a 1 1\r\nx\r\nPONG\r\n"
        page = read_to_end(_sent(target, b"GET /metrics HTTP/1.0\r\n\r\n", "monitoring"))
        lost = re.search(rb"\nmidge_log_lines_lost_total (\d+)", page)
        assert lost is not None
        assert int(lost[1]) > 0


def _sent(target: Target, data: bytes, listener: str = "nats") -> socket.socket:
    client = target.open(listener)
    client.sendall(data)
    return client


@pytest.mark.row(28)
def test_a_stopped_server_sends_nobody_away() -> None:
    with Server(midge_command(), 'ping_interval: "500ms"\nping_max: 4\n') as server:
        client = socket.create_connection(server.address(), timeout=TIMEOUT_S)
        answering = threading.Thread(target=_answer_pings, args=(client,))
        answering.start()
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        client.sendall(b'CONNECT {"verbose":false}\r\nPUB end 1\r\nx\r\n')
        client.shutdown(socket.SHUT_WR)
        answering.join(TIMEOUT_S)
        assert "Stale" not in server.log
        client.close()


def _answer_pings(client: socket.socket) -> None:
    """Answer every PING until the end."""
    for line in client.makefile("rb"):
        assert not line.startswith(b"-ERR"), line
        if line == b"PING\r\n":
            with contextlib.suppress(OSError):
                client.sendall(b"PONG\r\n")


@pytest.mark.row(30)
def test_racing_signals_end_it_cleanly() -> None:
    for signals in (
        ("SIGTERM", "SIGTERM"),
        ("SIGHUP", "SIGTERM", "SIGINT"),
        ("SIGUSR1", "SIGHUP", "SIGHUP", "SIGINT"),
        ("SIGUSR2", "SIGHUP", "SIGINT"),
        ("SIGINT", "SIGUSR2", "SIGTERM"),
    ):
        server = Server(midge_command(), "debug: false\n").wait_ready()
        clients = [socket.create_connection(server.address()) for _ in range(20)]
        for client in clients:
            client.sendall(b"SUB a 1\r\n" + b"PUB a 8\r\n12345678\r\n" * 1000)
        for name in signals:
            if server.process.poll() is None:
                server.signal(name)
        code = server.process.wait(TIMEOUT_S)
        log = server.log
        server.stop()
        for client in clients:
            client.close()
        assert code == 0, (signals, log)
        assert "Traceback" not in log
