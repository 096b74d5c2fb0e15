"""Clients for a server at full rate, in processes of their own: raw sockets, numbered messages.

Run as ``python -m tests.abuse.full_rate ROLE HOST PORT PROGRESS``, PROGRESS being a file that says
how far the verifying ones have come:

- ``publish``: two publishers, as fast as the server and the verifiers take it, but never so far
  ahead that a healthy subscriber on a busy machine would pass for a slow one; every message carries
  its number twice;
- ``verify``: a subscriber to both, one to the first, and a queue group of two on the second; they
  see that nothing is lost, doubled, out of order or damaged;
- ``vex``: subscribers that read too slowly until they are cut, and others that vanish in the middle
  of a read. All of them come back, again and again.

Each says "ready", goes on until it gets a line on standard input, and then prints what it saw as
JSON. That line gives `verify` how many messages of each publisher there were.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

PUBLISHERS = 2
RECEIVERS = 4
WINDOW_MESSAGES = 65536
"""How far a publisher may be ahead: some 2 MiB for each subscriber."""

Progress = NDArray[np.int64]
"""For each receiver and publisher how many messages have come."""

CHUNK_MESSAGES = 4096
PAYLOAD_BYTES = 16
CONNECT = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
PING = b"PING\r\n"
DRAIN_S = 60.0
SLOW_CLIENTS = 2
VANISHING_CLIENTS = 3
PAUSE_S = 1.0
SLOW_S = 2.0

_RESET = struct.pack("ii", 1, 0)


def dial(address: tuple[str, int], *lines: bytes, receive_bytes: int = 0) -> socket.socket:
    """Connect, send `lines` and wait until they have been acted upon."""
    client = socket.socket()
    if receive_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.settimeout(DRAIN_S)
    client.connect(address)
    client.sendall(CONNECT + PING)
    got = b""
    while b"PONG\r\n" not in got:
        got += client.recv(1)
    client.sendall(b"".join(lines))
    return client


def shared_progress(path: Path) -> Progress:
    """Return the counts that all processes see in the file at `path`."""
    return np.memmap(path, np.int64, "r+", shape=(RECEIVERS, PUBLISHERS))


# Publishing.


def publish(address: tuple[str, int], progress: Progress) -> None:
    """Publish as fast as it is taken; print the number of messages of each publisher."""
    stop = threading.Event()
    sent = [0] * PUBLISHERS
    threads = [
        threading.Thread(target=_publish, args=(dial(address), number, sent, stop, progress))
        for number in range(PUBLISHERS)
    ]
    _run_until_told(threads, stop)
    print(json.dumps(sent))


def _run_until_told(threads: list[threading.Thread], stop: threading.Event) -> None:
    """Run `threads` until a line comes in; then set `stop`."""
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    stop.set()
    for thread in threads:
        thread.join()


def _publish(
    client: socket.socket, number: int, sent: list[int], stop: threading.Event, progress: Progress
) -> None:
    line = b"PUB load.%d %d\r\n" % (number, PAYLOAD_BYTES)
    frame = line + bytes(PAYLOAD_BYTES) + b"\r\n"
    chunk = np.frombuffer(frame * CHUNK_MESSAGES, np.uint8).reshape(-1, len(frame)).copy()
    while not stop.is_set():
        if sent[number] - _taken(progress, number) > WINDOW_MESSAGES:
            time.sleep(0.001)
            continue
        numbers = np.arange(sent[number], sent[number] + CHUNK_MESSAGES, dtype=">u8")
        chunk[:, len(line) : len(line) + 8] = _as_bytes(numbers)
        chunk[:, len(line) + 8 : len(line) + 16] = _as_bytes(~numbers)
        client.sendall(chunk.data)
        sent[number] += CHUNK_MESSAGES
    client.sendall(PING)
    got = b""
    while b"PONG\r\n" not in got:
        got += client.recv(4096)
    client.close()


def _taken(progress: Progress, number: int) -> int:
    """Count the messages of a publisher that all receivers have got."""
    both, first, *group = progress[:, number]
    return int(min(both, first if number == 0 else sum(group)))


def _as_bytes(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


# Verifying.


class Receiver:
    """One healthy subscription; with a `queue` it gets a part of the messages, else all."""

    def __init__(
        self, address: tuple[str, int], progress: Progress, subject: bytes, queue: bytes = b""
    ) -> None:
        self.next = [0] * PUBLISHERS  # the lowest number that may come
        self.counts = [0] * PUBLISHERS
        self.sums = [0] * PUBLISHERS
        self._progress = progress  # its row of them
        self._is_over = False
        self._gets_all = not queue
        self._client = dial(address, b"SUB %b %b 1\r\n" % (subject, queue))
        self._head = np.frombuffer(b"MSG load.0 1 %d\r\n" % PAYLOAD_BYTES, np.uint8)
        self._digit = len(b"MSG load.")
        self._size = len(self._head) + PAYLOAD_BYTES + len(b"\r\n")
        self._buffer = bytearray(1 << 20)
        self._filled = 0

    def run(self, failures: list[str]) -> None:
        """Receive until the server ends the connection, or something is wrong."""
        try:
            self._run()
        except (AssertionError, OSError) as error:
            failures.append(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Make `run` end."""
        self._is_over = True
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        view = memoryview(self._buffer)
        while count := self._client.recv_into(view[self._filled :]):
            end = self._filled + count
            used = 0
            while True:
                used += self._take(view[used:end])
                if view[used : used + len(PING)] != PING:
                    break
                self._client.sendall(b"PONG\r\n")
                used += len(PING)
            rest = bytes(view[used:end])
            self._filled = len(rest)
            view[: self._filled] = rest
        assert self._is_over, f"cut off after {self.counts} messages"

    def _take(self, data: memoryview) -> int:
        """Check the whole messages at the start of `data`; give their length."""
        count = len(data) // self._size
        if not count:
            return 0
        rows = np.frombuffer(data[: count * self._size], np.uint8).reshape(count, self._size)
        alike = rows[:, : len(self._head)] == self._head
        alike[:, self._digit] = True
        good = alike.all(axis=1)
        if not good.all():
            count = int(np.argmin(good))  # something else than a message stands there
            data = data[count * self._size :]
            assert data[: len(PING)] == PING[: len(data)], bytes(data[:60])
            rows = rows[:count]
        self._check(rows)
        return count * self._size

    def _check(self, rows: NDArray[np.uint8]) -> None:
        at = len(self._head)
        numbers = rows[:, at : at + 8].copy().view(">u8").ravel().astype(np.uint64)
        again = rows[:, at + 8 : at + 16].copy().view(">u8").ravel().astype(np.uint64)
        assert (again == ~numbers).all(), "a damaged message"
        for publisher in range(PUBLISHERS):
            own = numbers[rows[:, self._digit] == ord("0") + publisher]
            if not len(own):
                continue
            lowest = self.next[publisher]
            if self._gets_all:
                expected = np.arange(lowest, lowest + len(own), dtype=np.uint64)
                assert (own == expected).all(), f"lost or out of order after {lowest}"
            else:
                assert own[0] >= lowest, f"out of order after {lowest}"
                assert (np.diff(own.astype(np.int64)) > 0).all(), f"out of order after {lowest}"
            self.next[publisher] = int(own[-1]) + 1
            self.counts[publisher] += len(own)
            self.sums[publisher] += int(own.sum())
            self._progress[publisher] = self.counts[publisher]


