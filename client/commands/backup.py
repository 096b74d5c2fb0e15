"""Backups of streams, in the layout of the `nats` command, so that either can restore them.

A backup is a directory with the stream's configuration and state in `backup.json`, and the server's
data in `stream.tar.s2`.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from midge.client.client import NatsClient
from midge.client.commands import output
from midge.client.commands.quantities import (
    name,
    show_messages,
    show_size,
    size_bytes,
)
from midge.client.commands.verbs import Session
from midge.client.commands.window import SILENCE_S
from midge.client.errors import OptionError, ServerError, reason_of
from midge.client.headers import parse_headers
from midge.client.jetstream import checked_answer
from midge.protocol.client_side import ReceivedMessage, publish_frame

DATA_NAME = "stream.tar.s2"
METADATA_NAME = "backup.json"
_CHUNK_BYTES = 128 << 10
_WINDOW_BYTES = 8 << 20
_RESTORE_WINDOW_CHUNKS = 8
_NO_CONTENT = 204


def backup_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `backup`."""
    parser.add_argument("stream", type=name, help="its name")
    parser.add_argument("directory", type=Path, help="where to write it; must not exist yet")
    parser.add_argument("--no-consumers", action="store_true", help="leave consumers out")
    parser.add_argument(
        "--check",
        action="store_true",
        help="ask the server to verify its files first; midge verifies each record as it reads it",
    )
    parser.add_argument(
        "--chunk-size", type=size_bytes, default=_CHUNK_BYTES, metavar="SIZE", help="(128KB)"
    )


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `restore`."""
    parser.add_argument("directory", type=Path, help="a backup")
    parser.add_argument("--name", type=name, metavar="STREAM", help="as this stream")
    parser.add_argument("--config", type=Path, metavar="FILE", help="another configuration, JSON")


def backup(session: Session) -> None:
    """Write a backup; the directory appears whole or not at all."""
    args = session.args
    if args.directory.exists():
        raise OptionError(f"{args.directory}: exists already")
    partial = args.directory.with_name(f".{args.directory.name}.part")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        begun_s = time.monotonic()
        answer, size = _receive_into(session, partial / DATA_NAME)
        kept = {"config": answer["config"], "state": answer["state"]}
        (partial / METADATA_NAME).write_text(json.dumps(kept, indent=2), encoding="utf-8")
        partial.rename(args.directory)
    except OSError as error:
        raise OptionError(f"{args.directory}: {reason_of(error)}") from error
    finally:
        _remove(partial)
    took_s = time.monotonic() - begun_s
    messages = answer["state"]["messages"]
    if args.json:
        output.print_json({**kept, "bytes": size})
    else:
        shown = f"{show_messages(messages)}, {show_size(size)} in {took_s:.1f} s"
        output.write(f"{args.stream}: {shown}: {args.directory}")


def _remove(partial: Path) -> None:
    for file in (DATA_NAME, METADATA_NAME):
        (partial / file).unlink(missing_ok=True)
    if partial.exists():
        partial.rmdir()


def _receive_into(session: Session, path: Path) -> tuple[dict[str, Any], int]:
    """Request a snapshot and write its chunks; return the answer and the number of bytes."""
    args, client = session.args, session.client
    inbox = client.new_inbox().replace(b"_INBOX.", b"_INBOX.snapshot.")
    sid = client.subscribe(inbox)
    request = {
        "deliver_subject": inbox.decode(),
        "no_consumers": args.no_consumers,
        "jsck": args.check,
        "chunk_size": args.chunk_size,
        "window_size": _WINDOW_BYTES,
    }
    answer = session.call(f"STREAM.SNAPSHOT.{args.stream}", request)
    size = 0
    with (
        path.open("wb") as file,
        output.progress(args.stream, answer["state"]["bytes"]) as shown,
    ):
        for chunk in _snapshot_chunks(client, sid, session.patience_s(SILENCE_S)):
            file.write(chunk)
            size += len(chunk)
            shown.add(len(chunk))
        file.flush()
        os.fsync(file.fileno())
    client.unsubscribe(sid)
    return answer, size


def _snapshot_chunks(client: NatsClient, sid: bytes, patience_s: float) -> Iterator[bytes]:
    """Yield the chunks of a snapshot; each is acknowledged before it is yielded."""
    while True:
        messages = [one for one in client.receive(patience_s) if one.sid == sid]
        if not messages:
            raise ServerError(f"the server sent nothing of the snapshot for {patience_s:g} s")
        acks = [publish_frame(one.reply, b"", b"", b"") for one in messages if one.reply]
        if acks:
            client.send(b"".join(acks))
        for message in messages:
            if not message.payload:
                _check_end(message)
                return
            yield message.payload


def _check_end(message: ReceivedMessage) -> None:
    """Check that the message after the last chunk reports no failure."""
    if not message.headers:
        return
    status, description, _ = parse_headers(message.headers)
    if status and status != _NO_CONTENT:
        raise ServerError(f"the server ended the snapshot: {status} {description}".rstrip())


def restore(session: Session) -> None:
    """Make a stream from a backup."""
    args = session.args
    kept = _read_json(args.directory / METADATA_NAME)
    if args.config is not None:
        given = _read_json(args.config)
        kept["config"] = given.get("config", given)
    if not isinstance(kept.get("config"), dict) or "state" not in kept:
        raise OptionError(f"{args.directory / METADATA_NAME}: expected config and state in it")
    if args.name:
        kept["config"]["name"] = args.name
    stream = kept["config"].get("name", "")
    begun_s = time.monotonic()
    info = _send(session, stream, {"config": kept["config"], "state": kept["state"]})
    took_s = time.monotonic() - begun_s
    if args.json:
        output.print_json({"config": info["config"], "state": info["state"]})
    else:
        messages = show_messages(info["state"]["messages"])
        output.write(f"{stream}: {messages} restored in {took_s:.1f} s")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path}: {reason_of(error)}") from error
    if not isinstance(value, dict):
        raise OptionError(f"{path}: expected a JSON object")
    return value


def _send(session: Session, stream: str, kept: dict[str, Any]) -> dict[str, Any]:
    """Send the backup's chunks; return the info of the new stream."""
    path = session.args.directory / DATA_NAME
    try:
        with path.open("rb") as file, output.progress(stream, path.stat().st_size) as shown:
            answer = session.call(f"STREAM.RESTORE.{stream}", kept)
            upload = _Upload(session, answer["deliver_subject"].encode(), stream)
            chunk_bytes = min(_CHUNK_BYTES, session.client.max_payload_bytes)
            while chunk := file.read(chunk_bytes):
                upload.send(chunk)
                shown.add(len(chunk))
            return upload.finish()
    except OSError as error:
        raise OptionError(f"{path}: {reason_of(error)}") from error


