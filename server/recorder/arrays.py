"""Convert recorded rows to Arrow tables; fixed-width columns are wrapped in place, not copied."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from midge.protocol.headers import read_headers
from midge.server.recorder.schemas import HEADERS, MESSAGES, TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from midge.server.recorder.message_rows import MessageRows, Texts

_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_HEADERS_AT_A_TIME = 512
_HEADER_BLOCKS_KEPT = 4096

WRITTEN_MESSAGES = pa.schema(
    [
        field.with_type(_DICTIONARY) if field.name in ("server", "account", "subject") else field
        for field in MESSAGES
    ]
)
"""`MESSAGES` with dictionary columns, as in memory; both schemas write the same files."""


def text(raw: bytes) -> str:
    r"""Decode UTF-8; invalid bytes are escaped as `\xNN`."""
    return raw.decode(errors="backslashreplace")


def messages_table(rows: MessageRows, server: str) -> pa.Table:
    """Wrap `rows`, which must not change while the table lives."""
    table = _runs_table(rows, server)
    return table if rows.runs == rows.count else _expanded(table, rows)


def _runs_table(rows: MessageRows, server: str) -> pa.Table:
    """Return a table with one row per run."""
    count = rows.runs
    plain, queued = (_fixed(pa.int32(), column, count) for column in (rows.plain, rows.queued))
    nothing = pa.scalar(0, pa.int32())
    columns = [
        _fixed(TIME, rows.times, count),
        _constant(server, count),
        _coded(rows.account_codes, rows.accounts, count),
        _fixed(pa.int64(), rows.cids, count),
        _coded(rows.subject_codes, [text(subject) for subject in rows.subjects], count),
        _strings(rows.replies, count),
        _headers(rows.headers, count),
        _binary(rows.payloads, count),
        _fixed(pa.int64(), rows.sizes, count),
        pc.max_element_wise(plain, nothing),  # write NOT_COUNTED as 0
        queued,
        pc.equal(pc.add(plain, queued), nothing),
    ]
    return pa.Table.from_arrays(columns, schema=WRITTEN_MESSAGES)


def _expanded(table: pa.Table, rows: MessageRows) -> pa.Table:
    """Repeat each run of `table` by its count."""
    ends = pc.cumulative_sum(_fixed(pa.int32(), rows.repeats, rows.runs))
    columns = [_expanded_column(chunked.chunk(0), ends, rows) for chunked in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _expanded_column(column: pa.Array, ends: pa.Array, rows: MessageRows) -> pa.Array:
    if column.null_count == rows.runs:
        return pa.nulls(rows.count, column.type)
    if pa.types.is_dictionary(column.type):
        words = column.dictionary
        if len(words) == 1:
            return _constant(words[0], rows.count)
        return pa.DictionaryArray.from_arrays(_repeated(ends, column.indices), words, safe=False)
    if pa.types.is_primitive(column.type):
        return _repeated(ends, column)
    return column.take(_repeated(ends, pa.array(range(rows.runs), pa.int32())))


def _repeated(ends: pa.Array, values: pa.Array) -> pa.Array:
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))


def rows_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Return a table of tuples in the order of `schema`."""
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _fixed(kind: pa.DataType, column: Any, count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(column)], 0)


def _coded(codes: Any, words: Iterable[str], count: int) -> pa.Array:
    indices = _fixed(pa.int32(), codes, count)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()), safe=False)


def _constant(word: str | pa.Scalar, count: int) -> pa.Array:
    """Return an array with `count` copies of a word."""
    return _coded(bytes(4 * count), [word], count)


def _binary(texts: Texts, count: int) -> pa.Array:
    if not texts.present:
        return pa.nulls(count, pa.binary())
    valid = None if texts.present == count else pa.py_buffer(texts.valid)
    buffers = [valid, pa.py_buffer(texts.ends), pa.py_buffer(texts.buffer)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def _strings(texts: Texts, count: int) -> pa.Array:
    raw = _binary(texts, count)
    if memoryview(texts.buffer)[: texts.used].tobytes().isascii():
        return raw.view(pa.string())
    words = [None if word is None else text(word) for word in raw.to_pylist()]
    return pa.array(words, pa.string())


def _headers(texts: Texts, count: int) -> pa.Array:
    """Parse header blocks, a few at a time, so that the loop's thread gets the GIL in between."""
    if not texts.present:
        return pa.nulls(count, HEADERS)
    raw = _binary(texts, count)
    seen: dict[bytes, list[tuple[str, list[str]]]] = {}
    parts = []
    for start in range(0, count, _HEADERS_AT_A_TIME):
        blocks = raw.slice(start, _HEADERS_AT_A_TIME).to_pylist()
        parts.append(pa.array([_parsed(block, seen) for block in blocks], HEADERS))
        time.sleep(0)
    return pa.concat_arrays(parts)


def _parsed(
    block: bytes | None, seen: dict[bytes, list[tuple[str, list[str]]]]
) -> list[tuple[str, list[str]]] | None:
    if block is None:
        return None
    fields = seen.get(block)
    if fields is None:
        fields = list(read_headers(block, "backslashreplace").fields.items())
        if len(seen) < _HEADER_BLOCKS_KEPT:
            seen[block] = fields
    return fields
