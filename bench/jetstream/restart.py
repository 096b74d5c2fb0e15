"""Recovery of streams after a SIGKILL and after a clean stop: its time, and the streams' memory.

A server is filled, killed, and started again on its files. A start is timed from before the process
is made until the first answer to STREAM.INFO, which must report every message.
"""

import base64
import os
import random
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench import frames, procfs, servers, wire
from bench.jetstream.api import Answer, Api
from bench.jetstream.publish import arrivals
from bench.metrics import ScenarioError

SETTLE_S = 2.0
"""Time from the last acknowledgement, or the start, to the reading of the memory."""

Figures = Mapping[str, list[float]]
"""The results of one server: metric to one value or several."""

_INBOX = b"_INBOX.Xn4hQ2vLrT8sYdKc0WbZ6m"
_MARK = b'"seq":'
_WINDOW = 2_000
_SAMPLES = 200
_POLL_S = 0.002
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 120.0
_PAYLOAD_BYTES = 128
_HOLD_MESSAGES = (".blk", ".log")
"""Ends of the names of files with messages: nats-server's, and midge's."""


@dataclass(frozen=True, kw_only=True)
class Restart:
    """The contents of a store when its server is killed; messages rotate over its subjects."""

    name: str
    title: str
    unit: str
    """The unit for the reported memory: a message, a key, a stream."""
    messages: int
    subjects: int
    """Subjects of all streams together; a divisor of `messages`, and a multiple of `streams`."""
    streams: int = 1
    per_subject: int = -1
    """`max_msgs_per_subject` of the streams; -1 is unlimited."""
    listed: bool = False
    """Whether to time the creation of a consumer that starts with the last of each subject."""

    @property
    def units(self) -> int:
        """Return the number of units by which the memory is divided."""
        return self.streams if self.unit == "stream" else self.messages

    def stream(self, number: int) -> str:
        """Return the name of the stream that takes a message."""
        return f"S{number % self.streams:04d}"

    def subject(self, number: int) -> bytes:
        """Return the subject of a message."""
        return b"js.%04d.%07d" % (number % self.streams, number % self.subjects)

    def payload(self, number: int) -> bytes:
        """Return the payload of a message, which no other message has."""
        return b"%0*d" % (_PAYLOAD_BYTES, number)

    def sequence(self, number: int) -> int:
        """Return the sequence of a message in its stream."""
        return number // self.streams + 1

    def sampled(self) -> list[int]:
        """Return the messages to read after a start: the first, the last, some between."""
        chosen = random.Random(self.name)
        between = chosen.sample(range(self.messages), min(_SAMPLES, self.messages))
        return [0, self.messages - 1, *between]


class Server:
    """A server under test, from before its process is made until it is killed or stopped."""

    def __init__(self, command: servers.Command, store: Path, output: IO[bytes]) -> None:
        port = servers.free_port()
        flags = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(store)]
        self.address = wire.Address("127.0.0.1", port)
        self._busy_s = _busy_but_ours_s()
        self.begun_s = time.monotonic()
        try:
            self.process = subprocess.Popen([*command.argv, *flags], stdout=output, stderr=output)
        except OSError as error:
            text = f"cannot run {command.argv[0]}: {error.strerror}"
            raise servers.StartError(text) from None

    def first_answer(self, name: str) -> Answer:
        """Return the answer to `$JS.API.{name}`; ask about every 2 ms until it comes.

        Raises:
            StartError: it ended, or does not answer in time.
        """
        while True:
            try:
                with closing(wire.connect(self.address)) as sock:
                    return Api(sock).ask(name)
            except (OSError, wire.WireError, ScenarioError) as error:
                self._check(error)
            time.sleep(_POLL_S)

    def _check(self, error: Exception) -> None:
        if self.process.poll() is not None:
            raise servers.StartError(f"the server ended with status {self.process.returncode}")
        if time.monotonic() - self.begun_s > _START_TIMEOUT_S:
            raise servers.StartError(f"no answer within {_START_TIMEOUT_S:g} s: {error}")

    def stop(self) -> None:
        """Stop it by SIGTERM, and wait for its end.

        Raises:
            StartError: it takes too long.
        """
        self.process.terminate()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise servers.StartError(f"no stop within {_STOP_TIMEOUT_S:g} s") from None

    def busy_s(self) -> float:
        """Return the CPU time of everything except the bench since the process was made."""
        return _busy_but_ours_s() - self._busy_s

    def rss_bytes(self) -> int:
        """Return the resident memory."""
        return procfs.rss_bytes(self.process.pid)

    def open_files(self) -> int:
        """Return the number of its open files and sockets."""
        return len(list((procfs.PROC / str(self.process.pid) / "fd").iterdir()))


