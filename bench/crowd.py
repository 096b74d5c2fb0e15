"""A crowd of idle connections: what each takes, and that looking at all of them stays bounded.

    python -m bench.crowd [COMMAND ...] [--count 50000]

Processes with their own source addresses open as many connections as the limits of this machine
allow. Then `/connz` is read in pages while a bystander measures its waits for PONGs, and finally
all connections are closed at once.
"""

import argparse
import contextlib
import http.client
import json
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection

from bench import servers, wire
from bench.metrics import ScenarioError
from bench.workers import Worker, staff

COMMANDS = ("midge-server", "nats-server")
COUNT = 50_000
PAGES = (
    "/connz",
    "/connz?limit=1000000",
    "/connz?limit=1000000&subs=detail&auth=1&sort=msgs_to",
    "/connz?offset={last}&limit=100",
)

_WORKER_COUNT = 10_000
"""Connections of one process and source address: fewer than there are ephemeral ports."""
_BATCH = 100
_FILES_KEPT = 100
"""Files that a process has open besides its connections."""
_PROBE_INTERVAL_S = 0.005
_OPEN_TIMEOUT_S = 300.0
_PAGE_TIMEOUT_S = 60.0
_SETTLE_S = 2.0


@dataclass(frozen=True)
class Page:
    """One page of `/connz`: its size, its time, and the bystander's wait."""

    path: str
    entries: int
    size_bytes: int
    took_s: float
    waited_s: float
    """The longest time that the bystander waited for a PONG meanwhile."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure the servers that the command line names, and print the results."""
    parser = argparse.ArgumentParser(prog="bench.crowd", description=__doc__.partition("\n")[0])
    parser.add_argument("commands", nargs="*", default=COMMANDS, help="commands of servers")
    parser.add_argument("--count", type=int, default=COUNT, help="connections wanted")
    options = parser.parse_args(words)
    servers.unwind_on_sigterm()
    allowed = _raise_files_limit(options.count + _FILES_KEPT)
    count = min(options.count, allowed - _FILES_KEPT)
    if count < options.count:
        print(f"{allowed:,} files are all that one process may open here (ulimit -Hn)")
    try:
        for command in options.commands:
            _measure(servers.Command.parse(command), count)
    except (servers.StartError, ScenarioError, wire.WireError, OSError) as error:
        print(f"bench.crowd: {error}", file=sys.stderr)
        return 1
    return 0


def _raise_files_limit(wanted: int) -> int:
    """Raise the limit of open files to `wanted`, or as far as allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        return soft
    with contextlib.suppress(ValueError, OSError):  # above the hard limit only with privileges
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _measure(command: servers.Command, count: int) -> None:
    monitoring_port = servers.free_port()
    with servers.running(command, ["-m", str(monitoring_port)]) as server, staff() as workers:
        bystander = Worker("the bystander", _wait_for_pongs, server.address)
        workers.append(bystander)
        before_bytes = server.rss_bytes()
        started = time.monotonic()
        crowd = _gather(server, workers, count)
        took_s = time.monotonic() - started
        time.sleep(_SETTLE_S)
        each_bytes = (server.rss_bytes() - before_bytes) / count
        print(f"\n{command.name}: {count:,} connections in {took_s:.1f} s")
        print(f"  {each_bytes:,.0f} bytes each, {before_bytes / 1e6:.0f} MB without them")
        for path in PAGES:
            _print(_read(bystander, monitoring_port, path.format(last=count + 1 - 100)))
        print(f"  {server.rss_bytes() / 1e6:.0f} MB after these pages")
        waited_s = _let_go(crowd, bystander)
        left = _read(bystander, monitoring_port, "/connz").entries
        print(f"  all left at once: {left} remain, a PONG took {waited_s * 1e3:.0f} ms at most")
        print(f"  {server.rss_bytes() / 1e6:.0f} MB then")


def _gather(server: servers.Server, workers: list[Worker], count: int) -> list[Worker]:
    """Open `count` connections in processes."""
    crowd = []
    for number, start in enumerate(range(0, count, _WORKER_COUNT)):
        share = min(_WORKER_COUNT, count - start)
        host = f"127.0.2.{number + 1}"
        crowd.append(Worker(f"crowd {number}", _hold, server.address, host, share))
    workers.extend(crowd)
    for worker in crowd:
        worker.answer(_OPEN_TIMEOUT_S)
    return crowd


def _let_go(crowd: list[Worker], bystander: Worker) -> float:
    """Disconnect the whole crowd at once; return the bystander's longest wait."""
    _longest_wait(bystander)
    for worker in crowd:
        worker.ask("leave")
    for worker in crowd:
        worker.answer(_OPEN_TIMEOUT_S)
    time.sleep(_SETTLE_S)
    return _longest_wait(bystander)


def _hold(pipe: Connection, address: wire.Address, host: str, count: int) -> None:
    """Open connections from one address, report that, and close them on request (crowd process)."""
    with ExitStack() as stack:
        for start in range(0, count, _BATCH):
            batch = [
                stack.enter_context(closing(wire.dial(address, source_host=host)))
                for _ in range(min(_BATCH, count - start))
            ]
            for sock in batch:
                wire.send_connect(sock)
            for sock in batch:
                wire.read_until_pong(sock)
        pipe.send("here")
        pipe.recv()
    pipe.send("gone")


def _wait_for_pongs(pipe: Connection, address: wire.Address) -> None:
    """Send PINGs all the time; report the longest wait since the last request (bystander)."""
    with closing(wire.connect(address)) as sock:
        longest_s = 0.0
        while True:
            asked = pipe.poll(_PROBE_INTERVAL_S)
            started = time.monotonic()
            wire.round_trip(sock)
            longest_s = max(longest_s, time.monotonic() - started)
            if asked:
                pipe.recv()
                pipe.send(longest_s)
                longest_s = 0.0


def _longest_wait(bystander: Worker) -> float:
    bystander.ask("how long?")
    waited_s: float = bystander.answer()
    return waited_s


def _read(bystander: Worker, port: int, path: str) -> Page:
    """Fetch a page while the bystander measures."""
    _longest_wait(bystander)
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_PAGE_TIMEOUT_S)) as client:
        started = time.monotonic()
        client.request("GET", path)
        text = client.getresponse().read()
        took_s = time.monotonic() - started
    return Page(
        path, json.loads(text)["num_connections"], len(text), took_s, _longest_wait(bystander)
    )


def _print(page: Page) -> None:
    print(
        f"  {page.path}: {page.entries:,} entries, {page.size_bytes / 1e6:.2f} MB,"
        f" {page.took_s * 1e3:.0f} ms; a PONG took {page.waited_s * 1e3:.0f} ms at most"
    )


if __name__ == "__main__":
    sys.exit(main())
