"""Measure a NATS server by publishing to it, subscribing to it or sending it requests."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from midge.client.benchmark import runs as bench_runs
from midge.client.benchmark.busy import CpuUsage, server_processes
from midge.client.benchmark.latency_histogram import histogram, percentiles_us
from midge.client.benchmark.runs import Outcome, Plan
from midge.client.commands import output
from midge.client.commands.connect_arguments import add_connect_arguments, connect_options
from midge.client.errors import ClientError, OptionError
from midge.platforms import new_event_loop
from midge.sublist.subjects import is_literal, is_valid_subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from midge.client.benchmark.runs import Tally

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
_PROGRESS_INTERVAL_S = 0.1
_LEAST_SERVER_S = 0.1  # Linux counts the CPU time of other processes in steps of 10 ms
_RUNS: dict[str, Callable[[Plan, Outcome], Awaitable[None]]] = {
    "pub": bench_runs.publish,
    "sub": bench_runs.subscribe,
    "request": bench_runs.request,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `pub`, `sub` and `request` and their options."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="pub|sub|request")
    pub = kinds.add_parser("pub", help="publish as fast as the server takes it")
    _add_common(pub, messages=100_000)
    _add_size(pub)
    pub.add_argument(
        "--sub",
        type=_count(0),
        default=0,
        metavar="N",
        help="connections that subscribe in the same run (default: 0)",
    )
    sub = kinds.add_parser("sub", help="receive what others publish")
    _add_common(sub, messages=100_000)
    sub.add_argument(
        "--queue", type=_token, default=b"", metavar="NAME", help="join this queue group"
    )
    request = kinds.add_parser("request", help="send requests and time the replies")
    _add_common(request, messages=10_000)
    _add_size(request)
    request.add_argument(
        "--in-flight",
        type=_count(1),
        default=1,
        metavar="N",
        help="requests that each connection has outstanding (default: 1)",
    )
    request.add_argument(
        "--responders",
        type=_count(0),
        default=1,
        metavar="N",
        help="connections that answer; with 0, somebody else must (default: 1)",
    )
    request.add_argument(
        "--reply-size",
        type=_count(0, MAX_PAYLOAD_BYTES),
        default=128,
        metavar="BYTES",
        help="payload of a reply (default: 128)",
    )


def _add_common(parser: argparse.ArgumentParser, messages: int) -> None:
    parser.add_argument("subject", type=_subject, help="such as orders.new")
    parser.add_argument(
        "--clients",
        type=_count(1),
        default=1,
        metavar="N",
        help="connections that share the work (default: 1)",
    )
    parser.add_argument(
        "--count",
        type=_count(1),
        default=messages,
        metavar="N",
        help=f"messages in all; 10k and 2m are understood (default: {messages:,})",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON, with every client"
    )
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    add_connect_arguments(parser)


def _add_size(parser: argparse.ArgumentParser) -> None:
    size = _count(0, MAX_PAYLOAD_BYTES)
    parser.add_argument(
        "--size", type=size, default=128, metavar="BYTES", help="payload (default: 128)"
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; return the exit code."""
    outcome = Outcome()
    try:
        plan = _plan(args)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_measure(args, plan, outcome))
    except ClientError as error:
        return output.refuse("midge bench", error, as_json=args.json)
    if args.json:
        text = json.dumps(as_document(args.kind, plan, outcome), indent=2)
    else:
        text = "\n".join(as_lines(plan, outcome))
    sys.stdout.write(f"{text}\n")
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    if args.kind != "sub" and not is_literal(args.subject):
        raise OptionError(f"subject: expected one without wildcards, got '{args.subject.decode()}'")
    return Plan(
        options=connect_options(args),
        subject=args.subject,
        messages=args.count,
        clients=args.clients,
        payload_bytes=getattr(args, "size", 0),
        subscribers=getattr(args, "sub", 0),
        queue=getattr(args, "queue", b""),
        responders=getattr(args, "responders", 0),
        reply_bytes=getattr(args, "reply_size", 0),
        in_flight=getattr(args, "in_flight", 1),
    )


async def _measure(args: argparse.Namespace, plan: Plan, outcome: Outcome) -> None:
    show = sys.stderr.isatty() and not (args.no_progress or args.json)
    address = plan.options.servers[0]
    pids = server_processes(address.host, address.port)
    async with _progress_bar(outcome, show=show):
        before = CpuUsage.now(pids)
        await _RUNS[args.kind](plan, outcome)
        outcome.usage = CpuUsage.now(pids).since(before)


@asynccontextmanager
async def _progress_bar(outcome: Outcome, *, show: bool) -> AsyncIterator[None]:
    """Keep a progress bar on standard error up to date while the block runs."""
    if not show:
        yield
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("messages"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=None)

        async def refresh() -> None:
            while True:
                done, expected = outcome.progress()
                progress.update(bar, completed=done, total=expected or None)
                await asyncio.sleep(_PROGRESS_INTERVAL_S)

        refreshing = asyncio.create_task(refresh())
        try:
            yield
        finally:
            refreshing.cancel()


