"""Abuse of JetStream by work: few requests of one account that cause much work in the server.

A client of another account, the neighbour, measures how long the server's main thread works before
it answers. Each attack is a function of this module; `ATTACKS` lists them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.abuse.conftest import MIB, wait_until
from tests.abuse.watched_server import LONGEST
from tests.support.processes import CHECKOUT, Server
from tests.support.scheduling import slowness

WAIT_S = 0.05
"""Longest time of the server's main thread between a question and its answer, times `slowness`."""

LEFT_BYTES = 20 * MIB
TIMEOUT_S = 100.0

CONFIG = """
max_pending: 1GB
jetstream { store_dir: "@directory@/js", max_mem: 4G, max_file: 4G }
accounts {
  A { jetstream: enabled, users: [{user: a, password: a}] }
  B { jetstream: enabled, users: [{user: b, password: b}] }
}
"""
CONNECT = '{"verbose":false,"headers":true,"no_responders":true,"user":"%s","pass":"%s"}'


class Tenant:
    """A client that attacks. A thread reads its input, and counts it or passes it on."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._client = socket.create_connection(address, TIMEOUT_S)
        self._sending = threading.Lock()
        self._owes_pong = False
        self._answers: dict[bytes, bytes] = {}
        self._came = threading.Condition()
        self._next = 0
        self.count = 0
        """Messages that came for subjects other than those of `ask`."""
        self._pongs = 0
        self._is_over = False
        self.send(f"CONNECT {CONNECT % ('a', 'a')}\r\nSUB r.> 1\r\nSUB d 2\r\n".encode())
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def send(self, data: bytes) -> None:
        """Send lines."""
        with self._sending:
            self._client.sendall(data)
            if self._owes_pong:
                self._owes_pong = False
                self._client.sendall(b"PONG\r\n")

    def _pong(self) -> None:
        """Answer a PING, behind the lines that are being sent if there are any; never wait."""
        self._owes_pong = True
        if self._sending.acquire(blocking=False):
            self._owes_pong = False
            try:
                self._client.sendall(b"PONG\r\n")
            finally:
                self._sending.release()

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._client.makefile("rb", 1 << 20) as lines:
            while line := lines.readline():
                if line.startswith((b"MSG ", b"HMSG ")):
                    words = line.split()
                    body = lines.read(int(words[-1]) + 2)[:-2]
                    if line[:1] == b"H":
                        body = body[int(words[-2]) :] or body
                    self._take(words[1], body)
                elif line == b"PING\r\n":
                    self._pong()
                elif line == b"PONG\r\n":
                    with self._came:
                        self._pongs += 1
                        self._came.notify_all()
        with self._came:
            self._is_over = True
            self._came.notify_all()

    def _take(self, subject: bytes, body: bytes) -> None:
        with self._came:
            if subject.startswith(b"r.a."):
                self._answers[subject] = body
            else:
                self.count += 1
            self._came.notify_all()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        with self._came:
            assert self._came.wait_for(lambda: condition() or self._is_over, TIMEOUT_S), what
            assert condition(), f"cut off while waiting for {what}"

    def ask(self, subject: str, body: Any = b"", headers: bytes = b"") -> dict[str, Any]:
        """Ask the API, and return its answer."""
        self._next += 1
        reply = b"r.a.%d" % self._next
        self.publish(subject, body, headers, reply)
        self._wait(lambda: reply in self._answers, f"the answer of {subject}")
        answer: dict[str, Any] = json.loads(self._answers.pop(reply))
        return answer

    def do(self, subject: str, body: Any = b"") -> dict[str, Any]:
        """Ask the API for what it is not going to refuse."""
        answer = self.ask(f"$JS.API.{subject}", body)
        assert "error" not in answer, answer["error"]
        return answer

    def publish(
        self, subject: str, body: Any = b"", headers: bytes = b"", reply: bytes = b""
    ) -> None:
        """Send a message; `headers` is a whole block of them."""
        self.send(message(subject, body, headers, reply))

    def flood(self, lines: bytes) -> None:
        """Send `lines` and a PING, and wait for the PONG: the server has read everything then."""
        before = self._pongs
        self.send(lines + b"PING\r\n")
        self._wait(lambda: self._pongs > before, "PONG")

    def wait_count(self, count: int) -> None:
        """Wait until `count` answers have come in total."""
        self._wait(lambda: self.count >= count, f"{count} answers")

    def fill(self, subjects: Iterator[str], body: bytes = b"x") -> None:
        """Publish a message to each of these subjects."""
        batch = bytearray()
        for subject in subjects:
            batch += b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body)
            if len(batch) > MIB:
                self.flood(bytes(batch))
                batch.clear()
        self.flood(bytes(batch))

    def close(self) -> None:
        """Close the connection and join the reader thread."""
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        self._reader.join(TIMEOUT_S)
        self._client.close()


def message(subject: str, body: Any = b"", headers: bytes = b"", reply: bytes = b"") -> bytes:
    """Return the lines of a message; a body that is not bytes is encoded as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = b"%b %b" % (subject.encode(), reply) if reply else subject.encode()
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(data))
        return b"HPUB %b %b\r\n%b%b\r\n" % (names, sizes, headers, data)
    return b"PUB %b %d\r\n%b\r\n" % (names, len(data), data)


