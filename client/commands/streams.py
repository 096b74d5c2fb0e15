"""List, make, change, read, purge, delete, back up and restore streams."""

import argparse
import base64
from collections.abc import Iterator
from typing import Any

from midge.client.commands import backup, output, verbs
from midge.client.commands.quantities import (
    count,
    moment,
    name,
    sequence,
    show_messages,
    show_size,
    show_time,
    subject_filter,
)
from midge.client.commands.settings import add_settings, settings_of
from midge.client.commands.stream_settings import (
    STREAM_SETTINGS,
    add_origins,
    describe,
    origins_of,
)
from midge.client.commands.verbs import Session, Verb, add_yes, confirm
from midge.client.errors import OptionError


def list_streams(session: Session, filtered: str = "") -> Iterator[dict[str, Any]]:
    """Yield the infos of all streams, or of the streams that take `filtered` if it is not empty."""
    return session.pages("STREAM.LIST", "streams", {"subject": filtered} if filtered else {})


def list_buckets(session: Session, subjects: str, prefix: str) -> list[dict[str, Any]]:
    """Return the infos of the streams below `subjects` whose names begin with `prefix`."""
    found = list_streams(session, subjects)
    return [info for info in found if info["config"]["name"].startswith(prefix)]


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name, help="its name")


def _ls_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--subject", type=subject_filter, metavar="SUBJECT", help="those that take it"
    )
    parser.add_argument("--names", action="store_true", help="print names alone")


def _ls(session: Session) -> None:
    streams = list(list_streams(session, session.args.subject or ""))
    if session.args.json:
        output.print_json(streams)
    elif session.args.names:
        for info in streams:
            output.write(info["config"]["name"])
    else:
        output.print_table(
            ("NAME", "STORAGE", "MESSAGES", "SIZE", "CONSUMERS", "LAST MESSAGE", "SUBJECTS"),
            [_row(info) for info in streams],
        )


def _row(info: dict[str, Any]) -> tuple[object, ...]:
    config, state = info["config"], info["state"]
    return (
        config["name"],
        config["storage"],
        state["messages"],
        show_size(state["bytes"]),
        state["consumer_count"],
        show_time(state.get("last_ts", "")),
        ", ".join(config.get("subjects") or []),
    )


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sort",
        choices=("name", "size", "messages", "consumers"),
        default="size",
        help="what comes first: the largest, or the first name (default: size)",
    )


def _report(session: Session) -> None:
    """Compare the streams: what they hold and have lost, and how far they are behind origins."""
    streams = list(list_streams(session))
    by = {"size": "bytes", "messages": "messages", "consumers": "consumer_count"}
    streams.sort(key=lambda info: info["config"]["name"])
    if session.args.sort != "name":
        streams.sort(key=lambda info: -info["state"][by[session.args.sort]])
    if session.args.json:
        output.print_json(streams)
        return
    columns = ("NAME", "STORAGE", "CONSUMERS", "MESSAGES", "SIZE", "LOST", "DELETED", "LAG")
    rows = [_report_row(info) for info in streams]
    output.print_table(columns, rows)
    if streams:
        held = sum(info["state"]["messages"] for info in streams)
        size = show_size(sum(info["state"]["bytes"] for info in streams))
        output.write(f"{len(streams):,} in all, with {show_messages(held)}, {size}")


def _report_row(info: dict[str, Any]) -> tuple[object, ...]:
    config, state = info["config"], info["state"]
    origins = [info["mirror"]] if info.get("mirror") else info.get("sources") or []
    return (
        config["name"],
        config["storage"],
        state["consumer_count"],
        state["messages"],
        show_size(state["bytes"]),
        len((state.get("lost") or {}).get("msgs") or []),
        state.get("num_deleted", 0),
        max(one.get("lag", 0) for one in origins) if origins else "-",
    )


def _info(session: Session) -> None:
    _show(session, session.call(f"STREAM.INFO.{session.args.stream}"))


def _show(session: Session, info: dict[str, Any]) -> None:
    if session.args.json:
        output.print_json({key: value for key, value in info.items() if key != "type"})
    else:
        output.print_fields(describe(info))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    add_settings(parser, STREAM_SETTINGS)
    add_origins(parser)


def _add(session: Session) -> None:
    args = session.args
    config = {
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "num_replicas": 1,
        **settings_of(args, STREAM_SETTINGS),
        **origins_of(args),
        "name": args.stream,
    }
    _show(session, session.call(f"STREAM.CREATE.{args.stream}", config))


