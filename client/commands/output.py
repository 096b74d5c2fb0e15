"""Output of the client's commands: tables and fields for people, JSON for programs."""

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from midge.client.errors import ClientError, OptionError
from midge.client.headers import parse_headers
from midge.client.jetstream import parse_deliveries
from midge.protocol.client_side import ReceivedMessage
from midge.protocol.errors import MidgeError

_ACK_PREFIX = b"$JS.ACK."
_REDRAW_BYTES = 1 << 16


class StreamPosition(NamedTuple):
    """The position of a delivered message in its stream."""

    seq: int
    time_ns: int
    pending: int


def print_json(value: Any) -> None:
    """Print a value, indented."""
    write(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """Print a value in one line and flush, so that a pipe's reader gets it at once."""
    write(json.dumps(value, ensure_ascii=False))
    sys.stdout.flush()


def refuse(program: str, error: MidgeError, *, as_json: bool) -> int:
    """Print why a command ends, as one line on standard error; return its exit code.

    With `as_json` the line is an object, `error`, with a `text`, a `kind` and, of an error of
    JetStream, its `code`. The exit code is 2 for a wrong argument, else 1.
    """
    kind = type(error).__name__
    if as_json:
        code = getattr(error, "code", 0)
        fields = {"text": str(error), "kind": kind} | ({"code": code} if code else {})
        sys.stderr.write(json.dumps({"error": fields}, ensure_ascii=False) + "\n")
    else:
        name = "" if isinstance(error, ClientError) else f"{kind}: "
        sys.stderr.write(f"{program}: {name}{error}\n")
    return 2 if isinstance(error, OptionError) else 1


def json_bytes(value: Any) -> bytes:
    """Return a value as compact JSON for a request."""
    return json.dumps(value).encode()


def write(text: str) -> None:
    """Print text and a line end; escape characters that the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def write_bytes(data: bytes) -> None:
    """Write bytes unchanged."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns; numbers are right-aligned, with separators."""
    texts = [[_cell(value) for value in row] for row in rows]
    widths = [
        max(len(text) for text in (title, *(row[index] for row in texts)))
        for index, title in enumerate(columns)
    ]
    is_right = [
        bool(rows) and all(isinstance(row[index], int) for row in rows)
        for index in range(len(columns))
    ]
    for line in [list(columns), *texts]:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, is_right, strict=True)
        ]
        write("  ".join(cells).rstrip())


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values below each other, except None."""
    shown = [(name, _cell(value)) for name, value in fields if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        write(f"{name + ':':<{width + 1}} {value}")


def place_of(message: ReceivedMessage) -> StreamPosition | None:
    """Return the position of a message in its stream; None if no consumer delivered it."""
    if not message.reply.startswith(_ACK_PREFIX):
        return None
    found = parse_deliveries([message])
    return StreamPosition(found.seqs[0], found.times_ns[0], found.pending)


def as_document(message: ReceivedMessage) -> dict[str, Any]:
    """Return a message for JSON: the payload is text if it is UTF-8, else base64."""
    fields: dict[str, Any] = {"subject": decoded(message.subject)}
    place = place_of(message)
    if place is not None:
        fields["seq"] = place.seq
    elif message.reply:
        fields["reply"] = decoded(message.reply)
    return fields | header_fields(message.headers) | payload_fields(message.payload)


def header_fields(block: bytes) -> dict[str, Any]:
    """Return `headers` for JSON; nothing for a message without headers."""
    return {"headers": parse_headers(block).fields} if block else {}


def payload_fields(payload: bytes) -> dict[str, str]:
    """Return `payload`, or `payload_base64` for bytes that are not text."""
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


def print_message(message: ReceivedMessage) -> None:
    """Print a message for people: its subject, headers and payload."""
    place = place_of(message)
    where = f" seq {place.seq}" if place is not None else ""
    reply = f" reply {decoded(message.reply)}" if message.reply and place is None else ""
    write(f"[{decoded(message.subject)}]{where}{reply}")
    print_body(message.headers, message.payload)


def print_body(headers: bytes, payload: bytes) -> None:
    """Print headers and payload of a message for people."""
    if headers:
        for name, values in parse_headers(headers).fields.items():
            for value in values:
                write(f"{name}: {value}")
        write("")
    write(decoded(payload))
    sys.stdout.flush()


def decoded(data: bytes) -> str:
    """Return bytes as text; escape bytes that are not UTF-8."""
    return data.decode(errors="backslashreplace")


class Progress:
    """The progress of a transfer, on one line of standard error."""

    def __init__(self, name: str, total: int, *, is_shown: bool) -> None:
        self._name = name
        self._total = total
        self._is_shown = is_shown
        self._done = 0
        self._drawn = -_REDRAW_BYTES

    def add(self, size: int) -> None:
        """Add transferred bytes."""
        self._done += size
        if self._is_shown and self._done - self._drawn >= _REDRAW_BYTES:
            self._drawn = self._done
            sys.stderr.write(f"\r{self._text()}")
            sys.stderr.flush()

    def end(self) -> None:
        """Wipe the line."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _text(self) -> str:
        done = f"{self._done / (1 << 20):,.1f}"
        if not self._total:
            return f"{self._name}: {done} MiB"
        percent = min(100, self._done * 100 // self._total)
        return f"{self._name}: {done} of {self._total / (1 << 20):,.1f} MiB ({percent} %)"


@contextmanager
def progress(name: str, total: int = 0) -> Iterator[Progress]:
    """Show a transfer's progress while the block runs, if standard error is a terminal."""
    shown = Progress(name, total, is_shown=sys.stderr.isatty())
    try:
        yield shown
    finally:
        shown.end()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
