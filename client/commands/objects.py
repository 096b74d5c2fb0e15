"""Keep files in object stores: streams `OBJ_<bucket>`, by the conventions of NATS clients."""

import argparse
import base64
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from midge.client.commands import output, verbs
from midge.client.commands.quantities import (
    count,
    duration_ns,
    name,
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
from midge.client.commands.window import SILENCE_S, AckWindow
from midge.client.errors import DataLossError, OptionError, StreamError, reason_of
from midge.client.jetstream import PullConsumer
from midge.jetstream.json.times import format_time
from midge.protocol.headers import format_headers

_PREFIX = "OBJ_"
_CHUNK_BYTES = 128 << 10
_NOT_FOUND = 10037
_EVERYTHING = 1 << 62
_DIGEST = "SHA-256="
_ROLLUP = format_headers({"Nats-Rollup": "sub"})
_SETTINGS = (
    CommandSetting("--ttl", "max_age", duration_ns, "DURATION", "how long objects live"),
    CommandSetting("--max-bytes", "max_bytes", size_bytes, "SIZE", "limit of the store"),
    CommandSetting("--description", "description", str, "TEXT", "what it is for"),
    CommandSetting("--replicas", "num_replicas", count, "N", "copies in a cluster"),
    CommandChoice("--storage", "storage", ("file", "memory"), "where objects are kept"),
    CommandChoice("--compression", "compression", ("none", "s2"), "how files are compressed"),
)


def _add_bucket(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bucket", type=name, help="the object store")


def _add_object(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    parser.add_argument("object", help="its name")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    add_settings(parser, _SETTINGS)


def _add(session: Session) -> None:
    bucket = session.args.bucket
    config = {
        "name": _PREFIX + bucket,
        "subjects": [f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": 1,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        **settings_of(session.args, _SETTINGS),
    }
    session.make_bucket(f"object store {bucket}", config)


def _ls_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bucket", nargs="?", type=name, help="list its objects (default: stores)")


def _ls(session: Session) -> None:
    if session.args.bucket is None:
        _list_stores(session)
    else:
        _list_objects(session)


def _list_stores(session: Session) -> None:
    streams = list_buckets(session, "$O.>", _PREFIX)
    if session.args.json:
        output.print_json(streams)
        return
    rows = [
        (
            info["config"]["name"].removeprefix(_PREFIX),
            show_size(info["state"]["bytes"]),
            info["config"]["storage"],
            bool(info["config"].get("sealed")),
            show_time(info["state"].get("last_ts", "")),
        )
        for info in streams
    ]
    output.print_table(("STORE", "SIZE", "STORAGE", "SEALED", "LAST CHANGE"), rows)


def _list_objects(session: Session) -> None:
    bucket = session.args.bucket
    start = {"deliver_policy": "last_per_subject"}
    filters = (f"$O.{bucket}.M.>",)
    found: list[dict[str, Any]] = []
    with PullConsumer(session.jetstream, _PREFIX + bucket, start, filters) as consumer:
        for messages, deliveries in consumer.chunks(_EVERYTHING):
            for message, time_ns in zip(messages, deliveries.times_ns, strict=True):
                found.append(_metadata(message.payload, format_time(time_ns)))
    objects = [one for one in found if not one.get("deleted")]
    if session.args.json:
        output.print_json(objects)
        return
    rows = [
        (one["name"], show_size(one["size"]), one["chunks"], show_time(one["mtime"]))
        for one in objects
    ]
    output.print_table(("OBJECT", "SIZE", "CHUNKS", "TIME"), rows)


def _metadata(payload: bytes, time_text: str) -> dict[str, Any]:
    try:
        found = {"size": 0, "chunks": 0, "digest": "", **json.loads(payload)}
    except (TypeError, ValueError) as error:
        raise DataLossError(f"an object's metadata is no JSON object: {payload[:80]!r}") from error
    return {**found, "mtime": time_text}


def _subject_of(bucket: str, key: str) -> str:
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(key.encode()).decode()}"


def _find(session: Session, key: str) -> dict[str, Any] | None:
    """Return the metadata of an object, or None if it does not exist."""
    bucket = session.args.bucket
    body = {"last_by_subj": _subject_of(bucket, key)}
    try:
        message = session.call(f"STREAM.MSG.GET.{_PREFIX}{bucket}", body)["message"]
    except StreamError as error:
        if error.code == _NOT_FOUND:
            return None
        raise
    found = _metadata(base64.b64decode(message.get("data") or ""), message["time"])
    return None if found.get("deleted") else found


def _require(session: Session) -> dict[str, Any]:
    args = session.args
    found = _find(session, args.object)
    if found is None:
        raise StreamError(f"object {args.object}: not found in {args.bucket}")
    return found


def _info(session: Session) -> None:
    found = _require(session)
    if session.args.json:
        output.print_json(found)
        return
    output.print_fields(
        [
            ("Name", found["name"]),
            ("Description", found.get("description") or None),
            ("Size", f"{show_size(found['size'])} ({found['size']:,} bytes)"),
            ("Chunks", found["chunks"]),
            ("Digest", found["digest"]),
            ("Changed", show_time(found["mtime"])),
        ]
    )


def _put_arguments(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    parser.add_argument("file", help="what to store; - is standard input")
    parser.add_argument("--name", metavar="NAME", help="its name (default: the file's)")
    parser.add_argument("--description", default="", metavar="TEXT", help="what it is")


def _put(session: Session) -> None:
    args = session.args
    if args.file == "-" and not args.name:
        raise OptionError("expected --name for what comes from standard input")
    key = args.name or Path(args.file).name
    before = _find(session, key)
    try:
        if args.file == "-":
            stored = _store(session, key, sys.stdin.buffer, 0)
        else:
            with Path(args.file).open("rb") as file:
                stored = _store(session, key, file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise OptionError(f"{args.file}: {reason_of(error)}") from error
    if before is not None:
        _purge_chunks(session, before["nuid"])
    if args.json:
        output.print_json(stored)
    else:
        output.write(f"{key}: {show_size(stored['size'])} in {stored['chunks']:,} chunks")


def _store(session: Session, key: str, file: IO[bytes], total: int) -> dict[str, Any]:
    """Publish chunks and then the metadata, which makes them an object; return the metadata."""
    bucket = session.args.bucket
    nuid = secrets.token_hex(11).upper()
    chunk_subject = f"$O.{bucket}.C.{nuid}".encode()
    digest, size, chunks = hashlib.sha256(), 0, 0
    acks = AckWindow(session.client, session.patience_s(SILENCE_S))
    with output.progress(key, total) as shown:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            chunks += 1
            acks.publish(chunk_subject, chunk)
            shown.add(len(chunk))
        acks.finish()
    metadata = {
        "name": key,
        "description": session.args.description,
        "options": {"max_chunk_size": _CHUNK_BYTES},
        "bucket": bucket,
        "nuid": nuid,
        "size": size,
        "mtime": format_time(time.time_ns()),
        "chunks": chunks,
        "digest": _DIGEST + base64.urlsafe_b64encode(digest.digest()).decode(),
    }
    _publish_metadata(session, key, metadata)
    return metadata


def _publish_metadata(session: Session, key: str, metadata: dict[str, Any]) -> None:
    bucket = session.args.bucket
    session.jetstream.publish(
        _subject_of(bucket, key).encode(),
        output.json_bytes(metadata),
        _ROLLUP,
        f"object {key} of object store {bucket}",
    )


def _purge_chunks(session: Session, nuid: str) -> None:
    bucket = session.args.bucket
    session.call(f"STREAM.PURGE.{_PREFIX}{bucket}", {"filter": f"$O.{bucket}.C.{nuid}"})


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    _add_object(parser)
    parser.add_argument(
        "--output",
        "-o",
        metavar="FILE",
        help="where to write it; - is standard output (default: "
        "a file of the object's name, in this directory)",
    )


def _get(session: Session) -> None:
    args = session.args
    found = _require(session)
    where = args.output or Path(args.object).name
    if where == "-":
        for chunk in _chunks(session, found):
            output.write_bytes(chunk)
        return
    _get_into(session, found, Path(where))
    if args.json:
        output.print_json({**found, "file": where})
    else:
        output.write(f"{args.object}: {show_size(found['size'])}: {where}")


def _get_into(session: Session, found: dict[str, Any], path: Path) -> None:
    """Write an object into a file, which appears whole or not at all."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with (
            partial.open("wb") as file,
            output.progress(session.args.object, found["size"]) as shown,
        ):
            for chunk in _chunks(session, found):
                file.write(chunk)
                shown.add(len(chunk))
        partial.replace(path)
    except OSError as error:
        raise OptionError(f"{path}: {reason_of(error)}") from error
    finally:
        partial.unlink(missing_ok=True)


def _chunks(session: Session, found: dict[str, Any]) -> Iterator[bytes]:
    """Yield an object's chunks; check size and digest at the end.

    Raises:
        DataLossError: the chunks differ from the stored object.

    """
    bucket = session.args.bucket
    digest, size = hashlib.sha256(), 0
    if found["chunks"]:
        start = {"deliver_policy": "all"}
        filters = (f"$O.{bucket}.C.{found['nuid']}",)
        with PullConsumer(session.jetstream, _PREFIX + bucket, start, filters) as consumer:
            for messages, _ in consumer.chunks(found["chunks"]):
                for message in messages:
                    digest.update(message.payload)
                    size += len(message.payload)
                    yield message.payload
    computed = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    expected = found["digest"].removeprefix(_DIGEST).rstrip("=")
    if size != found["size"] or (expected and computed != expected):
        raise DataLossError(f"object {found['name']}: its bytes are not what was stored")


def _rm_arguments(parser: argparse.ArgumentParser) -> None:
    _add_bucket(parser)
    parser.add_argument("object", nargs="?", help="this object (default: the whole store)")
    add_yes(parser)


def _rm(session: Session) -> None:
    args = session.args
    if args.object is None:
        confirm(args, f"delete object store {args.bucket} with all it holds")
        session.call(f"STREAM.DELETE.{_PREFIX}{args.bucket}")
    else:
        confirm(args, f"delete object {args.object} of {args.bucket}")
        found = _require(session)
        marker = {**found, "deleted": True, "size": 0, "chunks": 0, "digest": ""}
        _publish_metadata(session, args.object, marker)
        _purge_chunks(session, found["nuid"])
    session.show({"deleted": args.object or args.bucket}, "{deleted} is deleted")


VERBS = {
    "add": Verb("make an object store", _add_arguments, _add),
    "ls": Verb("list object stores, or the objects of one", _ls_arguments, _ls),
    "put": Verb("store a file", _put_arguments, _put),
    "get": Verb("write an object into a file", _get_arguments, _get),
    "info": Verb("show what is known of an object", _add_object, _info),
    "rm": Verb("delete an object, or the whole store", _rm_arguments, _rm),
}
run = verbs.run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    verbs.add_verbs(parser, VERBS)
