"""Print the messages of a subject as they come."""

import argparse
import math
import sys
import time

from midge.client.commands import output, verbs
from midge.client.commands.quantities import count, name, subject_filter
from midge.client.commands.verbs import Session, Verb
from midge.client.errors import AuthorizationError
from midge.protocol.client_side import ReceivedMessage

_POLL_S = 60.0


def print_one(args: argparse.Namespace, message: ReceivedMessage) -> None:
    """Print a message in the requested form, and flush."""
    if args.json:
        output.print_json_line(output.as_document(message))
    elif args.raw:
        output.write_bytes(message.payload + b"\n")
        sys.stdout.buffer.flush()
    else:
        output.print_message(message)


def add_raw(parser: argparse.ArgumentParser) -> None:
    """Declare `--raw`."""
    parser.add_argument(
        "--raw", action="store_true", help="print payloads alone, each with a line end"
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", nargs="+", type=subject_filter, help="such as orders.>")
    parser.add_argument("--queue", type=name, metavar="NAME", help="queue group")
    parser.add_argument(
        "--count", type=count, default=0, metavar="N", help="end after so many (default: never)"
    )
    add_raw(parser)


def _subscribe(session: Session) -> int:
    client, args = session.client, session.args
    sids = {client.subscribe(one.encode(), (args.queue or "").encode()) for one in args.subject}
    client.ping()
    if client.errors:
        raise AuthorizationError(f"the server answers: {client.errors[-1]}")
    seen, last, patience_s = 0, time.monotonic(), session.patience_s(math.inf)
    try:
        while (left_s := last + patience_s - time.monotonic()) > 0:
            for message in client.receive(min(left_s, _POLL_S)):
                if message.sid in sids:
                    print_one(args, message)
                    seen += 1
                    if seen == args.count:
                        return 0
                    last = time.monotonic()
    except KeyboardInterrupt:
        return 0
    session.require_count(seen, patience_s)
    return 0


_VERB = Verb("print messages", _arguments, _subscribe, "a message")
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs.add_verb(parser, _VERB)
