"""Explain why a message on a subject reaches a client of a running server, or does not.

The server needs a monitoring port. The exit code is 0 if nothing stops the message, 1 if something
does, 2 for a wrong argument.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    import argparse

_TIMEOUT_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `midge why`."""
    parser.add_argument("subject", help="subject of the message, without wildcards")
    parser.add_argument("--from", dest="publisher", metavar="CLIENT", help="name or cid")
    parser.add_argument("--to", metavar="CLIENT", help="name or cid of the client to reach")
    parser.add_argument("--account", default="", help="the publisher's account")
    parser.add_argument("--stream", default="", help="the stream to look at")
    parser.add_argument("--seq", type=int, default=0, help="sequence of a stored message")
    parser.add_argument("--id", default="", help="Nats-Msg-Id that the message would have")
    url = "http://127.0.0.1:8222"
    parser.add_argument("--monitor", metavar="URL", default=url, help=f"default: {url}")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(args: argparse.Namespace) -> int:
    """Ask the server, and print its findings."""
    asked = {
        "subject": args.subject,
        "from": args.publisher or "",
        "to": args.to or "",
        "account": args.account,
        "stream": args.stream,
        "seq": str(args.seq) if args.seq else "",
        "id": args.id,
    }
    query = urlencode({name: value for name, value in asked.items() if value})
    url = f"{args.monitor.rstrip('/')}/why?{query}"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as page:  # noqa: S310 - the user's URL  # nosec B310
            answer: dict[str, Any] = json.load(page)
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"midge why: {error.read().decode(errors='replace').strip()}\n")
        return 2
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        sys.stderr.write(f"midge why: {args.monitor}: {reason}\n")
        return 2
    sys.stdout.write(json.dumps(answer, indent=2) + "\n" if args.json else _shown(answer))
    return 0 if answer["arrives"] else 1


def _shown(answer: dict[str, Any]) -> str:
    lines = [f"{answer['subject']} in account {answer['account']}"]
    for finding in answer["findings"]:
        mark = "x" if finding["stops"] else "-"
        setting = f"  [{finding['setting']}]" if finding["setting"] else ""
        lines.append(f"  {mark} {finding['rule']}: {finding['text']}{setting}")
    return "\n".join(lines) + "\n"
