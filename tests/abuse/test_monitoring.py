"""Abuse of monitoring: too many requests, impossible ones, unread ones. Row 26 of the table."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import socket
import urllib.error
import urllib.request
from typing import BinaryIO

import pytest

from tests.abuse.conftest import MIB, TIMEOUT_S, Target, Victim, ask, read_to_end, wait_until

CONFIG = "http: 127.0.0.1:-1\n"
CONNECTIONS = 128 * (1 + 4)  # at a time, unless set: answered ones, and those that wait for that

IMPOSSIBLE = [
    ("offset=9223372036854775808", 400),
    ("offset=-9223372036854775809", 400),
    ("limit=18446744073709551616", 400),
    ("limit=1e3", 400),
    ("limit=" + "9" * 3000, 400),
    ("cid=-1", 400),
    ("sort=nothing", 400),
    ("state=neither", 400),
    ("subs=%FF%00", 400),
    ("filter_subject=a..b&subs=1", 200),
    ("limit=-1", 200),
    ("offset=-1", 200),
    ("offset=999999999999999999", 200),
    ("limit=999999999999999999", 200),
]


def request_for(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


def monitor(target: Target) -> socket.socket:
    return target.open("monitoring")


def fetch(target: Target, path: str) -> tuple[int, bytes]:
    host, port = target.server.address("monitoring")
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=TIMEOUT_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


async def fetch_at_once(target: Target, path: str, times: int) -> list[bytes]:
    """Request `path` `count` times at once; return the answers, each with the status line first."""
    host, port = target.server.address("monitoring")

    async def fetch_once() -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request_for(path))
        answer = await reader.read()
        writer.close()
        return answer

    return await asyncio.gather(*(fetch_once() for _ in range(times)))


def crowd(target: Target, count: int) -> int:
    """Connect up to `count` clients, as many as files allow; return how many there are."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2_000
    for number in range(min(count, allowed)):
        # A source address has some 28,000 ports.
        client = target.open(source=f"127.0.0.{2 + number // 20_000}")
        if number % 10 == 0:
            client.sendall(target.connect_line + b"SUB crowd.%d.> 1\r\n" % number)
    return min(count, allowed)


@pytest.mark.row(26)
def test_impossible_arguments_are_refused_or_clamped(victim: Victim) -> None:
    with victim(CONFIG) as target:
        for arguments, status in IMPOSSIBLE:
            assert fetch(target, f"/connz?{arguments}")[0] == status, arguments[:50]
        page = json.loads(fetch(target, "/connz?limit=999999999999999999&offset=-1")[1])
        assert (page["limit"], page["offset"]) == (10_000, 0)
        assert fetch(target, "/connz?" + "a=b&" * 10_000)[0] == 400
        for _ in range(3):
            stranger = monitor(target)
            stranger.sendall(b"\x16\x03\x01 \xff" * 2_000 + b"\r\n\r\n")
            assert b" 400 " in read_to_end(stranger)


@pytest.mark.row(26)
@pytest.mark.parametrize(
    ("clients", "requests"),
    [(300, 100), pytest.param(50_000, 500, marks=pytest.mark.full)],
)
@pytest.mark.timeout(300)
def test_many_requests_at_once_do_not_hold_others_up(
    victim: Victim, clients: int, requests: int
) -> None:
    with victim(CONFIG, growth_bytes=96 * MIB + clients * 8 * 1024) as target:
        there = crowd(target, clients)
        ask(target.dial())
        before = target.rss_bytes()
        bodies = set()
        for answer in asyncio.run(fetch_at_once(target, "/connz?subs=1", requests)):
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            bodies.add(body)
        for body in bodies:
            assert json.loads(body)["total"] >= there
        assert target.rss_bytes() - before < 96 * MIB


def read_message(stream: BinaryIO) -> bytes:
    """Read a message to the end, which may be long, or another line; return its first line."""
    line = stream.readline()
    if line.startswith(b"MSG "):
        stream.read(int(line.split()[-1]) + 2)
    return line


def limit_met(target: Target, name: str) -> int:
    """Return how often a limit was met, from /metrics."""
    page = fetch(target, "/metrics")[1].decode()
    counted = re.search(rf'\nmidge_limits_met_total\{{limit="{name}"\}} (\d+)', page)
    assert counted
    return int(counted[1])


@pytest.mark.row(26)
@pytest.mark.parametrize("readers", [50, pytest.param(700, marks=pytest.mark.full)])
def test_who_does_not_read_is_cut_off(victim: Victim, readers: int) -> None:
    # What pages of 10 MB leave does not grow: 40 to 70 MiB, three times 700 readers long.
    with victim(CONFIG, growth_bytes=(96 + readers // 16) * MIB) as target:
        client = target.dial()
        ask(client, *(b"SUB unread.%d.%b %d" % (i, b"x" * 1000, i) for i in range(10_000)))
        before = target.sockets()
        target.forget_peak()
        for _ in range(readers):
            slow = target.open("monitoring", receive_bytes=4096)
            slow.sendall(request_for("/connz?subs=1&limit=10000"))
        counts = [before]

        def are_gone() -> bool:
            counts.append(target.sockets())
            return counts[-1] <= before

        wait_until(lambda: not are_gone(), "the readers")
        # A new request would wait for all earlier ones, 5 s for every 128 of them.
        wait_until(are_gone, "their end", timeout_s=90)
        assert max(counts) <= before + min(readers, CONNECTIONS)
        met = "monitoring_pages"
        wait_until(lambda: limit_met(target, met) == readers, "the count", timeout_s=90)
        assert target.peak_growth_bytes() < 192 * MIB


SWEEPING = [
    "/connz?subs=1&limit=10000",
    "/connz?subs=detail&limit=10000",
    "/connz?filter_subject=nobody.there",
    "/subsz?subs=1&limit=10000&offset=5",
    "/subsz?subs=1&limit=10000&test=same",
]


@pytest.mark.row(26)
@pytest.mark.parametrize("holders", [20, pytest.param(100, marks=pytest.mark.full)])
def test_pages_of_very_many_subscriptions(victim: Victim, holders: int) -> None:
    with victim(CONFIG, growth_bytes=(64 + 12 * holders) * MIB) as target:
        for number in range(holders):
            own = (b"SUB held.%d.%d %d" % (number, each, each) for each in range(5_000))
            ask(target.dial(), *own, *(b"SUB same %d" % each for each in range(5_000, 10_000)))
        target.forget_busy()
        for path in SWEEPING:
            status, body = fetch(target, path)
            assert status == 200
            assert len(body) < 24 * MIB
        client = target.dial()
        ask(client, b"SUB answers 1")
        wanted = b'{"subscriptions":true,"limit":10000}'
        request = b"PUB $SYS.REQ.ACCOUNT.PING.CONNZ answers %d" % len(wanted)
        client.sendall(b"\r\n".join([request, wanted, b""]) * 200 + b"PING\r\n")
        answered = 0
        with client.makefile("rb") as stream:
            while (line := read_message(stream)) != b"PONG\r\n":
                answered += line.startswith(b"MSG ")
            refused = limit_met(target, "system_requests")  # by now, each waits or is refused
            assert refused > 0
            while answered + refused < 200:
                answered += read_message(stream).startswith(b"MSG ")
