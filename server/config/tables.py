"""The settings of streams that are tables."""

from typing import Annotated

from msgspec import Meta

from midge.server.config.table import EXPECTED, Count, Table

TableName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", extra={EXPECTED: "letters, digits, _ and -, up to 64"}),
]
ColumnKind = Annotated[
    str,
    Meta(
        pattern=(
            r"^((string|int64|double|boolean|timestamp|json)\??|payload|headers|date"
            r"|token\([1-9][0-9]?\)|header\([!-9;-~]+\))$"
        ),
        extra={EXPECTED: "a kind such as 'int64', 'token(2)' or 'header(Trace)'"},
    ),
]


class StreamTable(Table, frozen=True, kw_only=True):
    """A stream whose messages a process of the server puts into a Delta table."""

    name: TableName
    """Name in metrics and logs."""
    stream: str
    """The stream."""
    url: str
    """Directory or object store's URL of the table; made where there is none."""
    account: str = ""
    """Account of the stream; empty means `$G`."""
    subject: str = ""
    """Only messages that match; several patterns with commas between; empty means all."""
    columns: dict[str, ColumnKind] = {}  # noqa: RUF012 - msgspec copies the default
    """Columns by name, with their kinds; without any and without `infer`, raw payloads."""
    infer: bool = False
    """Make a column of each further key of the payloads, as it comes."""
    partition_by: tuple[str, ...] = ()
    """Columns of the kinds `date` and `token(N)` that partition the files."""
    every_s: Annotated[float, Meta(ge=0.05)] = 60.0
    """Seconds between two commits."""
    compact_commits: Count = 60
    """Commits after which small files are joined; 0 means never."""
    keep_hours: Annotated[float, Meta(ge=0)] = 168.0
    """Hours that compaction keeps the files of earlier versions for their readers."""
