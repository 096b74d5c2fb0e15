"""From messages to the columns of a stream's table, each value checked before it is written.

A table has the columns `sequence`, `time` and `subject`, and either `payload`, the bytes as they
are, or the columns that its owner named: from payloads that are JSON objects, from subjects and
from headers. Writers of Delta convert silently, "2.5" to a number and 2^53 + 1 to 2^53; so each
value is checked here, and a message with a value that its column cannot hold goes to the quarantine
with the reason.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec
import pyarrow as pa

from midge.client.errors import OptionError
from midge.pipeline.spark_source.reader import (
    Columns,
    header_pairs,
    microseconds,
    subject_array,
)
from midge.protocol.key_value import PUT, operation_of

OTHER = "_other"
"""The column of a JSON table with the keys that have no column of their own."""
COLUMNS_MAX = 500
_OWN = ("sequence", "time", "subject", OTHER)
_KIND = b"midge.kind"
"""The key in a field's metadata whose value is the column's kind; Delta's log keeps it."""
_NAME = re.compile(r"[^\s,;{}()=\x00-\x1f\x7f]+")
_INTEGER = re.compile(rb"-?[0-9]+")
_INT64 = range(-(1 << 63), 1 << 63)
_EXACT_DOUBLE = float(1 << 53)
"""A double holds each whole number below this one."""
_SHOWN_BYTES = 60
_TIME = pa.timestamp("us", "UTC")
_BASE = (
    pa.field("sequence", pa.int64(), nullable=False),
    pa.field("time", _TIME, nullable=False),
    pa.field("subject", pa.string(), nullable=False),
)
QUARANTINE = pa.schema(
    [
        *_BASE,
        pa.field("payload", pa.binary()),
        pa.field("headers", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
"""The columns of the messages that could not be decoded."""

_Found = dict[str, bytes]
"""The keys of a payload with the text of each value."""


class Decoded(NamedTuple):
    """The rows of a batch of messages, and those for the quarantine."""

    rows: pa.Table
    bad: pa.Table


class Decoder:
    """Decodes messages into a table of `columns`, or without any into one of raw payloads.

    A decoder that infers adds a column for each new key, of the kind that its values in the first
    batch have; a value that does not fit later stays in `_other`.
    """

    def __init__(self, columns: Mapping[str, str] | None, *, infers: bool = False) -> None:
        """Take the columns by name: a name of `KINDS` for each, or a kind of `_MessageKind`.

        Raises:
            OptionError: a name or a kind cannot be.
        """
        self.infers = infers
        given = {"payload": "payload"} if columns is None and not infers else columns or {}
        self.columns: dict[str, str] = _checked(given, least=0 if infers else 1)
        self._json = msgspec.json.Decoder(dict[str, msgspec.Raw])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows; those of JSON tables may become more."""
        fields = [
            pa.field(name, _type_of(kind), metadata={_KIND: kind})
            for name, kind in self.columns.items()
        ]
        other = [pa.field(OTHER, pa.string())] if self.infers or any(self._json_kinds()) else []
        return pa.schema([*_BASE, *fields, *other])

    def decode(self, messages: Columns) -> Decoded:
        """Return the rows of messages, in order."""
        base = [
            pa.array(messages.seqs, pa.int64()),
            microseconds(messages.times_ns).cast(_TIME),
            subject_array(messages.subjects),
        ]
        bad: list[tuple[int, str]] = []
        values: dict[str, list[Any]] = {}
        good: Sequence[int] = range(len(messages))
        if self.infers or any(self._json_kinds()):
            values, bad = self._values(self._without_removals(messages))
            places = {place for place, _ in bad}
            good = [place for place in good if place not in places] if bad else good
        kept = pa.array(good, pa.int64()) if bad else None
        schema = self.schema
        columns = [part.take(kept) if bad else part for part in base]
        for field in list(schema)[len(_BASE) :]:
            if field.name in values:
                column = pa.array(values[field.name], field.type)
            else:
                column = _of_messages(self.columns[field.name], messages, base[1])
            columns.append(column.take(kept) if bad else column)
        rows = pa.Table.from_arrays(columns, schema=schema)
        if not bad:
            return Decoded(rows, QUARANTINE.empty_table())
        places = pa.array([place for place, _ in bad], pa.int64())
        base += [_of_messages(kind, messages, base[1]) for kind in ("payload", "headers")]
        reasons = pa.array([reason for _, reason in bad], pa.string())
        quarantined = [*(part.take(places) for part in base), reasons]
        return Decoded(rows, pa.Table.from_arrays(quarantined, schema=QUARANTINE))

    def empty(self) -> Decoded:
        """Return no rows, with their columns."""
        return Decoded(self.schema.empty_table(), QUARANTINE.empty_table())

    def _without_removals(self, messages: Columns) -> Sequence[bytes]:
        """Return the payloads; those of removed keys, which are empty, as objects without keys."""
        if "operation" not in self.columns.values():
            return messages.payloads
        return [
            payload if payload or not raw or operation_of(_headers_of(raw)) == PUT else b"{}"
            for payload, raw in zip(messages.payloads, messages.headers, strict=True)
        ]

    def _json_kinds(self) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in self.columns.items() if kind.rstrip("?") in KINDS]

    def _values(
        self, payloads: Sequence[bytes]
    ) -> tuple[dict[str, list[Any]], list[tuple[int, str]]]:
        """Return the columns, and place and reason of each bad payload, whose values do not count.

        Payloads whose keys all have columns, and whose values fit at once, are decoded into
        structures. The others are taken apart, key by key.
        """
        columns, others = self._structures(payloads)
        bad: list[tuple[int, str]] = []
        found: list[tuple[int, _Found]] = []
        for place in others:
            try:
                if not payloads[place]:
                    raise ValueError("the payload is empty")
                raws = self._json.decode(payloads[place])
                found.append((place, {key: bytes(raw) for key, raw in raws.items()}))
            except (ValueError, msgspec.MsgspecError) as error:
                bad.append((place, str(error)))
        if self.infers and found:
            self._add_columns([document for _, document in found])
        kinds = self._json_kinds()
        for name in [*(name for name, _ in kinds), OTHER]:
            columns.setdefault(name, [None] * len(payloads))
        for place, document in found:
            try:
                for name, kind in kinds:
                    columns[name][place] = _value(document, name, kind)
                columns[OTHER][place] = _object_of(document)
            except ValueError as error:
                bad.append((place, str(error)))
        return columns, sorted(bad)

    def _structures(self, payloads: Sequence[bytes]) -> tuple[dict[str, list[Any]], list[int]]:
        """Return the columns of the payloads, and the places of those to take apart."""
        names = [name for name, _ in self._json_kinds()]
        kinds = [KINDS[kind.removesuffix("?")] for _, kind in self._json_kinds()]
        row_type = msgspec.defstruct(
            "Row",
            [(f"f{place}", kind.decoded | None, None) for place, kind in enumerate(kinds)],
            rename={f"f{place}": name for place, name in enumerate(names)},
            forbid_unknown_fields=True,
            gc=False,
        )
        decode, blank = msgspec.json.Decoder(row_type).decode, row_type()
        rows: list[Any] = []
        others: set[int] = set()
        for place, payload in enumerate(payloads):
            try:
                rows.append(decode(payload))
            except (ValueError, msgspec.MsgspecError):
                rows.append(blank)
                others.add(place)
        columns: dict[str, list[Any]] = {}
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
            columns[name] = list(map(attrgetter(f"f{number}"), rows))
            if kind.convert is not None and not kind.is_plain(columns[name]):
                others.update(_convert(columns[name], kind.convert))
        return columns, sorted(others)

    def _add_columns(self, found: list[_Found]) -> None:
        """Add a column for each key that has none, and of which all values have a kind."""
        new: dict[str, set[str]] = {}
        for document in found:
            for key in document.keys() - self.columns.keys():
                if document[key] != b"null":
                    new.setdefault(key, set()).add(_kind_of(document[key]))
        for key in sorted(new):
            kind = _ONE_KIND.get(frozenset(new[key]), "json")
            try:
                self.columns = _checked({**self.columns, key: f"{kind}?"})
            except OptionError:
                continue  # no column can have this name, or there are too many; it stays in OTHER


def columns_of(schema: pa.Schema) -> dict[str, str]:
    """Return the columns that a table's owner named, from the table's schema."""
    return {
        field.name: field.metadata[_KIND].decode()
        for field in schema
        if field.metadata and _KIND in field.metadata
    }


def can_partition(kind: str) -> bool:
    """Return whether a table may be partitioned by a column of this kind."""
    return kind == "date" or _TOKEN.fullmatch(kind) is not None


def _convert(column: list[Any], convert: Callable[[Any], Any]) -> list[int]:
    """Convert the values in place; return the places of those that have to be looked at again."""
    again: list[int] = []
    for place, value in enumerate(column):
        if value is not None:
            try:
                column[place] = convert(value)
            except ValueError:
                column[place] = None
                again.append(place)
    return again


def _value(found: _Found, name: str, kind: str) -> Any:
    """Take the value of a column out of a payload."""
    raw = found.get(name)
    if raw is None:
        return None
    try:
        value = None if raw == b"null" else KINDS[kind.removesuffix("?")].read(raw)
    except ValueError as error:
        if kind.endswith("?"):
            return None
        shown = raw[:_SHOWN_BYTES].decode(errors="backslashreplace")
        why = f" ({error})" if str(error) else ""
        raise ValueError(f"{name}: expected {kind}, got {shown}{why}") from error
    del found[name]
    return value


def _object_of(rest: _Found) -> str | None:
    if not rest:
        return None
    pairs = (msgspec.json.encode(key) + b":" + raw for key, raw in rest.items())
    return (b"{" + b",".join(pairs) + b"}").decode()


def _checked(columns: Mapping[str, str], least: int = 1) -> dict[str, str]:
    if not least <= len(columns) <= COLUMNS_MAX:
        raise OptionError(f"columns: expected 1 to {COLUMNS_MAX}, got {len(columns)}")
    seen = {name.casefold(): name for name in _OWN}
    for name, kind in columns.items():
        if not _NAME.fullmatch(name):
            raise OptionError(
                f"columns: {name!r}: expected a name without blanks and , ; {{}} () ="
            )
        if kind.removesuffix("?") not in KINDS and _type_of(kind) is None:
            known = ", ".join([*KINDS, *_MESSAGE_KINDS, "token(N)", "header(NAME)"])
            raise OptionError(f"columns: {name}: expected one of {known}, got {kind!r}")
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
    return _moment(_read_string(raw))


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("it has no time zone")
    return moment.astimezone(UTC)


def _kind_of(raw: bytes) -> str:
    """Return the kind of column that a value would get by itself."""
    for kind in ("int64", "double", "boolean", "timestamp", "string"):
        try:
            KINDS[kind].read(raw)
        except ValueError:
            continue
        return kind
    return "json"


def _of_messages(kind: str, messages: Columns, times: pa.Array) -> pa.Array:
    """Return a column of subjects, headers, times or whole payloads."""
    if kind == "payload":
        return pa.array(messages.payloads, pa.binary())
    if kind == "date":
        return times.cast(pa.date32())
    if found := _TOKEN.fullmatch(kind):
        place = int(found[1])
        return pa.array([_token(subject, place) for subject in messages.subjects], pa.string())
    headers = [_headers_of(raw) for raw in messages.headers]
    if kind == "operation":
        return pa.array([operation_of(fields) for fields in headers], pa.string())
    if found := _HEADER.fullmatch(kind):
        return pa.array([fields.get(found[1], [None])[0] for fields in headers], pa.string())
    texts = [json.dumps(fields) if fields else None for fields in headers]
    return pa.array(texts, pa.string())


def _headers_of(raw: bytes) -> dict[str, list[str]]:
    return dict(header_pairs(raw) or ())


def _token(subject: bytes, place: int) -> str | None:
    tokens = subject.split(b".", place)
    return tokens[place - 1].decode(errors="backslashreplace") if len(tokens) >= place else None


def _small_double(value: float) -> float:
    if not -_EXACT_DOUBLE < value < _EXACT_DOUBLE:
        raise ValueError  # its text shows whether a double can hold it
    return value


def _are_small(values: list[float | None]) -> bool:
    return max(map(abs, filter(None, values)), default=0.0) < _EXACT_DOUBLE


def _text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


class _Kind(NamedTuple):
    type: pa.DataType
    read: Callable[[bytes], Any]
    """Returns the value of a JSON text, or raises `ValueError`."""
    decoded: Any
    """The type that msgspec decodes a value to, when it fits at once."""
    convert: Callable[[Any], Any] | None = None
    """Makes the value of what msgspec decoded, or raises `ValueError`."""
    is_plain: Callable[[list[Any]], bool] = lambda _: False
    """Returns whether no value of a column has to be converted."""


KINDS = {
    "string": _Kind(pa.string(), _read_string, str),
    "int64": _Kind(
        pa.int64(), _read_int64, Annotated[int, msgspec.Meta(ge=_INT64.start, le=_INT64.stop - 1)]
    ),
    "double": _Kind(pa.float64(), _read_double, float, _small_double, _are_small),
    "boolean": _Kind(pa.bool_(), _read_boolean, bool),
    "timestamp": _Kind(_TIME, _read_timestamp, str, _moment),
    "json": _Kind(pa.string(), bytes.decode, msgspec.Raw, _text),
}
"""The kinds of columns by name; `json` keeps any value as its text."""
_MESSAGE_KINDS = {
    "payload": pa.binary(),
    "headers": pa.string(),
    "date": pa.date32(),
    "operation": pa.string(),
}
"""The kinds of columns that are not of keys; `headers` is an object of lists, `operation` is what a
message does to the key of a bucket."""
_TOKEN = re.compile(r"token\(([1-9][0-9]?)\)")
_HEADER = re.compile(r"header\(([!-9;-~]+)\)")
_ONE_KIND = {
    **{frozenset({kind}): kind for kind in KINDS},
    frozenset({"int64", "double"}): "double",
    frozenset({"timestamp", "string"}): "string",
}
"""The kind of a column by the kinds of its values; with any others it is `json`."""


def _type_of(kind: str) -> pa.DataType | None:
    """Return the type of a column, or None for a kind that there is not."""
    if kind.removesuffix("?") in KINDS:
        return KINDS[kind.removesuffix("?")].type
    if _TOKEN.fullmatch(kind) or _HEADER.fullmatch(kind):
        return pa.string()
    return _MESSAGE_KINDS.get(kind)
