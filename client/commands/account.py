"""Show the user, the account, and what it uses of JetStream."""

import argparse
from collections.abc import Callable
from typing import Any

from midge.client.commands import output, verbs
from midge.client.commands.quantities import show_duration, show_size
from midge.client.commands.verbs import Session, Verb, no_arguments
from midge.client.errors import ServerError, StreamError


def _info(session: Session) -> None:
    """Show the user, the account, and what it uses of JetStream."""
    user = session.gather("$SYS.REQ.USER.INFO", most=1)
    if not user:
        raise ServerError("the server does not say which user is connected")
    who = user[0].get("data", {})
    usage = _jetstream(session)
    if session.args.json:
        output.print_json({"user": who, "jetstream": usage or None})
    else:
        output.print_fields(_who(who) + _usage(usage))


def _jetstream(session: Session) -> dict[str, Any]:
    """Return what the account uses of JetStream; empty where it has none."""
    try:
        usage = session.call("INFO")
    except StreamError:
        return {}
    return {name: value for name, value in usage.items() if name != "type"}


def _who(who: dict[str, Any]) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = [
        ("User", who.get("user") or None),
        ("Account", who.get("account_name") or who.get("account")),
        ("Expires", f"in {show_duration(who['expires'])}" if who.get("expires") else None),
    ]
    for verb, rule in (who.get("permissions") or {}).items():
        for kind in ("allow", "deny"):
            subjects = (rule or {}).get(kind) if isinstance(rule, dict) else None
            if subjects:
                fields.append((f"{verb.capitalize()}, {kind}", ", ".join(subjects)))
    return fields


def _usage(usage: dict[str, Any]) -> list[tuple[str, object]]:
    if not usage:
        return [("JetStream", "off")]
    limits, api = usage["limits"], usage["api"]
    return [
        ("Streams", _of(usage["streams"], limits.get("max_streams", -1), str)),
        ("Consumers", _of(usage["consumers"], limits.get("max_consumers", -1), str)),
        ("Memory", _of(usage["memory"], limits.get("max_memory", -1), show_size)),
        ("Storage", _of(usage["storage"], limits.get("max_storage", -1), show_size)),
        ("API requests", f"{api['total']:,}, of which {api['errors']:,} refused"),
    ]


def _of(used: int, limit: int, show: Callable[[int], str]) -> str:
    return f"{show(used)} of {show(limit)}" if limit >= 0 else f"{show(used)}, no limit"


VERBS = {"info": Verb("show user, account, limits and usage", no_arguments, _info)}
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs.add_verbs(parser, VERBS)
