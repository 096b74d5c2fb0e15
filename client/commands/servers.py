"""Show the server of the connection, or all servers of a system."""

import argparse
import time
from typing import Any

from midge.client.commands import output, verbs
from midge.client.commands.quantities import count, show_size, show_time
from midge.client.commands.verbs import Session, Verb, no_arguments
from midge.client.errors import ServerError

_PING = "$SYS.REQ.SERVER.PING"
_NOT_THE_SYSTEM = "no server answers; only users of the system account may ask all servers"


def _info(session: Session) -> None:
    """Show what the server of the connection says of itself in its INFO."""
    rtt_ns = _round_trip_ns(session)
    info = session.client.info
    if session.args.json:
        shown = {name: value for name, value in info.items() if name != "nonce"}
        output.print_json({**shown, "rtt_ns": rtt_ns})
        return
    output.print_fields(
        [
            ("Name", info.get("server_name")),
            ("Id", info.get("server_id")),
            ("Version", f"{info.get('version')} ({info.get('go') or 'no language given'})"),
            ("Cluster", info.get("cluster")),
            ("Address", f"{info.get('host')}:{info.get('port')}"),
            ("Other servers", ", ".join(info.get("connect_urls") or []) or None),
            ("JetStream", bool(info.get("jetstream"))),
            ("Domain", info.get("domain")),
            ("Headers", bool(info.get("headers"))),
            ("Largest message", show_size(int(info.get("max_payload", 0)))),
            ("Login", _login(info)),
            ("Connection", f"{info.get('client_id')} from {info.get('client_ip')}"),
            ("Round trip", _milliseconds(rtt_ns)),
        ]
    )


def _login(info: dict[str, Any]) -> str:
    names = {"auth_required": "required", "tls_required": "TLS", "tls_verify": "with certificate"}
    return ", ".join(text for key, text in names.items() if info.get(key)) or "not required"


def _round_trip_ns(session: Session) -> int:
    begin = time.perf_counter_ns()
    session.client.ping()
    return time.perf_counter_ns() - begin


def _milliseconds(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms"


def _ping_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--count", type=count, default=4, metavar="N", help="how many round trips (default: 4)"
    )


def _ping(session: Session) -> None:
    """Time round trips to the server of the connection."""
    args, name = session.args, session.client.info.get("server_name")
    times_ns = []
    for _ in range(args.count):
        times_ns.append(_round_trip_ns(session))
        if not args.json:
            output.write(f"{name}: {_milliseconds(times_ns[-1])}")
    if args.json:
        output.print_json({"server": name, "rtt_ns": times_ns})
    elif times_ns:
        middle = sorted(times_ns)[len(times_ns) // 2]
        output.write(f"least {_milliseconds(min(times_ns))}, median {_milliseconds(middle)}")


def _ls(session: Session) -> None:
    """List the servers that answer a user of the system account."""
    answers = session.gather(_PING)
    if not answers:
        raise ServerError(_NOT_THE_SYSTEM)
    answers.sort(key=lambda one: str(one["server"].get("name")))
    if session.args.json:
        output.print_json(answers)
        return
    columns = ("NAME", "CLUSTER", "HOST", "VERSION", "JETSTREAM", "CLIENTS", "SUBSCRIPTIONS")
    output.print_table(
        (*columns, "SLOW", "MEMORY", "CPU %", "STARTED"), [_row(one) for one in answers]
    )


def _row(answer: dict[str, Any]) -> tuple[object, ...]:
    server, state = answer["server"], answer["statsz"]
    return (
        server.get("name", ""),
        server.get("cluster", ""),
        server.get("host", ""),
        server.get("ver", ""),
        bool(server.get("jetstream")),
        state.get("connections", 0),
        state.get("subscriptions", 0),
        state.get("slow_consumers", 0),
        show_size(state.get("mem", 0)),
        f"{state.get('cpu', 0):g}",
        show_time(state.get("start", "")),
    )


VERBS = {
    "info": Verb("show the server of the connection", no_arguments, _info),
    "ping": Verb("time round trips to the server", _ping_arguments, _ping),
    "ls": Verb("list all servers, as a user of the system account", no_arguments, _ls),
}
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs.add_verbs(parser, VERBS)
