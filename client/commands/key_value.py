"""Make buckets and read, write, watch and delete their keys."""

import argparse
import math
import sys
from typing import Any

from midge.client.commands import output, verbs
from midge.client.commands.bucket import (
    Bucket,
    BucketEntry,
    config_of,
)
from midge.client.commands.publish import payload_of
from midge.client.commands.quantities import (
    count,
    duration_ns,
    name,
    show_duration,
    show_size,
    show_time,
    size_bytes,
)
from midge.client.commands.settings import (
    CommandChoice,
    CommandSetting,
    add_settings,
    settings_of,
)
from midge.client.commands.streams import list_buckets
from midge.client.commands.verbs import Session, Verb, add_yes, confirm
from midge.client.errors import StreamError
from midge.jetstream.json.times import format_duration
from midge.protocol.key_value import PUT, STREAM_PREFIX, stream_of

_SETTINGS = (
    CommandSetting("--history", "max_msgs_per_subject", count, "N", "values kept of a key (1)"),
    CommandSetting("--ttl", "max_age", duration_ns, "DURATION", "how long values live"),
    CommandSetting("--max-bytes", "max_bytes", size_bytes, "SIZE", "limit of the bucket"),
    CommandSetting("--max-value-size", "max_msg_size", size_bytes, "SIZE", "limit of a value"),
    CommandSetting("--description", "description", str, "TEXT", "what it is for"),
    CommandSetting("--replicas", "num_replicas", count, "N", "copies in a cluster"),
    CommandSetting(
        "--marker-ttl",
        "subject_delete_marker_ttl",
        duration_ns,
        "DURATION",
        "tell watchers of keys that age, by markers that live so long",
    ),
    CommandChoice("--storage", "storage", ("file", "memory"), "where values are kept"),
    CommandChoice("--compression", "compression", ("none", "s2"), "how files are compressed"),
)


