"""Send a request and print the answer, or the first few."""

import argparse
import time

from midge.client.commands import verbs
from midge.client.commands.publish import add_payload, payload_of
from midge.client.commands.quantities import count, header_block, subject
from midge.client.commands.subscribe import add_raw, print_one
from midge.client.commands.verbs import Session, Verb
from midge.client.errors import ServerError
from midge.client.jetstream import is_no_responders
from midge.protocol.client_side import publish_frame


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", type=subject, help="such as help.please")
    add_payload(parser)
    parser.add_argument(
        "--replies",
        type=count,
        default=1,
        metavar="N",
        help="how many answers to wait for; 0 takes all until the time-out (default: 1)",
    )
    add_raw(parser)


def _request(session: Session) -> int:
    client, args = session.client, session.args
    reply = client.new_inbox()
    to = args.subject.encode()
    client.send(publish_frame(to, reply, header_block(args.header), payload_of(args)))
    deadline = time.monotonic() + args.timeout / 1e9
    seen = 0
    while (left_s := deadline - time.monotonic()) > 0:
        for message in client.receive(left_s):
            if message.subject != reply:
                continue
            if is_no_responders(message):
                raise ServerError(f"nobody answers requests to {args.subject}")
            print_one(args, message)
            seen += 1
            if seen == args.replies:
                return 0
        if client.errors:
            raise ServerError(f"the server answers: {client.errors[-1]}")
    if seen and not args.replies:
        return 0
    raise ServerError(f"{seen} answers from {args.subject} within {args.timeout / 1e9:g} s")


_VERB = Verb("send a request", _arguments, _request)
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs.add_verb(parser, _VERB)
