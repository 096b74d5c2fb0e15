"""Clients that do not read: both servers cut them off alike, without disturbing other clients."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import Server, midge_command, nats_server_command

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 60.0
COMMANDS = {"midge-server": midge_command, "nats-server": nats_server_command}
PAYLOAD = b"x" * 65_536
FRAME = b"PUB flood %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)
MESSAGE = b"MSG flood 1 %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)
PORTION_BYTES = 200_000
COUNT = 400
"""Messages: 26 MB, far more than kernel buffers and `max_pending` hold together."""


def dial(server: Server, *lines: bytes, buffer_bytes: int = 0) -> socket.socket:
    """Connect, send `lines`, and wait until they are done; limit the receive buffer if asked to."""
    client = socket.socket()
    if buffer_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    client.settimeout(TIMEOUT_S)
    client.connect(server.address())
    client.sendall(b'CONNECT {"verbose":false}\r\n' + b"".join(lines) + b"PING\r\n")
    read_until(client, b"PONG\r\n")
    return client


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Read up to `end`, or to the end of the stream."""
    received = b""
    while end not in received:
        try:
            piece = client.recv(1 << 20)
        except ConnectionResetError:
            break
        if not piece:
            break
        received += piece
    return received


def page(server: Server, path: str) -> Any:
    host, port = server.address("monitoring")
    with urllib.request.urlopen(f"http://{host}:{port}/{path}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def closed_reasons(server: Server) -> list[str]:
    """Return why connections were closed; nats-server lists them after it has counted them."""
    return [one["reason"] for one in page(server, "connz?state=closed")["connections"]]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("program", sorted(COMMANDS))
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ("max_pending: 1mb\nmax_payload: 1mb\n", "Slow Consumer (Pending Bytes)"),
        ("write_deadline: '500ms'\n", "Slow Consumer (Write Deadline)"),
    ],
)
def test_who_does_not_read_is_cut_off(program: str, limits: str, reason: str) -> None:
    with Server(COMMANDS[program](), limits + "http: '127.0.0.1:-1'\n") as server:
        slow = dial(server, b"SUB flood 1\r\n")
        publisher = dial(server)
        for _ in range(COUNT):
            publisher.sendall(FRAME)
        publisher.sendall(b"PING\r\n")
        assert b"PONG\r\n" in read_until(publisher, b"PONG\r\n"), "the publisher goes on"
        wait_for(lambda: page(server, "varz")["slow_consumers"] == 1)
        wait_for(lambda: closed_reasons(server) == [reason])
        rest = read_until(slow, b"never")
        assert b"-ERR" not in rest, "no word of it on the wire"
        assert rest.replace(b"PING\r\n", b"") in MESSAGE * COUNT, "whole frames up to the cut"
        assert len(rest) < len(MESSAGE) * COUNT
        for client in (slow, publisher):
            client.close()


@pytest.mark.parametrize("program", sorted(COMMANDS))
@pytest.mark.parametrize("policy", ["default", "close", "retry"])
def test_a_slow_reader_stays_with_retry_only(program: str, policy: str) -> None:
    config = f"write_deadline: '1s'\nwrite_timeout: {policy}\nhttp: '127.0.0.1:-1'\n"
    with Server(COMMANDS[program](), config) as server:
        # The server can write on after each portion, for the buffer is small. The pauses are few
        # and long, because a busy machine adds to each.
        slow = dial(server, b"SUB flood 1\r\n", buffer_bytes=2 * PORTION_BYTES)
        publisher = dial(server)
        publishing = threading.Thread(target=publisher.sendall, args=(FRAME * (COUNT // 2),))
        publishing.start()
        received = 0
        while received < len(MESSAGE) * COUNT // 2:
            try:
                piece = slow.recv(PORTION_BYTES, socket.MSG_WAITALL)
            except ConnectionResetError:
                break
            if not piece:
                break
            received += len(piece)
            time.sleep(0.05)
        publishing.join()
        if policy == "retry":
            assert not closed_reasons(server)
            assert page(server, "varz")["slow_consumers"] >= 1
        else:
            wait_for(lambda: closed_reasons(server) == ["Slow Consumer (Write Deadline)"])
        for client in (slow, publisher):
            client.close()
