"""Record from any NATS server as one of its subscribers, into the record format's `messages`.

A subscriber sees less than a recording server: not who published, nor who else got a message. So
`cid` and
the deliveries are 0, and there are no `interest` and `clients` rows.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from midge.pipeline.client import Client
from midge.pipeline.errors import AuthorizationError, OptionError, PipelineError
from midge.pipeline.framing import Message, parse_headers
from midge.pipeline.options import ConnectOptions
from midge.pipeline.records import MESSAGES, list_segments, segment_path, write_segment
from midge.sublist import subjects

ACCOUNT = "$G"
"""The account that rows are under; a client is never told its own."""

_POLL_S = 0.25


@dataclass(frozen=True)
class RecordOptions:
    """What to record, in which portions, and when to end."""

    connect: ConnectOptions
    patterns: tuple[str, ...] = (">",)
    roll_rows: int = 100_000
    roll_bytes: int = 64 << 20
    roll_age_s: float = 60.0
    duration_s: float | None = None
    messages_max: int | None = None

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            if not subjects.is_valid_subject(pattern.encode()):
                raise OptionError(f"subject: expected a subject pattern, got {pattern!r}")


@dataclass
class Recorded:
    """What has been recorded so far."""

    messages: int = 0
    bytes: int = 0
    segments: int = 0


class _Segments:
    """Collects rows and writes them as segments that never span two hours."""

    def __init__(self, root: Path, server: str, options: RecordOptions, done: Recorded) -> None:
        self._root = root
        self._server = server
        self._options = options
        self._done = done
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0
        self._begun_s = time.monotonic()
        self._number = len(list_segments(root, MESSAGES))

    def add(self, messages: Sequence[Message], now: datetime) -> None:
        """Note `messages`, which came at `now`."""
        if self._rows and _hour(self._rows[0]["time"]) != _hour(now):
            self.roll()
        if not self._rows:
            self._begun_s = time.monotonic()
        for message in messages:
            self._rows.append(_row(message, now, self._server))
            self._bytes += self._rows[-1]["size"]
        options = self._options
        if len(self._rows) >= options.roll_rows or self._bytes >= options.roll_bytes:
            self.roll()

    def roll_if_old(self) -> None:
        """Make what has waited long enough visible."""
        if self._rows and time.monotonic() - self._begun_s >= self._options.roll_age_s:
            self.roll()

    def roll(self) -> None:
        """Write what has been collected as a segment.

        Raises:
            PipelineError: it cannot be written.
        """
        if not self._rows:
            return
        path = self._next_path()
        try:
            write_segment(path, pa.Table.from_pylist(self._rows, schema=MESSAGES.schema))
        except OSError as error:
            raise PipelineError(f"{path}: cannot be written: {error}") from error
        self._done.messages += len(self._rows)
        self._done.bytes += self._bytes
        self._done.segments += 1
        self._rows = []
        self._bytes = 0

    def _next_path(self) -> Path:
        while True:
            begin = self._rows[0]["time"]
            path = segment_path(self._root, MESSAGES, begin, self._server, self._number)
            self._number += 1
            if not path.exists():
                return path


def record(
    root: Path,
    options: RecordOptions,
    is_wanted: Callable[[], bool] = lambda: True,
    progress: Callable[[Recorded, int], None] = lambda *_: None,
    ready: Callable[[], None] = lambda: None,
) -> Recorded:
    """Record into `root` until `is_wanted` says no, or an option's limit is reached.

    `ready` is called once the server has taken the subscriptions. What was received before an error
    is written first.

    Raises:
        AuthorizationError: the server forbids a subscription.
        ServerError: the server cannot be reached, or ended the connection.
        PipelineError: a segment cannot be written.
    """
    done = Recorded()
    with Client(options.connect) as client:
        server = str(client.info.get("server_name") or client.info.get("server_id") or "nats")
        segments = _Segments(root, server, options, done)
        sids = {client.subscribe(pattern.encode()) for pattern in options.patterns}
        client.ping()
        if client.errors:
            raise AuthorizationError(f"the server answers: {client.errors[0]}")
        ready()
        try:
            _receive(client, sids, segments, options, is_wanted, lambda seen: progress(done, seen))
        finally:
            segments.roll()
    return done


def _receive(
    client: Client,
    sids: set[bytes],
    segments: _Segments,
    options: RecordOptions,
    is_wanted: Callable[[], bool],
    progress: Callable[[int], None],
) -> None:
    end_s = None if options.duration_s is None else time.monotonic() + options.duration_s
    seen = 0
    while is_wanted() and (end_s is None or time.monotonic() < end_s):
        left = None if options.messages_max is None else options.messages_max - seen
        if left is not None and left <= 0:
            return
        messages = [each for each in client.receive(_POLL_S) if each.sid in sids][:left]
        if messages:
            segments.add(messages, datetime.now(UTC))
            seen += len(messages)
        segments.roll_if_old()
        progress(seen)


def _row(message: Message, now: datetime, server: str) -> dict[str, Any]:
    headers = list(parse_headers(message.headers).fields.items()) if message.headers else None
    return {
        "time": now,
        "server": server,
        "account": ACCOUNT,
        "cid": 0,
        "subject": message.subject.decode(errors="backslashreplace"),
        "reply": message.reply.decode(errors="backslashreplace") if message.reply else None,
        "headers": headers,
        "payload": message.payload,
        "size": len(message.headers) + len(message.payload),
        "plain_deliveries": 0,
        "queue_deliveries": 0,
        "no_interest": False,
    }


def _hour(time_: datetime) -> datetime:
    return time_.replace(minute=0, second=0, microsecond=0)
