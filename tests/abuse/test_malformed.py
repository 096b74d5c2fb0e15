"""Abuse by bytes: what no client sends. Rows 5 to 9, 15, 21, 22 and 29 of the abuse table."""

from __future__ import annotations

import contextlib
import socket

import pytest

from tests.abuse.conftest import GROWTH_BYTES, REMEMBERED_BYTES, Victim, ask, read_to_end

MIB = 1 << 20


@pytest.mark.row(5)
def test_an_endless_control_line_is_cut(victim: Victim) -> None:
    with victim() as target:
        before = target.rss_bytes()
        for line in (b"SUB " + b"x" * 10 * MIB, b"SUB " + b"x" * 4096 + b" 1\r\n"):
            client = target.dial()
            with contextlib.suppress(ConnectionError):
                client.sendall(line)
            assert read_to_end(client) in {b"-ERR 'maximum control line exceeded'\r\n", b""}
            client.close()
        assert target.rss_bytes() - before < 8 * MIB


@pytest.mark.row(6)
@pytest.mark.parametrize("size_mib", [50, pytest.param(1024, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_a_flood_of_blanks_takes_no_memory(victim: Victim, size_mib: int) -> None:
    with victim() as target:
        before = target.rss_bytes()
        blanks = b" " * MIB
        for verb in (b"PING", b"SUB "):
            client = target.dial()
            client.sendall(verb)
            with contextlib.suppress(ConnectionError):
                for _ in range(size_mib // 2):
                    client.sendall(blanks)
            client.close()
        assert target.rss_bytes() - before < 8 * MIB


SIZES = [
    b"999999999",
    b"9999999999",
    b"-1",
    b"+1",
    b"1_0",
    b"0x1",
    "٣".encode(),
    b"1.0",
    b"9" * 3000,
]


@pytest.mark.row(7)
def test_sizes_that_are_none_end_the_connection(victim: Victim) -> None:
    with victim() as target:
        before = target.rss_bytes()
        for size in SIZES:
            answer = ask(target.dial(), b"PUB a " + size, b"x")
            assert answer in {b"", b"-ERR 'Maximum Payload Violation'\r\n"}, size
        assert target.rss_bytes() - before < 4 * MIB


@pytest.mark.row(8)
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_an_announced_payload_takes_no_room(victim: Victim, count: int) -> None:
    with victim(growth_bytes=count * REMEMBERED_BYTES + GROWTH_BYTES) as target:
        before = target.rss_bytes()
        clients = [target.dial(is_connected=False) for _ in range(count)]
        for client in clients:
            client.sendall(b"PUB a 1048576\r\nx")
        ask(target.dial())
        assert target.rss_bytes() - before < count * 64 * 1024 + 8 * MIB
        for client in clients:
            client.close()


BLOCKS = [
    b"A:b\r\n" * 200_000,
    b"NATS/1.0\r\n" + b"A:b\r\n" * 200_000,
    b"\xff\xfe" * 400_000,
    b"NATS/1.0\r\nA: \r b\n c\r\n\r\n",
    b"\r\n" * 400_000,
]


@pytest.mark.row(9)
def test_header_bombs_are_relayed_untouched(victim: Victim) -> None:
    with victim(connect='{"verbose":false,"headers":true}') as target:
        client = target.dial()
        ask(client, b"SUB h 1")
        for headers in BLOCKS:
            sizes = b"%d %d" % (len(headers), len(headers) + 1)
            got = ask(client, b"HPUB h " + sizes, headers + b"x")
            assert got == b"HMSG h 1 " + sizes + b"\r\n" + headers + b"x\r\nPONG\r\n"
        assert ask(target.dial(), b"HPUB h 9 5", b"hello") == b""


@pytest.mark.row(15)
def test_tls_on_a_plain_port_is_turned_away(victim: Victim) -> None:
    with victim() as target:
        for hello in (b"\x16\x03\x01\x02\x00\x01" + b"\0" * 600, b"\x16" * 100_000):
            client = target.dial(is_connected=False)
            with contextlib.suppress(ConnectionError):
                client.sendall(hello)
            assert read_to_end(client) in {b"-ERR 'Unknown Protocol Operation'\r\n", b""}


@pytest.mark.row(21)
def test_a_stream_means_the_same_at_every_split(victim: Victim) -> None:
    stream = (
        b'CONNECT {"verbose":false,"headers":true}\r\nSUB a 1\r\n'
        b"HPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\n"
        b'CONNECT {"verbose":true}\r\nPUB a 1\r\ny\r\nPING\r\n'
    )
    with victim() as target:
        answers = set()
        for split in range(1, len(stream)):
            client = target.dial(is_connected=False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(stream[:split])
            client.sendall(stream[split:])
            got = b""
            while not got.endswith(b"PONG\r\n"):
                got += client.recv(4096)
            answers.add(got)
            client.close()
        assert answers == {
            b"HMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n+OK\r\n+OK\r\nPONG\r\n",
        }


DOCUMENTS = [
    (b'{"x":' + b"[" * 1500 + b"]" * 1500 + b"}", True),
    (b'{"name":"a","name":"b"}', True),
    (b'{"name":"\\ud800"}', True),
    (b'{"name":"' + b"n" * 4000 + b'"}', True),
    (b'{"x":NaN}', False),
    (b'{"verbose":"yes"}', False),
    (b'{"protocol":1.0}', False),
    (b"[" * 4000, False),
    (b'"', False),
    (b"\xff\xfe{}", False),
]


@pytest.mark.row(22)
def test_a_wild_connect_is_taken_or_refused(victim: Victim) -> None:
    with victim() as target:
        for document, is_accepted in DOCUMENTS:
            answer = ask(target.dial(is_connected=False), b"CONNECT " + document)
            assert (b"PONG" in answer) == is_accepted, document[:50]


@pytest.mark.row(29)
def test_names_cannot_write_lines(victim: Victim) -> None:
    nasty = "\\u001b[31m\\r\\n-ERR 'x'\\r\\nINFO {}\\u0000" + "n" * 1000
    with victim(flags=("-D",)) as target:
        client = target.dial(is_connected=False)
        got = ask(
            client,
            b'CONNECT {"verbose":false,"name":"%b","user":"%b"}' % (nasty.encode(), nasty.encode()),
            b"SUB a\x1b[31mb\x00 q\x1b \x1bsid",
            b"PUB a\x1b[31mb\x00 1",
            b"x",
            b"UNSUB \x1bsid",
            b"SUB bad..\x1b[31m 2",
        )
        assert got.startswith(b"MSG a\x1b[31mb\x00 \x1bsid 1\r\nx\r\n")
        assert b"\x1b" not in got.split(b"-ERR", 1)[-1]
        client.sendall(b"-ERR '\x1b[31m\x07'\r\n")
        read_to_end(client)
        assert "\x1b[31m" not in target.server.log
        assert "\nINFO {}" not in target.server.log
