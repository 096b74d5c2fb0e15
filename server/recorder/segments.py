"""Segments on disk: their names, how one becomes visible, and their retention.

A segment is `<data set>/date=YYYY-MM-DD/hour=HH/part-<server>-<n>.parquet`. Until it is complete
its name begins with a dot and ends with the writing process's id, so that readers skip it and the
next start recognizes leftovers of a crash.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from midge.server.recorder.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_NAME = re.compile(r"part-(?P<server>.+)-(?P<number>\d+)\.parquet")
_SCRATCH = re.compile(r"\.part-(?P<server>.+)-\d+\.parquet\.(?P<pid>\d+)")
_CODED = ["server", "account", "subject", "event", "client_name", "lang", "version", "reason"]
_HOUR_S = 3600


class RecordingSegment:
    """One Parquet file being written."""

    def __init__(self, path: Path, schema: pa.Schema, hour: int) -> None:
        """Start the segment that will be at `path`.

        Raises:
            OSError: the file cannot be made.
        """
        self.path = path
        self.hour = hour
        self.rows = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self.scratch = path.with_name(f".{path.name}.{os.getpid()}")
        self._file = self.scratch.open("wb")
        delta = {
            field.name: "DELTA_BINARY_PACKED"
            for field in schema
            if str(field.type) in ("int64", "int32") or field.name == "time"
        }
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in _CODED if name in schema.names],
            column_encoding=delta,
            # Readers prune files by time. Bounds of text columns would cost more than all the rest.
            write_statistics=["time"],
            # Store the types of the format, not of the columns in memory.
            store_schema=False,
        )

    def write(self, table: pa.Table) -> int:
        """Append `table` as one row group; return the size of the file so far.

        Raises:
            OSError, pyarrow.ArrowException: it could not be written.
        """
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.rows += table.num_rows
        return self._file.tell()

    def finish(self) -> None:
        """Make the segment visible.

        Raises:
            OSError, pyarrow.ArrowException: it could not be completed.
        """
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self.scratch.replace(self.path)

    def abandon(self) -> None:
        """Delete a segment that could not be written."""
        for attempt in (self._writer.close, self._file.close, self.scratch.unlink):
            with contextlib.suppress(Exception):  # writing has already failed
                attempt()


class Numbering:
    """Assigns paths to one server's segments; numbers continue from the previous process's."""

    def __init__(self, root: Path, server: str, worker: int | None = None) -> None:
        """Scan `root`, and remove partial segments of dead processes.

        Each worker of a server has its own names and numbers.
        """
        self._root = root
        self._server = file_safe(server) + ("" if worker is None else f".w{worker}")
        self._numbers = dict.fromkeys(SCHEMAS, 0)
        for name in SCHEMAS:
            for path in _files(root / name):
                self._look_at(name, path)

    def path(self, data_set: str, hour: int) -> Path:
        """Return the path of the next segment; `hour` counts from the epoch."""
        number = self._numbers[data_set]
        self._numbers[data_set] += 1
        begin = datetime.fromtimestamp(hour * _HOUR_S, UTC)
        directory = self._root / data_set / f"date={begin:%Y-%m-%d}" / f"hour={begin:%H}"
        return directory / f"part-{self._server}-{number:06d}.parquet"

    def _look_at(self, data_set: str, path: Path) -> None:
        found = _NAME.fullmatch(path.name)
        if found and found["server"] == self._server:
            self._numbers[data_set] = max(self._numbers[data_set], int(found["number"]) + 1)
        scratch = _SCRATCH.fullmatch(path.name)
        if scratch and scratch["server"] == self._server and not _is_alive(int(scratch["pid"])):
            path.unlink(missing_ok=True)


def file_safe(server: str) -> str:
    """Return a server's name for file names; invalid characters become `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", server) or "_"


def retain(root: Path, age_s: float, total_bytes: int, now_s: float | None = None) -> int:
    """Delete segments older than `age_s`, and the oldest while the total exceeds `total_bytes`.

    0 means no limit. Returns how many were deleted.
    """
    if not age_s and not total_bytes:
        return 0
    now_s = time.time() if now_s is None else now_s
    segments = sorted(_visible_segments(root))
    left_bytes = sum(size for _, size, _ in segments)
    deleted = 0
    for modified_s, size, path in segments:
        is_old = bool(age_s) and now_s - modified_s > age_s
        if not is_old and not (total_bytes and left_bytes > total_bytes):
            continue
        path.unlink(missing_ok=True)
        left_bytes -= size
        deleted += 1
        _remove_empty(path.parent)
    return deleted


def _visible_segments(root: Path) -> Iterator[tuple[float, int, Path]]:
    for name in SCHEMAS:
        for path in _files(root / name):
            if _NAME.fullmatch(path.name):
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # another process has removed it meanwhile
                yield status.st_mtime, status.st_size, path


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()] if directory.is_dir() else []


def _remove_empty(hour: Path) -> None:
    """Remove an hour's directory, and then its day's, if they are empty."""
    for directory in (hour, hour.parent):
        try:
            directory.rmdir()
        except OSError:
            return


def _is_alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # in a container, the previous process may have had the same id
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
