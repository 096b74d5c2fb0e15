"""Abuse of the PROXY protocol: slow, malformed and many headers."""

from __future__ import annotations

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.abuse.conftest import Target, Victim, read_to_end, wait_until
from tests.support.proxy_headers import REFUSED, TAKEN, V2
from tests.support.scheduling import slowness

PROXY = "127.0.0.66"
BUSY_MAX_S = 0.02
"""Longest time of the processor for which headers may hold the loop at a stretch, times
`slowness`."""
CONFIG = f'proxy_protocol: true\nproxies {{ addresses: ["{PROXY}"] }}\nmax_connections: 400\n'


@pytest.mark.parametrize("sent", [b"", b"PROXY TCP4 1.2", V2[:7]], ids=["none", "v1", "v2"])
def test_slow_headers_are_cut_in_time_and_bounded(victim: Victim, sent: bytes) -> None:
    """As many wait as there may be connections; the others are closed at once."""
    with victim(CONFIG) as target:
        files = target.descriptors()
        slow = [target.open(source=PROXY) for _ in range(500)]
        for client in slow:
            with contextlib.suppress(OSError):
                client.sendall(sent)
        wait_until(lambda: target.descriptors() <= files + 400, "the ones too many to go")
        for client in slow:
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""
        target.wait_for_descriptors(files)


def test_malformed_headers_stop_nobody(victim: Victim) -> None:
    with victim(CONFIG) as target:
        files = target.descriptors()
        for _ in range(40):
            for header, _ in REFUSED.values():
                send(target, header + b"x" * 500)
        valid, _ = TAKEN["v2"]
        for _ in range(200):
            # A byte at a time is a call of the loop for each.
            client = send(target, b"")
            for byte in valid:
                client.sendall(bytes([byte]))
            client.close()
        target.wait_for_descriptors(files)
        assert target.server.log.count("PROXY protocol header") < 100, "lines are limited"


def test_headers_at_a_full_rate_hold_nobody(victim: Victim) -> None:
    """Four senders open connections as fast as they can, with wrong, cut and slow headers."""
    headers = [header + b"x" * 500 for header, _ in REFUSED.values()]
    headers += [b"PROXY TCP4 1.2", V2[:7], *(header for header, _ in TAKEN.values())]

    def flood(target: Target, first: int) -> None:
        for number in range(first, first + 500):
            client = target.open(source=PROXY)
            with contextlib.suppress(OSError):
                client.sendall(headers[number % len(headers)])
            client.close()

    with victim(CONFIG) as target:
        files = target.descriptors()
        target.forget_busy()
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(flood, target, 500 * index) for index in range(4)]:
                done.result()
        target.wait_for_descriptors(files)
        assert target.busy_s() < BUSY_MAX_S * slowness()


def send(target: Target, data: bytes) -> socket.socket:
    """Connect as the proxy and send `data`; wait for the end where there is any."""
    client = target.open(source=PROXY)
    if data:
        with contextlib.suppress(OSError):
            client.sendall(data)
        read_to_end(client)
        client.close()
    return client