def _add_bucket(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bucket", type=name, help="its name")


def _add_key(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    parser.add_argument("key", help="such as users.42")


def _bucket(session: Session) -> Bucket:
    return Bucket(session.jetstream, session.args.bucket)


def _ls_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bucket", nargs="?", type=name, help="list its keys (default: buckets)")
    parser.add_argument("pattern", nargs="?", default=">", help="only keys such as users.*")
    parser.add_argument("--values", action="store_true", help="print the values, too")


def _ls(session: Session) -> None:
    if session.args.bucket is None:
        _list_buckets(session)
    else:
        _list_keys(session)


def _list_buckets(session: Session) -> None:
    streams = list_buckets(session, "$KV.>", STREAM_PREFIX)
    if session.args.json:
        output.print_json(streams)
        return
    columns = ("BUCKET", "VALUES", "SIZE", "HISTORY", "TTL", "STORAGE", "LAST CHANGE")
    output.print_table(columns, [_bucket_row(info) for info in streams])


def _bucket_row(info: dict[str, Any]) -> tuple[object, ...]:
    config, state = info["config"], info["state"]
    return (
        config["name"].removeprefix(STREAM_PREFIX),
        state["messages"],
        show_size(state["bytes"]),
        config["max_msgs_per_subject"],
        show_duration(config["max_age"]) if config["max_age"] else "none",
        config["storage"],
        show_time(state.get("last_ts", "")),
    )


def _list_keys(session: Session) -> None:
    """Print the keys that have a value, in the order of their names."""
    args = session.args
    found = _bucket(session).entries(args.pattern, with_values=args.values)
    entries = sorted((entry for entry in found if entry.operation == PUT), key=lambda one: one.key)
    if args.json:
        output.print_json([_document(one) if args.values else one.key for one in entries])
        return
    for entry in entries:
        output.write(f"{entry.key}: {output.decoded(entry.value)}" if args.values else entry.key)


def _document(entry: BucketEntry) -> dict[str, Any]:
    fields = entry._asdict()
    payload = output.payload_fields(fields.pop("value"))
    return fields | {name.replace("payload", "value"): value for name, value in payload.items()}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    add_settings(parser, _SETTINGS)


def _add(session: Session) -> None:
    config = config_of(session.args.bucket, settings_of(session.args, _SETTINGS))
    session.make_bucket(f"bucket {session.args.bucket}", config)


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _add_key(parser)
    parser.add_argument("--revision", type=count, default=0, metavar="N", help="this one")
    parser.add_argument("--raw", action="store_true", help="print the value alone, as it is")


def _get(session: Session) -> None:
    args = session.args
    entry = _bucket(session).get(args.key, args.revision)
    if entry is None or entry.operation != PUT:
        why = "" if entry is None else ", it was deleted"
        raise StreamError(f"key {args.key}: not found in bucket {args.bucket}{why}")
    if args.raw:
        output.write_bytes(entry.value)
    elif args.json:
        output.print_json(_document(entry))
    else:
        output.write(output.decoded(entry.value))


def _write_arguments(parser: argparse.ArgumentParser) -> None:
    _add_key(parser)
    parser.add_argument(
        "payload", nargs="?", metavar="value", help="the value; - or none reads standard input"
    )
    parser.add_argument(
        "--ttl", type=duration_ns, default=0, metavar="DURATION", help="how long it lives"
    )


def _put_arguments(parser: argparse.ArgumentParser) -> None:
    _write_arguments(parser)
    _add_revision(parser)


def _add_revision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--revision", type=count, metavar="N", help="only if the key is at this revision"
    )


def _put(session: Session) -> None:
    args = session.args
    ttl = format_duration(args.ttl) if args.ttl else ""
    value = payload_of(args)
    _show_revision(session, _bucket(session).put(args.key, value, revision=args.revision, ttl=ttl))


def _create(session: Session) -> None:
    args = session.args
    ttl = format_duration(args.ttl) if args.ttl else ""
    try:
        revision = _bucket(session).create(args.key, payload_of(args), ttl)
    except StreamError as error:
        if "wrong last sequence" not in str(error):
            raise
        raise StreamError(f"key {args.key}: exists already", error.code) from error
    _show_revision(session, revision)


def _show_revision(session: Session, revision: int) -> None:
    if session.args.json:
        output.print_json({"revision": revision})
    else:
        output.write(str(revision))


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    _add_key(parser)
    _add_revision(parser)


def _delete(session: Session) -> None:
    args = session.args
    _show_revision(session, _bucket(session).delete(args.key, revision=args.revision))


def _purge(session: Session) -> None:
    args = session.args
    _show_revision(session, _bucket(session).delete(args.key, purges=True, revision=args.revision))


def _watch_arguments(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    parser.add_argument("pattern", nargs="?", default=">", help="keys such as users.* (default: >)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--new", action="store_true", help="changes from now on only")
    which.add_argument("--history", action="store_true", help="begin with all that is kept")
    parser.add_argument(
        "--count", type=count, default=0, metavar="N", help="end after so many (default: never)"
    )


def _watch(session: Session) -> None:
    args = session.args
    policy = "new" if args.new else "all" if args.history else "last_per_subject"
    patience_s = session.patience_s(math.inf)
    entries = _bucket(session).entries(args.pattern, policy=policy, follow_s=patience_s)
    seen = 0
    try:
        for seen, entry in enumerate(entries, 1):
            _print_entry(args, entry)
            if seen == args.count:
                return
    except KeyboardInterrupt:
        return
    session.require_count(seen, patience_s)


def _print_entry(args: argparse.Namespace, entry: BucketEntry) -> None:
    if args.json:
        output.print_json_line(_document(entry))
        return
    value = f": {output.decoded(entry.value)}" if entry.operation == PUT else ""
    output.write(f"[{show_time(entry.time)}] {entry.revision} {entry.operation} {entry.key}{value}")
    sys.stdout.flush()


def _history(session: Session) -> None:
    args = session.args
    entries = list(_bucket(session).entries(args.key, policy="all"))
    if not entries:
        raise StreamError(f"key {args.key}: not found in bucket {args.bucket}")
    if args.json:
        output.print_json([_document(one) for one in entries])
        return
    rows = [(e.revision, e.operation, show_time(e.time), output.decoded(e.value)) for e in entries]
    output.print_table(("REVISION", "OPERATION", "TIME", "VALUE"), rows)


def _rm_arguments(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    add_yes(parser)


def _rm(session: Session) -> None:
    args = session.args
    confirm(args, f"delete bucket {args.bucket} with all its keys")
    session.call(f"STREAM.DELETE.{stream_of(args.bucket)}")
    session.show({"deleted": args.bucket}, "bucket {deleted} is deleted")


VERBS = {
    "add": Verb("make a bucket", _add_arguments, _add),
    "ls": Verb("list buckets, or the keys of one", _ls_arguments, _ls),
    "get": Verb("print a value", _get_arguments, _get),
    "put": Verb("write a value and print its revision", _put_arguments, _put),
    "create": Verb("write a value of a key that has none", _write_arguments, _create),
    "del": Verb("delete a key and keep its history", _delete_arguments, _delete),
    "purge": Verb("delete a key with its history", _delete_arguments, _purge),
    "watch": Verb("print values, and changes as they come", _watch_arguments, _watch, "a change"),
    "history": Verb("print all that is kept of a key", _add_key, _history),
    "rm": Verb("delete a bucket", _rm_arguments, _rm),
}
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs.add_verbs(parser, VERBS)
