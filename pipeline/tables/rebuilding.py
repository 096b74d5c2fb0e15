"""Give a table other columns: decode its messages again, from the table itself.

The stream is not asked, because it may have removed what the table holds. A row's payload is put
together from its columns and `_other`, which have all of it; a message of the quarantine has its
own. The rows pass through a temporary file, so that any number of them fits the memory. They come
in one commit, and readers of the version before go on.

Messages that do not fit the new columns go to the quarantine before that commit, and those that fit
now leave it afterwards. When a rebuild ends in between, a message is in both, and the table's row
counts for the next one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from midge.pipeline.delta import reading
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import BATCH_ROWS, Columns
from midge.pipeline.tables.decoding import KINDS, OTHER, Decoded, Decoder
from midge.pipeline.tables.landing import check_partitions
from midge.pipeline.tables.table_handle import LOCK_WAIT_S, Layout, TableHandle, locked
from midge.protocol.key_value import OPERATION, PUT

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rebuild(
    url: str,
    columns: Mapping[str, str] | None,
    *,
    infer: bool = False,
    partition_by: Sequence[str] = (),
) -> int:
    """Decode the messages of a table and of its quarantine into other columns; return their count.

    Raises:
        OptionError: a column cannot be, or not partition the table.
        TableError: there is no such table, another process is writing to it, the table has no
            payloads for columns from JSON, or the folder for temporary files has no room.
    """
    decoder = Decoder(columns, infers=infer)
    check_partitions(decoder, partition_by)
    with locked(url, LOCK_WAIT_S):
        table = TableHandle(url)
        _check_payloads(table, decoder)
        bad = table.quarantined()
        if infer:  # the first pass finds the columns, the second fills them
            for _ in _decoded(table, bad, decoder):
                pass
        layout = Layout(decoder.columns, tuple(partition_by))
        try:
            with TemporaryFile() as spool:
                rows, new_bad = _written(_decoded(table, bad, decoder), decoder, spool)
                spool.seek(0)  # which writes the last of it
                known = pc.is_in(new_bad.column("sequence"), bad.column("sequence"))
                table.add_quarantined(new_bad.filter(pc.invert(known)))
                contents = pa.ipc.open_stream(spool)
                table.replace(contents, table.source._replace(infers=infer), layout)
        except OSError as error:
            raise TableError(f"{url}: no temporary file for the rows: {error}") from error
        if bad.num_rows or new_bad.num_rows:
            table.replace_quarantined(new_bad)
    return rows


def _written(pieces: Iterator[Decoded], decoder: Decoder, spool: IO[bytes]) -> tuple[int, pa.Table]:
    """Write all rows to `spool` as an Arrow stream; return their count, and the bad messages.

    Delta's writer must not take its rows from a reader of Delta: it asks for them in one of its
    threads, on a machine with one CPU in the only one, which the reader needs too.
    """
    rows, bad = 0, [decoder.empty().bad]
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(spool, decoder.schema, options=options) as stream:
        for decoded in pieces:
            stream.write_table(decoded.rows)
            rows += decoded.rows.num_rows
            bad.append(decoded.bad)
    return rows, pa.concat_tables(bad)


def _decoded(table: TableHandle, bad: pa.Table, decoder: Decoder) -> Iterator[Decoded]:
    kinds = table.layout.columns
    with reading(table.url):
        files = table.handle.to_pyarrow_dataset()
        for batch in files.to_batches(batch_size=BATCH_ROWS):
            rows = batch.to_pylist()
            yield decoder.decode(_messages(rows, [_payload_of(row, kinds) for row in rows], kinds))
        in_files = pc.field("sequence").isin(bad.column("sequence"))
        landed = files.to_table(["sequence"], filter=in_files).column("sequence")
    bad = bad.filter(pc.invert(pc.is_in(bad.column("sequence"), landed)))
    for batch in bad.to_batches(max_chunksize=BATCH_ROWS):
        rows = batch.to_pylist()
        payloads = [row["payload"] for row in rows]
        yield decoder.decode(_messages(rows, payloads, {"headers": "headers"}))


def _messages(
    rows: list[dict[str, Any]], payloads: list[bytes], kinds: Mapping[str, str]
) -> Columns:
    return Columns(
        seqs=[row["sequence"] for row in rows],
        times_ns=[_nanoseconds(row["time"]) for row in rows],
        subjects=[row["subject"].encode() for row in rows],
        payloads=payloads,
        headers=[_headers_of(row, kinds) for row in rows],
    )


def _nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def _payload_of(row: Mapping[str, Any], kinds: Mapping[str, str]) -> bytes:
    """Return a payload with the same keys and values."""
    pairs = []
    for name, kind in kinds.items():
        value, json_kind = row[name], kind.removesuffix("?")
        if kind == "payload":
            return bytes(value)
        if json_kind in KINDS and value is not None:
            pairs.append(msgspec.json.encode(name) + b":" + _text_of(value, json_kind))
    other = (row.get(OTHER) or "{}")[1:-1].encode()
    return b"{" + b",".join([*pairs, *([other] if other else [])]) + b"}"


def _text_of(value: Any, kind: str) -> bytes:
    if kind == "json":
        return str(value).encode()
    if kind == "double" and value.is_integer():
        return b"%d" % int(value)  # an int64 column takes it too
    return msgspec.json.encode(value)


def _headers_of(row: Mapping[str, Any], kinds: Mapping[str, str]) -> bytes:
    """Return a header block of the headers that the table has columns of."""
    fields: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        if kind == "operation" and row[name] != PUT:
            fields[OPERATION] = [row[name]]
        elif kind == "headers":
            fields |= json.loads(row[name] or "{}")
        elif kind.startswith("header(") and row[name] is not None:
            fields.setdefault(kind[len("header(") : -1], [row[name]])
    if not fields:
        return b""
    lines = [f"{name}: {value}\r\n" for name, values in fields.items() for value in values]
    return f"NATS/1.0\r\n{''.join(lines)}\r\n".encode()


def _check_payloads(table: TableHandle, decoder: Decoder) -> None:
    has = table.source.infers or any(map(_is_of_payload, table.layout.columns.values()))
    needs = decoder.infers or any(map(_is_of_payload, decoder.columns.values()))
    if needs and not has:
        raise TableError(f"{table.url}: has no payloads that columns could be made of")


def _is_of_payload(kind: str) -> bool:
    return kind == "payload" or kind.removesuffix("?") in KINDS