def block(*lines: str) -> bytes:
    """Return a header block."""
    return b"NATS/1.0\r\n" + b"".join(b"%b\r\n" % line.encode() for line in lines) + b"\r\n"


class Attacked:
    """The server, and the figures of an attack."""

    def __init__(self, server: Server, storage: str, watched: Any) -> None:
        self.server = server
        self.storage = storage
        self.figures: dict[str, float] = {}
        self._watched = watched
        self._tenants: list[Tenant] = []

    def tenant(self) -> Tenant:
        """Open a connection of the account that attacks."""
        tenant = Tenant(self.server.address())
        self._tenants.append(tenant)
        return tenant

    def stream(self, tenant: Tenant, name: str, *subjects: str, **config: Any) -> None:
        """Make a stream."""
        asked = {"name": name, "subjects": list(subjects), "storage": self.storage, **config}
        tenant.do(f"STREAM.CREATE.{name}", asked)

    def close(self) -> None:
        """Close all connections."""
        for tenant in self._tenants:
            tenant.close()

    def _status(self, name: str) -> int:
        with open(f"/proc/{self.server.pid}/status", encoding="ascii") as lines:  # noqa: PTH123
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Measure what happens within; the connections are closed at its end."""
        with open(f"/proc/{self.server.pid}/clear_refs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("5")
        before = self._status("VmRSS:")
        with neighbour(self.server) as hear:
            with self._watched.open("r+b") as file:  # never shorter: the server has it mapped
                file.write(LONGEST.pack(0.0))
            factor = slowness()
            yield
            self.figures.update(hear())
            self.figures["slowness"] = max(factor, slowness())
        self.figures["turn"] = LONGEST.unpack(self._watched.read_bytes())[0]
        self.figures["peak_mib"] = (self._status("VmHWM:") - before) / MIB
        self.close()
        with contextlib.suppress(AssertionError):
            wait_until(
                lambda: self._status("VmRSS:") - before < LEFT_BYTES, "the memory", timeout_s=20.0
            )
        self.figures["left_mib"] = (self._status("VmRSS:") - before) / MIB


@contextlib.contextmanager
def neighbour(server: Server) -> Iterator[Callable[[], dict[str, float]]]:
    """Start the neighbour; the yielded function ends it and returns its longest waits."""
    host, port = server.address()
    command = [sys.executable, "-m", "tests.abuse.neighbour", host, str(port)]
    process = subprocess.Popen(
        [*command, CONNECT % ("b", "b"), str(server.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield lambda: json.loads(process.communicate(timeout=TIMEOUT_S)[0])
    finally:
        process.kill()
        process.communicate()


Attack = Callable[[Attacked], None]

KEYS = 200_000


def many_subjects(attacked: Attacked) -> None:
    """Make a stream of 10,000 subjects, change one of them, and delete it."""
    tenant = attacked.tenant()
    subjects = [f"s.{i}.*" for i in range(10_000)]
    with attacked.measured():
        attacked.stream(tenant, "S", *subjects)
        subjects[0] = "t"
        config = {"name": "S", "subjects": subjects, "storage": attacked.storage}
        tenant.do("STREAM.UPDATE.S", config)
        tenant.do("STREAM.DELETE.S")


def overlapping_subjects(attacked: Attacked) -> None:
    """Ask for 10,000 subjects of which only the last two overlap."""
    tenant = attacked.tenant()
    subjects = [f"s.{i}.*" for i in range(10_000)] + ["t.a", "t.a"]
    with attacked.measured():
        answer = tenant.ask("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": subjects})
        assert answer["error"]["description"] == 'subject "t.a" overlaps with "t.a"'


def two_streams(attacked: Attacked) -> None:
    """Make two streams of 2,000 subjects."""
    tenant = attacked.tenant()
    with attacked.measured():
        attacked.stream(tenant, "S", *[f"s.{i}.*" for i in range(2_000)])
        attacked.stream(tenant, "T", *[f"t.{i}.>" for i in range(2_000)])


def many_filters(attacked: Attacked) -> None:
    """Make consumers of 2,000 filter subjects, also of a work queue."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    attacked.stream(tenant, "W", "w.>", retention="workqueue")
    with attacked.measured():
        consumer(tenant, "S", "A", filter_subjects=[f"s.{i}.*" for i in range(2_000)])
        consumer(tenant, "W", "A", filter_subjects=[f"w.{i}.*" for i in range(2_000)])
        consumer(tenant, "W", "B", filter_subjects=[f"w.x.{i}.*" for i in range(2_000)])