def _edit(session: Session) -> None:
    """Change the given settings and keep the others."""
    args = session.args
    changes = settings_of(args, STREAM_SETTINGS) | origins_of(args)
    if not changes:
        raise OptionError("expected a setting to change, such as --max-age 7d")
    config = session.call(f"STREAM.INFO.{args.stream}")["config"]
    if "metadata" in changes:
        changes["metadata"] = {**config.get("metadata", {}), **changes["metadata"]}
    changed = {**config, **changes, "name": args.stream}
    _show(session, session.call(f"STREAM.UPDATE.{args.stream}", changed))


def _purge_arguments(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument("--subject", type=subject_filter, metavar="SUBJECT", help="only these")
    parser.add_argument("--seq", type=sequence, default=0, metavar="N", help="only those before it")
    parser.add_argument("--keep", type=count, default=0, metavar="N", help="keep the last N")
    add_yes(parser)


def _purge(session: Session) -> None:
    args = session.args
    confirm(args, f"remove messages from stream {args.stream}")
    body = {"filter": args.subject, "seq": args.seq, "keep": args.keep}
    given = {key: value for key, value in body.items() if value}
    answer = session.call(f"STREAM.PURGE.{args.stream}", given)
    purged = int(answer.get("purged", 0))
    session.show({"purged": purged}, f"{show_messages(purged)} removed")


def _rm_arguments(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    parser.add_argument("seq", nargs="?", type=sequence, help="delete this message alone")
    parser.add_argument("--no-erase", action="store_true", help="leave its bytes on the disk")
    add_yes(parser)


def _rm(session: Session) -> None:
    args = session.args
    if args.seq is None and args.no_erase:
        raise OptionError("--no-erase is about one message; expected its sequence, too")
    if args.seq is None:
        confirm(args, f"delete stream {args.stream} with all it holds")
        session.call(f"STREAM.DELETE.{args.stream}")
        session.show({"deleted": args.stream}, "stream {deleted} is deleted")
        return
    confirm(args, f"delete message {args.seq} of stream {args.stream}")
    body = {"seq": args.seq, "no_erase": args.no_erase}
    session.call(f"STREAM.MSG.DELETE.{args.stream}", body)
    session.show({"deleted": args.seq}, "message {deleted} is deleted")


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _add_name(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("seq", nargs="?", type=sequence, help="its sequence")
    which.add_argument(
        "--last", type=subject_filter, metavar="SUBJECT", help="the last one of a subject"
    )
    which.add_argument(
        "--next", type=subject_filter, metavar="SUBJECT", help="the first one of a subject"
    )
    parser.add_argument(
        "--from", dest="begin", type=count, default=0, metavar="SEQ", help="with --next: from here"
    )
    parser.add_argument(
        "--since", type=moment, metavar="TIME", help="with --next: from this time on"
    )
    parser.add_argument("--raw", action="store_true", help="print the payload alone, as it is")


def _get(session: Session) -> None:
    args = session.args
    if (args.begin or args.since) and not args.next:
        raise OptionError("--from and --since say where --next begins; expected it, too")
    if args.last:
        body: dict[str, Any] = {"last_by_subj": args.last}
    elif args.next and args.since:
        body = {"next_by_subj": args.next, "start_time": args.since}
    elif args.next:
        body = {"next_by_subj": args.next, "seq": max(args.begin, 1)}
    else:
        body = {"seq": args.seq}
    message = session.call(f"STREAM.MSG.GET.{args.stream}", body)["message"]
    headers = base64.b64decode(message.get("hdrs") or "")
    payload = base64.b64decode(message.get("data") or "")
    if args.raw:
        output.write_bytes(payload)
    elif args.json:
        shown = {key: message[key] for key in ("subject", "seq", "time")}
        fields = output.header_fields(headers)
        output.print_json(shown | fields | output.payload_fields(payload))
    else:
        output.write(f"[{message['subject']}] seq {message['seq']} {show_time(message['time'])}")
        output.print_body(headers, payload)


VERBS = {
    "ls": Verb("list streams", _ls_arguments, _ls),
    "report": Verb("compare all streams", _report_arguments, _report),
    "info": Verb("show configuration and state", _add_name, _info),
    "add": Verb("make a stream", _add_arguments, _add),
    "edit": Verb("change settings; the others stay", _add_arguments, _edit),
    "purge": Verb("remove messages", _purge_arguments, _purge),
    "rm": Verb("delete a stream, or one message of it", _rm_arguments, _rm),
    "get": Verb("print one message", _get_arguments, _get),
    "backup": Verb("write a stream into a directory", backup.backup_arguments, backup.backup),
    "restore": Verb("make a stream from a backup", backup.restore_arguments, backup.restore),
}
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs.add_verbs(parser, VERBS)
