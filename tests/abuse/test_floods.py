"""Abuse by amount: too much allowed input. Rows 2, 4, 10, 11 and 16 to 20 of the table."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading

import pytest

from tests.abuse.conftest import (
    GROWTH_BYTES,
    REMEMBERED_BYTES,
    TIMEOUT_S,
    Victim,
    ask,
    read_until,
    wait_until,
)

MIB = 1 << 20
NO_ECHO = b'CONNECT {"verbose":false,"echo":false}\r\n'


@pytest.mark.row(2)
@pytest.mark.parametrize("count", [400, pytest.param(5_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_idle_connections_are_cheap(victim: Victim, count: int) -> None:
    with victim(growth_bytes=count * REMEMBERED_BYTES + GROWTH_BYTES) as target:
        target.dial().close()
        files, before = target.descriptors(), target.rss_bytes()
        clients = [target.dial(is_connected=False) for _ in range(count)]
        assert (target.rss_bytes() - before) / count < 40 * 1024
        for client in clients:
            client.close()
        target.wait_for_descriptors(files)


@pytest.mark.row(4)
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_many_subscriptions_come_and_go(victim: Victim, count: int) -> None:
    # The allocator keeps most of what they took for the next that come, and the rounds show that
    # these need no more.
    with victim("http: 127.0.0.1:-1\n", growth_bytes=count * 640 + 16 * MIB) as target:
        peaks = []
        of_the_server = target.subscriptions() + 1  # a bystander's may come late
        for _ in range(3):
            client = target.dial()
            for start in range(0, count, 10_000):
                lines = (b"SUB s.%d.* %d" % (i, i) for i in range(start, start + 10_000))
                assert ask(client, *lines) == b"PONG\r\n"
            peaks.append(target.rss_bytes())
            client.close()
            wait_until(lambda: target.subscriptions() <= of_the_server, "the end of the clean-up")
        # The first round may grow the allocator's pools; later ones must reuse them.
        assert peaks[2] - peaks[1] < peaks[1] // 16 + 4 * MIB


@pytest.mark.row(4)
def test_subscribing_amid_remembered_matches_takes_turns(victim: Victim) -> None:
    """The cached results of a thousand subjects have to be updated for each of them."""
    with victim() as target:
        client = target.dial(connect=NO_ECHO)
        ask(client, b"SUB x.> 0", b"SUB x.* 1", *(b"PUB x.%d 0\r\n" % i for i in range(1000)))
        ask(client, *(b"SUB x.> x%d" % i for i in range(3000)))
        ask(client, *(b"PUB x.%d 0\r\n" % i for i in range(1000)))
        ask(client, *(b"SUB other.%d.* o%d" % (i, i) for i in range(3000)))


@pytest.mark.row(4)
def test_many_queue_groups_take_turns(victim: Victim) -> None:
    with victim(growth_bytes=2 * GROWTH_BYTES) as target:
        client = target.dial(connect=NO_ECHO)
        for start in range(0, 10_000, 1000):
            lines = (b"SUB x group.%d %d" % (i, i) for i in range(start, start + 1000))
            ask(client, *lines, *[b"PUB x 0\r\n", b"SUB x y y", b"UNSUB y"] * 10)


@pytest.mark.row(11)
def test_messages_that_nobody_may_have_take_turns(victim: Victim) -> None:
    with victim(growth_bytes=2 * GROWTH_BYTES) as target:
        client = target.dial(connect=NO_ECHO)
        ask(client, *(b"SUB x.> %d" % i for i in range(10_000)))
        ask(client, *(b"SUB x.> q q%d" % i for i in range(10_000)))
        ask(client, *[b"PUB x.y 0\r\n"] * 1000)


@pytest.mark.row(10)
def test_a_slow_consumer_is_cut_and_a_fast_one_gets_all(victim: Victim) -> None:
    config = "max_pending: 8MB\nwrite_deadline: 2s\n"
    with victim(config) as target:
        slow, fast, publisher = target.dial(), target.dial(), target.dial()
        for client in (slow, fast):
            assert ask(client, b"SUB flood 1") == b"PONG\r\n"
        total = 600
        counted: list[int] = []

        def count_all() -> None:
            file = fast.makefile("rb")
            for number in range(total):
                line = file.readline()
                assert line.startswith(b"MSG flood 1 "), line
                assert int(file.read(65536 + 2)[:8]) == number
            counted.append(total)

        reader = threading.Thread(target=count_all)
        reader.start()
        for number in range(total):
            publisher.sendall(b"PUB flood 65536\r\n" + b"%08d" % number + b"x" * 65528 + b"\r\n")
        assert ask(publisher) == b"PONG\r\n"
        reader.join(TIMEOUT_S)
        assert counted == [total]
        wait_until(lambda: _has_ended(slow), "the slow consumer's end")


def _has_ended(client: socket.socket) -> bool:
    """Read on; return whether the end has come."""
    try:
        return not client.recv(1 << 16, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.row(11)
def test_an_echo_flood_ends_its_sender(victim: Victim) -> None:
    config = "max_pending: 8MB\nwrite_deadline: 2s\n"
    with victim(config) as target:
        before = target.rss_bytes()
        client = target.dial()
        assert ask(client, b"SUB echo 1") == b"PONG\r\n"
        message = b"PUB echo 65536\r\n" + b"x" * 65536 + b"\r\n"
        client.settimeout(TIMEOUT_S)
        # TimeoutError here would mean that the server neither reads on nor ends the client.
        with contextlib.suppress(ConnectionError):
            for _ in range(5_000):
                client.sendall(message)
        assert target.rss_bytes() - before < 64 * MIB


@pytest.mark.row(16)
def test_deep_subjects_and_many_wildcards_stay_cheap(victim: Victim) -> None:
    with victim() as target:
        client = target.dial()
        deep = b".".join([b"a"] * 1900)
        wild = b".".join([b"*"] * 1900)
        got = ask(client, b"SUB %b 1" % deep, b"SUB %b 2" % wild, b"PUB %b 1" % deep, b"x")
        assert got.count(b"\r\nx\r\n") == 2
        patterns = []
        for i in range(1000):
            tokens = [b"*" if i >> bit & 1 else b"b" for bit in range(10)]
            patterns.append(b"SUB %b.> w%d" % (b".".join(tokens), i))
        ask(client, *patterns)
        publish = b"PUB %b.z 0\r\n" % b".".join([b"b"] * 10)
        got = ask(client, *[publish] * 20)
        assert got.count(b"MSG b.b.") == 20 * 1000


@pytest.mark.row(16)
def test_levels_that_lead_to_nothing_take_turns(victim: Victim) -> None:
    with victim() as target:
        client = target.dial()
        for start in range(0, 1 << 13, 1 << 11):
            patterns = (
                b".".join(b"*" if i >> bit & 1 else b"a" for bit in range(13))
                for i in range(start, start + (1 << 11))
            )
            ask(client, *(b"SUB %b.z %b" % (one, one) for one in patterns))
        path = b".".join([b"a"] * 13)
        ask(client, *(b"PUB %b.y%d 0\r\n" % (path, i) for i in range(300)))


@pytest.mark.row(17)
@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_distinct_subjects_do_not_fill_the_cache(victim: Victim, count: int) -> None:
    with victim() as target:
        client = target.dial()
        ask(client, b"SUB *.never 1", *(b"PUB warm.%d 0\r\n" % i for i in range(5_000)))
        before = target.rss_bytes()
        for start in range(0, count, 10_000):
            ask(client, *(b"PUB d.%d 0\r\n" % i for i in range(start, start + 10_000)))
            ask(client, b"SUB churn.%d s" % start, b"UNSUB s")
        assert target.rss_bytes() - before < 8 * MIB


@pytest.mark.row(18)
@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_unsubscribing_from_nothing_leaves_nothing(victim: Victim, count: int) -> None:
    with victim() as target:
        client = target.dial()
        ask(client, *(b"UNSUB %d" % i for i in range(10_000)))
        before = target.rss_bytes()
        for start in range(0, count, 20_000):
            ask(client, *(b"UNSUB u%d" % i for i in range(start, start + 20_000)))
            ask(client, *[b"SUB same 1\r\nUNSUB 1"] * 2_000)
        assert target.rss_bytes() - before < 8 * MIB


@pytest.mark.row(18)
@pytest.mark.parametrize(
    ("count", "each"), [(100, 5_000), pytest.param(1_000, 2_000, marks=pytest.mark.full)]
)
@pytest.mark.timeout(300)
def test_who_flood_all_at_once_share_the_loop(victim: Victim, count: int, each: int) -> None:
    herd = b"".join(b"SUB herd.%d %d\r\n" % (i, i) for i in range(each))
    herd += b"".join(b"UNSUB %d\r\n" % i for i in range(each))
    # As in row 4, the allocator keeps most of what the subscriptions took.
    with victim(growth_bytes=count * each * 640 + GROWTH_BYTES) as target:

        async def flood() -> None:
            reader, writer = await asyncio.open_connection(*target.server.address())
            writer.write(target.connect_line + herd + b"PING\r\n")
            async with asyncio.timeout(200):
                await reader.readuntil(b"PONG\r\n")
            writer.close()

        async def flood_at_once() -> None:
            await asyncio.gather(*(flood() for _ in range(count)))

        asyncio.run(flood_at_once())


@pytest.mark.row(19)
@pytest.mark.parametrize("count", [100_000, pytest.param(300_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_refused_subscriptions_leave_nothing(victim: Victim, count: int) -> None:
    rules = '{subscribe: "bystander.>"}'
    config = f"authorization {{ users = [ {{user: u, password: p, permissions: {rules}}} ] }}"
    connect = '{"verbose":false,"user":"u","pass":"p"}'
    with victim(config, connect=connect) as target:
        client = target.dial()
        before = None
        for start in range(0, count, 10_000):
            lines = (
                b"SUB %b.%d %d" % (b"denied" if i % 2 else b"bystander.x.", i, i)
                for i in range(start, start + 10_000)
            )
            assert ask(client, *lines).count(b"-ERR") == 10_000
            before = before or target.rss_bytes()
        assert before is not None
        assert target.rss_bytes() - before < 8 * MIB


@pytest.mark.row(20)
@pytest.mark.parametrize("count", [2_000, pytest.param(50_000, marks=pytest.mark.full)])
@pytest.mark.timeout(300)
def test_connections_that_come_and_go_leave_nothing(victim: Victim, count: int) -> None:
    with victim() as target:
        files = target.descriptors()
        reset = struct.pack("ii", 1, 0)
        for i in range(count):
            client = socket.create_connection(target.server.address(), timeout=TIMEOUT_S)
            if i % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            elif i % 3 == 1:
                read_until(client, b"\r\n")
                client.sendall(target.connect_line)
            client.close()
        target.wait_for_descriptors(files)
        last = target.dial()
        assert ask(last) == b"PONG\r\n"
        last.close()