def many_transforms(attacked: Attacked) -> None:
    """Make a mirror and a stream with a source, each with 1,000 subject transforms."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    rules = [{"src": f"s.{i}.*", "dest": f"d.{i}.$1"} for i in range(1_000)]
    origin = {"name": "S", "subject_transforms": rules}
    with attacked.measured():
        attacked.stream(tenant, "M", mirror=origin)
        attacked.stream(tenant, "N", sources=[origin])


def roll_ups(attacked: Attacked) -> None:
    """Roll up one subject 2,000 times where 200,000 others are stored."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", allow_rollup_hdrs=True)
    tenant.fill(f"s.{i}" for i in range(KEYS))
    lines = message("s.k", headers=block("Nats-Rollup: sub")) * 2_000
    with attacked.measured():
        tenant.flood(lines)


def expected_sequences(attacked: Attacked) -> None:
    """Publish 2,000 messages that expect the last sequence of what matches a pattern."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    tenant.fill(f"s.{i}.{i}.x" for i in range(KEYS))
    headers = block(
        "Nats-Expected-Last-Subject-Sequence: 0",
        "Nats-Expected-Last-Subject-Sequence-Subject: s.*.*.y",
    )
    with attacked.measured():
        tenant.flood(message("s.a.b.x", headers=headers, reply=b"r.c") * 2_000)
        tenant.wait_count(2_000)


def republished(attacked: Attacked) -> None:
    """Publish 20 messages into two streams that republish to each other."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "a.>", max_msgs=100, republish={"src": "a.>", "dest": "b.>"})
    attacked.stream(tenant, "T", "b.>", max_msgs=100, republish={"src": "b.>", "dest": "a.>"})
    with attacked.measured():
        tenant.flood(message("a.x", b"x") * 20)
        while tenant.do("STREAM.INFO.T")["state"]["last_seq"] < 20 * 150:
            time.sleep(0.05)  # they go on until their headers are too long


