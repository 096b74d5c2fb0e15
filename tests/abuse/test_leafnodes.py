"""A hostile leaf node: it announces much, floods, and says what makes no sense."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from tests.support.leafnodes import leaf_port

MIB = 1 << 20
PORT = 'leafnodes { listen: "127.0.0.1:-1" }\n'


def dial(target: Target) -> socket.socket:
    """Open a connection to the port for leaf nodes; INFO has been read."""
    return target.dial_listener("leafnodes")


def join(leaf: socket.socket, name: str = "EVIL") -> bytes:
    """Log a leaf node in; return what it got, in which interest may be already."""
    connect = {"version": "2.15.1", "name": name, "headers": True, "remote_account": "$G"}
    got = ask(leaf, b"CONNECT " + json.dumps(connect).encode())
    assert b"connect_info" in got
    return got


def joined(target: Target, name: str = "EVIL") -> socket.socket:
    """Connect a leaf node until it is accepted."""
    leaf = dial(target)
    join(leaf, name)
    return leaf


@pytest.mark.parametrize("count", [60_000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_a_flood_of_interest_is_bounded(victim: Victim, count: int) -> None:
    limit = count // 2
    with victim(f"{PORT}max_subs: {limit}\n", growth_bytes=limit * 1024 + GROWTH_BYTES) as target:
        leaf = joined(target)
        told = 0
        for start in range(0, count, 10_000):
            lines = (b"LS+ s.%d.*" % i for i in range(start, start + 10_000))
            told += ask(leaf, *lines).count(b"maximum subscriptions exceeded")
        assert told >= count - limit
        assert ask(leaf, b"LS+ one.more") != b"PONG\r\n", "the link stays, and takes no more"


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_a_leaf_that_is_told_of_much_interest_stops_nobody(victim: Victim, count: int) -> None:
    with victim(PORT, growth_bytes=count * 1024 + GROWTH_BYTES) as target:
        client = target.dial()
        for start in range(0, count, 10_000):
            ask(client, *(b"SUB s.%d.* %d" % (i, i) for i in range(start, start + 10_000)))
        target.forget_busy()
        leaf = dial(target)
        got = join(leaf)
        announced = 0
        while True:
            *lines, rest = got.split(b"\r\n")  # its end may be cut
            announced += sum(line.startswith(b"LS+ s.") for line in lines)
            if announced >= count:
                break
            got = rest + read_until(leaf, b"\n")
        for number in range(3):
            joined(target, f"OTHER{number}")


def test_deep_subjects_are_bounded_by_what_they_take(victim: Victim) -> None:
    """A line of 60 KB makes 10 MB of a wildcard subject that has 30,000 tokens."""
    with victim(f"{PORT}max_subs: 100000\n", growth_bytes=64 * MIB) as target:
        leaf = joined(target)
        target.forget_peak()
        told = b"".join(ask(leaf, b"LS+ %d%b.*" % (i, b".a" * 30_000)) for i in range(40))
        assert told.count(b"maximum subscriptions exceeded") == 37
        assert target.peak_growth_bytes() < 64 * MIB


def test_connects_that_do_not_end_take_little_room(victim: Victim) -> None:
    with victim(PORT) as target:
        target.forget_peak()
        leafs = [dial(target) for _ in range(100)]
        for leaf in leafs:
            with suppress(ConnectionError):
                leaf.sendall(b'CONNECT {"name":"' + b"x" * MIB)
        for leaf in leafs:
            read_to_end(leaf)
        assert target.peak_growth_bytes() < 40 * MIB


LINES = (
    b"LMSG a 99999999999999999999",
    b"LMSG a 4294967296",
    b"LMSG a | q 1099511627776",
    b"LMSG a 1048577",
    b"LMSG a 1000000000",
    b"LMSG a | q 1000000000",
    b"LMSG a + reply q 1000000000",
    b"HMSG a 12 1000000000",
    b"HMSG a | q 12 1000000000",
    b"HMSG a 99999999999 99999999999",
    b"HMSG a 12 5",
    b"LMSG a x y z 5",
    b"LS+ a b c d e",
    b"LS+ " + b"a." * 40_000 + b"b",
    b"LMSG a | " + b"q " * 40_000 + b"1",
    b"CONNECT {}",
    b"\x00\xff\xfe",
)


def test_a_line_that_cannot_be_ends_the_link(victim: Victim) -> None:
    with victim(PORT) as target:
        for line in LINES:
            leaf = joined(target)
            leaf.sendall(line + b"\r\n")
            read_to_end(leaf)
        assert b"PONG" in ask(joined(target)), "another one may come"


DOCUMENTS = (
    b"{" * 100_000,
    b'{"name": ' + b"[" * 50_000,
    b'{"version": 1}',
    b'{"deny_pub": ["' + b"a." * 400_000 + b'"]}',
    b'{"name": "' + b"x" * 2 * MIB + b'"}',
    b"\xff\xfe",
    b"",
)


def test_a_connect_that_cannot_be_ends_the_connection(victim: Victim) -> None:
    with victim(PORT) as target:
        for document in DOCUMENTS:
            leaf = dial(target)
            leaf.sendall(b"CONNECT " + document + b"\r\n")
            leaf.shutdown(socket.SHUT_WR)
            read_to_end(leaf)
        assert b"PONG" in ask(joined(target))


def test_words_without_end_are_cheap(victim: Victim) -> None:
    with victim(PORT) as target:
        leaf = joined(target)
        for line in (b"-ERR 'x'", b"INFO {}", b"PONG", b"LS- not.there", b"LS+ a..b"):
            for _ in range(5):
                ask(leaf, *[line] * 2_000)


def test_an_announced_payload_takes_no_room(victim: Victim) -> None:
    with victim(PORT) as target:
        before = target.rss_bytes()
        leafs = [joined(target, f"EVIL{i}") for i in range(50)]
        for leaf in leafs:
            leaf.sendall(b"LMSG a | q 1048576\r\nx")
        ask(target.dial())
        assert target.rss_bytes() - before < len(leafs) * 64 * 1024 + 8 * MIB
        for leaf in leafs:
            leaf.close()


@pytest.mark.full
def test_leafs_that_never_connect_are_bounded(victim: Victim) -> None:
    with victim(PORT) as target:
        files = target.descriptors_after(lambda: joined(target))
        port = leaf_port(target.server)
        waiting = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(400)]
        assert target.descriptors() - files < 350
        for one in waiting:
            one.close()
        wait_until(lambda: target.descriptors() <= files, "the files to be closed")
        joined(target)


INFO = {"server_id": "N", "client_id": 7, "headers": True, "leafnode_urls": [], "proto": 3}
SECOND_INFOS = (
    {"connect_info": True, "import": {"deny": ["a.."]}},
    {"connect_info": True, "export": {"allow": [""]}},
    {"connect_info": True, "export": 5},
    {"connect_info": True, "acc_is_sys": True},
    {"client_id": "x"},
)


def inform(**fields: Any) -> bytes:
    return b"INFO " + json.dumps({**INFO, **fields}).encode()


def greeted(hub: socket.socket, *, waits: bool) -> socket.socket:
    """Return a leaf's connection on which it has sent CONNECT.

    The first ones may be closed: a leaf dials while the bystanders start, and does not wait for
    long.
    """
    for _ in range(10):
        leaf, _ = hub.accept()
        leaf.settimeout(20)
        with suppress(ConnectionError):
            leaf.sendall(inform(info_on_connect=waits) + b"\r\n")
            if read_until(leaf, b"PING\r\n").startswith(b"CONNECT "):
                return leaf
        leaf.close()
    raise AssertionError("no leaf connected")


@contextmanager
def dialled(victim: Victim, *, waits: bool) -> Iterator[tuple[Target, socket.socket]]:
    """Run a leaf node of a hub that is spoken by hand, which has got its CONNECT.

    If it `waits` for a second INFO, that is for two seconds.
    """
    with socket.create_server(("127.0.0.1", 0)) as hub:
        url = f"nats-leaf://127.0.0.1:{hub.getsockname()[1]}"
        config = f'leafnodes {{ remotes: [ {{ url: "{url}" }} ] }}\n'
        with victim(config) as target, greeted(hub, waits=waits) as leaf:
            yield target, leaf


@pytest.mark.parametrize(
    "second",
    [SECOND_INFOS[0], *(pytest.param(one, marks=pytest.mark.full) for one in SECOND_INFOS[1:])],
    ids=str,
)
def test_a_hub_whose_info_cannot_be_is_left(victim: Victim, second: dict) -> None:
    with dialled(victim, waits=True) as (_, leaf):
        leaf.sendall(inform(**second) + b"\r\n")
        read_to_end(leaf)


def test_permissions_that_change_without_end_stop_nobody(victim: Victim) -> None:
    rules = ({"import": {"allow": ["s.>"]}}, {"import": {"deny": ["t.>"]}})
    with dialled(victim, waits=True) as (target, leaf):
        leaf.sendall(inform(connect_info=True) + b"\r\n")
        client = target.dial()
        subscribe = [b"SUB s.%d.* %d" % (i, i) for i in range(30_000)]
        unsubscribe = [b"UNSUB %d" % i for i in range(30_000)]
        ask(client, *subscribe)
        ask(client, *unsubscribe)
        target.forget_growth()  # 14 to 16 MiB of free memory between objects, once
        ask(client, *subscribe)
        target.forget_busy()
        infos = b"".join(inform(connect_info=True, **rules[i % 2]) + b"\r\n" for i in range(300))
        leaf.sendall(infos + b"PING\r\n")
        read_until(leaf, b"PONG\r\n")
        ask(client, *unsubscribe)


def test_of_very_many_addresses_that_a_hub_tells_few_are_kept(victim: Victim) -> None:
    urls = [f"127.{i >> 16 | 1}.{i >> 8 & 255}.{i & 255}:1" for i in range(40_000)]
    with dialled(victim, waits=False) as (target, leaf):
        before = target.rss_bytes()
        for _ in range(10):
            ask(leaf, inform(connect_info=True, leafnode_urls=urls))
        assert target.rss_bytes() - before < 10 * MIB
