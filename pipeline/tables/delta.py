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

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from midge.client.errors import reason_of
from midge.extras import install_command
from midge.pipeline.errors import PipelineError, TableError
from midge.pipeline.tables.decoding import QUARANTINE, Decoded

if TYPE_CHECKING:
    from deltalake import DeltaTable

APP_ID = "midge.tables"
QUARANTINE_SUFFIX = "_quarantine"
_FORMAT = 1
_ATTEMPTS = 10
_VACUUM_HOURS = 7 * 24
_LOCK_FILE = "_midge.lock"


class Source(NamedTuple):
    """The stream of a table; the creation time distinguishes it from another of the same name."""

    stream: str
    created: str
    subject: str
    columns: dict[str, str] | None


class StreamTable:
    """A handle of the table at `url`."""

    def __init__(self, url: str) -> None:
        """Load the table.

        Raises:
            TableError: there is none, or it is no table of a stream.
            PipelineError: `deltalake` is not installed.
        """
        self.url = url
        self.handle = _load(url)
        self.source = _source_of(url, self.handle)

    @property
    def position(self) -> int:
        """The sequence of the last message that the table has, or that left nothing in it."""
        return _position(self.handle)

    def append(self, decoded: Decoded, upto: int) -> int:
        """Add the rows after the position and make `upto` the position; return how many came.

        The quarantine is committed first, with a position of its own.

        Raises:
            TableError: other writers were faster each time, or the store refused the commit.
        """
        if decoded.bad.num_rows:
            self._quarantine(decoded.bad, upto)
        for _ in range(_ATTEMPTS):
            if upto <= self.position:
                return 0
            rows = _after(decoded.rows, self.position)
            if self._commit(rows, upto):
                return len(rows)
        raise TableError(f"{self.url}: other writers committed first {_ATTEMPTS} times")

    def reload(self) -> None:
        """Load the newest version."""
        self.handle = _load(self.url)

    def size(self) -> tuple[int, int, int]:
        """Return the counts of rows, files and bytes of this version."""
        files = pa.table(self.handle.get_add_actions(flatten=True))
        rows, size = (pc.sum(files.column(name)).as_py() for name in ("num_records", "size_bytes"))
        return rows or 0, files.num_rows, size or 0

    def compact(self) -> tuple[int, int]:
        """Join small files, and delete the files that no version of the last 7 days needs.

        Return how many files were added and removed. The position stays.

        Raises:
            TableError: another writer was first, or the store refused the commit.
        """
        from deltalake.exceptions import DeltaError

        try:
            done = self.handle.optimize.compact()
            self.handle.vacuum(retention_hours=_VACUUM_HOURS, dry_run=False)
        except (DeltaError, OSError) as error:
            raise TableError(f"{self.url}: cannot be compacted: {reason_of(error)}") from error
        finally:
            self.reload()
        return int(done["numFilesAdded"]), int(done["numFilesRemoved"])

    def _commit(self, rows: pa.Table, upto: int) -> bool:
        try:
            return _append(self.url, self.handle, rows, upto)
        finally:
            self.reload()

    def _quarantine(self, bad: pa.Table, upto: int) -> None:
        url = self.url + QUARANTINE_SUFFIX
        _create_empty(url, QUARANTINE, f"messages that did not fit into {self.url}")
        for _ in range(_ATTEMPTS):
            handle = _load(url)
            position = _position(handle)
            if upto <= position or _append(url, handle, _after(bad, position), upto):
                return
        raise TableError(f"{url}: other writers committed first {_ATTEMPTS} times")


def create(url: str, schema: pa.Schema, source: Source) -> StreamTable:
    """Return the table at `url`, made empty if there is none yet.

    Raises:
        TableError: there is one of another stream or with other columns.
    """
    document = {"midge_table": _FORMAT, **source._asdict()}
    _create_empty(url, schema, json.dumps(document))
    table = StreamTable(url)
    if table.source != source:
        raise TableError(f"{url}: is a table of {table.source}, not of {source}")
    return table


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Hold the table's lock, where its directory is on this machine.

    Raises:
        TableError: another process holds it, or the directory cannot be written to.
    """
    if "://" in url:
        yield
        return
    path = Path(url) / _LOCK_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise TableError(f"{url}: cannot be written to: {reason_of(error)}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TableError(f"{url}: another process is writing to this table") from error
        yield


def _position(handle: "DeltaTable") -> int:
    version: int | None = handle.transaction_version(APP_ID)
    return version or 0


def _after(rows: pa.Table, position: int) -> pa.Table:
    return rows.filter(pc.greater(rows.column("sequence"), position))


def _append(url: str, handle: "DeltaTable", rows: pa.Table, upto: int) -> bool:
    """Commit rows with their position; return False when another writer was first."""
    from deltalake import CommitProperties, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError

    properties: CommitProperties = CommitProperties(app_transactions=[Transaction(APP_ID, upto)])
    try:
        if rows.num_rows:
            write_deltalake(handle, rows, mode="append", commit_properties=properties)
        else:
            handle.create_write_transaction(
                [], "append", handle.schema(), commit_properties=properties
            )
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        raise TableError(f"{url}: cannot be written to: {reason_of(error)}") from error
    return True


def _create_empty(url: str, schema: pa.Schema, description: str) -> None:
    DeltaTable = _delta_table()  # noqa: N806 - the class
    from deltalake.exceptions import DeltaError

    try:
        if not DeltaTable.is_deltatable(url):
            DeltaTable.create(url, schema=schema, mode="error", description=description)
    except (DeltaError, OSError) as error:
        raise TableError(f"{url}: cannot be made: {reason_of(error)}") from error


def _load(url: str) -> Any:
    DeltaTable = _delta_table()  # noqa: N806 - the class
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(url)
    except (DeltaError, OSError) as error:
        raise TableError(f"{url}: is no Delta table: {reason_of(error)}") from error


def _source_of(url: str, handle: "DeltaTable") -> Source:
    try:
        document: Mapping[str, Any] = json.loads(handle.metadata().description or "")
        if document["midge_table"] != _FORMAT:
            raise ValueError
        return Source(**{name: document[name] for name in Source._fields})
    except (ValueError, KeyError, TypeError) as error:
        raise TableError(f"{url}: is a Delta table, but not one of a stream") from error


def _delta_table() -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise PipelineError(f"tables need deltalake: {install_command('tables')}") from error
    return DeltaTable
