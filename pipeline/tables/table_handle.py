"""The Delta table of a stream: its source, its position, and commits that add each message once.

The position is the table's own: the sequence of the last message that is in it, in the transaction
of Delta's log, never the position of a consumer. What `deltalake` does by itself is not enough:

- A repeated or lower transaction version is appended all the same. So rows at or below the version
  of the handle that writes them are dropped first.
- A commit of a stale handle fails only when the other writer has the same application id. So all
  writers have one, and a writer that fails loads the table again and decides again.
- Creating a table that exists succeeds, and so does adding to it unseen. So a table is created
  empty, under a lock, and then loaded.
"""

import json
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from midge import platforms
from midge.client.errors import reason_of
from midge.pipeline.delta import (
    KEEP_HOURS,
    check_path,
    compacted,
    delta_reason_of,
    is_table,
    load,
    made,
    opened,
    reading,
    transaction_version,
)
from midge.pipeline.errors import TableError
from midge.pipeline.tables.decoding import QUARANTINE, Decoded, Decoder, columns_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

APP_ID = "midge.tables"
QUARANTINE_SUFFIX = "_quarantine"
PARTITIONS_MAX = 100
"""A commit adds files to at most 100 partitions; a block with more becomes several commits."""
LOCK_WAIT_S = 60.0
"""Compaction and a rebuild wait so long for a writer to commit."""
_FORMAT = 1
_ATTEMPTS = 10
_LOCK_FILE = "_midge.lock"
_LOCK_LOOK_S = 0.1


class Source(NamedTuple):
    """The stream of a table; the creation time distinguishes it from another of the same name."""

    stream: str
    created: str
    subject: str = ""
    infers: bool = False
    """Whether new keys of the payloads become columns."""
    consumer: str = ""
    """The durable consumer of a table of an interest stream."""


class Layout(NamedTuple):
    """The columns of a table by name, with their kinds, and those that partition it."""

    columns: dict[str, str]
    partition_by: tuple[str, ...] = ()


