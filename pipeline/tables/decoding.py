"""From messages to the columns of a stream's table, each value checked before it is written.

A table has the columns `sequence`, `time` and `subject`, and either `payload`, the bytes as they
are, or the columns that its owner named, from payloads that are JSON objects. Writers of Delta
convert silently, "2.5" to a number and 2^53 + 1 to 2^53; so each value is taken from its JSON text
here, and a message with a value that its column cannot hold goes to the quarantine with the reason.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from midge.client.errors import OptionError
from midge.pipeline.spark_source.reader import Columns

OTHER = "_other"
"""The column of a JSON table with the keys that have no column of their own."""
COLUMNS_MAX = 500
_OWN = ("sequence", "time", "subject", OTHER)
_NAME = re.compile(r"[^\s,;{}()=\x00-\x1f\x7f]+")
_INTEGER = re.compile(rb"-?[0-9]+")
_INT64 = range(-(1 << 63), 1 << 63)
_SHOWN_BYTES = 60
_TIME = pa.timestamp("us", "UTC")
_BASE = (
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("time", _TIME, nullable=False),
    pa.field("subject", pa.string(), nullable=False),
)
QUARANTINE = pa.schema([*_BASE, pa.field("payload", pa.binary()), pa.field("reason", pa.string())])
"""The columns of the messages that could not be decoded."""


class Decoded(NamedTuple):
    """The rows of a batch of messages, and those for the quarantine."""

    rows: pa.Table
    bad: pa.Table


class Decoder:
    """Decodes messages into a table of `columns`, or without any into one of raw payloads."""

    def __init__(self, columns: Mapping[str, str] | None) -> None:
        """Take the columns of payloads in JSON, by name: a name of `KINDS` for each.

        Raises:
            OptionError: a name or a kind cannot be.
        """
        self.columns = None if columns is None else _checked(columns)
        self._json = msgspec.json.Decoder(dict[str, msgspec.Raw])
        if self.columns is None:
            self.schema = pa.schema([*_BASE, pa.field("payload", pa.binary())])
        else:
            fields = [pa.field(name, KINDS[kind].type) for name, kind in self.columns.items()]
            self.schema = pa.schema([*_BASE, *fields, pa.field(OTHER, pa.string())])

    def decode(self, messages: Columns) -> Decoded:
        """Return the rows of messages, in order."""
        base = [
            pa.array(messages.seqs, pa.int64()),
            pc.divide(pa.array(messages.times_ns, pa.int64()), 1000).cast(_TIME),
            pa.array([text.decode(errors="backslashreplace") for text in messages.subjects]),
        ]
        if self.columns is None:
            rows = pa.Table.from_arrays([*base, pa.array(messages.payloads)], schema=self.schema)
            return Decoded(rows, QUARANTINE.empty_table())
        values: list[tuple[Any, ...]] = []
        good: list[int] = []
        bad: list[tuple[int, str]] = []
        for place, payload in enumerate(messages.payloads):
            try:
                values.append(self._values(payload))
                good.append(place)
            except (ValueError, msgspec.MsgspecError) as error:
                bad.append((place, str(error)))
        columns = list(zip(*values, strict=True)) or [()] * (len(self.columns) + 1)
        decoded = [
            pa.array(column, field.type)
            for column, field in zip(columns, list(self.schema)[len(_BASE) :], strict=True)
        ]
        places = pa.array(good, pa.int64())
        rows = pa.Table.from_arrays(
            [*(part.take(places) for part in base), *decoded], schema=self.schema
        )
        places = pa.array([place for place, _ in bad], pa.int64())
        payloads = pa.array([messages.payloads[place] for place, _ in bad], pa.binary())
        reasons = pa.array([reason for _, reason in bad], pa.string())
        quarantined = [*(part.take(places) for part in base), payloads, reasons]
        return Decoded(rows, pa.Table.from_arrays(quarantined, schema=QUARANTINE))

    def _values(self, payload: bytes) -> tuple[Any, ...]:
        if not payload:
            raise ValueError("the payload is empty")
        found = {key: bytes(raw) for key, raw in self._json.decode(payload).items()}
        values: list[Any] = []
        for name, kind in (self.columns or {}).items():
            raw = found.pop(name, b"null")
            if raw == b"null":
                values.append(None)
                continue
            try:
                values.append(KINDS[kind].read(raw))
            except ValueError as error:
                shown = raw[:_SHOWN_BYTES].decode(errors="backslashreplace")
                why = f" ({error})" if str(error) else ""
                raise ValueError(f"{name}: expected {kind}, got {shown}{why}") from error
        return (*values, _object_of(found))


def _object_of(rest: Mapping[str, bytes]) -> str | None:
    if not rest:
        return None
    pairs = (msgspec.json.encode(key) + b":" + raw for key, raw in rest.items())
    return (b"{" + b",".join(pairs) + b"}").decode()


def _checked(columns: Mapping[str, str]) -> dict[str, str]:
    if not 1 <= len(columns) <= COLUMNS_MAX:
        raise OptionError(f"columns: expected 1 to {COLUMNS_MAX}, got {len(columns)}")
    seen = {name.casefold(): name for name in _OWN}
    for name, kind in columns.items():
        if not _NAME.fullmatch(name):
            raise OptionError(
                f"columns: {name!r}: expected a name without blanks and , ; {{}} () ="
            )
        if kind not in KINDS:
            raise OptionError(f"columns: {name}: expected one of {', '.join(KINDS)}, got {kind!r}")
        other = seen.setdefault(name.casefold(), name)
        if other is not name:
            raise OptionError(f"columns: {name}: expected another name than {other}, in any case")
    return dict(columns)


def _read_int64(raw: bytes) -> int:
    if not _INTEGER.fullmatch(raw) or int(raw[:21]) not in _INT64:
        raise ValueError
    return int(raw)


def _read_double(raw: bytes) -> float:
    if raw[:1] not in b"-0123456789":
        raise ValueError
    value = float(raw)
    if value in (float("inf"), float("-inf")) or (
        _INTEGER.fullmatch(raw) and int(value) != int(raw)
    ):
        raise ValueError("a double cannot hold it")
    return value


def _read_string(raw: bytes) -> str:
    if raw[:1] != b'"':
        raise ValueError
    return msgspec.json.decode(raw, type=str)


def _read_boolean(raw: bytes) -> bool:
    if raw not in (b"true", b"false"):
        raise ValueError
    return raw == b"true"


def _read_timestamp(raw: bytes) -> datetime:
    moment = datetime.fromisoformat(_read_string(raw))
    if moment.tzinfo is None:
        raise ValueError("it has no time zone")
    return moment.astimezone(UTC)


class _Kind(NamedTuple):
    type: pa.DataType
    read: Callable[[bytes], Any]


KINDS = {
    "string": _Kind(pa.string(), _read_string),
    "int64": _Kind(pa.int64(), _read_int64),
    "double": _Kind(pa.float64(), _read_double),
    "boolean": _Kind(pa.bool_(), _read_boolean),
    "timestamp": _Kind(_TIME, _read_timestamp),
    "json": _Kind(pa.string(), bytes.decode),
}
"""The kinds of columns by name; `json` keeps any value as its text."""