def _busy_but_ours_s() -> float:
    return procfs.machine_busy_s() - sum(os.times()[:2])


@contextmanager
def launched(command: servers.Command, store: Path) -> Iterator[Server]:
    """Make the process of a server, and kill it at the end of the block."""
    with tempfile.TemporaryFile() as output:
        server = Server(command, store, output)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()


def run(case: Restart, command: servers.Command, starts: int) -> Figures:
    """Fill a store, kill its server, and start it on the files: once, and `starts` times more.

    Before the further starts all files are read into the page cache, because midge drops large
    groups from it once they are on the disk. Each of these starts ends with a kill, except the
    last one: that server stops, and there is a start on what it leaves.

    Raises:
        ScenarioError: something is missing after a start.
    """
    found: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        store = Path(name)
        with launched(command, store) as server:
            empty_bytes, half_s = _fill(case, server, found)
        for number in range(1 + starts):
            if number:
                _warm(store)
            found["checkpoints"].append(len(checkpoints(store, half_s)))
            with launched(command, store) as server:
                _start(case, server, found, "start" if number else "first_start")
                if number == starts:
                    _look(case, server, found, empty_bytes, "_after")
                with closing(wire.connect(server.address)) as sock:
                    check_messages(case, Api(sock))
                if number == starts:
                    server.stop()
        _warm(store)
        with launched(command, store) as server:
            _start(case, server, found, "clean_start", "clean_cpu")
            with closing(wire.connect(server.address)) as sock:
                check_messages(case, Api(sock))
    return found


def _fill(case: Restart, server: Server, found: dict[str, list[float]]) -> tuple[int, float]:
    """Make and fill the streams; return the memory before, and the time when half was stored."""
    server.first_answer("INFO")
    with closing(wire.connect(server.address)) as sock:
        api = Api(sock)
        time.sleep(SETTLE_S)
        empty_bytes = server.rss_bytes()
        for number in range(case.streams):
            name = case.stream(number)
            settings = {"storage": "file", "max_msgs_per_subject": case.per_subject}
            subjects = [f"js.{number:04d}.>"]
            api.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, **settings})
        half_s = publish(case, server.address)
    _look(case, server, found, empty_bytes)
    return empty_bytes, half_s


def publish(case: Restart, address: wire.Address) -> float:
    """Publish all messages, a window at a time; return the time when half of them were stored."""
    half_s = 0.0
    with closing(wire.connect(address)) as sock:
        sock.sendall(frames.sub(_INBOX, b"1"))
        wire.round_trip(sock)
        acknowledged = arrivals(sock, _MARK)
        for first in range(0, case.messages, _WINDOW):
            numbers = range(first, min(first + _WINDOW, case.messages))
            sock.sendall(
                b"".join(
                    frames.pub(case.subject(number), case.payload(number), reply=_INBOX)
                    for number in numbers
                )
            )
            missing = len(numbers)
            while missing > 0:
                missing -= next(acknowledged)
            if not half_s and numbers.stop * 2 >= case.messages:
                half_s = time.time()
    return half_s