class TableHandle:
    """A handle of the table at `url`."""

    def __init__(self, url: str, version: int | None = None) -> None:
        """Load the table's newest version, or one to read from.

        Raises:
            TableError: there is none, or it is no table of a stream.
            PipelineError: `deltalake` is not installed.
        """
        self.url = url
        self.reload(version)

    @property
    def position(self) -> int:
        """The sequence of the last message that the table has, or that left nothing in it."""
        return transaction_version(self.url, self.handle, APP_ID) or 0

    def append(self, decoded: Decoded, upto: int) -> int:
        """Add the rows after the position and make `upto` the position; return how many came.

        The quarantine is committed first, with a position of its own.

        Raises:
            TableError: other writers were faster each time, or the store refused the commit.
        """
        if decoded.bad.num_rows:
            self._quarantine(decoded.bad, upto)
        portions = _portions(decoded.rows, upto, self.layout.partition_by)
        return sum(self._append(rows, last) for rows, last in portions)

    def _append(self, rows: pa.Table, upto: int) -> int:
        for _ in range(_ATTEMPTS):
            if upto <= self.position:
                return 0
            rows = _after(rows, self.position)
            if self._commit(rows, upto):
                return len(rows)
        raise TableError(f"{self.url}: other writers committed first {_ATTEMPTS} times")

    def reload(self, version: int | None = None) -> None:
        """Load the newest version, or another; its columns may be others."""
        self.handle = load(self.url, version)
        self.source = _source_of(self.url, self.handle)
        self.layout = Layout(
            columns_of(pa.schema(self.handle.schema().to_arrow())),
            tuple(self.handle.metadata().partition_columns),
        )

    def decoder(self) -> Decoder:
        """Return a decoder for the columns of this version."""
        return Decoder(self.layout.columns, infers=self.source.infers)

    def replace(self, rows: pa.RecordBatchReader, source: Source, layout: Layout) -> None:
        """Replace the contents and the columns in one commit; the position stays.

        Raises:
            TableError: another writer was first, or the store refused the commit.
        """
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import DeltaError

        # Delta keeps the description of a table that is overwritten, so it is set beforehand.
        try:
            if source != self.source:
                self.handle.alter.set_table_description(_description(source))
                self.reload()
            write_deltalake(
                self.handle,
                rows,
                mode="overwrite",
                schema_mode="overwrite",
                partition_by=list(layout.partition_by),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(APP_ID, self.position)]
                ),
            )
        except (DeltaError, OSError) as error:
            raise TableError(f"{self.url}: cannot be replaced: {delta_reason_of(error)}") from error
        finally:
            self.reload()

    def size(self) -> tuple[int, int, int]:
        """Return the counts of rows, files and bytes of this version."""
        files = pa.table(self.handle.get_add_actions(flatten=True))
        rows, size = (pc.sum(files.column(name)).as_py() for name in ("num_records", "size_bytes"))
        return rows or 0, files.num_rows, size or 0

    def compact(self, keep_hours: float = KEEP_HOURS) -> tuple[int, int]:
        """Join small files, and delete the files that no version of the last `keep_hours` needs.

        Do the same for the quarantine. Return how many files of the table came and went.

        Raises:
            TableError: another writer was first, or the store refused the commit.
        """
        quarantine = opened(self.url + QUARANTINE_SUFFIX)
        if quarantine is not None:
            compacted(self.url + QUARANTINE_SUFFIX, quarantine, keep_hours)
        try:
            return compacted(self.url, self.handle, keep_hours)
        finally:
            self.reload()

    def quarantined(self) -> pa.Table:
        """Return the messages of the quarantine.

        Raises:
            TableError: they cannot be read.
        """
        url = self.url + QUARANTINE_SUFFIX
        if not is_table(url):
            return QUARANTINE.empty_table()
        with reading(url):
            return load(url).to_pyarrow_table().cast(QUARANTINE)

    def add_quarantined(self, bad: pa.Table) -> None:
        """Add messages to the quarantine, whatever its position.

        Raises:
            TableError: the store refused the commit.
        """
        if bad.num_rows:
            self._write_quarantine(bad, "append")

    def replace_quarantined(self, bad: pa.Table) -> None:
        """Replace the contents of the quarantine; its position stays.

        Raises:
            TableError: the store refused the commit.
        """
        self._write_quarantine(bad, "overwrite")

    def _write_quarantine(self, bad: pa.Table, mode: Literal["append", "overwrite"]) -> None:
        from deltalake import write_deltalake
        from deltalake.exceptions import DeltaError

        url, handle = self._made_quarantine()
        try:
            write_deltalake(handle, bad, mode=mode)
        except (DeltaError, OSError) as error:
            raise TableError(f"{url}: cannot be written to: {delta_reason_of(error)}") from error

    def _made_quarantine(self) -> tuple[str, "DeltaTable"]:
        url = self.url + QUARANTINE_SUFFIX
        return url, made(url, QUARANTINE, f"messages that did not fit into {self.url}")

    def _commit(self, rows: pa.Table, upto: int) -> bool:
        try:
            return _append(self.url, self.handle, rows, upto)
        finally:
            self.reload()

    def _quarantine(self, bad: pa.Table, upto: int) -> None:
        url, handle = self._made_quarantine()
        for _ in range(_ATTEMPTS):
            position = transaction_version(self.url, handle, APP_ID) or 0
            if upto <= position or _append(url, handle, _after(bad, position), upto):
                return
            handle = load(url)
        raise TableError(f"{url}: other writers committed first {_ATTEMPTS} times")


def create(
    url: str, decoder: Decoder, source: Source, partition_by: Iterable[str] = ()
) -> TableHandle:
    """Return the table at `url`, made empty if there is none yet.

    Raises:
        TableError: there is one of another stream or with other columns.
    """
    layout = Layout(decoder.columns, tuple(partition_by))
    made(url, decoder.schema, _description(source), layout.partition_by)
    table = TableHandle(url)
    check_stream(table, source.stream, source.created)
    if table.source != source:
        pairs = zip(Source._fields, table.source, source, strict=True)
        changed = [(name, old, new) for name, old, new in pairs if old != new]
        was = ", ".join(f"{name} {old!r}" for name, old, _ in changed)
        now = ", ".join(f"{name} {new!r}" for name, _, new in changed)
        raise TableError(f"{url}: was made with {was}, not with {now}")
    if not _fits(table.layout, layout, infers=source.infers):
        raise TableError(f"{url}: has other columns or partitions: use midge table rebuild")
    return table


