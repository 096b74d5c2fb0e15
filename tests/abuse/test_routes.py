"""A hostile server of the cluster: it announces much, floods, and gossips about made-up servers."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from tests.abuse.conftest import (
    GROWTH_BYTES,
    Target,
    Victim,
    ask,
    read_to_end,
    read_until,
    wait_until,
)
from tests.support.clusters import route_port

MIB = 1 << 20
PORT = 'cluster {{ name: C1, listen: "127.0.0.1:-1"\n{} }}\n'
LOGIN = "authorization { user: u, password: p }"


def dial(target: Target) -> socket.socket:
    """Open a connection to the port for routes; INFO has been read."""
    return target.dial_listener("cluster")


def connect(**fields: Any) -> bytes:
    document = {"name": "NEVIL", "cluster": "C1", "headers": True, **fields}
    return b"CONNECT " + json.dumps(document).encode()


def info(**fields: Any) -> bytes:
    document = {
        "server_id": "NEVIL",
        "server_name": "EVIL",
        "proto": 3,
        "port": 1,
        "headers": True,
        "max_payload": MIB,
        "cluster": "C1",
        "lnoc": True,
        "lnocu": True,
    }
    return b"INFO " + json.dumps({**document, **fields}).encode()


def joined(target: Target, **fields: Any) -> socket.socket:
    """Connect a server until it is accepted."""
    peer = dial(target)
    assert ask(peer, connect(**fields), info()).endswith(b"PONG\r\n")
    return peer


@pytest.mark.parametrize("count", [60_000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_a_flood_of_interest_is_bounded(victim: Victim, count: int) -> None:
    limit = count // 2
    config = PORT.format("") + f"max_subs: {limit}\n"
    with victim(config, growth_bytes=limit * 1024 + GROWTH_BYTES) as target:
        peer = joined(target)
        target.forget_peak()
        for start in range(0, count, 10_000):
            ask(peer, *(b"RS+ $G s.%d.*" % i for i in range(start, start + 10_000)))
        client = target.dial()
        assert b"RMSG" not in ask(client, b"PUB s.%d.x 0\r\n" % (count - 1))
        client.sendall(b"PUB s.1.x 0\r\n\r\n")
        assert b"RMSG $G s.1.x 0" in read_until(peer, b"RMSG $G s.1.x 0\r\n")


@pytest.mark.full
def test_a_flood_of_accounts_and_of_queue_groups_is_bounded(victim: Victim) -> None:
    with victim(PORT.format(""), growth_bytes=40 * MIB) as target:
        peer = joined(target)
        for start in range(0, 20_000, 5_000):
            ask(peer, *(b"RS+ A%d s q 1" % i for i in range(start, start + 5_000)))
        for _ in range(4):
            ask(peer, *(b"RS+ $G s q %d" % i for i in range(5_000)))
        assert ask(peer, b"RMSG A19999 s 1\r\nx").endswith(b"PONG\r\n")


LINES = (
    b"RMSG $G a 99999999999999999999",
    b"RMSG $G a 4294967296",
    b"RMSG $G a | q 1099511627776",
    b"RMSG $G a 1048577",
    b"RMSG $G a 1000000000",
    b"RMSG $G a | q 1000000000",
    b"RMSG $G a + reply q 1000000000",
    b"HMSG $G a 12 1000000000",
    b"HMSG $G a | q 12 1000000000",
    b"LMSG EDGE $G a 0 1000000000",
    b"HMSG $G a 99999999999 99999999999",
    b"HMSG $G a 12 5",
    b"LMSG EDGE $G a 0 1099511627776",
    b"RMSG $G a x y z 5",
    b"RS+ $G a b c d e",
    b"RS+ $G",
    b"RS+ $G " + b"a." * 40_000 + b"b",
    b"RMSG $G a | " + b"q " * 40_000 + b"1",
    b"SUB a 1",
    b"PUB a 1",
    b"CONNECT {}",
    b"\x00\xff\xfe",
)


def test_a_line_that_cannot_be_ends_the_route(victim: Victim) -> None:
    with victim(PORT.format("")) as target:
        for line in LINES:
            peer = joined(target)
            peer.sendall(line + b"\r\nx\r\n")
            read_to_end(peer)
        joined(target)


DOCUMENTS = (
    b"CONNECT " + b"{" * 100_000,
    b'CONNECT {"name": ' + b"[" * 50_000,
    b'CONNECT {"cluster": 1}',
    b'CONNECT {"name": "' + b"x" * 2 * MIB + b'"}',
    b"CONNECT \xff\xfe",
    connect() + b"\r\n" + info(export={"allow": ["a.." * 100_000]}),
    connect() + b"\r\n" + info(server_name="x" * 2 * MIB),
    connect() + b"\r\nINFO " + b"[" * 100_000,
    info(),
    b"RS+ $G a",
)


def test_a_document_that_cannot_be_ends_the_connection(victim: Victim) -> None:
    with victim(PORT.format("")) as target:
        for document in DOCUMENTS:
            peer = dial(target)
            peer.sendall(document + b"\r\n")
            peer.shutdown(socket.SHUT_WR)
            read_to_end(peer)
        joined(target)


@pytest.mark.full
def test_words_without_end_are_cheap(victim: Victim) -> None:
    with victim(PORT.format("")) as target:
        peer = joined(target)
        lines = (b"PONG", b"RS- $G not.there", b"RS+ $G a..b", b"A+ X", info(), b"LS- E $G a q")
        for line in lines:
            for _ in range(5):
                ask(peer, *[line] * 500)
        assert ask(peer).endswith(b"PONG\r\n")


def test_servers_told_of_are_dialled_only_after_a_password_and_never_too_many(
    victim: Victim,
) -> None:
    with victim(PORT.format(LOGIN), growth_bytes=40 * MIB) as target, socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen()
        trap.settimeout(20)
        port = trap.getsockname()[1]
        third = info(server_id="NTHIRD", server_name="T", ip=f"nats-route://127.0.0.1:{port}/")
        for lines in ((third,), (connect(), info(), third), (connect(user="u"), info(), third)):
            stranger = dial(target)
            stranger.sendall(b"\r\n".join(lines) + b"\r\n")
            read_to_end(stranger)
        files = target.descriptors()
        peer = joined(target, user="u", **{"pass": "p"})
        trap.settimeout(0.05)
        with pytest.raises(TimeoutError):
            trap.accept()
        made_up = (
            info(server_id=f"N{i}", server_name=f"S{i}", ip=f"nats-route://127.0.0.1:{port}{i}/")
            for i in range(2)
        )
        ask(peer, *made_up, info(server_id="NX", ip="file:///etc"), info(server_id="NY", ip="@:x"))
        many = (
            info(server_id=f"M{i}", ip=f"nats-route://127.1.{i >> 8}.{i & 255}:1/")
            for i in range(600)
        )
        ask(peer, *many, third)
        assert target.descriptors() - files < 300
        assert ask(peer).endswith(b"PONG\r\n")


def test_clients_are_told_once_of_addresses_that_change_without_end(victim: Victim) -> None:
    with victim(PORT.format("")) as target:
        clients = [target.dial(connect=b'CONNECT {"protocol":1}\r\n') for _ in range(50)]
        peer = joined(target)
        for start in range(1, 1_000, 200):
            urls = ([f"127.0.0.1:{start + i}"] for i in range(200))
            ask(peer, *(info(connect_urls=one) for one in urls))
        for client in clients:
            told = b""
            while b"127.0.0.1:1000" not in told:
                told += read_until(client, b"\r\n")
            assert told.count(b"INFO ") <= 50


def test_a_server_that_reads_nothing_is_cut_off(victim: Victim) -> None:
    config = PORT.format("") + 'write_deadline: "1s"\nmax_pending: 8MB\n'
    with victim(config, growth_bytes=48 * MIB) as target:
        peer = joined(target)
        ask(peer, b"RS+ $G big")
        client = target.dial()
        for _ in range(32):
            ask(client, b"PUB big %d\r\n%b" % (MIB, b"x" * MIB))
        wait_until(lambda: "Slow Consumer" in target.server.log, "the route to be cut off")
        client.close()
        joined(target)


@pytest.mark.full
def test_servers_that_never_connect_are_bounded(victim: Victim) -> None:
    with victim(PORT.format("")) as target:
        files = target.descriptors_after(lambda: joined(target))
        port = route_port(target.server)
        waiting = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(400)]
        assert target.descriptors() - files < 350
        for one in waiting:
            one.close()
        wait_until(lambda: target.descriptors() <= files, "the files to be closed")
        joined(target)
