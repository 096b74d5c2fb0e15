"""The whole pipeline in one command: a server, a fleet, the recorder, all layers, the report."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from midge.client.commands.argument_types import positive_int, positive_number
from midge.pipeline.commands.lake_commands import fill, settings_of, show_progress
from midge.pipeline.commands.terminal import bars, counted, say
from midge.pipeline.errors import PipelineError
from midge.pipeline.fleet.fleet import Truth, build_fleet
from midge.pipeline.lake.settings import PipelineSettings

if TYPE_CHECKING:
    from midge.pipeline.commands.terminal import ProgressBars

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 30.0

_SERVER_CONFIG = """\
server_name = "demo"
[listen]
host = "127.0.0.1"
port = -1
[limits]
# Small, so that the fleet's one slow client is noticed within the demonstration.
max_pending_bytes = 1048576
[recorder]
directory = "{records}"
[process]
ports_file_dir = "{directory}"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the demonstration."""
    parser.add_argument(
        "--directory",
        type=Path,
        default=Path("demo"),
        metavar="DIR",
        help="a new or empty directory for everything (default: demo)",
    )
    parser.add_argument(
        "--vans", type=positive_int, default=60, metavar="N", help="size of the fleet (default: 60)"
    )
    parser.add_argument(
        "--seconds",
        type=positive_number,
        default=600.0,
        metavar="N",
        help="how long the fleet works (default: 600)",
    )
    parser.add_argument(
        "--speed",
        type=positive_number,
        default=20.0,
        metavar="N",
        help="how much faster than the clock (default: 20)",
    )
    parser.add_argument(
        "--simulate", action="store_true", help="write the records directly, with no server"
    )


def run_demo(args: argparse.Namespace) -> None:
    """Run the demonstration, and print the path of the report.

    Raises:
        PipelineError: the directory is not empty, or the server did not start or record.
    """
    from midge.pipeline.report.page import read_gold, write_report

    directory = args.directory.absolute()
    if directory.exists() and any(directory.iterdir()):
        raise PipelineError(f"{args.directory}: is not empty; name a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    settings = replace(
        settings_of(args),
        records_directory=str(directory / "records"),
        lake_directory=str(directory / "lake"),
        window_s=60 if args.simulate else 1,
    )
    with bars() as show:
        truth = _simulate(args, settings) if args.simulate else _perform(args, settings, show)
        progress = fill(settings, show)
    show_progress(progress, settings)
    report = directory / "report.html"
    write_report(read_gold(settings.lake_directory), report)
    say(f"{counted(truth.total, 'message')} sent, {progress.messages:,} in the lake")
    say(f"{report} ({time.monotonic() - begun_s:.0f} s in all)")


def _simulate(args: argparse.Namespace, settings: PipelineSettings) -> Truth:
    from midge.pipeline.fleet.recorded import Simulation

    simulation = Simulation(build_fleet(args.vans), args.seconds).run()
    simulation.write(Path(settings.records_directory))
    return simulation.truth


def _perform(args: argparse.Namespace, settings: PipelineSettings, show: "ProgressBars") -> Truth:
    from midge.pipeline.fleet.live import perform
    from midge.pipeline.records.files import require_records

    def progress(share: float, truth: Truth) -> None:
        show.update("fleet at work", round(share * 100), 100, f"{truth.total:,} messages")

    with _server(args.directory.absolute(), settings.records_directory) as address:
        truth = asyncio.run(
            perform(build_fleet(args.vans), address, args.seconds, args.speed, progress=progress)
        )
    require_records(Path(settings.records_directory))
    return truth


@contextmanager
def _server(directory: Path, records: str) -> Iterator[tuple[str, int]]:
    """Run a recording server in its own process; yield its address."""
    config = directory / "server.toml"
    config.write_text(_SERVER_CONFIG.format(records=records, directory=directory))
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own server
            [sys.executable, "-m", "midge", "serve", "-c", str(config)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        yield _address(process, directory, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", directory: Path, log: Path) -> tuple[str, int]:
    """Wait until the server has written its address, and return it."""
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        address = _read_ports(directory)
        if address is not None:
            return address
        time.sleep(0.05)
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    raise PipelineError(f"the server did not start: {last[0] if last else 'it said nothing'}")


def _read_ports(directory: Path) -> tuple[str, int] | None:
    for path in directory.glob("*.ports"):
        try:
            urls = json.loads(path.read_text())["nats"]
        except (ValueError, KeyError):
            return None  # the file is only half written
        host, _, port = urls[0].removeprefix("nats://").rpartition(":")
        return host, int(port)
    return None