def checkpoints(store: Path, since_s: float) -> list[Path]:
    """Return the files without messages written since then, which may shorten a start.

    The head of midge's store, of 4 KiB, names the files and shortens nothing.
    """
    return [
        path
        for path in store.rglob("*")
        if path.is_file()
        and path.suffix not in _HOLD_MESSAGES
        and path.name not in {"store.a", "store.b"}
        and path.stat().st_mtime >= since_s
        and path.stat().st_size
    ]


def _warm(store: Path) -> None:
    for path in store.rglob("*"):
        if path.is_file():
            path.read_bytes()


def _start(
    case: Restart,
    server: Server,
    found: dict[str, list[float]],
    metric: str,
    cpu_metric: str = "start_cpu",
) -> None:
    """Record the duration of a start that has just begun; its first answer must be complete."""
    info = server.first_answer(f"STREAM.INFO.{case.stream(case.messages - 1)}")
    took_s = time.monotonic() - server.begun_s
    cpu_s = procfs.cpu_s(server.process.pid)
    found[metric].append(took_s * 1e3)
    found[cpu_metric].append(cpu_s * 1e3)
    found["others"].append(max(server.busy_s() - cpu_s, 0.0) / took_s)
    check_state(case, info["state"])


def check_state(case: Restart, state: Answer) -> None:
    """Compare the reported state of a stream with the published messages.

    Raises:
        ScenarioError: there is a difference.
    """
    each = case.messages // case.streams
    subjects = case.subjects // case.streams
    expected = {"messages": each, "first_seq": 1, "last_seq": each, "num_subjects": subjects}
    held = {name: state.get(name) for name in expected}
    if held != expected:
        raise ScenarioError(f"after a start, a stream says {held}, and not {expected}")


def check_messages(case: Restart, api: Api) -> None:
    """Read some messages, by sequence and as the last of their subjects, and count all streams'.

    Raises:
        ScenarioError: a message differs from the published one, or a stream is incomplete.
    """
    for number in range(case.streams):
        check_state(case, api.ask(f"STREAM.INFO.{case.stream(number)}")["state"])
    for number in case.sampled():
        last = case.messages - case.subjects + number % case.subjects
        by_subject = {"last_by_subj": case.subject(number).decode()}
        for request, expected in (({"seq": case.sequence(number)}, number), (by_subject, last)):
            message = api.ask(f"STREAM.MSG.GET.{case.stream(number)}", request)["message"]
            found = (message["seq"], message["subject"].encode(), base64.b64decode(message["data"]))
            if found != (case.sequence(expected), case.subject(expected), case.payload(expected)):
                raise ScenarioError(f"message {expected} is {found}")


def _look(
    case: Restart,
    server: Server,
    found: dict[str, list[float]],
    empty_bytes: int,
    when: str = "",
) -> None:
    """Record the memory, the open files, and the time to create a consumer."""
    time.sleep(SETTLE_S)
    found["memory" + when].append((server.rss_bytes() - empty_bytes) / case.units)
    found["files" + when].append(server.open_files())
    if case.listed:
        with closing(wire.connect(server.address)) as sock:
            found["consumer" + when].append(consumer_ms(case, Api(sock), f"C{when}"))


def consumer_ms(case: Restart, api: Api, name: str) -> float:
    """Create a consumer of the last message of each subject; return the time that it takes.

    Raises:
        ScenarioError: not all of these messages are pending.
    """
    config = {
        "name": name,
        "deliver_policy": "last_per_subject",
        "filter_subject": "js.>",
        "ack_policy": "none",
        "mem_storage": True,
    }
    stream = case.stream(0)
    request = {"stream_name": stream, "config": config, "action": "create"}
    began_s = time.monotonic()
    made = api.ask(f"CONSUMER.CREATE.{stream}.{name}", request)
    took_s = time.monotonic() - began_s
    if made["num_pending"] != case.subjects:
        raise ScenarioError(f"{case.subjects} subjects, {made['num_pending']} pending")
    return took_s * 1e3
