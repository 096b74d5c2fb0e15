"""Abuse of the WebSocket listener. Row 25 of the abuse table."""

from __future__ import annotations

import contextlib
import socket
import struct
import zlib

import pytest

from tests.abuse.conftest import MIB, Target, Victim, ask, read_to_end, read_until, wait_until

CONFIG = "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true, same_origin: true }\n"

REQUEST = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Extensions": (
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
    ),
}

CONTINUATION, TEXT, BINARY, CLOSE, PING = 0, 1, 2, 8, 9
FIN, COMPRESSED, MASKED = 0x80, 0x40, 0x80


def head_of(opcode: int, length: int, *, flags: int = FIN, mask: int = MASKED) -> bytes:
    """The first bytes of a frame, its mask of zeros included."""
    key = bytes(4) if mask else b""
    if length < 126:
        return struct.pack("!BB", flags | opcode, mask | length) + key
    if length < 1 << 16:
        return struct.pack("!BBH", flags | opcode, mask | 126, length) + key
    return struct.pack("!BBQ", flags | opcode, mask | 127, length) + key


def frame(opcode: int, payload: bytes, *, flags: int = FIN, mask: int = MASKED) -> bytes:
    return head_of(opcode, len(payload), flags=flags, mask=mask) + payload


def bomb(size: int) -> bytes:
    """Compress `size` blanks into one message, a thousandth of it."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    blanks = b" " * MIB
    pieces = [deflate.compress(blanks) for _ in range(size // MIB)]
    whole = b"".join(pieces) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return frame(BINARY, whole.removesuffix(b"\0\0\xff\xff"), flags=FIN | COMPRESSED)


def request(path: str = "/", method: str = "GET", **changed: str) -> bytes:
    headers = REQUEST | {name.replace("_", "-"): value for name, value in changed.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items() if v)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def upgraded(target: Target, *, is_connected: bool) -> socket.socket:
    """Open a WebSocket, as far as INFO or a CONNECT."""
    client = target.open("websocket")
    client.sendall(request())
    assert client.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 101"
    if is_connected:
        client.sendall(frame(BINARY, target.connect_line + b"PING\r\n"))
        read_until(client, b"PONG\r\n")
    return client


def is_ended_by(target: Target, attack: bytes, times: int, *, is_connected: bool) -> bool:
    """Return whether the server ends the connection during the attack, or right after it."""
    client = upgraded(target, is_connected=is_connected)
    with contextlib.suppress(ConnectionError):
        for _ in range(times):
            client.sendall(attack)
    client.settimeout(2.0)
    try:
        read_to_end(client)
    except TimeoutError:
        return False
    finally:
        client.close()
    return True


@pytest.mark.row(25)
@pytest.mark.parametrize("is_connected", [False, True], ids=["stranger", "client"])
@pytest.mark.parametrize("size_mib", [128, pytest.param(1024, marks=pytest.mark.full)])
def test_a_bomb_inflates_to_nothing(victim: Victim, size_mib: int, is_connected: bool) -> None:
    message = bomb(size_mib * MIB)
    # A message may be 8 MiB, and the allocator keeps room for a few.
    with victim(CONFIG, growth_bytes=40 * MIB) as target:
        target.forget_peak()
        for _ in range(10):
            assert is_ended_by(target, message, 1, is_connected=is_connected)
        assert target.peak_growth_bytes() < 40 * MIB


ENDING = {
    "a length of 2^63": head_of(BINARY, 1 << 63),
    "a length of 2^62": head_of(BINARY, 1 << 62),
    "a length of 1 GiB": head_of(BINARY, 1 << 30),
    "no mask": frame(BINARY, b"PING\r\n", mask=0),
    "a long control frame": frame(PING, b"x" * 126),
    "a control frame in pieces": frame(PING, b"x", flags=0),
    "an unknown opcode": frame(3, b""),
    "a reserved bit": frame(BINARY, b"", flags=FIN | 0x20),
    "a continuation of nothing": frame(CONTINUATION, b"PING\r\n"),
    "a message within a message": frame(BINARY, b"", flags=0) + frame(BINARY, b""),
    "bad compression": frame(BINARY, b"\xff" * 100, flags=FIN | COMPRESSED),
    "a bad close": frame(CLOSE, b"\0"),
}


@pytest.mark.row(25)
def test_frames_that_cannot_be_end_the_connection(victim: Victim) -> None:
    with victim(CONFIG) as target:
        target.forget_peak()
        for name, attack in ENDING.items():
            for is_connected in (False, True):
                assert is_ended_by(target, attack, 1, is_connected=is_connected), name
        assert target.peak_growth_bytes() < 8 * MIB


FLOODS = {
    "pings": frame(PING, b"x" * 125) * 500,
    "empty fragments": frame(CONTINUATION, b"", flags=0) * 10_000,
    "fragments of blanks": frame(CONTINUATION, b" " * 100, flags=0) * 500,
    "tiny fragments": frame(CONTINUATION, b" ", flags=0) * 8_000,
    "empty messages": frame(BINARY, b"") * 10_000,
}


@pytest.mark.row(25)
@pytest.mark.parametrize("name", list(FLOODS))
@pytest.mark.parametrize("times", [20, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_floods_of_frames_hold_nobody_up(victim: Victim, name: str, times: int) -> None:
    with victim(CONFIG) as target:
        target.forget_peak()
        for is_connected in (False, True):
            client = upgraded(target, is_connected=is_connected)
            client.settimeout(10.0)
            with contextlib.suppress(ConnectionError, TimeoutError):
                client.sendall(frame(BINARY, b"", flags=0) if "fragments" in name else b"")
                for _ in range(times):
                    client.sendall(FLOODS[name])
            client.close()
        assert target.peak_growth_bytes() < 80 * MIB


REQUESTS = [
    (request("/leafnode"), 404),
    (request("/mqtt"), 404),
    (request("/", method="POST"), 405),
    (request(Origin="http://elsewhere.example"), 403),
    (request(Origin="null"), 403),
    (request(Sec_WebSocket_Version="8"), 400),
    (request(Sec_WebSocket_Key="short"), 400),
    (request(Upgrade=""), 400),
    (request(Host=""), 400),
    (request(Cookie="a\0b"), 400),
    (b"GET / HTTP/1.0\r\n\r\n", 400),
    (b"\x16\x03\x01\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 400),
]


@pytest.mark.row(25)
def test_wrong_requests_are_refused(victim: Victim) -> None:
    with victim(CONFIG) as target:
        for sent, status in REQUESTS:
            client = target.open("websocket")
            client.sendall(sent)
            assert read_to_end(client).startswith(b"HTTP/1.1 %d " % status), sent[:80]
        endless = target.open("websocket")
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                endless.sendall(b"A: b\r\n" * 200)
        assert read_to_end(endless) == b""
        silent = target.open("websocket")
        assert read_to_end(silent) == b""


def publishes(count: int, *, is_compressed: bool) -> bytes:
    """A message of `count` publishes of a megabyte each."""
    whole = (b"PUB a 999900\r\n" + b"x" * 999_900 + b"\r\n") * count
    if not is_compressed:
        return frame(BINARY, whole)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = deflate.compress(whole) + deflate.flush(zlib.Z_SYNC_FLUSH)
    return frame(BINARY, data.removesuffix(b"\0\0\xff\xff"), flags=FIN | COMPRESSED)


@pytest.mark.parametrize("messages", [20, pytest.param(100, marks=pytest.mark.full)])
def test_row_25_inflating_is_done_in_turns(victim: Victim, messages: int) -> None:
    with victim(CONFIG) as target:
        target.forget_peak()
        client = upgraded(target, is_connected=True)
        client.settimeout(60)
        client.sendall(publishes(8, is_compressed=True) * messages)
        client.sendall(frame(BINARY, b"PING\r\n"))
        assert b"PONG\r\n" in read_until(client, b"PONG\r\n")
        assert target.peak_growth_bytes() < 24 * MIB


@pytest.mark.parametrize("is_compressed", [True, False])
def test_row_25_idle_clients_keep_nothing_of_what_they_sent(
    victim: Victim, is_compressed: bool
) -> None:
    with victim(CONFIG) as target:
        before = target.rss_bytes()
        sent = publishes(7 if is_compressed else 1, is_compressed=is_compressed)
        for _ in range(60):
            client = upgraded(target, is_connected=True)
            client.sendall(sent + frame(BINARY, b"PING\r\n"))
            read_until(client, b"PONG\r\n")
        assert target.rss_bytes() - before < 16 * MIB


@pytest.mark.parametrize(
    ("own", "at_once"), [(0, 300), pytest.param(200_000, 1_500, marks=pytest.mark.full)]
)
@pytest.mark.timeout(300)
def test_row_25_those_who_leave_within_a_command_leave_nothing(
    victim: Victim, own: int, at_once: int
) -> None:
    """Memory is flat after the second round, on a small server and on a large one.

    An unfinished command has a buffer of 128 KiB, of which 60 are written to. So each crowd touches
    other pages of the heap, until it is trimmed; that happens every 5 s.
    """
    command = frame(BINARY, b"PUB a 61000\r\n" + b"y" * 61_000)
    with victim(CONFIG, growth_bytes=(64 + own // 1000) * MIB) as target:
        holder = target.dial()
        for first in range(0, own, 1000):
            ask(holder, *(b"SUB held.%d %d" % (i, i) for i in range(first, first + 1000)))
        files = target.descriptors_after(lambda: upgraded(target, is_connected=False))
        sizes: list[int] = []
        for _ in range(5):
            clients = [upgraded(target, is_connected=False) for _ in range(at_once)]
            for client in clients:
                client.sendall(command)
            for client in clients:
                client.close()
            target.wait_for_descriptors(files)
            if len(sizes) > 1:
                wait_until(lambda: target.rss_bytes() < sizes[1] + 8 * MIB, "the memory")
            sizes.append(target.rss_bytes())


@pytest.mark.parametrize("own", [20_000, pytest.param(100_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_row_25_leaving_by_a_close_frame_stops_nobody(victim: Victim, own: int) -> None:
    with victim(CONFIG, growth_bytes=(32 + own // 1000) * MIB) as target:
        client = upgraded(target, is_connected=False)
        client.settimeout(200)
        client.sendall(frame(BINARY, b'CONNECT {"verbose":false,"echo":false}\r\n'))
        for first in range(0, own, 1000):
            lines = (b"SUB own %d\r\n" % i for i in range(first, first + 1000))
            client.sendall(frame(BINARY, b"".join(lines)))
        client.sendall(frame(BINARY, b"PING\r\n"))
        read_until(client, b"PONG\r\n")
        client.sendall(frame(BINARY, b"PUB own 0\r\n\r\n" * 2_000) + frame(CLOSE, b"\x03\xe8"))
        read_to_end(client)
