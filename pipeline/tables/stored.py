"""Put a stream into its table straight from a store's directory, without a server.

The directory is only read, also beside the server that uses it: then the table gets the messages
that were on the disk. Records that are damaged are passed over and counted. The rows and the
position are those that `land` would make, so a table may get messages in both ways.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from midge.client.errors import StreamNotFoundError
from midge.client.jetstream import StreamState
from midge.jetstream.json.times import format_time
from midge.jetstream.store.encrypted_disk import UserKeys
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.read_only import ReadOnlyDisk, find_store
from midge.jetstream.store.file.stream import FileStore
from midge.jetstream.store.interface import StoreError
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import BATCH_ROWS, Columns
from midge.pipeline.tables.decoding import Decoder
from midge.pipeline.tables.delta import Source, StreamTable, create, is_table, locked
from midge.pipeline.tables.landing import (
    BLOCK_BYTES,
    Landed,
    check_partitions,
    decoded_blocks,
    same_stream,
)

_GLOBAL_ACCOUNT = "$G"

_log = logging.getLogger(__name__)


class StoredStream(NamedTuple):
    """A stream in a store's directory."""

    store: FileStore
    state: StreamState

    def batches(
        self, start: int, subjects: tuple[bytes, ...], skipped: list[int]
    ) -> Iterator[Columns]:
        """Yield the messages from `start` on; append the sequences that cannot be read."""
        columns = Columns(most_rows=BATCH_ROWS)
        seq = self.store.next_seq(subjects, max(start, self.state.first_seq))
        while seq:
            message = self.store.load(seq)
            if message is None:
                skipped.append(seq)
            else:
                columns.seqs.append(seq)
                columns.times_ns.append(message.time_ns)
                columns.subjects.append(message.subject)
                columns.payloads.append(message.payload)
                columns.headers.append(message.headers)
                columns.size_bytes += len(message.payload) + len(message.headers)
                if columns.is_full:
                    yield columns
                    columns = Columns(most_rows=BATCH_ROWS)
            is_end = seq >= self.state.last_seq
            seq = 0 if is_end else self.store.next_seq(subjects, seq + 1)
        if len(columns):
            yield columns


@contextmanager
def stored_stream(
    directory: Path, stream: str, account: str = _GLOBAL_ACCOUNT, key: bytes = b""
) -> Iterator[StoredStream]:
    """Open a stream in a store's directory; `key` opens an encrypted store.

    Raises:
        StreamNotFoundError: there is no such stream.
        TableError: there is no store, or it cannot be read.
    """
    try:
        disk = ReadOnlyDisk(find_store(directory), beside_server=True)
    except (StoreError, OSError) as error:
        raise TableError(f"{directory}: {error}") from error
    try:
        keys = UserKeys(key) if key else None
        opened = StoreDirectory(disk, lambda: None, keys=keys, is_checked=True)
        for store in opened.streams():
            if store.account.decode() == account and store.name.decode() == stream:
                yield StoredStream(store, _state_of(store))
                return
        raise StreamNotFoundError(f"{directory}: there is no stream {stream} of account {account}")
    except StoreError as error:
        raise TableError(f"{directory}: {error}") from error
    finally:
        disk.close()


def build(  # noqa: PLR0913 - most are keywords with defaults
    url: str,
    directory: Path,
    stream: str,
    *,
    account: str = _GLOBAL_ACCOUNT,
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
    with stored_stream(directory, stream, account, key) as stored, locked(url):
        if not is_table(url):
            source = Source(stream, stored.state.created, subject, infer)
            create(url, decoder, source, partition_by)
        table = StreamTable(url)
        same_stream(table, stored.state)
        return _land(table, stored)


def _land(table: StreamTable, stored: StoredStream) -> Landed:
    done = Landed(position=table.position)
    last = stored.state.last_seq
    if last <= done.position:
        return done
    skipped = [seq for seq in stored.store.lost if done.position < seq <= last]
    subjects = tuple(part.strip().encode() for part in table.source.subject.split(",") if part)
    batches = stored.batches(done.position + 1, subjects, skipped)
    for decoded, upto in decoded_blocks(batches, table.decoder(), last, BLOCK_BYTES):
        done.rows += table.append(decoded, upto)
        done.quarantined += decoded.bad.num_rows
        done.commits += 1
    done.position = table.position
    done.lost = len(skipped)
    if skipped:
        shown = ", ".join(map(str, skipped[:10]))
        _log.warning("%s: %d messages cannot be read: %s", table.url, len(skipped), shown)
    return done


def _state_of(store: FileStore) -> StreamState:
    stored = json.loads(store.config())
    return StreamState(
        name=store.name.decode(),
        created=format_time(stored["created"]),
        first_seq=max(1, store.first_seq),
        last_seq=store.last_seq,
        messages=store.messages,
        retention=stored["config"].get("retention", "limits"),
    )
