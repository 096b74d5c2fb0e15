"""Put a stream into its table straight from a store's directory, without a server.

The directory is only read, also beside the server that uses it: then the table gets the messages
that were on the disk. Records that are damaged are passed over and counted. The rows and the
position are those that `land` would make, so a table may get messages in both ways.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from midge.pipeline.delta import is_table
from midge.pipeline.spark_source.store_reader import (
    GLOBAL_ACCOUNT,
    StoredStream,
    stored_stream,
    warn_of_skipped,
)
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.landing import (
    BLOCK_BYTES,
    Landed,
    check_partitions,
    decoded_blocks,
    same_stream,
)
from midge.pipeline.tables.table_handle import Source, TableHandle, create, locked


def build(  # noqa: PLR0913 - most are keywords with defaults
    url: str,
    directory: Path,
    stream: str,
    *,
    account: str = GLOBAL_ACCOUNT,
    key: bytes = b"",
    columns: Mapping[str, str] | None = None,
    infer: bool = False,
    subject: str = "",
    partition_by: Sequence[str] = (),
) -> Landed:
    """Bring a table up to the end of a stream in a store's directory; make it where there is none.

    A table that is there keeps its columns and its subject.

    Raises:
        OptionError: a column cannot be.
        StreamNotFoundError: there is no such stream.
        TableError: there is no store, the table is of another stream, or it cannot be written to.
    """
    decoder = Decoder(columns, infers=infer)
    check_partitions(decoder, partition_by)
    with stored_stream(directory, stream, account, key) as stored, locked(url, makes=True):
        if not is_table(url):
            source = Source(stream, stored.state.created, subject, infer)
            create(url, decoder, source, partition_by)
        table = TableHandle(url)
        same_stream(table, stored.state)
        return _land(table, stored)


def _land(table: TableHandle, stored: StoredStream) -> Landed:
    done = Landed(position=table.position)
    last = stored.state.last_seq
    if last <= done.position:
        return done
    skipped: list[int] = []
    subjects = tuple(part.strip().encode() for part in table.source.subject.split(",") if part)
    batches = stored.batches(done.position + 1, last + 1, subjects, skipped)
    for decoded, upto in decoded_blocks(batches, table.decoder(), last, BLOCK_BYTES):
        done.rows += table.append(decoded, upto)
        done.quarantined += decoded.bad.num_rows
        done.commits += 1
    done.position = table.position
    done.lost = len(skipped)
    warn_of_skipped(table.url, skipped)
    return done
