"""Delta tables as files: open, make and compact one, in a directory or an object store."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from midge.client.errors import reason_of
from midge.extras import install_command
from midge.pipeline.errors import PipelineError, TableError

if TYPE_CHECKING:
    from deltalake import DeltaTable

KEEP_HOURS = 7.0 * 24
"""Compaction keeps the files of earlier versions so long, for their readers."""
PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 7 days",
}
"""A checkpoint every 100 commits; each removes the log's files that are older than a week."""
_BRANCH = re.compile(r"\n\s*(?:\x1b\[\d+m)?\u21b3(?:\x1b\[0m)? ")
_RETRIES = re.compile(r" in [0-9.]+(?:ms|µs|s)(?:, after .*?)? - ", re.DOTALL)
_KEYS_FROM = {
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
}
"""Variables that give an S3 store's keys by themselves."""
_UNFIT = re.compile(r"[\[\]^|\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
"""What deltalake 1.6 does not take in a directory's path: some panic, others name another place."""
_STAGED = re.compile(r"#[0-9]+$")
"""What the name of a file ends with until it is whole, in a directory."""


def compacted(url: str, handle: "DeltaTable", keep_hours: float) -> tuple[int, int]:
    """Join small files, and delete old versions' files; return how many files came and went."""
    from deltalake.exceptions import DeltaError

    try:
        done = handle.optimize.compact()
        # A full vacuum also finds the files of writers that were killed before their commit.
        handle.vacuum(round(keep_hours), False, False, full=True)
        for path in [] if "://" in url else Path(url).rglob("*#*"):
            is_old = path.stat().st_mtime < time.time() - keep_hours * 3600
            if _STAGED.search(path.name) and is_old:
                path.unlink()
    except (DeltaError, OSError) as error:
        raise TableError(f"{url}: cannot be compacted: {delta_reason_of(error)}") from error
    return int(done["numFilesAdded"]), int(done["numFilesRemoved"])


def is_table(url: str) -> bool:
    """Return whether there is a Delta table.

    Raises:
        PipelineError: `deltalake` is not installed.
        TableError: the store cannot be read.
    """
    return opened(url) is not None


def made(
    url: str,
    schema: pa.Schema,
    description: str,
    partition_by: Iterable[str] = (),
    properties: Mapping[str, str] = PROPERTIES,
) -> "DeltaTable":
    """Return the table, made empty if there is none yet."""
    if (handle := opened(url)) is not None:
        return handle
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        DeltaTable.create(
            url,
            schema=schema,
            mode="error",
            description=description,
            partition_by=list(partition_by),
            configuration=dict(properties),
            storage_options=_keys_of(url),
        )
    except (DeltaError, OSError) as error:
        raise TableError(f"{url}: cannot be made: {delta_reason_of(error)}") from error
    return load(url)


def load(url: str, version: int | None = None) -> "DeltaTable":
    """Return a version of the Delta table at `url`, the newest by default.

    Raises:
        TableError: there is no table, or it cannot be read.
    """
    if (handle := opened(url, version)) is None:
        raise TableError(f"{url}: is no Delta table")
    return handle


def opened(url: str, version: int | None = None) -> "DeltaTable | None":
    """Return the table, or None where there is none.

    `DeltaTable.is_deltatable` holds up all threads until a store answers; opening a table does
    not.
    """
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise PipelineError(f"tables need deltalake: {install_command('tables')}") from error
    from deltalake.exceptions import DeltaError, TableNotFoundError

    check_path(url)
    if "://" not in url and Path(url).is_file():
        return None
    try:
        return DeltaTable(url, version=version, storage_options=_keys_of(url))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        what = "cannot be read" if version is None else f"version {version} cannot be read"
        raise TableError(f"{url}: {what}: {delta_reason_of(error)}") from error


def files_of(url: str, handle: "DeltaTable") -> list[str]:
    """Return the paths, or the URIs, of the files of a version.

    `DeltaTable.file_uris` quotes the table's own place even where that is a directory.
    """
    paths = pa.table(handle.get_add_actions()).column("path").to_pylist()
    return [f"{url.rstrip('/')}/{unquote(path)}" for path in paths]


def check_path(url: str) -> None:
    """Check that deltalake takes a path.

    Raises:
        TableError: it does not.
    """
    unfit = None if "://" in url else _UNFIT.search(str(Path(url).absolute()))
    if unfit is not None:
        raise TableError(f"{url}: cannot be a table: deltalake takes no {unfit[0]!r} in a path")


def updated(url: str, handle: "DeltaTable") -> None:
    """Load the later commits; to open the table again takes twenty times as long.

    Raises:
        TableError: the log cannot be read.
    """
    with reading(url):
        handle.update_incremental()


def transaction_version(url: str, handle: "DeltaTable", application: str) -> int | None:
    """Return the number that an application committed last, None without one.

    deltalake reads it from files of the log, which another process may have removed as old since
    `handle` was loaded.

    Raises:
        TableError: the log cannot be read.
    """
    with reading(url):
        version: int | None = handle.transaction_version(application)
    return version


@contextmanager
def reading(url: str) -> Iterator[None]:
    """Raise what deltalake and Arrow raise while they read a table as a TableError."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise TableError(f"{url}: cannot be read: {delta_reason_of(error)}") from error


def _keys_of(url: str) -> dict[str, str] | None:
    """Return the keys of an S3 store from the file that AWS's tools use, unless set otherwise.

    Raises:
        TableError: the file cannot be read.
    """
    if not url.startswith("s3") or _KEYS_FROM & os.environ.keys():
        return None
    place = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    file = ConfigParser(interpolation=None)
    try:
        file.read(Path(place).expanduser())
    except (OSError, ValueError, ConfigParserError):  # its text may have a part of a key
        raise TableError(f"{place}: expected sections with aws_access_key_id and so on") from None
    profile = os.environ.get("AWS_PROFILE", "default")
    return dict(file[profile]) if file.has_section(profile) else None


def delta_reason_of(error: Exception) -> str:
    """Return an error of deltalake, a tree in colours, as one line that is the same each time.

    Later lines are left out: they are a stack, of Rust with `RUST_BACKTRACE=1` or of Python.
    """
    if isinstance(error, OSError) and error.strerror:
        return reason_of(error)
    text = _RETRIES.sub(": ", _BRANCH.sub(": ", str(error)).strip())
    line, _, _ = text.partition("\n")
    return line.partition(" Detail: Python exception:")[0] or repr(error)