class _Upload:
    """Sends chunks to the server, with a bounded number of outstanding acknowledgements."""

    def __init__(self, session: Session, to: bytes, stream: str) -> None:
        self._client = session.client
        self._patience_s = session.patience_s(SILENCE_S)
        self._to = to
        self._stream = stream
        self._waiting: set[bytes] = set()

    def send(self, chunk: bytes) -> None:
        """Send a chunk, after waiting for room."""
        while len(self._waiting) >= _RESTORE_WINDOW_CHUNKS:
            self._receive()
        self._send(chunk)

    def finish(self) -> dict[str, Any]:
        """Send the end of the backup; return the server's answer."""
        while self._waiting:
            self._receive()
        last = self._send(b"")
        while True:
            for message in self._receive():
                if message.subject == last:
                    return checked_answer(message, f"restore of {self._stream}")

    def _send(self, chunk: bytes) -> bytes:
        reply = self._client.new_inbox()
        self._waiting.add(reply)
        self._client.send(publish_frame(self._to, reply, b"", chunk))
        return reply

    def _receive(self) -> list[ReceivedMessage]:
        messages = self._client.receive(self._patience_s)
        if not messages:
            raise ServerError(f"the server was silent for {self._patience_s:g} s in the restore")
        for message in messages:
            self._waiting.discard(message.subject)
            if message.payload:
                checked_answer(message, f"restore of {self._stream}")
        return messages
