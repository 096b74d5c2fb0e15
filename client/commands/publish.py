"""Publish a message, or every line of standard input as one."""

import argparse
import sys
from collections.abc import Iterator

from midge.client.commands import output, verbs
from midge.client.commands.quantities import count, header, header_block, subject
from midge.client.commands.verbs import Session, Verb
from midge.client.commands.window import SILENCE_S, AckWindow
from midge.client.errors import ClientError, OptionError, ServerError
from midge.protocol.client_side import publish_frame

_FLUSH_BYTES = 1 << 16


def payload_of(args: argparse.Namespace) -> bytes:
    """Return the payload from the arguments, or else from standard input.

    Raises:
        OptionError: the payload is missing, and standard input is a terminal.
    """
    if args.payload is not None and args.payload != "-":
        return bytes(args.payload.encode("utf-8", "surrogateescape"))
    if args.payload is None and sys.stdin.isatty():
        raise OptionError("expected a payload, as an argument or on standard input")
    return sys.stdin.buffer.read()


def add_payload(parser: argparse.ArgumentParser, *, lines: bool = False) -> None:
    """Declare payload and headers."""
    more = "; with --lines each line is one" if lines else ""
    parser.add_argument(
        "payload", nargs="?", help=f"what to send; - or none reads standard input{more}"
    )
    parser.add_argument(
        "--header",
        "-H",
        action="append",
        default=[],
        type=header,
        metavar="NAME:VALUE",
        help="a header; may be repeated",
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", type=subject, help="such as orders.new")
    add_payload(parser, lines=True)
    parser.add_argument("--reply", type=subject, help="reply subject")
    parser.add_argument(
        "--count", type=count, default=1, metavar="N", help="how many times (default: 1)"
    )
    parser.add_argument(
        "--lines", action="store_true", help="publish each line of standard input as a message"
    )
    parser.add_argument(
        "--ack", action="store_true", help="wait until a stream has stored each message"
    )


def _publish(session: Session) -> int:
    args = session.args
    headers = header_block(args.header)
    to = args.subject.encode()
    with output.progress("published") as shown:
        if args.ack:
            acks = _with_acks(session, to, headers, shown)
        else:
            acks = None
            published = _without_acks(session, to, headers, shown)
    if acks is not None:
        _show_acks(session, acks)
    elif args.json:
        output.print_json({"published": published})
    return 0


def _with_acks(session: Session, to: bytes, headers: bytes, shown: output.Progress) -> AckWindow:
    acks = AckWindow(session.client, session.patience_s(SILENCE_S))
    for payload in _payloads(session.args):
        _check_size(session, headers, payload)
        acks.publish(to, payload, headers)
        shown.add(len(payload))
    acks.finish()
    return acks


def _show_acks(session: Session, acks: AckWindow) -> None:
    fields = {
        "published": acks.stored,
        "duplicates": acks.duplicates,
        "stream": acks.stream,
        "seq": acks.last_seq,
    }
    if session.args.json:
        output.print_json(fields)
    else:
        duplicate = " (duplicate)" if acks.duplicates else ""
        output.write(f"stored in {acks.stream} as {acks.last_seq}{duplicate}")


def _without_acks(session: Session, to: bytes, headers: bytes, shown: output.Progress) -> int:
    """Publish; return the number of messages that the server has processed."""
    client, reply = session.client, (session.args.reply or "").encode()
    pending: list[bytes] = []
    size = published = 0
    for payload in _payloads(session.args):
        _check_size(session, headers, payload)
        pending.append(publish_frame(to, reply, headers, payload))
        size += len(pending[-1])
        published += 1
        if size >= _FLUSH_BYTES:
            client.send(b"".join(pending))
            shown.add(size)
            pending, size = [], 0
    client.send(b"".join(pending))
    client.ping()
    if client.errors:
        raise ServerError(f"the server answers: {client.errors[-1]}")
    return published


def _payloads(args: argparse.Namespace) -> Iterator[bytes]:
    if args.lines:
        for line in sys.stdin.buffer:
            yield line.rstrip(b"\r\n")
        return
    payload = payload_of(args)
    for _ in range(args.count):
        yield payload


def _check_size(session: Session, headers: bytes, payload: bytes) -> None:
    """Refuse a message for which the server would close the connection."""
    limit = session.client.max_payload_bytes
    if len(headers) + len(payload) > limit:
        raise ClientError(
            f"the message has {len(headers) + len(payload):,} bytes, the server takes {limit:,}"
        )


_VERB = Verb("publish a message", _arguments, _publish)
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs.add_verb(parser, _VERB)
