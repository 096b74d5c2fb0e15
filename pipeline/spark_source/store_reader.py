"""Read a stream from a store's directory, without a server.

The directory is only read, also beside the server that uses it; then the messages are those on the
disk. To open it costs a second for a million messages, because removals may be in any segment; to
read and convert them takes four times as long, so tasks read ranges of sequences side by side.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from midge.client.errors import StreamNotFoundError
from midge.client.jetstream import StreamSummary
from midge.jetstream.json.times import format_time
from midge.jetstream.store.encrypted_disk import UserKeys
from midge.jetstream.store.file.directory import StoreDirectory
from midge.jetstream.store.file.file_store import FileStore
from midge.jetstream.store.file.read_only import ReadOnlyDisk, find_store
from midge.jetstream.store.interface import StoreError
from midge.pipeline.errors import TableError
from midge.pipeline.spark_source.reader import BATCH_ROWS, Columns

GLOBAL_ACCOUNT = "$G"

_log = logging.getLogger(__name__)


class StoredStream(NamedTuple):
    """A stream in a store's directory."""

    store: FileStore
    state: StreamSummary

    def batches(
        self, start: int, end: int, subjects: tuple[bytes, ...], skipped: list[int]
    ) -> Iterator[Columns]:
        """Yield the messages from `start` up to `end`; append the sequences that are damaged."""
        skipped += [seq for seq in self.store.lost if start <= seq < end]
        end = min(end, self.state.end_seq)
        columns = Columns(most_rows=BATCH_ROWS)
        seq = self.store.next_seq(subjects, max(start, self.state.first_seq))
        while 0 < seq < end:
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
            seq = self.store.next_seq(subjects, seq + 1) if seq + 1 < end else 0
        if len(columns):
            yield columns


@contextmanager
def stored_stream(
    directory: Path, stream: str, account: str = GLOBAL_ACCOUNT, key: bytes = b""
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


def warn_of_skipped(what: str, skipped: list[int]) -> None:
    """Log a warning about messages that cannot be read, if there are any."""
    if skipped:
        shown = ", ".join(map(str, skipped[:10]))
        _log.warning("%s: %d messages cannot be read: %s", what, len(skipped), shown)


def _state_of(store: FileStore) -> StreamSummary:
    stored = json.loads(store.config())
    return StreamSummary(
        name=store.name.decode(),
        created=format_time(stored["created"]),
        first_seq=max(1, store.first_seq),
        last_seq=store.last_seq,
        messages=store.messages,
        retention=stored["config"].get("retention", "limits"),
    )