def many_headers(attacked: Attacked) -> None:
    """Publish header blocks of 64 KiB with 5,800 lines of NATS's names, from 60 clients at once."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", max_msgs=10)
    attacked.stream(tenant, "T", "t.>", max_msgs=10, republish={"src": ">", "dest": "c.>"})
    headers = block(*(f"Nats-{i % 1_000:03}:" for i in range(5_800)))
    lines = message("s.a", headers=headers, reply=b"r.h") + message("t.a", headers=headers[:-2])
    clients = [attacked.tenant() for _ in range(60)]
    with attacked.measured():
        for client in clients:
            client.send(lines * 4)
        for client in clients:
            client.flood(b"")
        tenant.wait_count(60 * 4)


def newest_of_all(attacked: Attacked) -> None:
    """Ask 1,000 times for the newest of all subjects, of which there are too many."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", allow_direct=True)
    tenant.fill(f"s.{i}" for i in range(KEYS))
    request = message("$JS.API.DIRECT.GET.S", {"multi_last": ["s.>"]}, reply=b"r.g")
    with attacked.measured():
        tenant.flood(request * 1_000)
        tenant.wait_count(1_000)


def newest_of_patterns(attacked: Attacked) -> None:
    """Ask 1,000 times for the newest of distinct patterns, most of which match nothing."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", allow_direct=True)
    tenant.fill(f"s.{i}" for i in range(KEYS))
    lines = b"".join(
        message("$JS.API.DIRECT.GET.S", {"multi_last": [f"s.*.{i}"]}, reply=b"r.g")
        for i in range(1_000)
    )
    with attacked.measured():
        tenant.flood(lines)
        tenant.wait_count(1_000)


def newest_by_many_patterns(attacked: Attacked) -> None:
    """Ask for the newest of 5,000 patterns at once."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", allow_direct=True)
    tenant.fill(f"s.{i}" for i in range(KEYS))
    asked = {"multi_last": [f"s.*.{i}" for i in range(5_000)]}
    with attacked.measured():
        tenant.flood(message("$JS.API.DIRECT.GET.S", asked, reply=b"r.g"))
        tenant.wait_count(1)


def deserted_gets(attacked: Attacked) -> None:
    """Ask 1,500 times for the newest of 200,000 subjects, and leave; twice, for the pools."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", allow_direct=True)
    tenant.fill(f"s.{i}" for i in range(KEYS))
    tenant.fill(f"t.{i}" for i in range(10))
    request = message("$JS.API.DIRECT.GET.S", {"multi_last": ["s.>", "s.*.x"]}, reply=b"r.g")
    deserter = attacked.tenant()
    deserter.flood(request * 1_500)
    deserter.close()
    with attacked.measured():
        tenant.flood(request * 1_500)


def gets_into_the_stream(attacked: Attacked) -> None:
    """Ask 3,000 times for a message that goes into the stream itself."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", allow_direct=True)
    tenant.fill(["s.a"] * 1_000, b"x" * 100)
    request = message("$JS.API.DIRECT.GET.S", {"batch": 100, "seq": 1}, reply=b"s.g")
    with attacked.measured():
        tenant.flood(request * 3_000)
        tenant.do("STREAM.INFO.S")


def waiting_pulls(attacked: Attacked) -> None:
    """Ask 100 times for the report on a consumer with 50,000 waiting requests."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    consumer(tenant, "S", "C", max_waiting=100_000)
    pull = message("$JS.API.CONSUMER.MSG.NEXT.S.C", {"batch": 1, "expires": 10**11}, reply=b"r.p")
    info = message("$JS.API.CONSUMER.INFO.S.C", reply=b"r.i")
    with attacked.measured():
        tenant.flood(pull * 50_000)
        tenant.flood(info * 100)
        tenant.wait_count(100)


def many_consumers(attacked: Attacked) -> None:
    """List 20,000 consumers, and delete their stream."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    for start in range(0, 20_000, 1_000):
        batch = bytearray()
        for i in range(start, start + 1_000):
            asked = {"durable_name": f"C{i}", "ack_policy": "explicit", "mem_storage": True}
            request = {"stream_name": "S", "config": asked}
            batch += message(f"$JS.API.CONSUMER.CREATE.S.C{i}", request, reply=b"r.c")
        tenant.flood(bytes(batch))
        tenant.wait_count(start + 1_000)
    with attacked.measured():
        for offset in range(0, 20_000, 2_000):
            tenant.do("CONSUMER.NAMES.S", {"offset": offset})
            tenant.do("CONSUMER.LIST.S", {"offset": offset})
        tenant.do("STREAM.DELETE.S")
        tenant.flood(b"")