def check_stream(table: TableHandle, stream: str, created: str) -> None:
    """Check that a table is of the stream that was made at `created`.

    Raises:
        TableError: it is of another one, or the stream was deleted and made again.
    """
    source = table.source
    if stream != source.stream:
        text = f"is a table of stream {source.stream!r}, not of stream {stream!r}"
        raise TableError(f"{table.url}: {text}")
    if created != source.created:
        raise TableError(
            f"{table.url}: stream {stream} was made at {created}, and the table holds the one that "
            f"was made at {source.created}: make another table"
        )


@contextmanager
def locked(url: str, wait_s: float = 0.0, *, makes: bool = False) -> Iterator[None]:
    """Hold the table's lock, where its directory is on this machine.

    The lock is a file. It is made beside a stream's table, or, if the caller `makes` the table, in
    an empty directory as well.

    Raises:
        TableError: there is no table, another process holds the lock for longer than `wait_s`, or
            the directory cannot be written to.
    """
    if "://" in url:
        yield
        return
    path = Path(url) / _LOCK_FILE
    check_path(url)
    if not makes and not path.exists():
        TableHandle(url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise TableError(f"{url}: cannot be written to: {reason_of(error)}") from error
    with file:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                platforms.lock(file.fileno())
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    text = f"{url}: another process is writing to this table"
                    raise TableError(text) from error
            time.sleep(_LOCK_LOOK_S)
        yield


def tables_in(directory: Path) -> Iterator[TableHandle]:
    """Yield the streams' tables within a directory.

    Raises:
        TableError: the directory cannot be read.
    """
    try:
        places = sorted(directory.iterdir())
    except OSError as error:
        raise TableError(f"{directory}: cannot be read: {reason_of(error)}") from error
    for place in places:
        if (place / "_delta_log").is_dir():
            with suppress(TableError):  # another's Delta table, or a quarantine
                yield TableHandle(str(place))


def remove(directory: Path) -> None:
    """Delete a table in a directory, and its quarantine.

    Raises:
        TableError: there is no table of a stream, another process is writing to it, or the
            directory cannot be deleted.
    """
    url = TableHandle(str(directory)).url
    try:
        with locked(url, LOCK_WAIT_S):
            shutil.rmtree(url)
        shutil.rmtree(url + QUARANTINE_SUFFIX, ignore_errors=True)
    except OSError as error:
        raise TableError(f"{url}: cannot be deleted: {reason_of(error)}") from error


def _fits(present: Layout, wanted: Layout, *, infers: bool) -> bool:
    if infers:  # it has the wanted columns, and those that it found
        found = {name: present.columns.get(name, "") for name in wanted.columns}
        present = present._replace(columns=found)
    return present == wanted


def _portions(
    rows: pa.Table, upto: int, partition_by: tuple[str, ...]
) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows in commits of a bounded number of partitions, each with its position."""
    begin = 0
    seen: set[tuple[Any, ...]] = set()
    if partition_by:
        keys = zip(*(rows.column(name).to_pylist() for name in partition_by), strict=True)
        for place, key in enumerate(keys):
            if key not in seen and len(seen) == PARTITIONS_MAX:
                yield rows.slice(begin, place - begin), rows.column("sequence")[place].as_py() - 1
                begin, seen = place, set()
            seen.add(key)
    yield rows.slice(begin), upto


def _after(rows: pa.Table, position: int) -> pa.Table:
    return rows.filter(pc.greater(rows.column("sequence"), position))


def _append(url: str, handle: "DeltaTable", rows: pa.Table, upto: int) -> bool:
    """Commit rows with their position; return False when another writer was first."""
    from deltalake import CommitProperties, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError

    properties: CommitProperties = CommitProperties(app_transactions=[Transaction(APP_ID, upto)])
    try:
        if rows.num_rows:
            is_wider = len(rows.schema) > len(handle.schema().fields)
            write_deltalake(
                handle,
                rows,
                mode="append",
                schema_mode="merge" if is_wider else None,
                commit_properties=properties,
            )
        else:
            handle.create_write_transaction(
                [], "append", handle.schema(), commit_properties=properties
            )
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        raise TableError(f"{url}: cannot be written to: {delta_reason_of(error)}") from error
    return True


def _description(source: Source) -> str:
    return json.dumps({"midge_table": _FORMAT, **source._asdict()})


def _source_of(url: str, handle: "DeltaTable") -> Source:
    try:
        document: dict[str, Any] = json.loads(handle.metadata().description or "")
        if document["midge_table"] != _FORMAT:
            raise ValueError
        del document["midge_table"]
        return Source(**document)
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(f"{url}: is a Delta table, but not one of a stream") from error
