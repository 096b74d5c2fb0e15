"""Record the traffic of any NATS server by listening to it, in midge's record format.

A listener does not know the publisher of a message nor its other receivers: `cid` is 0, both counts
of deliveries are 0, and interest and clients are missing. Rates, sizes, subjects, latencies and
replay work on such records; `midge serve --record` records the missing parts as well.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa

from midge.client.client import NatsClient
from midge.client.errors import OptionError, ServerError, reason_of
from midge.client.headers import parse_headers
from midge.client.options import ClientOptions
from midge.pipeline.records.files import RecordsError, next_number, write_segment
from midge.pipeline.records.format import MESSAGES, segment_path
from midge.protocol.client_side import ReceivedMessage
from midge.sublist.subjects import is_valid_subject, overlaps

UNKNOWN_ACCOUNT = "$G"
_WAIT_S = 0.25


@dataclass(frozen=True)
class TapOptions:
    """The subjects to record, and the size of segments."""

    connect: ClientOptions
    subjects: tuple[str, ...] = (">",)
    keeps_payload: bool = True
    roll_rows: int = 250_000
    roll_bytes: int = 64 << 20
    roll_age_s: float = 60.0

    def __post_init__(self) -> None:
        for pattern in self.subjects:
            if not is_valid_subject(pattern.encode()):
                raise OptionError(f"subject: {pattern!r} is not a valid subject")
        for one, other in combinations(self.subjects, 2):
            if overlaps(one.encode(), other.encode()):
                raise OptionError(
                    f"subject: {one!r} and {other!r} overlap, so messages would be recorded twice"
                )


@dataclass
class Tapped:
    """Counts of the recording so far."""

    messages: int = 0
    bytes: int = 0
    segments: int = 0


def tap(
    root: Path,
    options: TapOptions,
    is_over: Callable[[], bool],
    progress: Callable[[Tapped], None] = lambda _: None,
) -> Tapped:
    """Record until `is_over`, then write the remaining rows.

    Raises:
        ServerError: the server cannot be reached or went away; earlier messages are written.
        RecordsError: `root` cannot be written to.
    """
    with _writing(root):
        (root / MESSAGES.name).mkdir(parents=True, exist_ok=True)
    with NatsClient(options.connect) as client:
        segments = _Segments(root, str(client.info.get("server_name") or "nats"), options)
        for pattern in options.subjects:
            client.subscribe(pattern.encode())
        client.ping()
        try:
            while not is_over():
                segments.add(client.receive(_WAIT_S))
                if client.errors:
                    raise ServerError(f"the server complains: {client.errors[0]}")
                progress(segments.done)
        finally:
            segments.roll()
        return segments.done


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordsError(f"{root}: cannot be written: {reason_of(error)}") from error


@dataclass
class _Segments:
    """Collects rows and writes them as segments."""

    root: Path
    server: str
    options: TapOptions
    done: Tapped = field(default_factory=Tapped)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _bytes: int = 0
    _begun_s: float = 0.0

    def __post_init__(self) -> None:
        # Files of an earlier run are kept.
        self._number = next_number(self.root, MESSAGES, self.server)

    def add(self, messages: Sequence[ReceivedMessage]) -> None:
        """Add received messages; write a segment when it is full."""
        now = datetime.now(UTC)
        if self._rows and self._is_full(now):
            self.roll()
        if messages and not self._rows:
            self._begun_s = time.monotonic()
        for message in messages:
            row = self._row(message, now)
            self._rows.append(row)
            self._bytes += row["size"]
            self.done.messages += 1
            self.done.bytes += row["size"]

    def roll(self) -> None:
        """Write the collected rows, if there are any."""
        if not self._rows:
            return
        path = segment_path(self.root, MESSAGES, self._rows[0]["time"], self.server, self._number)
        with _writing(self.root):
            write_segment(path, pa.Table.from_pylist(self._rows, schema=MESSAGES.schema))
        self._number += 1
        self.done.segments += 1
        self._rows, self._bytes = [], 0

    def _is_full(self, now: datetime) -> bool:
        first = self._rows[0]["time"]
        return (
            len(self._rows) >= self.options.roll_rows
            or self._bytes >= self.options.roll_bytes
            or time.monotonic() - self._begun_s >= self.options.roll_age_s
            or (now.date(), now.hour) != (first.date(), first.hour)
        )

    def _row(self, message: ReceivedMessage, now: datetime) -> dict[str, Any]:
        headers = parse_headers(message.headers).fields if message.headers else None
        return {
            "time": now,
            "server": self.server,
            "account": UNKNOWN_ACCOUNT,
            "cid": 0,
            "subject": message.subject.decode(errors="replace"),
            "reply": message.reply.decode(errors="replace") or None,
            "headers": list(headers.items()) if headers else None,
            "payload": message.payload if self.options.keeps_payload else None,
            "size": len(message.headers) + len(message.payload),
            "plain_deliveries": 0,
            "queue_deliveries": 0,
            "no_interest": False,
        }