def pending(attacked: Attacked, tenant: Tenant, **config: Any) -> None:
    """Wait for 300,000 deliveries, and acknowledge none."""
    attacked.stream(tenant, "S", "s.>")
    tenant.fill(["s.a"] * 300_000)
    consumer(tenant, "S", "C", deliver_subject="d", max_ack_pending=-1, ack_wait=10**12, **config)
    tenant.wait_count(300_000)


def trimmed_redeliveries(attacked: Attacked) -> None:
    """Trim a stream of which 300,000 messages have been delivered again."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    tenant.fill(["s.a"] * 300_000)
    consumer(tenant, "S", "C", deliver_subject="d", max_ack_pending=-1, ack_wait=3 * 10**9)
    tenant.wait_count(590_000)
    consumer(tenant, "S", "C", deliver_subject="d", max_ack_pending=-1, ack_wait=10**12)
    config = {"name": "S", "subjects": ["s.>"], "storage": attacked.storage, "max_msgs": 300_000}
    tenant.do("STREAM.UPDATE.S", config)
    with attacked.measured():
        tenant.flood(message("s.a", b"x") * 300)


def shorter_ack_wait(attacked: Attacked) -> None:
    """Lower the ack wait of a consumer with 300,000 messages pending."""
    tenant = attacked.tenant()
    pending(attacked, tenant)
    with attacked.measured():
        consumer(tenant, "S", "C", deliver_subject="d", max_ack_pending=-1, ack_wait=2 * 10**12)
        consumer(tenant, "S", "C", deliver_subject="d", max_ack_pending=-1, ack_wait=10**12)


def fewer_messages(attacked: Attacked) -> None:
    """Lower the limit of a stream of which 300,000 messages are pending."""
    tenant = attacked.tenant()
    pending(attacked, tenant)
    config = {"name": "S", "subjects": ["s.>"], "storage": attacked.storage, "max_msgs": 10}
    with attacked.measured():
        tenant.do("STREAM.UPDATE.S", config)
        tenant.flood(b"")


def purged(attacked: Attacked) -> None:
    """Purge a stream of which 300,000 messages are pending."""
    tenant = attacked.tenant()
    pending(attacked, tenant)
    with attacked.measured():
        tenant.do("STREAM.PURGE.S")
        tenant.flood(b"")


def wildcard_filters(attacked: Attacked) -> None:
    """Make a consumer with 300 wildcard filters over 300,000 subjects."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    tenant.fill(f"s.{i}.x" for i in range(300_000))
    with attacked.measured():
        consumer(tenant, "S", "C", filter_subjects=[f"s.*.x{i}" for i in range(300)])
        consumer(tenant, "S", "D", filter_subjects=[f"s.*.y{i}" for i in range(300)])


