"""List, make, change, read from, pause and delete consumers."""

import argparse
import sys
import time
from collections.abc import Iterator
from typing import Any

from midge.client.commands import output, verbs
from midge.client.commands.consumer_settings import (
    CONSUMER_SETTINGS,
    describe,
    start_of,
)
from midge.client.commands.quantities import (
    count,
    duration_ns,
    name,
    show_duration,
    show_time,
)
from midge.client.commands.settings import add_settings, settings_of
from midge.client.commands.subscribe import add_raw, print_one
from midge.client.commands.verbs import Session, Verb, add_yes, confirm
from midge.client.errors import OptionError, ServerError
from midge.client.headers import parse_headers
from midge.jetstream.json.times import format_time
from midge.protocol.client_side import ReceivedMessage, publish_frame

_FOREVER_NS = 100 * 365 * 24 * 3600 * 10**9
_ACKS = {"ack": b"+ACK", "nak": b"-NAK", "term": b"+TERM"}
_GRACE_S = 1.0


def _list_consumers(session: Session) -> Iterator[dict[str, Any]]:
    return session.pages(f"CONSUMER.LIST.{session.args.stream}", "consumers", {})


def _add_stream(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name, help="its stream")


def _add_names(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    parser.add_argument("consumer", type=name, help="its name")


def _ls_arguments(parser: argparse.ArgumentParser) -> None:
    _add_stream(parser)
    parser.add_argument("--names", action="store_true", help="print names alone")


def _ls(session: Session) -> None:
    consumers = list(_list_consumers(session))
    if session.args.json:
        output.print_json(consumers)
    elif session.args.names:
        for info in consumers:
            output.write(info["name"])
    else:
        output.print_table(
            ("NAME", "KIND", "ACK", "LAG", "ACK PENDING", "REDELIVERED", "WAITING", "LAST"),
            [_row(info) for info in consumers],
        )


def _row(info: dict[str, Any]) -> tuple[object, ...]:
    config = info["config"]
    return (
        info["name"],
        "push" if config.get("deliver_subject") else "pull",
        config["ack_policy"],
        info.get("num_pending", 0),
        info.get("num_ack_pending", 0),
        info.get("num_redelivered", 0),
        info.get("num_waiting", 0),
        show_time(info["delivered"].get("last_active", "")),
    )


def _report(session: Session) -> None:
    """Compare a stream's consumers: how far each is, and its lag, the longest first."""
    consumers = list(_list_consumers(session))
    consumers.sort(key=lambda info: (-info.get("num_pending", 0), info["name"]))
    if session.args.json:
        output.print_json(consumers)
        return
    last = session.call(f"STREAM.INFO.{session.args.stream}")["state"]["last_seq"]
    output.write(f"{session.args.stream}: last sequence {last:,}")
    columns = ("NAME", "LAG", "ACK FLOOR", "ACK PENDING", "MAX", "ACK WAIT", "REDELIVERED")
    output.print_table((*columns, "PAUSED"), [_report_row(info) for info in consumers])


def _report_row(info: dict[str, Any]) -> tuple[object, ...]:
    config = info["config"]
    has_acks = config["ack_policy"] != "none"
    return (
        info["name"],
        info.get("num_pending", 0),
        info["ack_floor"]["stream_seq"],
        info.get("num_ack_pending", 0),
        config.get("max_ack_pending", "-") if has_acks else "-",
        show_duration(config["ack_wait"]) if has_acks and config.get("ack_wait") else "-",
        info.get("num_redelivered", 0),
        bool(info.get("paused")),
    )


def _info(session: Session) -> None:
    args = session.args
    _show(session, session.call(f"CONSUMER.INFO.{args.stream}.{args.consumer}"))


def _show(session: Session, info: dict[str, Any]) -> None:
    if session.args.json:
        output.print_json({key: value for key, value in info.items() if key != "type"})
    else:
        output.print_fields(describe(info))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_names(parser)
    parser.add_argument(
        "--ephemeral", action="store_true", help="goes by itself when nobody uses it"
    )
    _add_settings(parser)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    add_settings(parser, CONSUMER_SETTINGS)
    parser.add_argument(
        "--start",
        metavar="SEQ|TIME|POLICY",
        help="first message: a sequence, a time, or all, new, last, last_per_subject",
    )


def _edit_arguments(parser: argparse.ArgumentParser) -> None:
    _add_names(parser)
    _add_settings(parser)


def _add(session: Session) -> None:
    args = session.args
    config: dict[str, Any] = {
        "ack_policy": "explicit",
        "deliver_policy": "all",
        "replay_policy": "instant",
        "name": args.consumer,
        **({} if args.ephemeral else {"durable_name": args.consumer}),
        **settings_of(args, CONSUMER_SETTINGS),
        **start_of(args.start),
    }
    _save(session, config, "create")


def _edit(session: Session) -> None:
    """Change the given settings and keep the others."""
    args = session.args
    changes = settings_of(args, CONSUMER_SETTINGS) | start_of(args.start)
    if not changes:
        raise OptionError("expected a setting to change, such as --max-ack-pending 100")
    config = session.call(f"CONSUMER.INFO.{args.stream}.{args.consumer}")["config"]
    if "filter_subjects" in changes:
        config.pop("filter_subject", None)
    if "metadata" in changes:
        changes["metadata"] = {**config.get("metadata", {}), **changes["metadata"]}
    _save(session, {**config, **changes}, "update")


def _save(session: Session, config: dict[str, Any], action: str) -> None:
    args = session.args
    filters = config.get("filter_subjects")
    if filters is not None and len(filters) == 1:
        config["filter_subject"] = config.pop("filter_subjects")[0]
    body = {"stream_name": args.stream, "config": config, "action": action}
    _show(session, session.call(f"CONSUMER.CREATE.{args.stream}.{args.consumer}", body))


def _rm_arguments(parser: argparse.ArgumentParser) -> None:
    _add_names(parser)
    add_yes(parser)


def _rm(session: Session) -> None:
    args = session.args
    confirm(args, f"delete consumer {args.consumer} of stream {args.stream}")
    session.call(f"CONSUMER.DELETE.{args.stream}.{args.consumer}")
    session.show({"deleted": args.consumer}, "consumer {deleted} is deleted")


def _next_arguments(parser: argparse.ArgumentParser) -> None:
    _add_names(parser)
    parser.add_argument("--count", type=count, default=1, metavar="N", help="how many (default: 1)")
    parser.add_argument(
        "--wait",
        type=duration_ns,
        default=0,
        metavar="DURATION",
        help="wait for messages that are not there yet (default: do not)",
    )
    parser.add_argument(
        "--answer",
        choices=(*_ACKS, "none"),
        default="ack",
        help="what to say of each message (default: ack)",
    )
    add_raw(parser)


def _next(session: Session) -> int:
    """Take messages; the exit code is 1 if none came."""
    args = session.args
    seen = 0
    for message in _pulled(session):
        print_one(args, message)
        seen += 1
        if args.answer != "none":
            session.client.request(message.reply, _ACKS[args.answer])
    if not seen:
        sys.stderr.write(f"{args.program}: no message\n")
    return 0 if seen else 1


def _pulled(session: Session) -> Iterator[ReceivedMessage]:
    """Yield the messages of one pull request."""
    args, client = session.args, session.client
    inbox = client.new_inbox().replace(b"_INBOX.", b"_INBOX.next.")
    sid = client.subscribe(inbox)
    request: dict[str, Any] = {"batch": args.count, "no_wait": True}
    if args.wait:
        request = {"batch": args.count, "expires": args.wait}
    text = output.json_bytes(request)
    prefix = session.jetstream.prefix
    subject = f"{prefix}.CONSUMER.MSG.NEXT.{args.stream}.{args.consumer}".encode()
    client.send(publish_frame(subject, inbox, b"", text))
    deadline = time.monotonic() + (args.wait or args.timeout) / 1e9 + _GRACE_S
    seen = 0
    while seen < args.count:
        for message in client.receive(max(deadline - time.monotonic(), 0.001)):
            if message.sid != sid:
                continue
            if message.headers and not message.reply:
                if _is_end(message, args.consumer):
                    return
                continue
            seen += 1
            yield message
        if time.monotonic() > deadline:
            raise ServerError(f"no answer from consumer {args.consumer}")


def _is_end(message: ReceivedMessage, consumer: str) -> bool:
    """Return whether a status ends a pull request without an error."""
    status, description, _ = parse_headers(message.headers)
    if status == 503:
        raise ServerError(f"there is no pull consumer {consumer}")
    if status in (404, 408) or description == "Batch Completed":
        return True
    if status == 100:
        return False
    raise ServerError(f"consumer {consumer}: {status} {description}")


def _pause_arguments(parser: argparse.ArgumentParser) -> None:
    _add_names(parser)
    parser.add_argument(
        "for_ns",
        nargs="?",
        type=duration_ns,
        default=_FOREVER_NS,
        metavar="DURATION",
        help="for how long (default: until it is resumed)",
    )


def _pause(session: Session) -> None:
    until = format_time(time.time_ns() + session.args.for_ns)
    _show_pause(session, {"pause_until": until})


def _resume(session: Session) -> None:
    _show_pause(session, {"pause_until": "0001-01-01T00:00:00Z"})


def _show_pause(session: Session, body: dict[str, Any]) -> None:
    args = session.args
    answer = session.call(f"CONSUMER.PAUSE.{args.stream}.{args.consumer}", body)
    if args.json:
        output.print_json({key: value for key, value in answer.items() if key != "type"})
    elif answer.get("paused"):
        rest = show_duration(answer["pause_remaining"] // 10**9 * 10**9)
        output.write(f"{args.consumer} is paused until {show_time(answer['pause_until'])} ({rest})")
    else:
        output.write(f"{args.consumer} is not paused")


VERBS = {
    "ls": Verb("list a stream's consumers", _ls_arguments, _ls),
    "report": Verb("compare a stream's consumers", _add_stream, _report),
    "info": Verb("show configuration and state", _add_names, _info),
    "add": Verb("make a consumer: pull, or push with --deliver", _add_arguments, _add),
    "edit": Verb("change settings; the others stay", _edit_arguments, _edit),
    "rm": Verb("delete a consumer", _rm_arguments, _rm),
    "next": Verb("take messages from a pull consumer", _next_arguments, _next),
    "pause": Verb("deliver nothing for a while", _pause_arguments, _pause),
    "resume": Verb("deliver again", _add_names, _resume),
}
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs.add_verbs(parser, VERBS)
