"""Abuse of monitoring: too many requests, impossible ones, unread ones. Row 26 of the table."""

from __future__ import annotations

import json
import resource
import socket
import urllib.error
import urllib.request

import pytest

from tests.abuse.conftest import MIB, TIMEOUT_S, Target, Victim, ask, read_to_end, wait_until

CONFIG = "http: 127.0.0.1:-1\n"

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
    ("filter_subject=a..b&subs=1", 400),
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


def crowd(target: Target, count: int) -> int:
    """Connect up to `count` clients, as many as files allow; return how many there are."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 2_000
    for number in range(min(count, allowed)):
        # A source address has some 28,000 ports.
        client = target.open(source=f"127.0.0.{2 + number // 20_000}")
        if number % 10 == 0:
            client.sendall(target.connect_line + b"SUB crowd.%d.> 1\r\n" % number)
    return min(count, allowed)


def test_row_26_impossible_arguments_are_refused_or_clamped(victim: Victim) -> None:
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


@pytest.mark.parametrize(
    ("clients", "requests"),
    [(300, 100), pytest.param(50_000, 1_000, marks=pytest.mark.full)],
)
@pytest.mark.timeout(300)
def test_row_26_many_requests_at_once_do_not_hold_others_up(
    victim: Victim, clients: int, requests: int
) -> None:
    with victim(CONFIG, growth_bytes=96 * MIB + clients * 8 * 1024) as target:
        there = crowd(target, clients)
        ask(target.dial())
        before = target.rss_bytes()
        asking = [monitor(target) for _ in range(requests)]
        for one in asking:
            one.sendall(request_for("/connz?subs=1"))
        for one in asking:
            head, _, body = read_to_end(one).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert json.loads(body)["total"] >= there
        assert target.rss_bytes() - before < 96 * MIB


@pytest.mark.parametrize("readers", [50, pytest.param(500, marks=pytest.mark.full)])
@pytest.mark.timeout(120)
def test_row_26_who_does_not_read_is_cut_off(victim: Victim, readers: int) -> None:
    with victim(CONFIG, growth_bytes=96 * MIB) as target:
        client = target.dial()
        ask(client, *(b"SUB unread.%d.%b %d" % (i, b"x" * 1000, i) for i in range(10_000)))
        files = target.descriptors()
        target.forget_peak()
        for _ in range(readers):
            slow = target.open("monitoring", receive_bytes=4096)
            slow.sendall(request_for("/connz?subs=1&limit=10000"))
        wait_until(lambda: target.descriptors() >= files + readers // 2, "the readers")
        wait_until(lambda: target.descriptors() <= files, "their end", timeout_s=60)
        assert target.peak_growth_bytes() < 192 * MIB
        refused = b'midge_limits_met_total{limit="monitoring_pages"} %d.0' % readers
        assert refused in fetch(target, "/metrics")[1]