def verify(address: tuple[str, int], progress: Progress) -> None:
    """Receive everything, and print the faults."""
    failures: list[str] = []
    both = Receiver(address, progress[0], b"load.*")
    first = Receiver(address, progress[1], b"load.0")
    group = [Receiver(address, row, b"load.1", b"q") for row in progress[2:]]
    receivers = [both, first, *group]
    threads = [threading.Thread(target=one.run, args=(failures,)) for one in receivers]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sent: list[int] = json.loads(sys.stdin.readline())
    deadline = time.monotonic() + DRAIN_S
    while not failures and time.monotonic() < deadline:
        shared = sum(one.counts[1] for one in group)
        if both.counts == sent and first.counts[0] == sent[0] and shared == sent[1]:
            break
        time.sleep(0.05)
    else:
        failures.append(f"{sent} sent, got {[one.counts for one in receivers]}")
    if sum(one.sums[1] for one in group) != sent[1] * (sent[1] - 1) // 2:
        failures.append("the queue group got some messages twice and others never")
    for one in receivers:
        one.close()
    for thread in threads:
        thread.join()
    print(json.dumps({"failures": failures, "received": [one.counts for one in receivers]}))


# Vexing.


def vex(address: tuple[str, int], _: Progress) -> None:
    """Be slow, and vanish; print how often the slow were cut and the others vanished."""
    stop = threading.Event()
    cut, vanished = [0] * SLOW_CLIENTS, [0] * VANISHING_CLIENTS
    threads = [
        *(threading.Thread(target=_dawdle, args=(address, cut, i, stop)) for i in range(len(cut))),
        *(
            threading.Thread(target=_vanish, args=(address, vanished, i, stop))
            for i in range(len(vanished))
        ),
    ]
    _run_until_told(threads, stop)
    print(json.dumps({"cut": sum(cut), "vanished": sum(vanished)}))


def _dawdle(address: tuple[str, int], cut: list[int], index: int, stop: threading.Event) -> None:
    """Read a little now and then; see whether that has led to being cut; come back."""
    while not stop.wait(PAUSE_S):
        with dial(address, b"SUB load.> 1\r\n", receive_bytes=8192) as client:
            slow_until = time.monotonic() + SLOW_S
            while time.monotonic() < slow_until and _read_some(client, 512):
                stop.wait(0.02)
            # What the kernel had taken before still comes, and then the end.
            while time.monotonic() < slow_until + SLOW_S:
                if not _read_some(client, 1 << 20):
                    cut[index] += 1
                    break


def _vanish(
    address: tuple[str, int], vanished: list[int], index: int, stop: threading.Event
) -> None:
    """Read for a moment and go, in one of three ways, with much still to come."""
    for turn in _turns(stop):
        with dial(address, b"SUB load.> 1\r\nSUB load.1 q2 2\r\n") as client:
            for _ in range(turn % 7):
                _read_some(client, 65536)
            if turn % 3 == 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            elif turn % 3 == 1:
                client.sendall(b"UNSUB 1\r\nPUB load.x 100\r\nhalf")
            vanished[index] += 1


def _turns(stop: threading.Event) -> Iterator[int]:
    turn = 0
    while not stop.wait(0.1):
        yield turn
        turn += 1


def _read_some(client: socket.socket, size: int) -> bool:
    """Read once; False at the end of the connection."""
    try:
        return bool(client.recv(size))
    except OSError:
        return False


ROLES = {"publish": publish, "verify": verify, "vex": vex}

if __name__ == "__main__":
    role, host, port, path = sys.argv[1:]
    ROLES[role]((host, int(port)), shared_progress(Path(path)))