def acked_all(attacked: Attacked) -> None:
    """Acknowledge 300,000 messages of an interest stream at once."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>", retention="interest")
    asked = {"max_ack_pending": -1, "ack_wait": 10**12, "ack_policy": "all"}
    consumer(tenant, "S", "C", deliver_subject="d", **asked)
    tenant.fill(["s.a"] * 300_000)
    tenant.wait_count(300_000)
    info = tenant.do("CONSUMER.INFO.S.C")
    assert info["num_ack_pending"] == 300_000
    with attacked.measured():
        tenant.flood(message("$JS.ACK.S.C.1.300000.300000.1.0", b"+ACK"))
        tenant.do("CONSUMER.INFO.S.C")


def naks(attacked: Attacked) -> None:
    """Wait until 100,000 messages are delivered again at the same moment; twice, for the pools."""
    tenant = attacked.tenant()
    attacked.stream(tenant, "S", "s.>")
    tenant.fill(["s.a"] * 100_000)
    consumer(tenant, "S", "C", deliver_subject="d", max_ack_pending=-1, ack_wait=10**12)
    tenant.wait_count(100_000)
    lines = b"".join(
        message(f"$JS.ACK.S.C.1.{i}.{i}.1.0", b'-NAK {"delay":2000000000}')
        for i in range(1, 100_001)
    )
    for count, measured in ((200_000, contextlib.nullcontext), (300_000, attacked.measured)):
        with measured():
            tenant.flood(lines)
            tenant.wait_count(count)


def schedules(attacked: Attacked) -> None:
    """Set 50,000 schedules due at the same moment; once before, so that pools have their size."""
    tenant = attacked.tenant()
    for measured in (contextlib.nullcontext, attacked.measured):
        attacked.stream(tenant, "S", "s.>", "t.>", allow_msg_schedules=True, allow_msg_ttl=True)
        due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
        lines = b"".join(
            message(
                f"s.{i}", b"x", block(f"Nats-Schedule: @at {due}", f"Nats-Schedule-Target: t.{i}")
            )
            for i in range(50_000)
        )
        with measured():
            tenant.flood(lines)
            while tenant.do("STREAM.INFO.S")["state"]["last_seq"] < 100_000:
                time.sleep(0.1)
            tenant.do("STREAM.DELETE.S")


def many_streams(attacked: Attacked) -> None:
    """Make 2,000 streams."""
    tenant = attacked.tenant()
    lines = b"".join(
        message(
            f"$JS.API.STREAM.CREATE.S{i}",
            {"name": f"S{i}", "subjects": [f"s.{i}"], "storage": "memory"},
            reply=b"r.c",
        )
        for i in range(2_000)
    )
    ends = b"".join(message(f"$JS.API.STREAM.DELETE.S{i}", reply=b"r.c") for i in range(2_000))
    for count in (4_000, 8_000):  # until the garbage that waits to be collected grows no more
        tenant.flood(lines + ends)
        tenant.wait_count(count)
    with attacked.measured():
        tenant.flood(lines + ends)
        tenant.wait_count(12_000)


def consumer(tenant: Tenant, stream: str, name: str, **config: Any) -> None:
    """Make or change a consumer."""
    asked = {"durable_name": name, "ack_policy": "explicit", "mem_storage": True, **config}
    tenant.do(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": asked})


ATTACKS = [
    many_subjects,
    overlapping_subjects,
    two_streams,
    many_filters,
    many_transforms,
    roll_ups,
    expected_sequences,
    republished,
    many_headers,
    newest_of_all,
    newest_of_patterns,
    newest_by_many_patterns,
    deserted_gets,
    gets_into_the_stream,
    waiting_pulls,
    many_consumers,
    trimmed_redeliveries,
    shorter_ack_wait,
    fewer_messages,
    purged,
    wildcard_filters,
    acked_all,
    naks,
    schedules,
    many_streams,
]


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_nobody_waits_for_the_work_of_another_account(
    attack: Attack, storage: str, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    figures = figures_of(attack, storage, tmp_path)
    request.node.user_properties.append(("waits", figures))
    longest_s = max(figures[name] for name in ("message", "publish", "get", "info", "turn"))
    assert longest_s < WAIT_S * figures["slowness"], figures
    is_kept = attack is gets_into_the_stream and storage == "memory"  # its answers are stored
    assert is_kept or figures["left_mib"] < LEFT_BYTES / MIB, figures


def figures_of(attack: Attack, storage: str, tmp_path: Any) -> dict[str, float]:
    """Return the longest waits during an attack on a server of its own, and what it leaves."""
    watched = tmp_path / "busy"
    watched.write_bytes(LONGEST.pack(0.0))
    command = [sys.executable, "-m", "tests.abuse.watched_server", str(watched)]
    with Server(command, CONFIG) as server:
        attacked = Attacked(server, storage, watched)
        with contextlib.closing(attacked):
            attack(attacked)
        figures = attacked.figures
        print({name: round(figure, 4) for name, figure in figures.items()})
        assert server.process.poll() is None, server.log
        assert "Traceback" not in server.log
    return figures