def as_document(kind: str, plan: Plan, outcome: Outcome) -> dict[str, object]:
    """Return the result as the object that `--json` prints."""
    roles = {
        role: {**_figures(tallies), "clients": [_figures([tally]) for tally in tallies]}
        for role, tallies in outcome.roles.items()
    }
    document: dict[str, object] = {
        "bench": kind,
        "server": str(plan.options.servers[0]),
        "subject": plan.subject.decode(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "payload_bytes": plan.payload_bytes,
        "roles": roles,
    }
    if outcome.usage is not None:
        document["usage"] = _usage(outcome, outcome.usage)
    if outcome.latencies_ns:
        document["latency_us"] = percentiles_us(outcome.latencies_ns)
    return document


def as_lines(plan: Plan, outcome: Outcome) -> list[str]:
    """Return the result for people."""
    lines = [f"{plan.options.servers[0]}, subject {plan.subject.decode()}"]
    for role, tallies in outcome.roles.items():
        lines.append(_line(role, tallies))
        if len(tallies) > 1:
            lines += [_line(f"  {number}", [tally]) for number, tally in enumerate(tallies, 1)]
    if outcome.latencies_ns:
        percentiles = percentiles_us(outcome.latencies_ns)
        cells = [f"{name.replace('_', '.')} {us:,.0f} µs" for name, us in percentiles.items()]
        lines += ["", "latency   " + "   ".join(cells), *histogram(outcome.latencies_ns)]
    if outcome.usage is not None:
        lines.append(_usage_line(_usage(outcome, outcome.usage)))
    return lines


def _usage(outcome: Outcome, usage: CpuUsage) -> dict[str, float | None]:
    """Return how busy both sides were, in CPUs, and what the server spent for each message.

    A message counts where it is published or requested, or else where it is received.
    """
    *_, tallies = outcome.roles.values()  # publishers come behind their subscribers
    messages = sum(tally.messages for tally in tallies)
    found: dict[str, float | None] = {
        "generator_cpus": usage.generator_s / usage.elapsed_s,
        "server_cpus": None,
        "server_us_per_message": None,
    }
    if usage.server_s is not None:
        found["server_cpus"] = usage.server_s / usage.elapsed_s
        if usage.server_s >= _LEAST_SERVER_S:
            found["server_us_per_message"] = usage.server_s * 1e6 / max(messages, 1)
    return found


def _usage_line(usage: dict[str, float | None]) -> str:
    generator, server = usage["generator_cpus"] or 0, usage["server_cpus"]
    line = f"busy       generator {generator:.0%} of a CPU, server "
    if server is None:
        return line + "unknown (it is not on this machine, or not ours)"
    each = usage["server_us_per_message"]
    shown = "too short a run to tell" if each is None else f"{each:.2f} µs a message"
    return line + f"{server:.0%}, {shown}"


def _line(label: str, tallies: list[Tally]) -> str:
    figures = _figures(tallies)
    return (
        f"{label:<10} {figures['messages']:>12,.0f} messages {figures['elapsed_s']:>8.3f} s "
        f"{figures['messages_per_s']:>13,.0f} msg/s {figures['bytes_per_s'] / 2**20:>9,.1f} MiB/s"
    )


def _figures(tallies: list[Tally]) -> dict[str, float]:
    """Add up clients of one role: from the first message of any to the last message of all."""
    messages = sum(tally.messages for tally in tallies)
    payload_bytes = sum(tally.payload_bytes for tally in tallies)
    elapsed_s = max(t.finished_s for t in tallies) - min(t.started_s for t in tallies)
    elapsed_s = max(elapsed_s, 1e-9)  # a single received message has no duration
    return {
        "messages": messages,
        "payload_bytes": payload_bytes,
        "elapsed_s": elapsed_s,
        "messages_per_s": messages / elapsed_s,
        "bytes_per_s": payload_bytes / elapsed_s,
    }


def _count(least: int, most: int = 10**12) -> Callable[[str], int]:
    """Return an argument type for whole numbers in a range; `10k` and `2m` are accepted."""

    def parse(text: str) -> int:
        digits, scale = text.replace("_", ""), 1
        if digits[-1:].lower() in {"k", "m"}:
            scale = 1_000 if digits[-1] in "kK" else 1_000_000
            digits = digits[:-1]
        if not digits.isascii() or not digits.isdigit() or not least <= int(digits) * scale <= most:
            expected = f"a number from {least:,} to {most:,}"
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return int(digits) * scale

    return parse


def _subject(text: str) -> bytes:
    subject = text.encode(errors="surrogateescape")
    if not is_valid_subject(subject) or any(byte in subject for byte in b" \t\r\n"):
        raise argparse.ArgumentTypeError(f"expected a subject such as 'a.b', got {text!r}")
    return subject


def _token(text: str) -> bytes:
    token = text.encode(errors="surrogateescape")
    if not token or any(byte in token for byte in b" \t\r\n"):
        raise argparse.ArgumentTypeError(f"expected a name without blanks, got {text!r}")
    return token
